"""Dimensions that devices divide, whose shards the strides of operations over them do not.

Seven rows a shard, of which every second is kept: the results have no equal shards. The rows stay
where they are, the results are padded, and a shard fetches what its own results lack.
"""

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
from tests.py.uneven.on_meshes import FIVE, GRID, LINE, SIX, check, cuts, gathered, sent

Form = Callable[[Any], Any]
NUMBERS = ("NHWC", "HWIO", "NHWC")


def convolved(size: int, stride: int, padding: str) -> Form:
    def form(x: Any) -> Any:
        kernel = jnp.arange(1, size * size + 1, dtype=x.dtype).reshape(size, size, 1, 1) % 3
        strides = (stride, stride)
        whole = x[None, ..., None]
        found = lax.conv_general_dilated(whole, kernel, strides, padding, dimension_numbers=NUMBERS)
        return found[0, ..., 0]

    return form


def pooled(size: int, stride: int, padding: str) -> Form:
    sizes, strides = (size, size), (stride, stride)
    return lambda x: lax.reduce_window(x, -jnp.inf, lax.max, sizes, strides, padding)


def added(x: Any) -> Any:
    return lax.reduce_window(x, 0.0, lax.add, (2, 2), (2, 2), "VALID")


def pairs(x: Any) -> Any:
    rows, columns = len(x) // 2, x.shape[1] // 2
    return x[: 2 * rows].reshape(rows, 2, columns, 2).sum((1, 3)) * 2


FORMS: dict[str, Form] = {
    "maximum": pooled(2, 2, "VALID"),
    "maximum_of_overlaps": pooled(3, 2, "SAME"),
    "sum": added,
    "convolution": convolved(3, 2, "SAME"),
    "convolution_of_tiles": convolved(2, 2, "VALID"),
    "first": lambda x: x[::2, ::2],
    "second": lambda x: x[1::2, 1::2] * 3,
    "pairs": pairs,
    "twice": lambda x: pooled(2, 2, "VALID")(convolved(3, 2, "SAME")(x) % 7),
    "around": lambda x: convolved(3, 2, "SAME")(convolved(3, 1, "SAME")(x) % 5 + x),
}
SPLITS: list[tuple[Mesh, list[Any], tuple[int, int]]] = [
    (LINE, ["x", UNSHARDED], (56, 12)),
    (LINE, [UNSHARDED, "x"], (20, 24)),
    (FIVE, ["x", UNSHARDED], (35, 8)),
    (GRID, ["y", "x"], (12, 10)),
    (GRID, [("x", "y"), UNSHARDED], (40, 6)),
    (SIX, [("y", "x"), UNSHARDED], (18, 14)),
]


def rows(shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    return np.random.default_rng(0).permutation(np.prod(shape)).reshape(shape).astype(np.float32)


@pytest.mark.sweep
@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize(("mesh", "specs", "shape"), SPLITS)
def test_forms_and_their_gradients(
    name: str, mesh: Mesh, specs: list[Any], shape: tuple[int, int]
) -> None:
    form, layout, x = FORMS[name], Layout(specs, mesh), rows(shape) % 101
    given: dict[str, Any] = {"mesh": mesh, "in_layouts": (layout,)}
    compiled = check(form, x, **given)
    assert not cuts(compiled)
    check(form, x, **given, out_layouts=layout)
    # The values are whole numbers: sums of them are equal in any order.
    slope = jax.grad(lambda x: jnp.sum(form(x) * (form(x) % 3)))
    compiled = check(slope, x, **given, out_layouts=layout)
    assert not cuts(compiled)


@pytest.mark.parametrize("name", FORMS)
def test_no_more_than_a_shard_is_fetched(name: str) -> None:
    layout, x = Layout(["x", UNSHARDED], LINE), rows((56, 12))
    compiled = check(FORMS[name], x, mesh=LINE, in_layouts=(layout,), out_layouts=layout)
    assert not gathered(compiled)
    # Shards of 7 rows and one of a neighbour on either side; of "twice" and "around" once more.
    assert sent(compiled) <= (7 + 2 + 2) * 12 * 4


def test_a_network_of_strides_keeps_its_rows() -> None:
    """From 112 rows to 14: shards of 7 rows divide, 28 and 14 rows are padded."""

    def network(x: Any) -> Any:
        for _ in range(3):
            x = convolved(3, 2, "SAME")(x) % 5
            x = x + convolved(3, 1, "SAME")(x)
        return x.sum()

    layout, x = Layout(["x", UNSHARDED], LINE), rows((112, 64)) % 3
    given: dict[str, Any] = {"mesh": LINE, "in_layouts": (layout,)}
    for function in (network, jax.grad(lambda x: network(x * 2 % 3))):
        compiled = check(function, x, **given)
        assert not cuts(compiled)
        assert sent(compiled) < x.nbytes / 8


def test_a_pool_beside_one_that_devices_divide() -> None:
    """Both read 16 rows of 2 a shard: 8 are divided as they are, 4 by half of the devices."""

    def both(x: Any) -> Any:
        return added(x), lax.reduce_window(x, 0.0, lax.add, (4, 2), (4, 2), "VALID")

    layout = Layout(["x", UNSHARDED], LINE)
    check(both, rows((16, 6)), mesh=LINE, in_layouts=(layout,))
