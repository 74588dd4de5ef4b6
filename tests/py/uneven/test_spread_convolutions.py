"""Shards whose results begin between two elements of an input with gaps, against NumPy."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from dtensor.compiler.api import jit
from dtensor.dialect.layout import UNSHARDED, Layout
from dtensor.dialect.mesh import Mesh
from tests.py.passes.on_mesh import numbers, run, sent
from tests.py.uneven.on_meshes import FIVE, GRID, LINE, POISONED, SIX, check, cuts
from tests.py.uneven.spread_convolutions import NUMBERS, Spread

LAYOUTS: dict[str, tuple[Mesh, list[Any]]] = {
    "line": (LINE, ["x", UNSHARDED]),
    "tiles": (GRID, ["y", "x"]),
    "both": (GRID, [("x", "y"), UNSHARDED]),
    "four": (GRID, ["y", UNSHARDED]),
    "five": (FIVE, ["x", UNSHARDED]),
    "six": (SIX, ["x", "y"]),
}
FULL4, FULL3, FULL2 = (3, 3), (2, 2), (1, 1)
FORMS = [
    ("line", Spread((16, 5), (4, 2), (2, 1), (FULL4, (0, 1)))),
    ("line", Spread((40, 3), (5, 1), (3, 2), ((4, 4), (0, 1)), groups=2)),
    ("tiles", Spread((16, 12), (4, 3), (2, 3), (FULL4, FULL3))),
    ("both", Spread((17, 4), (3, 2), (2, 2), (FULL3, FULL2), groups=2)),
    ("five", Spread((20, 6), (4, 3), (2, 2), (FULL4, (1, 2)))),
    ("five", Spread((15, 6), (2, 3), (3, 2), (FULL2, (1, 2)))),  # fewer taps than gaps
    ("five", Spread((25, 6), (3, 3), (2, 2), ((4, 1), (-1, 3)))),
    # With less input in a shard than taps, where XLA ended the process.
    ("four", Spread((8, 31), (3, 2), (3, 2), ((5, -3), (-4, -2)), strides=(2, 1))),
    ("six", Spread((12, 8), (4, 5), (2, 2), (FULL4, (4, 4)), groups=2)),
    ("six", Spread((18, 9), (3, 4), (3, 2), (FULL3, FULL4), apart=(1, 2))),
    ("six", Spread((15, 10), (5, 3), (2, 3), ((-3, 5), (2, 3)), strides=(1, 2))),
]


@pytest.mark.sweep
@pytest.mark.parametrize(("name", "form"), FORMS)
def test_convolutions_and_their_gradients(name: str, form: Spread) -> None:
    x, kernel = form.arguments()
    mesh, specs = LAYOUTS[name]
    layout, whole = Layout([UNSHARDED, *specs, UNSHARDED], mesh), Layout.replicated(mesh, 4)

    def all_of_it(x: Any, kernel: Any) -> Any:
        return form(x, kernel), *jax.grad(form.loss, (0, 1))(x, kernel)

    for out in (None, (None, layout, whole)):
        step = jit(
            all_of_it,
            mesh=mesh,
            in_layouts=(layout, whole),
            out_layouts=out,
            options=POISONED,
            returns="jax",
        )
        found = step(x, kernel)
        for have, want in zip(
            found, (form.expected(x, kernel), *form.expected_gradients(x, kernel)), strict=True
        ):
            np.testing.assert_array_equal(np.asarray(have), want)


def transposed(x: Any, kernel: Any) -> Any:
    return lax.conv_transpose(
        x[None, ..., None], kernel, (2, 2), "VALID", dimension_numbers=NUMBERS
    )


def test_the_gradient_of_a_kernel_reads_what_the_results_did() -> None:
    """Rows of the input once: shards of 8 and of 17 results of 26 columns, the last from 119 on."""
    x, kernel = numbers((64, 12)), numbers((4, 4, 1, 1))
    specs, whole = ["x", UNSHARDED], [UNSHARDED] * 4

    def gradients(x: Any, kernel: Any) -> Any:
        return jax.grad(lambda x, kernel: jnp.sum(transposed(x, kernel) ** 2), (0, 1))(x, kernel)

    layouts = Layout(specs, LINE), Layout(whole, LINE)
    compiled = check(
        gradients, x, kernel, mesh=LINE, in_layouts=layouts, out_layouts=layouts, error=1e-6
    )
    assert not cuts(compiled)
    assert sent(compiled) <= 4 * (5 * 12 + 8 * 26 + 2 * 7 / 8 * 16)


@pytest.mark.sweep
@pytest.mark.parametrize("dtype", [jnp.float32, jnp.int32])
@pytest.mark.parametrize("name", LAYOUTS)
def test_other_windows(name: str, dtype: Any) -> None:
    """Sums, maxima, and sums of a start that each window counts once, also beyond the input."""
    mesh, specs = LAYOUTS[name]
    x = numbers((30, 12), dtype) - 1

    def windows(x: Any) -> Any:
        start = jnp.asarray(-9, dtype)
        pads, gaps = [(3, 2), (1, 1)], (2, 3)
        return [
            lax.reduce_window(x, start - start, lax.add, (4, 3), (1, 1), pads, gaps),
            lax.reduce_window(x, start, lax.max, (4, 2), (1, 1), pads, gaps),
            lax.reduce_window(x, start + 12, lax.add, (3, 3), (1, 1), pads, gaps),
        ]

    run(windows, mesh, [specs], x)
