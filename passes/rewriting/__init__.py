"""A function while pattern after pattern is looked for in it, as `forms/` and `cuts/` do.

- `rewriting.py`: what a pattern may look at and write, and what is erased after it.
- `shards.py`: which dimensions layouts split, before anything is planned.
- `table.py`: passes that are tables of such rewrites, each with a name.
- `names.py`: the operations that patterns are made of.
"""
