"""Gradients of kernels whose results do not divide: infinite elements reach what they do alone."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from dtensor.dialect.layout import UNSHARDED, Layout
from dtensor.dialect.mesh import Mesh
from tests.py.uneven.on_meshes import FIVE, GRID, LINE, SIX, check
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
