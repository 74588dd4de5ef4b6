"""The largest of many split rows, dealt: each shard has all candidates of some of the rows."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from dtensor.compiler.api import jit
from dtensor.dialect.layout import UNSHARDED, Layout
from dtensor.dialect.mesh import Mesh
from dtensor.runtime.client import create_mesh
from tests.py.passes.on_mesh import GRID, LINE, SLOW, kinds, run, sent
from tests.py.uneven.on_meshes import check

THREE = create_mesh([("x", 3), ("y", 2)])
MESHES: list[tuple[Mesh, list[Any]]] = [
    (LINE, [UNSHARDED, "x"]),
    (GRID, ["x", "y"]),
    (GRID, [UNSHARDED, ("y", "x")]),
    (THREE, ["y", "x"]),
]


def awkward(*shape: int, dtype: Any = np.float32) -> Any:
    """Many equal numbers, zeros of both signs, infinities and NaN of both signs."""
    rng = np.random.default_rng(0)
    x = rng.integers(0, 5, shape).astype(dtype)
    if np.dtype(dtype).kind == "f":
        x[rng.random(shape) < 0.1] = -0.0
        for number in (np.nan, -np.nan, np.inf, -np.inf):
            x[rng.random(shape) < 0.01] = number
    return x


def largest(x: Any) -> Any:
    values, places = lax.top_k(x, 3)
    return values, places, jnp.signbit(values) if x.dtype.kind == "f" else values


def more_than_a_shard_has(x: Any) -> Any:
    return lax.top_k(x, 35)


def first_of_order(x: Any) -> Any:
    found = jnp.sort(x, 1)[:, :3]
    return found, jnp.argsort(x, 1)[:, 1:3], jnp.signbit(found) if x.dtype.kind == "f" else found


def last_of_order(x: Any) -> Any:
    return jnp.sort(x, 1)[:, -2:], jnp.argsort(x, 1)[:, -3]


FORMS = [largest, more_than_a_shard_has, first_of_order, last_of_order]


@pytest.mark.sweep
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("mesh", "specs"), MESHES)
@pytest.mark.parametrize("rows", [96, 94])
def test_candidates_of_rows_are_dealt(form: Any, mesh: Mesh, specs: list[Any], rows: int) -> None:
    x = awkward(rows, 240)
    compiled = run(form, mesh, [specs], x)
    assert "all_to_all" in kinds(compiled)
    assert sent(compiled) < x.nbytes * (2 if form is more_than_a_shard_has else 0.25)


@pytest.mark.sweep
@pytest.mark.parametrize("form", [largest, first_of_order])
@pytest.mark.parametrize("dtype", [np.int32, np.uint8, np.float16, jnp.bfloat16])
def test_rows_of_any_type(form: Any, dtype: Any) -> None:
    assert "all_to_all" in kinds(run(form, LINE, [[UNSHARDED, "x"]], awkward(64, 96, dtype=dtype)))


@pytest.mark.parametrize("form", [largest, first_of_order])
def test_what_is_wanted_of_own_rows_is_not_gathered(form: Any) -> None:
    x = awkward(64, 240)
    layout = Layout([UNSHARDED, "x"], LINE)

    def chosen(a: Any) -> Any:
        return form(a)[0]

    for out, gathers in ((["x", UNSHARDED], set()), ([UNSHARDED] * 2, {"all_gather"})):
        wanted = Layout(out, LINE)
        jitted = jit(chosen, mesh=LINE, in_layouts=(layout,), out_layouts=wanted, options=SLOW)
        compiled = jitted.lower(x).compile()
        assert kinds(compiled) == {"all_to_all"} | gathers
        assert sent(compiled) == len(kinds(compiled)) * x[:, :3].nbytes * 7 / 8
        np.testing.assert_array_equal(compiled(x).to_jax(), jax.jit(chosen)(x))


@pytest.mark.parametrize(("mesh", "specs"), MESHES[:3])
def test_rows_of_uneven_length(mesh: Mesh, specs: list[Any]) -> None:
    """What is behind the true end of a row is taken nowhere."""
    layout = Layout(specs, mesh)
    for form in (largest, first_of_order, more_than_a_shard_has):
        check(form, awkward(96, 203), mesh=mesh, in_layouts=(layout,))
    check(largest, np.full((40, 203), -np.inf, np.float32), mesh=mesh, in_layouts=(layout,))


def test_a_few_rows_are_exchanged_by_pairs() -> None:
    assert "all_to_all" not in kinds(run(largest, LINE, [[UNSHARDED, "x"]], awkward(2, 240)))
    assert "all_to_all" not in kinds(run(lambda x: lax.top_k(x, 3), LINE, [["x"]], awkward(240)))


def test_rows_of_more_dimensions_and_none() -> None:
    x = awkward(3, 32, 96)
    compiled = run(lambda a: lax.top_k(a, 3), LINE, [[UNSHARDED, UNSHARDED, "x"]], x)
    assert "all_to_all" in kinds(compiled)
    run(lambda a: lax.top_k(a, 3), LINE, [[UNSHARDED, UNSHARDED, "x"]], x[:, :0])


def test_blocks_that_are_split_each() -> None:
    """Where both halves of a row are split, candidates of one shard stand in both."""
    x = awkward(64, 2, 48)

    def joined(a: Any) -> Any:
        return lax.top_k(a.reshape(64, 96), 5)

    run(joined, LINE, [[UNSHARDED, UNSHARDED, "x"]], x)


def test_gradients_loops_and_maps() -> None:
    x = np.random.default_rng(1).permutation(64 * 96).reshape(64, 96).astype(np.float32)

    def gradient(a: Any) -> Any:
        return jax.grad(lambda b: jnp.sum(lax.top_k(b, 3)[0] * jnp.arange(3.0)))(a)

    def again(a: Any) -> Any:
        return lax.fori_loop(0, 3, lambda _, b: b - lax.top_k(b, 2)[0][:, 1:], a)

    for function in (gradient, again, jax.vmap(lambda row: lax.top_k(row, 3))):
        run(function, LINE, [[UNSHARDED, "x"]], x)
