"""Propagation and choice: every node gets the layouts it works in. See docs/propagation.md.

- `propagate.py` is the pass. It reads a `task.py`, in stages between `barriers.py`, and leaves what
  was `planned.py`.
- Before the search axes spread one after the other (`turns.py`): where each can get to (`reach.py`,
  `axis.py`), and which way every node takes (`sweep.py`), by its `labels.py` and `places.py`.
"""
