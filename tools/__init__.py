"""dtensor tools."""
