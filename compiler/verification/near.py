"""Values next to others: what rounding explains.

A program whose roundings are like other arguments gives what it gives of those.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import TypeVar

import numpy as np

from dtensor.compiler.verification.accuracy import epsilon
from dtensor.compiler.verification.shards import Array, wide

Key = TypeVar("Key", bound=Hashable)

TRIES = 3
"""Arguments next to those given."""
NEAR = 4
"""How much more than with one of those results may differ."""
_FARTHEST = 2.0**-7  # by which each may differ, relative to it


def moved(values: Mapping[Key, Array], roundings: float, seed: int) -> dict[Key, Array]:
    """The values, each float by as many roundings, up or down."""
    rng = np.random.default_rng(seed)
    found = dict(values)
    for number, array in values.items():
        step = min(roundings * epsilon(array.dtype), _FARTHEST)
        if step:
            sides = rng.choice([1 - step, 1 + step], array.shape)
            found[number] = (wide(array) * sides).astype(array.dtype)
    return found


def apart(result: Array, want: Array) -> float:
    """The largest difference of two elements that are finite."""
    sides = [wide(v) if v.dtype.kind not in "biu" else v.astype(float) for v in (result, want)]
    with np.errstate(all="ignore"):
        difference = np.abs(sides[0] - sides[1])
    return float(np.max(difference, where=np.isfinite(difference), initial=0.0))
