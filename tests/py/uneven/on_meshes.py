"""Programs whose layouts do not divide, on several meshes, against one device.

The padding holds NaN wherever a value of floats is longer than it is: none may come out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import jax
import numpy as np

from dtensor.compiler.api import jit
from dtensor.compiler.options import CompileOptions, EffortName
from dtensor.compiler.relayout import relayout
from dtensor.compiler.stages import Compiled
from dtensor.dialect.layout import UNSHARDED, Layout
from dtensor.dialect.mesh import Mesh
from dtensor.passes.cost.model import CostModel, Link
from dtensor.passes.pipelines import pipeline_text
from dtensor.runtime.client import create_mesh
from tests.py.on_host import on_host

GRID = create_mesh([("x", 2), ("y", 4)])
LINE = create_mesh([("x", 8)])
FIVE = create_mesh([("x", 5)], devices=jax.devices()[:5])
SIX = create_mesh([("x", 3), ("y", 2)], devices=jax.devices()[:6])

# Layouts of matrices, or of more dimensions, of which the first are split.
TILED: list[tuple[Mesh, list[Any]]] = [
    (LINE, ["x", UNSHARDED]),
    (GRID, ["y", "x"]),
    (GRID, [("x", "y"), UNSHARDED]),
    (SIX, [("y", "x"), UNSHARDED]),
]

POISON = pipeline_text("dtensor-spmd").replace(
    "dtensor-pad-uneven", "dtensor-pad-uneven{poison=true}"
)
POISONED = CompileOptions(
    cost=CostModel(link=Link(alpha=1e-12, bytes_per_second=1e9)), pipeline=POISON
)

Specs = Sequence[Any]


def split(value: Any, mesh: Mesh, *specs: Any) -> Any:
    """The traced value, its dimensions split over axes; what is not said is whole."""
    whole = [UNSHARDED] * (value.ndim - len(specs))
    return relayout(value, Layout([*specs, *whole], mesh))


def check(
    function: Callable[..., Any],
    *values: Any,
    mesh: Mesh = GRID,
    error: float = 0.0,
    absolute: float = 0.0,
    in_layouts: Any = None,
    out_layouts: Any = None,
    effort: EffortName = "normal",
) -> Compiled:
    """Compile and run; the results must be those of one device.

    Args:
        function: of arrays.
        values: the arguments.
        mesh: the mesh.
        error: the largest relative error; 0 demands equal elements.
        absolute: the largest absolute error beyond that.
        in_layouts: as `dtensor.jit` has them; None is replicated.
        out_layouts: likewise; None leaves them open.
        effort: how long a plan is looked for.
    """
    options = replace(POISONED, effort=effort)
    if in_layouts is None:
        in_layouts = tuple([Layout.replicated(mesh, np.ndim(value)) for value in values])
    compiled = (
        jit(function, mesh=mesh, in_layouts=in_layouts, out_layouts=out_layouts, options=options)
        .lower(*values)
        .compile()
    )
    wanted, got = jax.jit(function)(*values), compiled(*jax.device_get(values))
    for want, have in zip(jax.tree.leaves(wanted), on_host(got), strict=True):
        assert have.shape == want.shape
        np.testing.assert_allclose(have, np.asarray(want), rtol=error, atol=absolute)
    return compiled


def check_vocabulary(loss: Callable[..., Any], table: Any, hidden: Any, labels: Any) -> None:
    """Loss and gradients over a table whose rows are split: only sums over the words are sent."""
    layouts = Layout(["x", None], LINE), Layout.replicated(LINE, 2), Layout.replicated(LINE, 1)
    compiled = check(
        jax.value_and_grad(loss, (0, 1)),
        table,
        hidden,
        labels,
        mesh=LINE,
        in_layouts=layouts,
        error=2e-4,
        absolute=1e-7,
    )
    assert not gathered(compiled)
    assert not cuts(compiled)
    # A maximum, a sum and its gradient per row, the loss, and the gradient of what is hidden.
    assert sent(compiled) <= 2 * 7 / 8 * (3 * len(hidden) * 4 + 4 + hidden.nbytes)
    assert compiled.out_layouts[1][0] == layouts[0]


def sent(compiled: Compiled) -> float:
    """Bytes that each device sends."""
    return float(sum(c.bytes * (c.trip_count or 0) for c in compiled.collectives))


def gathered(compiled: Compiled) -> list[str]:
    """The collectives that put a dimension together."""
    return [str(c) for c in compiled.collectives if c.kind == "all_gather"]


def cuts(compiled: Compiled) -> list[str]:
    """The operations that padding is cut off for."""
    return [r["text"] for r in compiled.ledger["records"] if r["kind"] == "cut"]
