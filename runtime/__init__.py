"""dtensor runtime."""
