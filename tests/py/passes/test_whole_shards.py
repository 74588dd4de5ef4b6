"""Shards that move whole, along several dimensions, in one permute."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dtensor.compiler.api import jit
from dtensor.compiler.stages import Lowered
from dtensor.dialect.layout import Layout
from dtensor.dialect.mesh import Mesh
from dtensor.runtime.client import create_mesh
from tests.py.passes.on_mesh import GRID, SLOW, kinds, run, sent
from tests.py.uneven.on_meshes import SIX, check

CUBE = create_mesh([("x", 2), ("y", 2), ("z", 2)])
TILES = ["x", "y"]
MESHES = [GRID, SIX, create_mesh([("x", 4), ("y", 2)])]

Form = Callable[[Any], Any]


def rows(*shape: int, dtype: Any = np.float32) -> Any:
    """Elements that are all different, as far as the type has so many."""
    count = int(np.prod(shape))
    values = np.random.default_rng(0).permutation(count).reshape(shape)
    return (values % 2 if dtype == np.bool_ else values).astype(dtype)


def mirrored(x: Any) -> Any:
    return x[::-1, ::-1]


def turned(x: Any) -> Any:
    return jnp.rot90(x, 2)


def centred(x: Any) -> Any:
    return jnp.fft.fftshift(x)


def by_blocks(x: Any) -> Any:
    return jnp.roll(x, (x.shape[0] // 2, x.shape[1] // 4), (0, 1))


def mirrored_and_rolled(x: Any) -> Any:
    return jnp.roll(x[::-1], x.shape[1] // 2, 1)[:, ::-1]


@pytest.mark.parametrize("form", [mirrored, turned, centred, by_blocks, mirrored_and_rolled])
@pytest.mark.parametrize("size", [(24, 8), (12, 40)])
def test_a_tile_is_sent_once(form: Form, size: tuple[int, int]) -> None:
    x = rows(*size)
    compiled = run(form, GRID, [TILES], x, out=TILES)
    assert kinds(compiled) == {"shard_permute"}
    assert sent(compiled) == x.nbytes / 8


@pytest.mark.parametrize("mesh", MESHES)
@pytest.mark.parametrize("dtype", [np.bool_, np.int8, np.complex64])
def test_of_any_type_on_any_mesh(mesh: Mesh, dtype: Any) -> None:
    x = rows(24, 40, dtype=dtype)
    assert sent(run(mirrored, mesh, [TILES], x, out=TILES)) == x.nbytes / mesh.size


@pytest.mark.parametrize("form", [lambda x: x[::-1, ::-1, ::-1], jnp.fft.fftshift])
def test_three_dimensions(form: Form) -> None:
    x = rows(4, 6, 10)
    specs = ["x", "y", "z"]
    assert sent(run(form, CUBE, [specs], x, out=specs)) == x.nbytes / 8


def test_what_is_read_in_between_is_sent_twice() -> None:
    def form(x: Any) -> Any:
        y = jnp.roll(x, 12, 0)
        return y, jnp.roll(y, 10, 1)

    x = rows(24, 40)
    assert sent(run(form, GRID, [TILES], x, out=TILES)) == 2 * x.nbytes / 8


def test_parts_of_shards_are_sent_along_each_dimension() -> None:
    """All of a tile comes from another row of tiles, and then half of it from the next one."""
    x = rows(24, 40)
    compiled = run(lambda x: jnp.roll(x, (12, 5), (0, 1)), GRID, [TILES], x, out=TILES)
    assert sent(compiled) == 3 / 2 * x.nbytes / 8


def test_there_and_back_sends_nothing() -> None:
    """Shards that end where they began; what is in them was turned."""
    compiled = run(lambda x: jnp.roll(x[::-1], 12, 0), GRID, [TILES], rows(24, 40), out=TILES)
    assert sent(compiled) == 0


@pytest.mark.parametrize("form", [mirrored, centred, by_blocks, mirrored_and_rolled])
@pytest.mark.parametrize("size", [(24, 8), (23, 9), (7, 5), (1, 40), (0, 4)])
@pytest.mark.parametrize("mesh", MESHES[:2])
def test_any_size(form: Form, size: tuple[int, int], mesh: Mesh) -> None:
    layout = Layout(TILES, mesh)
    check(form, rows(*size), mesh=mesh, in_layouts=(layout,), out_layouts=layout)


def test_in_a_loop_and_its_gradient() -> None:
    def loop(x: Any) -> Any:
        return jax.lax.fori_loop(0, 3, lambda i, y: 2 * centred(mirrored(y)) + x, x)

    x = rows(8, 8)
    assert sent(run(loop, GRID, [TILES], x, out=TILES)) == 3 * x.nbytes / 8
    compiled = run(
        lambda x: jax.grad(lambda y: jnp.sum(y * loop(y)))(x), GRID, [TILES], x, out=TILES
    )
    assert sent(compiled) == 6 * x.nbytes / 8


@pytest.mark.parametrize("form", [mirrored, centred, by_blocks, mirrored_and_rolled])
def test_gradients_go_back_at_once(form: Form) -> None:
    x = rows(24, 40)
    compiled = run(lambda x: jax.vjp(form, x)[1](x), GRID, [TILES], x, out=TILES)
    assert sent(compiled) == x.nbytes / 8


def test_images_of_a_batch() -> None:
    """Each is turned by itself, and scaled in between."""
    x = rows(3, 24, 40)
    compiled = run(jax.vmap(lambda y: centred(3 * centred(y)[::-1]) + 1), GRID, [[None, *TILES]], x)
    assert sent(compiled) <= x.nbytes / 8


@pytest.mark.parametrize("form", [mirrored, turned, centred, by_blocks])
def test_the_plan_counts_one_message(form: Form) -> None:
    x = rows(24, 40)
    assert _planned(form, x) == pytest.approx(x.nbytes / 8, rel=1e-2)


def _planned(form: Form, x: Any) -> float:
    """Bytes that the plan counts; a byte takes a nanosecond."""
    layout = Layout(TILES, GRID)
    lowered: Lowered = jit(
        form, mesh=GRID, in_layouts=(layout,), out_layouts=layout, options=SLOW
    ).lower(x)
    (plan,) = [r for r in lowered.ledger["records"] if r["kind"] == "plan"]
    return float(plan["communication"]) * 1e9
