"""Programs on 8 devices against one, planned for a network on which only bytes count.

Small arrays are moved as large ones are there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dtensor.compiler.api import jit
from dtensor.compiler.options import CompileOptions
from dtensor.compiler.stages import Compiled
from dtensor.dialect.layout import UNSHARDED, Layout
from dtensor.dialect.mesh import Mesh
from dtensor.passes.cost.model import CostModel, Link
from dtensor.runtime.client import create_mesh
from tests.py.compiled_once import compiled_once
from tests.py.on_host import on_host

GRID = create_mesh([("x", 2), ("y", 4)])
LINE = create_mesh([("x", 8)])
BOTH = [("x", "y"), UNSHARDED]
SLOW = CompileOptions(cost=CostModel(link=Link(alpha=1e-12, bytes_per_second=1e9)))

Specs = Sequence[Any]


def numbers(shape: tuple[int, ...], dtype: Any = np.float32) -> Any:
    """Whole numbers from 0 to 2, all sums of which are exact."""
    return jnp.asarray(np.random.default_rng(0).integers(0, 3, shape).astype(dtype))


def run(
    function: Callable[..., Any],
    mesh: Mesh,
    layouts: Sequence[Specs | None],
    *values: Any,
    error: float = 0.0,
    absolute: float = 0.0,
    out: Specs | None = None,
) -> Compiled:
    """Compile and run on the mesh; the results must be those of one device.

    Called with the same function for other values, it runs the program that it compiled before.

    Args:
        function: of arrays.
        mesh: the mesh.
        layouts: per argument what splits each dimension, or None.
        values: the arguments.
        error: the largest relative error; 0 demands equal elements.
        absolute: the largest absolute error beyond that.
        out: how every result is laid out; None leaves it open.
    """
    given = tuple([None if specs is None else Layout(list(specs), mesh) for specs in layouts])
    wanted_layout = None if out is None else Layout(list(out), mesh)
    jitted = jit(function, mesh=mesh, in_layouts=given, out_layouts=wanted_layout, options=SLOW)
    compiled = compiled_once(
        function, values, (mesh, given, wanted_layout), lambda: jitted.lower(*values).compile()
    )
    wanted, got = jax.jit(function)(*values), compiled(*jax.device_get(values))
    for want, have in zip(jax.tree.leaves(wanted), on_host(got), strict=True):
        np.testing.assert_allclose(have, np.asarray(want), rtol=error, atol=absolute)
    return compiled


def sent(compiled: Compiled) -> float:
    """Bytes that each device sends."""
    return float(sum(c.bytes * (c.trip_count or 0) for c in compiled.collectives))


def kinds(compiled: Compiled) -> set[str]:
    """The kinds of collectives."""
    return {collective.kind for collective in compiled.collectives}


def one_by_one(compiled: Compiled) -> bool:
    """Whether 8 shards run one after another, each from what the one before it sends."""
    return any(c.kind == "shard_permute" and c.trip_count == 7 for c in compiled.collectives)


def split_trips(programs: Sequence[Callable[..., Any]]) -> list[Any]:
    """Each loop with two of three `(trips, mesh, axes)`: trips that the axes divide, or do not."""
    splits = [(192, LINE, "x"), (166, GRID, "y"), (301, LINE, "x")]
    return [
        pytest.param(*split, program, id=f"{program.__name__}-{k}")
        for i, program in enumerate(programs)
        for k, split in enumerate(splits)
        if (i + k) % 3
    ]
