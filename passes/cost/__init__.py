"""What communication and local work cost, in bytes and seconds."""
