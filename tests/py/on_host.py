"""Results of programs as NumPy arrays, for which nothing is compiled."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from dtensor.runtime.array import DTensor


def on_host(results: Any) -> list[np.ndarray[Any, Any]]:
    """The leaves of a tree of DTensors, their shards put together.

    To jax a DTensor that its layout does not divide is a copy of the true size, which another
    program makes for each shape and layout; here padding is cut off on the host.
    """
    leaves = jax.tree.leaves(results, is_leaf=lambda leaf: isinstance(leaf, DTensor))
    return [np.asarray(leaf._array)[tuple(map(slice, leaf.shape))] for leaf in leaves]
