"""The choice of layouts, joint over all mesh axes: strategies, their cost, and the search.

- `plan.py` plans a task: it makes a problem, has it solved, and keeps what was found. `auto.py` has
  layouts of arguments found too.
- what may be chosen: `strategies.py`, from labels of rules (`joint_labels.py`), places of single
  values (`all_places.py`) and where reshapes cut (`blocks.py`), of results as users expect
  (`results.py`); as arrays in `options.py`.
- what it costs: `work.py` on one device, `algorithms.py` the cheapest way to compute an op,
  `prices.py` of relayouts, by single `steps.py`.
- the problem: `problem.py`, with equal layers as one (`classes.py`); as variables and tables in
  `model.py`, and so that they bound it from below in `relax.py`.
- the search: `solve.py` within `limits.py`, by `messages.py`, `eliminate.py`, `refine.py` and
  `descend.py`.
- what is told of a plan: `alternatives.py`, `provenance.py`, `not_parallel.py`.
"""
