"""Slices, pads and concatenations, taken together."""
