"""TPUs: their topology, their system, and meshes over all cores of one."""
