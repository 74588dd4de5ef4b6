"""Relative attention's shifts of split rows, on 8 devices against one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dtensor.dialect.layout import UNSHARDED
from dtensor.dialect.mesh import Mesh
from tests.py.passes.on_mesh import GRID, LINE, kinds, run, sent


def shifted(s: Any) -> Any:
    """Transformer-XL: row i of n is moved by n - 1 - i places."""
    *ahead, n, m = s.shape
    padded = jnp.pad(s, (*[(0, 0)] * (s.ndim - 1), (1, 0)))
    return padded.reshape(*ahead, m + 1, n)[..., 1:, :].reshape(*ahead, n, m)


def flat(s: Any) -> Any:
    """The same, as elements."""
    *ahead, n, m = s.shape
    padded = jnp.concatenate([jnp.zeros((*ahead, n, 1)), s], -1)
    return padded.reshape(*ahead, n * (m + 1))[..., n:].reshape(*ahead, n, m)


def skewed(s: Any) -> Any:
    """Rows are moved the other way."""
    *ahead, n, m = s.shape
    padded = jnp.pad(s, (*[(0, 0)] * (s.ndim - 1), (0, 1)))
    return padded.reshape(*ahead, n * (m + 1))[..., : n * m].reshape(*ahead, n, m)


def widened(s: Any) -> Any:
    """The gradient of that, nearly."""
    *ahead, n, m = s.shape
    padded = jnp.pad(s.reshape(*ahead, n * m), (*[(0, 0)] * len(ahead), (0, n)))
    return padded.reshape(*ahead, n, m + 1)


def half(s: Any) -> Any:
    """A Conformer's: of 2 n - 1 distances."""
    return shifted(s)[..., : (s.shape[-1] + 1) // 2]


def loss(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def weighted(s: Any) -> Any:
        value = function(s)
        return jnp.sum(value**2 * jnp.arange(value.size).reshape(value.shape))

    return jax.grad(weighted)


# Each function on each mesh, the widths in turn: each function and each mesh has them all.
TURNED = [
    (mesh, axes, function, (40, 64, 127)[(i + k) % 3])
    for k, (mesh, axes) in enumerate([(LINE, "x"), (GRID, "y"), (GRID, ("y", "x"))])
    for i, function in enumerate([shifted, flat, skewed, widened, half])
]


@pytest.mark.sweep
@pytest.mark.parametrize(("mesh", "axes", "function", "columns"), TURNED)
def test_shards_fetch_less_than_the_elements_of_a_row_and_more(
    mesh: Mesh, axes: Any, function: Callable[[Any], Any], columns: int
) -> None:
    specs = [UNSHARDED, axes, UNSHARDED]
    s = np.random.default_rng(0).normal(size=(3, 40, columns)).astype(np.float32)
    row = 3 * 4 * max(40, columns + 1)
    for times, each in ((1, function), (2, loss(function))):
        compiled = run(each, mesh, [specs], s, out=specs)
        assert kinds(compiled) == {"halo_exchange"}
        assert sent(compiled) <= times * row


def test_rows_first_and_heads_last() -> None:
    def shifted_first(s: Any) -> Any:
        return jnp.moveaxis(shifted(jnp.moveaxis(s, (0, 1), (-2, -1))), (-2, -1), (0, 1))

    def written_first(s: Any) -> Any:
        n, m, *heads = s.shape
        padded = jnp.pad(s, ((0, 0), (1, 0), *[(0, 0)] * len(heads)))
        return padded.reshape(m + 1, n, *heads)[1:].reshape(n, m, *heads)

    s = np.random.default_rng(0).normal(size=(24, 32, 3)).astype(np.float32)
    specs = ["x", UNSHARDED, UNSHARDED]
    compiled = run(written_first, LINE, [specs], s, out=specs)
    assert kinds(compiled) == {"halo_exchange"}
    np.testing.assert_array_equal(shifted_first(s), written_first(s))
