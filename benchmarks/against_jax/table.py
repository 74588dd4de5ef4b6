"""All workloads, by name."""

from __future__ import annotations

from benchmarks.against_jax import layers, science, training
from benchmarks.against_jax.workload import Workload

WORKLOADS: dict[str, Workload] = training.WORKLOADS | layers.WORKLOADS | science.WORKLOADS
