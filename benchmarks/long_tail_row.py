"""What a row of `benchmarks.long_tail` is, and the arrays that many have."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from jax.sharding import PartitionSpec as P

from benchmarks.against_jax.workload import Workload, array

LINE, TILES = {"x": 8}, {"x": 4, "y": 2}
X, ROWS, COLUMNS, WHOLE = P("x"), P("x", None), P(None, "x"), P()
LOCAL = 4096 * 16 * 4 // 8  # bytes of a shard of the arrays of 4096 x 16 float32
SLICE = 16 * 4  # and of one slice of them


@dataclass(frozen=True)
class Row:
    """A form and what it must send at least.

    Attributes:
        least: bytes per device of the best algorithm known.
        why: its formula.
        workload: the program.
    """

    least: float
    why: str
    workload: Workload


def row(
    least: float,
    why: str,
    function: Callable[..., Any],
    *arguments: tuple[Any, P],
    out: Any = None,
    mesh: dict[str, int] | None = None,
) -> Row:
    """A row whose arguments are pairs of an array and its spec."""
    shapes, specs = zip(*arguments, strict=True)
    return Row(least, why, Workload(why, mesh or LINE, function, shapes, specs, out))


LONG = (array(4096, 16), ROWS)
VECTOR = (array(4096), X)
PLANE = (array(512, 256), P("x", "y"))
EDGES = (128 + 128) * 4.0  # of a tile of it, to neighbours on both sides: 2 of 128, 2 of 128
IMAGES = (array(4, 64, 32, 8), P(None, "x"))
EDGE = 4 * 32 * 8 * 4.0  # one row of them
CACHE = (array(2, 1024, 4, 16), P(None, "x"))
CHUNK, PLACES = (array(2, 8, 4, 16), WHOLE), (array(2, dtype=np.int32), WHOLE)
TOKEN = (array(2, 1, 4, 16), WHOLE)
SCALAR = (array(dtype=np.int32), WHOLE)
PAGES = array(64, 16, 2, 16)  # of 16 positions each
R = 7 / 8
