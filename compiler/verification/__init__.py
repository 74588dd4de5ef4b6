"""`dtensor.verify`: each operation on all devices against the same operation on one."""
