"""Reports on a program of one device: what it sends, computes and holds."""
