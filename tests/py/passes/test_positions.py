"""Few elements of split dimensions, and reversed ones, on 8 devices against one."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dtensor.dialect.layout import UNSHARDED
from dtensor.dialect.mesh import Mesh
from tests.py.passes.on_mesh import BOTH, GRID, LINE, kinds, run, sent

LAYOUTS: list[tuple[Mesh, list[Any]]] = [
    (LINE, ["x", UNSHARDED]),
    (LINE, [UNSHARDED, "x"]),
    (GRID, ["x", "y"]),
    (GRID, BOTH),
    (GRID, [("y", "x"), UNSHARDED]),
]


def numbers(shape: tuple[int, ...], dtype: Any = np.float32) -> np.ndarray[Any, Any]:
    return np.random.default_rng(0).integers(0, 9, shape).astype(dtype)


def few(x: Any) -> Any:
    """Single elements, rows of two shards, strides, both dimensions, and a stretch of blocks."""
    return x[0], x[-1], x[11:15], x[3:30:9], x[7, 5], x[2:4, 1:3], x[:8], x[:, 3:4], x[40:40]


@pytest.mark.sweep
@pytest.mark.parametrize("dtype", [np.float32, np.int8, np.bool_, np.complex64])
@pytest.mark.parametrize(("mesh", "specs"), LAYOUTS)
def test_a_slice_of_few_elements(mesh: Mesh, specs: list[Any], dtype: Any) -> None:
    run(few, mesh, [specs], numbers((64, 16), dtype))


def test_the_owner_sends_what_is_taken() -> None:
    compiled = run(lambda x: x[-1], LINE, [["x", UNSHARDED]], numbers((4096, 16)))
    assert sent(compiled) == 2 * 7 / 8 * 16 * 4  # an all_reduce of one row
    x = numbers((4096, 16))
    x[4000] = np.nan
    x[:4000] = np.inf
    run(lambda x: (x[4001:4003], x[0]), LINE, [["x", UNSHARDED]], x)


def test_a_row_of_each_stack_is_its_owners() -> None:
    def layers(x: Any, stack: Any) -> Any:
        for i in range(stack.shape[0]):
            x = jnp.tanh(x @ stack[i])
        return x

    x, stack = np.eye(6, dtype=np.float32), np.ones((8, 6, 6), np.float32)
    compiled = run(layers, LINE, [None, ["x", UNSHARDED, UNSHARDED]], x, stack, error=1e-6)
    assert sent(compiled) <= 2 * stack.nbytes * 7 / 8


@pytest.mark.sweep
@pytest.mark.parametrize("dtype", [np.float32, np.int8, np.bool_, np.complex64])
@pytest.mark.parametrize(("mesh", "specs"), LAYOUTS)
def test_reversed_dimensions(mesh: Mesh, specs: list[Any], dtype: Any) -> None:
    def flips(x: Any) -> Any:
        return x[::-1], x[:, ::-1], jnp.flip(x), jax.lax.rev(x, (1,))

    run(flips, mesh, [specs], numbers((24, 16), dtype), out=specs)


def test_shards_of_a_reversed_dimension_change_places() -> None:
    compiled = run(lambda x: x[::-1], LINE, [["x", UNSHARDED]], numbers((64, 16)))
    assert kinds(compiled) == {"shard_permute"}
    assert sent(compiled) == 8 * 16 * 4
    compiled = run(lambda x: x[:, ::-1], LINE, [["x", UNSHARDED]], numbers((64, 16)))
    assert sent(compiled) == 0
