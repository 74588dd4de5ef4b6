"""Optimising collectives on local types."""
