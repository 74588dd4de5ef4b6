"""Op rules: how the dimensions of each op move together, without a mesh."""
