"""Stencils that read the corners of tiles, on 8 devices and on 6 against one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dtensor.dialect.layout import UNSHARDED
from dtensor.dialect.mesh import Mesh
from dtensor.runtime.client import create_mesh
from tests.py.passes.on_mesh import BOTH, GRID, LINE, numbers, run, sent

CUBE = create_mesh([("x", 2), ("y", 2), ("z", 2)])
SIX = create_mesh([("x", 3), ("y", 2)])
AROUND = [at for at in product((0, 1, 2), (0, 1, 2)) if at != (1, 1)]

Form = Callable[[Any], Any]


def rolled(x: Any) -> Iterator[Any]:
    """The eight neighbours of each element of a torus."""
    for i, j in AROUND:
        yield jnp.roll(x, (1 - i, 1 - j), (0, 1))


def padded(mode: str, width: int = 1) -> Callable[[Any], Iterator[Any]]:
    """The eight elements that stand so far from each, beyond the edge what a mode says."""

    def apply(x: Any) -> Iterator[Any]:
        p = jnp.pad(x, width, mode=mode)
        for i, j in AROUND:
            yield jax.lax.slice(p, (i * width, j * width), np.add((i * width, j * width), x.shape))

    return apply


def added(neighbours: Callable[[Any], Iterator[Any]]) -> Form:
    """Each neighbour counts otherwise, so that none is taken for another."""
    return lambda x: sum((k + 1) * n for k, n in enumerate(neighbours(x)))


def life(x: Any) -> Any:
    around = sum(rolled(x))
    return ((around == 3) | ((around == 2) & (x > 0))).astype(x.dtype)


def gradient(form: Form) -> Form:
    """The gradient of a sum, in which each result counts otherwise."""
    found: Form = jax.grad(lambda x: jnp.sum(form(x) * x))
    return found


FORMS: list[Form] = [
    added(rolled),
    added(padded("constant")),
    added(padded("edge")),
    added(padded("wrap", 2)),
    added(padded("constant", 3)),
    lambda x: added(padded("reflect"))(added(rolled)(x) % 4),
]
GRADIENTS = [gradient(form) for form in FORMS[:4]]
LAYOUTS: list[tuple[Mesh, list[Any]]] = [
    (GRID, ["x", "y"]),
    (GRID, BOTH),
    (GRID, [UNSHARDED, ("y", "x")]),
    (LINE, [UNSHARDED, "x"]),
    (SIX, ["y", "x"]),
]


@pytest.mark.sweep
@pytest.mark.parametrize(("mesh", "specs"), LAYOUTS)
@pytest.mark.parametrize("form", [*FORMS, *GRADIENTS, lambda x: [form(x) for form in FORMS[:4]]])
def test_corners_come_in_any_layout(form: Form, mesh: Mesh, specs: list[Any]) -> None:
    run(form, mesh, [specs], numbers((24, 48)))


@pytest.mark.sweep
@pytest.mark.parametrize("dtype", [jnp.int32, jnp.bfloat16])
@pytest.mark.parametrize(("mesh", "specs"), LAYOUTS[::2])
@pytest.mark.parametrize("form", FORMS[:4])
def test_corners_of_any_type_and_of_odd_sizes_come(
    form: Form, mesh: Mesh, specs: list[Any], dtype: Any
) -> None:
    run(lambda x: form(x) % 4, mesh, [specs], numbers((21, 37), dtype))


@pytest.mark.sweep
@pytest.mark.parametrize("form", [life, *(added(padded(mode)) for mode in ("constant", "edge"))])
def test_corners_come_with_the_edges_of_one_dimension(form: Form) -> None:
    tiles, rows = (run(form, GRID, [spec], numbers((64, 96))) for spec in (["x", "y"], BOTH))
    assert sent(tiles) == 2 * (24 + 32 + 2) * 4
    assert [c.kind for c in tiles.collectives] == 3 * [
        "shard_permute"
    ]  # of 2 tiles one is on both sides
    assert sent(rows) == 2 * 96 * 4


def test_wider_edges_are_sent_once() -> None:
    def form(x: Any) -> Any:  # what is read one and two places away, and of a loop
        far = [jnp.roll(x, by, 0) for by in (1, 2, -1, -3)]
        return jax.lax.fori_loop(0, 3, lambda _, v: added(rolled)(v) % 7, sum(far) % 5)

    compiled = run(form, GRID, [["x", "y"]], numbers((64, 96)))
    assert sent(compiled) == (2 + 3) * 24 * 4 + 3 * 2 * (24 + 32 + 2) * 4


def test_edges_and_corners_of_cubes_come_with_their_faces() -> None:
    def form(x: Any) -> Any:
        places = product((-1, 0, 1), repeat=3)
        return sum(k * jnp.roll(x, by, (0, 1, 2)) for k, by in enumerate(places))

    compiled = run(form, CUBE, [["x", "y", "z"]], numbers((40, 48, 56)))
    assert sent(compiled) == 2 * (24 * 28 + 22 * 28 + 22 * 26) * 4
    compiled = run(form, CUBE, [["x", "y", "z"]], numbers((8, 12, 16)))  # no axis moves elsewhere
    assert sent(compiled) == 2 * (6 * 8 + 6 * 8 + 6 * 8) * 4


@pytest.mark.sweep
@pytest.mark.parametrize("neighbours", [rolled, padded("constant"), padded("edge")])
def test_tiles_stay_tiles_though_many_messages_are_written(neighbours: Any) -> None:
    """Rows alone would need fewer messages: two, of twice as many bytes."""

    def form(x: Any) -> Any:
        return jax.lax.fori_loop(0, 50, lambda _, v: added(neighbours)(v) % 3, x)

    compiled = run(form, GRID, [["y", "x"]], numbers((512, 256)), out=["y", "x"])
    assert sent(compiled) == 50 * 2 * (128 + 128 + 2) * 4


def inside(dtype: Any) -> Callable[[Any], Iterator[Any]]:
    """As `padded("constant")`, written as an update of ones and as slices at places."""

    def apply(x: Any) -> Iterator[Any]:
        p = jnp.ones(np.add(x.shape, 2), dtype).at[1:-1, 1:-1].set(x)
        for i, j in AROUND:
            yield jax.lax.dynamic_slice(p, (i, j), x.shape)

    return apply


def steps(x: Any) -> Any:
    """The interior is computed anew, in slices and an update at places."""
    sizes = np.subtract(x.shape, 2)
    near = (jax.lax.dynamic_slice(x, at, sizes) for at in ((0, 1), (2, 1), (1, 0), (1, 2)))
    return jax.lax.dynamic_update_slice(x, sum(near), (1, 1))


@pytest.mark.sweep
@pytest.mark.parametrize(
    ("mesh", "specs", "dtype"),
    [(*each, jnp.float32) for each in LAYOUTS]
    + [(*LAYOUTS[0], t) for t in (jnp.int32, jnp.bfloat16)],
)
def test_windows_at_known_places_stay_where_they_are(
    mesh: Mesh, specs: list[Any], dtype: Any
) -> None:
    def form(x: Any) -> Any:
        below = jax.lax.dynamic_update_slice(jnp.full((25, 48), 2, x.dtype), x, (9, 9))
        return added(inside(dtype))(x), steps(x), below[:-1] + below[1:]

    run(form, mesh, [specs], numbers((24, 48), dtype))
    if dtype == jnp.float32:
        run(gradient(added(inside(dtype))), mesh, [specs], numbers((24, 48)))
        run(gradient(steps), mesh, [specs], numbers((24, 48)))


def test_windows_at_known_places_send_what_slices_send() -> None:
    compiled = run(added(inside(jnp.float32)), GRID, [["x", "y"]], numbers((64, 96)))
    assert sent(compiled) == 2 * (24 + 32 + 2) * 4
    assert sent(run(steps, GRID, [["x", "y"]], numbers((64, 96)))) == 2 * (24 + 32) * 4
