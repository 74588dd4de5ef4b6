"""The report of a program as one HTML file, and what notebooks show of it."""
