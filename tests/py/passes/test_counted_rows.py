"""Index vectors that count the rows, `x[jnp.arange(n), place]`: each row is read by itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dtensor.dialect.layout import UNSHARDED
from dtensor.dialect.mesh import Mesh
from tests.py.passes.on_mesh import GRID, LINE, numbers, run, sent


def places(count: tuple[int, ...], size: int) -> Any:
    """Places, some of them from behind and some out of range."""
    found = np.random.default_rng(2).integers(-size - 1, size + 1, count)
    return jnp.asarray(found, jnp.int32)


def read(x: Any, i: Any) -> Any:
    return x[jnp.arange(len(i)), i]


def read_elements(x: Any, i: Any) -> Any:
    return x[jnp.arange(len(i)), i, (i + 1) // 2]


def read_several(x: Any, i: Any) -> Any:
    """Several of each row; the count of rows stands behind the places."""
    several = jnp.stack([i, i + 1, i // 2])
    return x.at[jnp.arange(len(i)), several].get(mode="clip")


def read_behind(x: Any, i: Any) -> Any:
    return x.transpose(1, 2, 0)[i, :, jnp.arange(len(i))]


def write(x: Any, i: Any) -> Any:
    return x.at[jnp.arange(len(i)), i].set(x[:, 1] * 2)


def add_several(x: Any, i: Any) -> Any:
    """Some places of a row are named twice."""
    several = jnp.stack([i, i, i // 2], 1)
    return x.at[jnp.arange(len(i))[:, None], several].add(x[:, :3])


def loss(x: Any, i: Any) -> Any:
    return jax.grad(lambda x: -read(jax.nn.log_softmax(x[..., 0]), i).mean())(x)


def search(x: Any, i: Any) -> Any:
    """Rows in a loop, which carries their count."""

    def turn(carried: Any, _: Any) -> Any:
        x, i, rows = carried
        found = x[rows, i]
        return (x.at[rows, i].set(found + 1), (i + 3) % x.shape[1], rows), found.sum(-1)

    return jax.lax.scan(turn, (x, i, jnp.arange(len(i))), None, length=3)


PROGRAMS: list[Callable[..., Any]] = [
    read,
    read_elements,
    read_several,
    read_behind,
    write,
    add_several,
    loss,
    search,
]


@pytest.mark.sweep
@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize(("mesh", "axes", "rows"), [(LINE, "x", 24), (GRID, ("y", "x"), 13)])
def test_rows_are_those_of_one_device_and_stay(
    program: Callable[..., Any], mesh: Mesh, axes: Any, rows: int
) -> None:
    x, i = numbers((rows, 7, 4)), places((rows,), 7)
    split = [[axes, UNSHARDED, UNSHARDED], [axes]]
    compiled = run(program, mesh, split, x, i, error=1e-5 if program is loss else 0.0)
    assert sent(compiled) == 0


@pytest.mark.sweep
@pytest.mark.parametrize("program", PROGRAMS)
def test_places_along_a_split_dimension_have_owners(program: Callable[..., Any]) -> None:
    x, i = numbers((6, 8, 4)), places((6,), 8)
    error = 1e-5 if program is loss else 0.0
    run(program, GRID, [["x", "y", UNSHARDED], [UNSHARDED]], x, i, error=error)
    run(program, GRID, [[UNSHARDED, "x", "y"], ["x"]], x, i, error=error)


def test_what_only_looks_like_a_count_is_read_as_it_is() -> None:
    """Rows in another order, some of the rows, and rows of which one is named twice."""
    x, i = numbers((8, 5)), places((8,), 5)
    for rows in (np.arange(8)[::-1], np.arange(8) // 2, np.arange(1, 9)):

        def odd(x: Any, i: Any, rows: Any = rows) -> Any:
            return x[rows, i], x.at[rows, i].add(1)

        run(odd, LINE, [["x", UNSHARDED], ["x"]], x, i)

    def some(x: Any, i: Any) -> Any:
        return x[jnp.arange(4), i[:4]]

    run(some, LINE, [["x", UNSHARDED], ["x"]], x, i)


def near(x: Any) -> Any:
    """Of each row those about its own number."""
    rows = jnp.arange(len(x))[:, None]
    return x[rows, jnp.clip(rows + jnp.arange(5) - 2, 0, x.shape[1] - 1)]


def distances(x: Any) -> Any:
    """Of each query, the keys that lie so far behind it: a relative position."""
    n = len(x)
    return x[np.arange(n)[:, None], n - 1 - np.arange(n)[:, None] + np.arange(n)]


@pytest.mark.sweep
@pytest.mark.parametrize("program", [near, distances])
@pytest.mark.parametrize(("mesh", "axes", "rows"), [(LINE, "x", 24), (GRID, ("y", "x"), 13)])
def test_known_places_that_are_others_in_each_row_stay_in_it(
    program: Callable[..., Any], mesh: Mesh, axes: Any, rows: int
) -> None:
    x = numbers((rows, 2 * rows - 1, 3))
    for function in (program, jax.grad(lambda x: jnp.sum(program(x) ** 2))):
        compiled = run(function, mesh, [[axes, UNSHARDED, UNSHARDED]], x)
        assert sent(compiled) == 0
