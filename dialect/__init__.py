"""dtensor dialect."""
