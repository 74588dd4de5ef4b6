"""A dimension split over one axis of eight devices, or over several that make eight.

What one axis can do, several must do for no more bytes; and where eight devices do not divide what
an operation leaves, but four do, the axis is cut, and its other part moves to another dimension.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax import lax

from dtensor.dialect.axes import AxisRef
from dtensor.dialect.dim import Dim
from dtensor.dialect.layout import Layout
from dtensor.dialect.mesh import Mesh
from tests.py.uneven.on_meshes import LINE, check, gathered, sent

MESHES = [
    (LINE, ("x",)),
    (Mesh([("x", 2), ("y", 4)]), ("x", "y")),
    (Mesh([("x", 2), ("y", 4)]), ("y", "x")),
    (Mesh([("x", 4), ("y", 2)]), ("x", "y")),
    (Mesh([("x", 2), ("y", 2), ("z", 2)]), ("x", "y", "z")),
]
ROWS, COLUMNS = 24, 1600  # shards of three rows
SHARD = ROWS * COLUMNS * 4 / 8


def values() -> Any:
    return jnp.arange(ROWS * COLUMNS, dtype=jnp.float32).reshape(ROWS, COLUMNS) % 97


def pooled(x: Any) -> Any:
    return lax.reduce_window(x, -jnp.inf, lax.max, (2, 1), (2, 1), "VALID")


def of_pairs(form: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The gradient of a form, whose cotangent depends on its result."""
    return jax.grad(lambda x: (form(x) ** 2).sum())


# What half the devices or fewer divide, and the most bytes in shards: the other part of the axis
# moves to the columns, of what is read or of what is made.
CUT: dict[str, tuple[Callable[[Any], Any], float]] = {
    "pairs": (lambda x: x.reshape(ROWS // 2, 2, -1) * 2, 0.5),
    "sums of pairs": (lambda x: x.reshape(ROWS // 2, 2, -1).sum(1) * 2, 0.5),
    "pool": (pooled, 0.5),
    "every other row": (lambda x: x[::2] * 2, 0.5),
    "half": (lambda x: x[: ROWS // 2] * 2, 0.5),
    "gradient of pairs": (of_pairs(lambda x: x.reshape(ROWS // 2, 2, -1).prod(1)), 1.0),
    "gradient of a pool": (of_pairs(pooled), 1.0),
}

# What blocks of the dimension are joined to, and the most shards that are sent.
JOINED: dict[str, tuple[Callable[[Any], Any], float]] = {
    "two": (lambda x: jnp.concatenate([x, x + 1]), 2.0),
    "three": (lambda x: jnp.concatenate([x, x + 1, x - 1]), 3.0),
    "tiles": (lambda x: jnp.tile(x, (2, 1)), 2.0),
}


@pytest.mark.parametrize(("mesh", "axes"), MESHES)
@pytest.mark.parametrize("name", CUT)
def test_an_axis_is_cut_where_a_part_of_it_divides(
    name: str, mesh: Mesh, axes: tuple[str, ...]
) -> None:
    form, shards = CUT[name]
    is_gradient = name.startswith("gradient")
    given = Layout([axes, None], mesh)
    compiled = check(
        form if is_gradient else lambda x: (form(x) % 13).max(),
        values(),
        mesh=mesh,
        in_layouts=(given,),
        out_layouts=given if is_gradient else None,
    )
    assert sent(compiled) <= shards * SHARD + 16, [str(c) for c in compiled.collectives]
    assert not gathered(compiled)


@pytest.mark.parametrize("name", [name for name in CUT if not name.startswith("gradient")])
def test_what_nobody_laid_out_comes_out_along_a_whole_axis(name: str) -> None:
    form, _ = CUT[name]
    compiled = check(form, values(), mesh=LINE, in_layouts=(Layout(["x", None], LINE),))
    axes = [[axis.text(8) for axis in dim.axes] for dim in compiled.out_layouts.dims]
    assert [each for each in axes if each] == [['"x"']]


@pytest.mark.parametrize(("mesh", "axes"), MESHES)
@pytest.mark.parametrize("name", JOINED)
def test_all_axes_of_a_dimension_stay_on_what_it_is_joined_to(
    name: str, mesh: Mesh, axes: tuple[str, ...]
) -> None:
    form, shards = JOINED[name]
    compiled = check(form, values(), mesh=mesh, in_layouts=(Layout([axes, None], mesh),))
    assert sent(compiled) <= shards * SHARD, [str(c) for c in compiled.collectives]
    rows, columns = compiled.out_layouts.dims
    assert {axis.name for axis in rows.axes} == {*axes}
    assert not columns.axes


def test_an_axis_alone_goes_in_two_parts_where_it_fits_nowhere() -> None:
    x = values()[:16, :1204]  # four devices divide its columns
    given = Layout([("x",), None], LINE)
    compiled = check(lambda x: jnp.sort(x, 0), x, mesh=LINE, in_layouts=(given,))
    assert sent(compiled) <= x.nbytes / 8 * 2.5  # of 7 to gather it


def test_both_sides_of_a_product_are_gathered_in_part() -> None:
    x, y = (values().reshape(240, 160)[:, :20] % number for number in (7, 5))
    given = Layout([("x",), None], LINE)
    layouts = given, given

    def loss(x: Any, y: Any) -> Any:
        return jnp.abs(x @ y.T - 3).max()

    compiled = check(loss, x, y, mesh=LINE, in_layouts=layouts)
    assert sent(compiled) <= 0.72 * 7 * x.nbytes / 8  # of one side alone
    fast = check(loss, x, y, mesh=LINE, in_layouts=layouts, effort="fast")
    assert 6.9 * x.nbytes / 8 <= sent(fast)


def test_parts_of_an_axis_that_go_together_are_explained_as_the_axis() -> None:
    given = Layout([("x",), None], LINE)
    compiled = check(lambda x: (x[::2] % 13).max(), values(), mesh=LINE, in_layouts=(given,))
    told = compiled.explain().splitlines()
    assert '  axis "x": given at argument 0' in told


@pytest.mark.parametrize("rows", [AxisRef("x", 1, 2), AxisRef("x", 2, 4), AxisRef("x", 4, 2)])
@pytest.mark.parametrize("columns", [None, AxisRef("x", 1, 2)])
def test_what_is_given_over_a_part_of_an_axis_stays_there(
    rows: AxisRef, columns: AxisRef | None
) -> None:
    split = Dim((columns,)) if columns and not columns.overlaps(rows) else Dim(())
    given = Layout.of([Dim((rows,)), split], LINE)
    for form in (lambda x: x * 2, lambda x: x.T + 1, lambda x: x.max(1)):
        compiled = check(form, values(), mesh=LINE, in_layouts=(given,))
        assert rows in [axis for dim in compiled.out_layouts.dims for axis in dim.axes]
        assert not gathered(compiled)
