"""Gradients of kernels whose results do not divide: infinite elements reach what they do alone."""

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
from tests.py.uneven.on_meshes import FIVE, GRID, LINE, SIX, check, sent
from tests.py.uneven.spread_convolutions import NUMBERS, weights

FULL = [(3, 3), (2, 2)]
FORMS: list[tuple[tuple[int, int], tuple[int, int], Any, tuple[int, int]]] = [
    ((3, 3), (1, 1), "SAME", (1, 1)),
    ((3, 4), (1, 1), "SAME", (1, 1)),
    ((4, 2), (2, 1), "VALID", (1, 1)),
    ((3, 2), (1, 1), "VALID", (1, 1)),
    ((4, 3), (1, 1), FULL, (2, 2)),
]
LAYOUTS: list[tuple[Mesh, list[Any]]] = [
    (LINE, ["x", UNSHARDED]),
    (GRID, ["y", "x"]),
    (FIVE, [UNSHARDED, "x"]),
    (SIX, ["x", "y"]),
]


@pytest.mark.sweep
@pytest.mark.parametrize("number", [np.inf, -np.inf, np.nan])
@pytest.mark.parametrize(("mesh", "specs"), LAYOUTS)
def test_what_is_no_number_near_the_end(mesh: Mesh, specs: list[Any], number: float) -> None:
    x = np.random.default_rng(0).integers(-3, 4, (2, 37, 29, 1)).astype(np.float32)
    x[0, -1, -1] = x[1, -2, 4] = number

    def gradients(x: Any) -> Any:
        found = []
        for taps, steps, padding, gaps in FORMS:

            def loss(
                kernel: Any, steps: Any = steps, padding: Any = padding, gaps: Any = gaps
            ) -> Any:
                y = lax.conv_general_dilated(
                    x, kernel, steps, padding, gaps, dimension_numbers=NUMBERS
                )
                return jnp.sum(y * weights(y.shape))

            found.append(jax.grad(loss)(jnp.ones((*taps, 1, 1))))
        return found

    layouts = (Layout([UNSHARDED, *specs, UNSHARDED], mesh),)
    compiled = check(gradients, x, mesh=mesh, in_layouts=layouts, error=1e-6)
    assert "all_gather" not in {collective.kind for collective in compiled.collectives}


# Paddings of both spatial dimensions by their own elements, kernels, steps, gaps.
PADDED: list[tuple[list[tuple[int, int]], tuple[int, int], tuple[int, int], tuple[int, int]]] = [
    ([(1, 1), (1, 1)], (3, 3), (1, 1), (1, 1)),
    ([(2, 0), (0, 1)], (3, 2), (1, 1), (1, 1)),
    ([(1, 2), (1, 0)], (4, 2), (2, 1), (1, 1)),
    ([(2, 2), (2, 2)], (3, 3), (1, 1), (2, 2)),
    ([(1, 0), (1, 0)], (4, 4), (2, 2), (1, 1)),
]
MODES = ["wrap", "reflect", "symmetric", "edge"]


def _gradients(mode: str) -> Callable[[Any], Any]:
    """Of an input: the gradients of kernels over the input padded in this mode."""

    def gradients(x: Any) -> Any:
        found = []
        for padding, taps, steps, gaps in PADDED:

            def loss(
                kernel: Any, padding: Any = padding, steps: Any = steps, gaps: Any = gaps
            ) -> Any:
                longer = jnp.pad(x, [(0, 0), *padding, (0, 0)], mode=mode)
                y = lax.conv_general_dilated(
                    longer, kernel, steps, "VALID", (1, 1), gaps, dimension_numbers=NUMBERS
                )
                return jnp.sum(y * weights(y.shape))

            found.append(jax.grad(loss)(jnp.ones((*taps, 1, 1))))
        return found

    return gradients


# Rows and columns, of which some shards of each mesh have none.
@pytest.mark.sweep
@pytest.mark.parametrize("number", [1, np.inf, np.nan])
@pytest.mark.parametrize("sizes", [(37, 29), (41, 35), (17, 21), (48, 25)])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("mesh", "specs"), LAYOUTS)
def test_what_is_padded_with_its_own_elements(
    mesh: Mesh, specs: list[Any], mode: str, sizes: tuple[int, int], number: float
) -> None:
    x = np.random.default_rng(0).integers(-3, 4, (2, *sizes, 1)).astype(np.float32)
    x[0, -1, -1] = x[1, -2, 4] = x[1, 0, -3] = number
    layouts = (Layout([UNSHARDED, *specs, UNSHARDED], mesh),)
    check(_gradients(mode), x, mesh=mesh, in_layouts=layouts, error=1e-6)


@pytest.mark.parametrize("mode", MODES)
def test_gradients_of_a_padded_layer_bring_rows_and_one_sum(mode: str) -> None:
    def loss(x: Any, kernel: Any) -> Any:
        longer = jnp.pad(x, [(0, 0), (1, 1), (1, 1), (0, 0)], mode=mode)
        y = lax.conv_general_dilated(longer, kernel, (1, 1), "VALID", dimension_numbers=NUMBERS)
        return jnp.sum(y * weights(y.shape))

    x = np.random.default_rng(0).integers(-3, 4, (2, 61, 6, 1)).astype(np.float32)
    rows = Layout([UNSHARDED, "x", UNSHARDED, UNSHARDED], LINE)
    compiled = check(
        jax.grad(loss, (0, 1)),
        x,
        np.ones((3, 3, 1, 1), np.float32),
        mesh=LINE,
        in_layouts=(rows, Layout.replicated(LINE, 4)),
        out_layouts=(rows, Layout.replicated(LINE, 4)),
    )
    row, results = 2 * 6 * 4, 2 * 7 / 8 * 9 * 4
    # Two rows each way; where it goes round, what ends inside of a shard is sent besides.
    assert sent(compiled) <= (6 if mode == "wrap" else 4) * row + results + 1
    assert {c.kind for c in compiled.collectives} <= {
        "halo_exchange",
        "shard_permute",
        "all_reduce",
    }
