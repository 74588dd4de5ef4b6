"""Import: whatever the annotations were written in, one form afterwards."""
