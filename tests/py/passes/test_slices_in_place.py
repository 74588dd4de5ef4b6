"""What is computed of rows of a split dimension stays where they are: 8 devices against one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dtensor.dialect.layout import UNSHARDED
from dtensor.dialect.mesh import Mesh
from tests.py.passes.on_mesh import BOTH, GRID, LINE, kinds, run, sent

Form = Callable[[Any], Any]
LAYOUTS: list[tuple[Mesh, list[Any]]] = [
    (LINE, ["x", UNSHARDED]),
    (LINE, [UNSHARDED, "x"]),
    (GRID, ["x", "y"]),
    (GRID, ["y", "x"]),
    (GRID, BOTH),
    (GRID, ["y", UNSHARDED]),
]
ROWS, COLUMNS = 64, 24


def numbers(dtype: Any = np.float32, seed: int = 0) -> np.ndarray[Any, Any]:
    """Small whole numbers, all sums of which are exact."""
    made = np.random.default_rng(seed).integers(0, 4, (ROWS, COLUMNS))
    return made.astype(dtype)


def loss_of_rows(x: Any) -> Any:
    """As of the last tokens of a sequence: each row is scaled, weighed and summed."""
    rows = x[21:35]
    rows = rows - jnp.max(rows, axis=1, keepdims=True)
    weights = jnp.sum(rows, axis=1)
    return jnp.sum(rows * weights[:, None] * jnp.arange(1, COLUMNS + 1)) / 64


def reductions(x: Any) -> Any:
    rows, corner = x[11:25], x[30:48, 3:13]
    return (
        jnp.sum(rows),
        jnp.max(x[-10:], axis=0),
        jnp.min(corner, axis=(0, 1)),
        jnp.sum(corner.T * 2, axis=0),
        jnp.prod(1 + (rows == 3), axis=1),
        jnp.sum(jnp.max(corner, axis=1).reshape(18, 1), axis=(0, 1)),
        jnp.any(rows > 2, axis=0),
        jnp.sum(x[17:30] * x[18:31]),
    )


def gradients(x: Any) -> Any:
    return (
        jax.grad(lambda v: jnp.sum(v[21:35] ** 2))(x),
        jax.grad(lambda v: jnp.sum(jax.nn.relu(v[:9, 2:] - 1) ** 2))(x),
        jax.grad(lambda v: jnp.sum((v[31:40] - v[30:39]) ** 2))(x),
        jax.grad(loss_of_rows)(x),
        jnp.pad(2 * x[5:12].T, ((0, 0), (5, ROWS - 12)), constant_values=7),
    )


@pytest.mark.sweep
@pytest.mark.parametrize("form", [loss_of_rows, reductions, gradients])
@pytest.mark.parametrize(("mesh", "specs"), LAYOUTS)
def test_any_layout(form: Form, mesh: Mesh, specs: list[Any]) -> None:
    run(form, mesh, [specs], numbers(), error=1e-6)  # sums of quotients, in another order


@pytest.mark.sweep
@pytest.mark.parametrize("dtype", [np.int8, np.uint32, np.float16])
def test_any_type(dtype: Any) -> None:
    run(reductions, LINE, [["x", UNSHARDED]], numbers(dtype))


@pytest.mark.sweep
@pytest.mark.parametrize(
    ("form", "least"),
    [
        (lambda x: jnp.sum(x[21:35] ** 2), 2 * 7 / 8 * 4),  # one all_reduce of a scalar
        (lambda x: jnp.sum(x[:9]), 2 * 7 / 8 * 4),
        (loss_of_rows, 2 * 7 / 8 * 4),
        (jax.grad(loss_of_rows), 0),
        (jax.grad(lambda v: jnp.sum(v[:9] ** 2)), 0),
        (jax.grad(lambda v: jnp.sum(v[-9:] ** 2)), 0),
        (lambda x: jnp.pad(x[21:35] * 2, ((21, 29), (0, 0))), 0),
        (jax.grad(lambda v: jnp.sum((v[31:41] - v[30:40]) ** 2)), 2 * COLUMNS * 4),  # both ways
    ],
)
def test_nothing_but_totals_and_neighbours_is_sent(form: Form, least: float) -> None:
    compiled = run(form, LINE, [["x", UNSHARDED]], numbers(), error=1e-6)
    assert sent(compiled) == least


def test_inside_a_loop_that_carries_what_is_split() -> None:
    def descent(x: Any) -> Any:
        step = jax.grad(lambda v: jnp.sum((v[40:52] - 1) ** 2) / 4)
        return jax.lax.fori_loop(0, 3, lambda _, v: v - step(v), x)

    assert sent(run(descent, LINE, [["x", UNSHARDED]], numbers())) == 0


def test_rows_that_lie_outside_are_nobodys() -> None:
    x = numbers() + 1
    x[20], x[35], x[0] = np.nan, np.inf, 0
    run(lambda v: jnp.sum(jnp.log(v[21:35] / v[21:35])), LINE, [["x", UNSHARDED]], x)
    run(jax.grad(lambda v: jnp.sum(1 / v[21:35])), GRID, [BOTH], x, error=1e-6)


def test_a_dimension_that_nothing_splits_is_computed_in_its_own_size() -> None:
    compiled = run(lambda x: jnp.sum(x[:, :6] ** 2, axis=1), LINE, [["x", UNSHARDED]], numbers())
    assert compiled.local_flops <= 2 * ROWS * 6 / 8
    assert not kinds(compiled)


def test_few_rows_are_computed_where_they_are_read() -> None:
    compiled = run(lambda x: jnp.sum(x[3:7] ** 2), LINE, [["x", UNSHARDED]], numbers())
    assert compiled.local_flops <= 2 * 4 * COLUMNS


def test_few_rows_by_their_owners_and_most_columns_with_a_halo() -> None:
    compiled = run(lambda x: x[:9, 2:] + 1, GRID, [["y", "x"]], numbers())
    assert "halo_exchange" in kinds(compiled)


@pytest.mark.parametrize(
    ("form", "rows", "columns"),
    [
        (lambda x: x[-2:, -4:], 2, 4),
        (lambda x: x[1:9:4, 3:9:2], 2, 3),
        (lambda x: x[:32, :16] @ x[:32, 16:32].T, 32, 32),
    ],
)
def test_few_of_two_split_dimensions_are_given_of_one_after_another(
    form: Form, rows: int, columns: int
) -> None:
    matrix = np.tile(numbers(), (8, 16))
    compiled = run(form, GRID, [["x", "y"]], matrix)
    of_rows = 2 * 1 / 2 * rows * matrix.shape[1] / 4 * 4  # an all_reduce over x
    assert sent(compiled) <= of_rows + 2 * 3 / 4 * rows * columns * 4  # and one over y


def test_stretches_of_two_split_dimensions_move_along_one_after_another() -> None:
    """Less than what each device lacks of the matrix."""
    matrix = np.tile(numbers(), (8, 16))
    compiled = run(lambda x: x[128:, 96:] + x[:384, :288], GRID, [["x", "y"]], matrix)
    assert sent(compiled) < matrix.nbytes / 4


def test_gradients_of_differences_fetch_what_they_read_once() -> None:
    """At the places of what is read most, not where each of them is added."""

    def variation(u: Any) -> Any:
        down, right = jnp.diff(u, axis=0)[:, :-1], jnp.diff(u, axis=1)[:-1]
        return jnp.sum(down * right * right)

    image = np.tile(numbers(), (8, 16))
    compiled = run(jax.grad(variation), GRID, [["x", "y"]], image)
    assert sent(compiled) == 2 * (image.shape[0] // 2 + image.shape[1] // 4) * 4


@pytest.mark.parametrize("rows", [ROWS, ROWS - 3])
def test_what_was_computed_at_a_place_is_read_there(rows: int) -> None:
    """One row of the next shard, and one row of the gradient back."""
    x = numbers()[:rows]

    def variation(x: Any) -> Any:
        return jnp.sum(jnp.abs(x[1:] - x[:-1]))

    specs = ["x", UNSHARDED]
    compiled = run(jax.grad(variation), LINE, [specs], x, out=specs)
    assert sent(compiled) == 2 * COLUMNS * 4
    compiled = run(jax.value_and_grad(variation), LINE, [specs], x)
    assert sent(compiled) < 2 * COLUMNS * 4 + 8
