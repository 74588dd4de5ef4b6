"""Scans of what was padded along a split dimension, and their gradients, against one device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from dtensor.dialect.layout import UNSHARDED, Layout
from dtensor.dialect.mesh import Mesh
from tests.py.passes.on_mesh import numbers, run, sent
from tests.py.uneven.on_meshes import FIVE, LINE, SIX, TILED, check

Form = Callable[[Any], Any]
LAYOUTS: list[tuple[Mesh, list[Any]]] = [
    *TILED,
    (LINE, [UNSHARDED, "x"]),
    (FIVE, ["x", UNSHARDED]),
    (SIX, ["x", "y"]),
]


def integral(x: Any, around: Any, mode: str) -> Any:
    return jnp.cumsum(jnp.cumsum(jnp.pad(x, around, mode=mode), 0), 1)


def boxes(mode: str) -> Form:
    """Sums of 3 x 4 numbers."""

    def form(x: Any) -> Any:
        s = jnp.pad(integral(x, ((1, 1), (2, 1)), mode), ((1, 0), (1, 0)))
        return s[3:, 4:] - s[:-3, 4:] - s[3:, :-4] + s[:-3, :-4]

    return form


def padded(x: Any, value: float = 0) -> Any:
    return jnp.pad(x, ((2, 1), (1, 2)), constant_values=jnp.asarray(value, x.dtype))


FORMS: dict[str, Form] = {
    "boxes": boxes("constant"),
    "boxes of edges": boxes("edge"),
    "exclusive": lambda x: jnp.cumsum(jnp.pad(x, ((1, 0), (0, 0))), 0)[:-1],
    "columns": lambda x: jnp.cumsum(jnp.pad(x, ((0, 0), (2, 1))), 1)[:, 1:],
    "from the end": lambda x: lax.cumsum(padded(x), 0, reverse=True)[1:-2] * 2,
    "both ways": lambda x: lax.cumsum(lax.cumsum(padded(x), 1, reverse=True), 0),
    "products": lambda x: jnp.cumprod(padded(x - 1, 1) % 2 + 1, 0)[3:] % 512,
    "maxima of infinity": lambda x: lax.cummax(padded(1.0 * x, -np.inf), 0)[2:],
    "maxima of others": lambda x: lax.cummax(padded(x, 1), 0)[2:],
    "joined": lambda x: jnp.cumsum(jnp.concatenate([x[:2], x, 3 * x[-1:]]), 0)[2:-1],
    "joined from the end": lambda x: lax.cumsum(jnp.concatenate([x, x[:2]]), 0, reverse=True),
    "joined to nothing": lambda x: jnp.cumsum(jnp.concatenate([x[:0], x, x[:1]]), 0)[1:],
    "joined columns": lambda x: jnp.cumsum(jnp.concatenate([x[:, -1:], x], 1), 0),
    "all of it": lambda x: integral(x, ((2, 2), (2, 2)), "constant"),
    "minus": lambda x: -padded(x) + jnp.cumsum(padded(-x), 0),
}


# Sizes that the axes divide on each mesh, and sizes that they do not.
SIZES = [(40, 24), (30, 35)]
CASES = [(*layout, SIZES[k % 2]) for k, layout in enumerate([*LAYOUTS, LAYOUTS[0]])]
# Every second form for each, and both halves have both sizes; all forms with integers.
HALVES = [(*case, k // 2 % 2) for k, case in enumerate(CASES)]


@pytest.mark.sweep
@pytest.mark.parametrize(("mesh", "specs", "shape", "half"), HALVES)
def test_scans_of_padded_values(
    mesh: Mesh, specs: list[Any], shape: tuple[int, int], half: int
) -> None:
    layout, dtype = Layout(specs, mesh), jnp.float32 if mesh.size > 5 else jnp.int32
    x = numbers(shape, dtype) - jnp.asarray(1, dtype)
    out = layout if shape == SIZES[0] else None
    forms = [*FORMS.values()] if dtype is jnp.int32 else [*FORMS.values()][half::2]
    found = check(
        lambda x: [form(x) for form in forms],
        x,
        mesh=mesh,
        in_layouts=(layout,),
        out_layouts=out,
    )
    assert found.collectives


@pytest.mark.sweep
@pytest.mark.parametrize(("mesh", "specs", "shape"), CASES[::2])
def test_their_gradients(mesh: Mesh, specs: list[Any], shape: tuple[int, int]) -> None:
    layout = Layout(specs, mesh)
    forms = [FORMS[name] for name in ("boxes", "boxes of edges", "exclusive", "columns", "joined")]

    def losses(x: Any) -> Any:
        found = [form(x) for form in forms]
        return sum(jnp.sum(y * (np.arange(y.size).reshape(y.shape) % 5 - 2)) for y in found)

    x = numbers(shape) - 1
    check(jax.grad(losses), x, mesh=mesh, in_layouts=(layout,), out_layouts=layout)


@pytest.mark.sweep
@pytest.mark.parametrize("number", [np.inf, -np.inf, np.nan, -0.0])
def test_what_is_no_number_stays_where_it_was(number: float) -> None:
    """Bits are compared, but for the sign of NaN: zeros have theirs."""
    for place in ((0, 0), (17, 3), (39, 23)):
        x = np.zeros((40, 24), np.float32) if number == 0 else np.array(numbers((40, 24)))
        x[place] = number

        def bits(x: Any) -> Any:
            scans = FORMS["exclusive"](x), FORMS["both ways"](x), FORMS["from the end"](x)
            y = jnp.concatenate([scan.ravel() for scan in scans])
            return lax.bitcast_convert_type(jnp.where(jnp.isnan(y), jnp.nan, y), jnp.int32)

        check(bits, x, mesh=LINE, in_layouts=(Layout(["x", UNSHARDED], LINE),))


def test_a_box_filter_sends_the_rows_of_its_box() -> None:
    """Totals in three steps, and rows of the boxes at the edges of a shard; of edges three more."""
    x, row = numbers((128, 16)), 20 * 4
    specs = ["x", UNSHARDED]
    assert sent(run(boxes("constant"), LINE, [specs], x, out=specs)) <= (3 + 3) * row
    assert sent(run(boxes("edge"), LINE, [specs], x, out=specs)) <= (3 + 3 + 3 * 7 / 4) * row
    gradient = jax.grad(lambda x: jnp.sum(boxes("constant")(x) ** 2))
    assert sent(run(gradient, LINE, [specs], x, out=specs)) <= 4 * (3 + 3) * row
