"""Layouts and meshes as pictures: which devices hold which part of an array."""
