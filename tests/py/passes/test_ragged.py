"""Products of groups of rows: every way to split one, and programs that have them on a target."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from tests.py.passes.on_mesh import GRID, numbers, sent
from tests.py.passes.rule_oracle import check_rule, letters, op_module
from tests.py.twins import run_for

U = None
# Rows of no group behind the last one; a group of none.
SIZES = np.array([3, 0, 5, 2], np.int32)
RAGGED = (
    "12x6xf32",
    "4x6x8xf32",
    "4xi32",
    "12x8xf32",
    "lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [1], "
    "lhs_ragged_dimensions = [0], rhs_group_dimensions = [0]",
)
CONTRACTED = (
    "12x6xf32",
    "12x8xf32",
    "4xi32",
    "4x6x8xf32",
    "lhs_contracting_dimensions = [0], rhs_contracting_dimensions = [0], "
    "lhs_ragged_dimensions = [0]",
)
BATCHED = (
    "12x6x4xf32",
    "12x4x8xf32",
    "4xi32",
    "12x6x8xf32",
    "lhs_batching_dimensions = [0], rhs_batching_dimensions = [0], "
    "lhs_contracting_dimensions = [2], rhs_contracting_dimensions = [1], "
    "lhs_ragged_dimensions = [0]",
)
IN_BATCHES = (
    "2x12x6xf32",
    "4x2x6x8xf32",
    "2x4xi32",
    "2x12x8xf32",
    "lhs_batching_dimensions = [0], rhs_batching_dimensions = [1], "
    "lhs_contracting_dimensions = [2], rhs_contracting_dimensions = [2], "
    "lhs_ragged_dimensions = [1], rhs_group_dimensions = [0]",
)
CONTRACTED_IN_BATCHES = (
    "12x2x6xf32",
    "2x8x12xf32",
    "2x4xi32",
    "4x2x6x8xf32",
    "lhs_batching_dimensions = [1], rhs_batching_dimensions = [0], "
    "lhs_contracting_dimensions = [0], rhs_contracting_dimensions = [2], "
    "lhs_ragged_dimensions = [0]",
)


def ragged_dot(left: str, right: str, sizes: str, result: str, dims: str) -> str:
    types = ", ".join(f"tensor<{t}>" for t in (left, right, sizes))
    op = (
        '"chlo.ragged_dot"(%a, %b, %c) <{precision_config = [], '
        f"ragged_dot_dimension_numbers = #chlo.ragged_dot<{dims}>}}> "
        f": ({types}) -> tensor<{result}>"
    )
    return op_module(f"a: {left}, b: {right}, c: {sizes}", op, result)


@pytest.mark.sweep
@pytest.mark.parametrize(
    ("form", "split"),
    [(RAGGED, "abc"), (CONTRACTED, "abc"), (BATCHED, "abcd"), (IN_BATCHES, "abcd")],
)
def test_every_way_to_split_all_but_the_groups(form: tuple[str, ...], split: str) -> None:
    sizes = np.stack([SIZES, SIZES[::-1]]) if "2x4xi32" in form else SIZES
    report = check_rule(ragged_dot(*form), inputs={2: sizes}, max_pairs=20)
    assert letters(report) == split


def test_rows_of_batches_that_are_summed_begin_where_each_says() -> None:
    sizes = np.stack([SIZES, SIZES[::-1]])
    report = check_rule(ragged_dot(*CONTRACTED_IN_BATCHES), inputs={2: sizes}, max_pairs=20)
    assert letters(report) == "abcd"


# Eight groups of matrices that are larger than all rows: they stay where they are.
MANY = np.array([3, 0, 5, 2, 1, 0, 7, 2], np.int32)
ROWS, WEIGHTS = numbers((24, 32)), numbers((8, 32, 40))
THREE = ROWS, WEIGHTS, MANY


def experts(rows: Any, weights: Any, sizes: Any) -> Any:
    return lax.ragged_dot(rows, weights, sizes)


def of_weights(rows: Any, weights: Any, sizes: Any) -> Any:
    def loss(weights: Any) -> Any:
        return jnp.square(experts(rows, weights, sizes)).sum()

    return jax.grad(loss)(weights)


@pytest.mark.parametrize("target", ["gpu:h100:8", "tpu:v5e:2x4"])
@pytest.mark.parametrize("rows", [[U, U], ["x", U]])
def test_shards_of_groups_multiply_their_rows(target: str, rows: list[Any]) -> None:
    """Each has its rows at the front; what is infinite in the rows of others does not reach it."""
    split = [rows, ["y", U, U], [U]]
    infinite = ROWS.at[4].set(np.inf)
    compiled = run_for(target, experts, GRID, split, infinite, WEIGHTS + 1, MANY, out=rows)
    assert {c.kind for c in compiled.collectives} == {"all_reduce"}
    assert "fallback" not in {record["kind"] for record in compiled.ledger["records"]}


@pytest.mark.parametrize("target", ["gpu:h100:8", "tpu:v5e:2x4"])
def test_gradients_of_weights_stay_with_their_group(target: str) -> None:
    split: list[list[Any]] = [["x", U], ["y", U, U], [U]]
    compiled = run_for(target, of_weights, GRID, split, ROWS, WEIGHTS, MANY, out=["y", U, U])
    assert "fallback" not in {record["kind"] for record in compiled.ledger["records"]}
    assert sent(compiled) < WEIGHTS.nbytes / 4


def test_rows_alone_are_split_without_communication() -> None:
    compiled = run_for("gpu:h100:8", experts, GRID, [[("x", "y"), U], [U] * 3, [U]], *THREE)
    assert not compiled.collectives
    assert compiled.local_flops < 2 * 24 * 32 * 40 / 8 + 1000  # and counts where groups begin


def test_rows_that_do_not_divide_are_of_no_group_behind_the_last() -> None:
    def both(rows: Any, weights: Any, sizes: Any) -> Any:
        return experts(rows, weights, sizes)[:22], of_weights(rows, weights, sizes)

    values = ROWS[:22], WEIGHTS, MANY
    compiled = run_for("gpu:h100:8", both, GRID, [["y", U], [U, U, "x"], [U]], *values)
    assert "fallback" not in {record["kind"] for record in compiled.ledger["records"]}
