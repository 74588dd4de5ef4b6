"""dtensor passes."""
