"""Dimensions that their mesh axes do not divide: padded before anything is planned."""
