"""Convolutions in groups of several features or batches, along dimensions that do not divide."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from dtensor import Layout
from tests.py.uneven.on_meshes import GRID, check

# Batch, features, groups and results; the groups are of features, or of batches.
BY_FEATURES = [
    (4, 6, 2, 8),
    (4, 6, 2, 6),
    (4, 6, 6, 18),
    (4, 10, 5, 10),
    (4, 12, 3, 6),
    (4, 5, 5, 5),
]
BY_BATCHES = [(6, 4, 3, 6), (6, 4, 2, 8), (9, 4, 3, 9), (10, 4, 5, 5)]
LAYOUTS: list[tuple[Any, Any]] = [
    ([None, None, None, "y"], None),
    (["y", None, None, None], None),
    ([None, None, None, "x"], [None, None, None, "y"]),
    (None, [None, None, None, "y"]),
    (["x", None, None, "y"], [None, None, None, "x"]),
    ([None, None, None, ("x", "y")], None),
    ([None, "x", None, "y"], [None, None, "y", None]),
]
CASES = [(sizes, "feature_group_count") for sizes in BY_FEATURES]
CASES += [(sizes, "batch_group_count") for sizes in BY_BATCHES]


@pytest.mark.sweep
@pytest.mark.parametrize("is_gradient", [False, True])
@pytest.mark.parametrize("layouts", LAYOUTS)
@pytest.mark.parametrize(("sizes", "groups"), CASES)
def test_groups_grow_whole(
    sizes: tuple[int, ...], groups: str, layouts: tuple[Any, Any], is_gradient: bool
) -> None:
    batch, features, count, results = sizes
    each = features // count if groups == "feature_group_count" else features
    rng = np.random.default_rng(0)
    x, kernel = (
        rng.normal(size=shape).astype(np.float32)
        for shape in ((batch, 5, 7, features), (3, 2, each, results))
    )
    numbers = ("NHWC", "HWIO", "NHWC")

    def convolve(x: Any, kernel: Any) -> Any:
        one, other = jnp.tanh(x), jnp.tanh(kernel)
        grouped: dict[str, Any] = {groups: count}
        return lax.conv_general_dilated(
            one, other, (1, 1), "SAME", dimension_numbers=numbers, **grouped
        )

    gradient = jax.grad(lambda x, kernel: jnp.sin(convolve(x, kernel)).sum(), (0, 1))
    given = tuple(None if spec is None else Layout(spec, GRID) for spec in layouts)
    function = gradient if is_gradient else convolve
    check(function, x, kernel, in_layouts=given, error=1e-4, absolute=1e-4)
