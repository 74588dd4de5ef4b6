"""Fields of n and of n + 1 rows beside each other, as staggered grids have them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from dtensor.dialect.layout import UNSHARDED, Layout
from dtensor.dialect.mesh import Mesh
from tests.py.passes.on_mesh import LINE, kinds, numbers, run, sent
from tests.py.uneven.on_meshes import TILED, check

ROWS = ["x", UNSHARDED]
STEPS = 6


def smoothed(a: Any) -> Any:
    inner = a[1:-1, 1:-1]
    around = a[2:, 1:-1] + a[:-2, 1:-1] + a[1:-1, 2:] + a[1:-1, :-2]
    return a.at[1:-1, 1:-1].set((inner + around) / 8)


def flow(u: Any, v: Any, p: Any) -> Any:
    """Velocities on the faces between cells, and the pressure in these."""

    def step(_: Any, fields: Any) -> Any:
        u, v, p = fields
        u, v = smoothed(u), smoothed(v)
        p = p - ((u[1:] - u[:-1]) + (v[:, 1:] - v[:, :-1])) / 8
        u = u.at[1:-1].add((p[:-1] - p[1:]) / 8)
        v = v.at[:, 1:-1].add((p[:, :-1] - p[:, 1:]) / 8)
        return u, v, p

    return lax.fori_loop(0, STEPS, step, (u, v, p))


def fields(rows: int, columns: int) -> list[Any]:
    return [numbers((rows + 1, columns)), numbers((rows, columns + 1)), numbers((rows, columns))]


@pytest.mark.sweep
@pytest.mark.parametrize("rows", [96, 97, 103])
@pytest.mark.parametrize(("mesh", "specs"), TILED)
def test_a_flow_is_that_of_one_device(mesh: Mesh, specs: list[Any], rows: int) -> None:
    layout = Layout(specs, mesh)
    check(flow, *fields(rows, 72), mesh=mesh, in_layouts=(layout,) * 3, error=1e-5, absolute=1e-6)


def test_fields_are_moved_to_longer_shards_once() -> None:
    """A row where a field is read beside its own, and 7 rows of two fields as the loop begins.

    They return as the results of the loop do.
    """
    compiled = run(flow, LINE, [ROWS] * 3, *fields(256, 64), out=ROWS, error=1e-5, absolute=1e-6)
    assert kinds(compiled) == {"shard_permute", "halo_exchange"}
    inside = sum(c.bytes for c in compiled.collectives if c.trip_count == STEPS)
    assert inside <= 9 * 66 * 4
    assert sent(compiled) - STEPS * inside <= 2 * 7 * (64 + 66) * 4


def window(lows: tuple[int, ...], counts: tuple[int, ...]) -> tuple[slice, ...]:
    return tuple([slice(low, low + count) for low, count in zip(lows, counts, strict=True)])


UPDATES: list[Callable[[Any, Any], Any]] = [
    lambda x, y: x.at[window((3, 0), y.shape)].add(y),
    lambda x, y: x.at[window((3, 2), y.shape)].set(y),
    lambda x, y: x.at[window((0, 0), y.shape)].max(y),
    lambda x, y: x.at[window((4, 1), y.shape)].multiply(y),
    lambda x, y: lax.dynamic_update_slice(x, y, (5, 0)),
    lambda x, y: x.at[window((1, 0), y.shape)].min(y[::-1]),
]


@pytest.mark.sweep
@pytest.mark.parametrize("rows", [64, 61])
@pytest.mark.parametrize(("mesh", "specs"), TILED)
def test_what_is_put_into_most_of_an_array(mesh: Mesh, specs: list[Any], rows: int) -> None:
    def updated(x: Any, y: Any) -> Any:
        return [update(x, y) for update in UPDATES]

    layout = Layout(specs, mesh)
    values = numbers((rows, 24)) - 1, numbers((rows - 5, 22)) - 1
    check(updated, *values, mesh=mesh, in_layouts=(layout, layout))


@pytest.mark.parametrize("dtype", [jnp.int8, jnp.bool_, jnp.complex64, jnp.bfloat16])
def test_elements_of_any_type_are_put_there(dtype: Any) -> None:
    def updated(x: Any, y: Any) -> Any:
        return [update(x, y) for update in UPDATES[1:5:3]]

    run(updated, LINE, [ROWS] * 2, numbers((64, 24), dtype), numbers((59, 22), dtype))


def test_zeros_keep_their_signs() -> None:
    x, y = np.full((64, 3), -0.0, np.float32), np.full((62, 3), -0.0, np.float32)
    layout = Layout(ROWS, LINE)

    def signs(x: Any, y: Any) -> Any:
        return jnp.signbit(x.at[1:-1].add(y)), jnp.signbit(x.at[1:-1].set(-y))

    check(signs, x, y, mesh=LINE, in_layouts=(layout, layout))


def test_rows_that_differ_by_few_are_moved_by_few() -> None:
    """Shards of 32 rows read what begins 3 rows before or up to 5 behind their own."""
    compiled = run(UPDATES[0], LINE, [ROWS] * 2, numbers((256, 6)), numbers((248, 6)))
    assert sent(compiled) <= 8 * 6 * 4
