"""Slices whose place is computed, on a shard."""

from __future__ import annotations

from dtensor.passes.expansion.context import LocalOp


def expand_dynamic_slice(op: LocalOp) -> None:
    """A dimension that is taken whole is taken whole from the shard."""
    op.set_integers("slice_sizes", op.local_result_shape())
