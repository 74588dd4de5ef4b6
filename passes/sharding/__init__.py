"""How the shards of a tensor lie over the sub-axes of a mesh: the one encoding."""
