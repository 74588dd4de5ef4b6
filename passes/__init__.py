"""The compiler: passes over a module, from annotations to the program of one device.

In the order in which `pipelines.py` runs them:

- `importing/`: one form of mesh and annotations, whoever wrote them; `inline_calls.py` before it.
- `forms/`, `split_transforms.py`, `cuts/`: what is said long-hand, written so that it shards, by
  tables of rewrites; `rewriting/`: how these run, and the function meanwhile.
- `uneven/`: dimensions that their mesh axes do not divide become longer.
- `propagation/`: what is given spreads; `planning/` searches the cheapest plan from there.
- `verify_plan.py`: checks a plan against `derivation.py`, which says what a rule allows.
- `relayout/`: values move between layouts, in the cheapest steps.
- `expansion/`: the shapes of one device; relayouts become collectives. `join_transforms.py`: what
  was written apart for nothing.
- `collectives/`: fewer and smaller ones; `reports/`: what is sent, computed and held.
- `lowering/`: collectives of StableHLO; calls of what XLA for CPUs would compute often.
  `drop_layouts.py`: the way back to plain StableHLO.

What all of them read:

- `ops/`: everything about each operation. `cost/`: seconds. `sharding/`: layouts as integers.
- `graph.py`: the program as lists of integers; `program.py`: its loops and branches, and the walk
  over it; `functions.py`: its arguments and results; `locations.py`: the user's lines.
- `builder.py`: creates operations that compute, `shaping.py` those that move elements,
  `creation.py` all others. `disjoint_sets.py`: what belongs together.
- `ledger.py`: the records of what was decided, and why.

A pass is a class of `base.py`, and a line of `registry.py` and `pipelines.py`; `pipeline.py` runs
them, `pipeline_text.py` reads them, `cxx.py` lists those of jaxlib. `form.py`: how modules are
printed between them; `nesting.py`: programs too deep for them.
"""
