"""Relayouts: the search for the cheapest chain of steps, and its realisation.

- `insert.py` puts them where a plan needs them, by `copies.py` if a value has several uses.
- `optimize.py` moves, merges and drops them, on the lists of `values.py`.
- `search.py` finds the steps of one: the layouts in sub-axes (`sub_axes.py`), as integers
  (`problem.py`), what can be done next (`moves.py`, with `permutations.py` and `matchings.py`).
- `emit.py` writes what was found as `steps.py` has it, `realise.py` as operations.
"""
