"""Expansion: from global shapes and layouts to the program of one device."""
