"""Programs planned by dtensor beside the same programs under `jax.jit`, in one run.

`make bench` runs it; `python -m benchmarks.against_jax --help` says what it takes.
"""
