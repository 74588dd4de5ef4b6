"""Products of sparse matrices in compressed rows with dense ones, on 8 devices and on one."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental.sparse import BCSR

from dtensor.dialect.layout import UNSHARDED
from dtensor.dialect.mesh import Mesh
from tests.py.passes.on_mesh import GRID, LINE, run, sent

ROWS, COLUMNS = 23, 16
U = UNSHARDED


def sparse(count: int, dtype: Any = np.float32) -> tuple[Any, ...]:
    """A matrix of so many elements, of whole numbers, some rows of which have none."""
    random = np.random.default_rng(count)
    dense = np.zeros(ROWS * COLUMNS, dtype)
    dense[random.choice(ROWS * COLUMNS // 2, count, replace=False)] = random.integers(1, 4, count)
    found = BCSR.fromdense(jnp.asarray(dense.reshape(ROWS, COLUMNS)))
    return found.data, found.indices, found.indptr


def product(data: Any, columns: Any, begins: Any, x: Any) -> Any:
    return BCSR((data, columns, begins), shape=(ROWS, COLUMNS)) @ x


def gradients(data: Any, columns: Any, begins: Any, x: Any) -> Any:
    def total(data: Any, x: Any) -> Any:
        return jnp.sum(product(data, columns, begins, x) ** 2)

    return jax.grad(total, (0, 1))(data, x)


@pytest.mark.sweep
@pytest.mark.parametrize("count", [64, 61])
@pytest.mark.parametrize(
    ("mesh", "elements", "dense"),
    [
        (LINE, "x", [U, U]),
        (LINE, "x", ["x", U]),
        (LINE, U, [U, "x"]),
        (GRID, "y", [U, "x"]),
        (GRID, ("y", "x"), ["x", U]),
        (GRID, "x", ["y"]),
    ],
)
def test_elements_and_columns_are_split(
    mesh: Mesh, elements: Any, dense: list[Any], count: int
) -> None:
    x = jnp.asarray(np.random.default_rng(1).integers(-3, 4, (COLUMNS, 8)), jnp.float32)
    layouts = [[elements], [elements], [U], dense]
    for function in (product, gradients):
        values = (*sparse(count), x[:, 0] if len(dense) == 1 else x)
        compiled = run(function, mesh, layouts, *values)
        kinds = {record["kind"] for record in compiled.ledger["records"]}
        assert "fallback" not in kinds


@pytest.mark.parametrize("dtype", [np.int32, np.complex64])
def test_elements_of_other_types(dtype: Any) -> None:
    x = jnp.asarray(np.random.default_rng(1).integers(-3, 4, (COLUMNS, 8)), dtype)
    run(product, GRID, [["y"], ["y"], [U], [U, "x"]], *sparse(61, dtype), x)


def test_only_sums_are_sent_of_split_elements() -> None:
    x = jnp.ones((COLUMNS, 8), jnp.float32)
    compiled = run(product, LINE, [["x"], ["x"], [U], [U, U]], *sparse(128), x, out=[U, U])
    assert sent(compiled) <= 2 * 7 / 8 * 24 * 8 * 4
    assert not sent(run(product, LINE, [[U], [U], [U], [U, "x"]], *sparse(128), x))
