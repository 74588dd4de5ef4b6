"""Gradients of stencils of several rows and columns: what shards exchange is added up before."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest

from dtensor.dialect.layout import UNSHARDED, Layout
from dtensor.dialect.mesh import Mesh
from dtensor.passes.cuts import summed_pads
from tests.py.passes.on_mesh import LINE, kinds, numbers, run, sent
from tests.py.uneven.on_meshes import TILED, check

MODES = ("constant", "wrap", "edge", "reflect")


def stencil(x: Any, mode: str = "constant", reach: int = 1) -> Any:
    """Each element and those around it, none of which goes in linearly."""
    padded, total = jnp.pad(x, reach, mode=mode), x
    for i in range(2 * reach + 1):
        for j in range(2 * reach + 1):
            near = padded[i : i + x.shape[0], j : j + x.shape[1]]
            total = total + (near - x * (i + j)) ** 2
    return total


def gradient_of(*args: Any) -> Callable[[Any], Any]:
    return jax.grad(lambda x: jnp.sum(stencil(x, *args)))


@pytest.mark.sweep
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("mesh", "specs"), TILED)
def test_gradients_are_those_of_one_device(mesh: Mesh, specs: list[Any], mode: str) -> None:
    layout = Layout(specs, mesh)
    for rows, reach in ((48, 1), (37, 1), (48, 2)):
        x = numbers((rows, 24)) - 1
        check(gradient_of(mode, reach), x, mesh=mesh, in_layouts=(layout,), out_layouts=layout)


@pytest.mark.parametrize("reach", [1, 2])
def test_shards_exchange_a_row_for_each_row_of_the_stencil(reach: int) -> None:
    """On the way there, and on the way back."""
    rows = ["x", UNSHARDED]
    compiled = run(gradient_of("constant", reach), LINE, [rows], numbers((64, 12)), out=rows)
    assert kinds(compiled) == {"shard_permute"}
    row, each_way = 12 * 4, reach * (reach + 1) // 2
    assert sent(compiled) == 2 * reach * row + 2 * each_way * row


@pytest.mark.parametrize("dtype", [jnp.int32, jnp.complex64, jnp.bfloat16])
def test_sums_of_any_type(dtype: Any) -> None:
    def total(x: Any, y: Any) -> Any:
        pads = [((2, 0), (2, 0)), ((2, 0), (0, 2)), ((1, 1), (1, 1)), ((2, 0), (1, 1))]
        terms = [jnp.pad(x * (k + 1) - y, pad) for k, pad in enumerate(pads)]
        return jnp.asarray(sum(terms))[1:-1, 1:-1]

    rows = ["x", UNSHARDED]
    values = [numbers((48, 12), dtype), numbers((48, 12), dtype)]
    assert kinds(run(total, LINE, [rows, rows], *values)) == {"shard_permute"}


def test_layouts_are_not_asked_for_where_no_terms_are_padded_alike(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """To know them reads the whole program, and parts side by side are in each transformer."""

    def refuse(*_: Any) -> bool:
        raise AssertionError("asked")

    monkeypatch.setattr(summed_pads, "_is_split", refuse)
    rows = ["x", UNSHARDED]
    x = numbers((64, 12))
    run(jax.grad(lambda x: jnp.sum(x[:, :5] ** 2) + jnp.sum(x[:, 5:] ** 3)), LINE, [rows], x)
    with pytest.raises(AssertionError, match="asked"):
        run(gradient_of(), LINE, [rows], x)


def test_sums_of_more_terms_than_python_nests_calls() -> None:
    def lags(x: Any, weights: Any) -> Any:
        padded = [jnp.pad(x, (0, k % 7))[: x.size] * weights[k] for k in range(1200)]
        return functools.reduce(jnp.add, padded)

    x, weights = numbers((16,)), numbers((1200,))
    run(lags, LINE, [["x"], [UNSHARDED]], x, weights, out=["x"], absolute=1e-3)
