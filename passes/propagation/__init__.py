"""Propagation and choice: every node gets the layouts it works in. See docs/propagation.md."""
