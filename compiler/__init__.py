"""dtensor compiler."""
