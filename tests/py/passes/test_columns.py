"""Windows of a few elements at known places, moved inside at the ends, on 8 devices against one."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest

from tests.py.passes.on_mesh import GRID, LINE, numbers, run

N = 8 * 40
SPLIT = ["x"]


def rolling(x: Any) -> Any:
    """The largest of 20, fewer at the start."""
    n = x.shape[0]
    return x[jnp.maximum(jnp.arange(n)[:, None] - jnp.arange(20), 0)].max(1)


def median(x: Any) -> Any:
    n = x.shape[0]
    return jnp.median(x[jnp.clip(jnp.arange(n)[:, None] + jnp.arange(-3, 4), 0, n - 1)], axis=1)


def delays(x: Any) -> Any:
    n = x.shape[0]
    return (x[jnp.arange(n - 15)[:, None] + jnp.arange(0, 16, 5)] ** 2).sum(1)


def hops(x: Any) -> Any:
    n = x.shape[0]
    places = jnp.clip(4 * jnp.arange(n // 4)[:, None] + jnp.arange(-3, 6, 2), 0, n - 1)
    return x[places] @ jnp.arange(5.0)


def around(x: Any) -> Any:
    n = x.shape[0]
    return x[(jnp.arange(n)[:, None] + jnp.array([-9, -1, 2, 11])) % n] @ jnp.arange(4.0)


def turned(x: Any) -> Any:
    n = x.shape[0]
    return x[jnp.clip(jnp.arange(n) + jnp.array([[9], [-1], [2]]), 0, n - 1)].max(0)


PROGRAMS = [rolling, median, delays, hops, around, turned]


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("n", [N, N + 5])
def test_shards_send_what_windows_reach(program: Callable[[Any], Any], n: int) -> None:
    compiled = run(program, LINE, [SPLIT], numbers((n,)), out=SPLIT)
    assert compiled.wire_bytes < 400 < n * 4 * 7 / 8
    run(program, GRID, [[("y", "x")]], numbers((n,)), out=[("y", "x")])


@pytest.mark.sweep
@pytest.mark.parametrize("program", PROGRAMS)
def test_gradients_and_rows(program: Callable[[Any], Any]) -> None:
    def loss(x: Any) -> Any:
        y = program(x)
        return jnp.sum(y * jnp.arange(y.shape[0]).reshape(-1, *[1] * (y.ndim - 1)))

    for n in (N, N + 5):
        run(jax.grad(loss), LINE, [SPLIT], numbers((n,)), error=1e-6, out=SPLIT)
    if program in (rolling, turned):
        run(program, LINE, [["x", None]], numbers((N, 6)), out=["x", None])
        run(jax.grad(loss), GRID, [["y", "x"]], numbers((N, 6)), error=1e-6, out=["y", "x"])
    run(jax.vmap(program, 1, 1), GRID, [["y", "x"]], numbers((N, 6)), out=["y", "x"])


def steps(x: Any) -> Any:
    """Spreads of 16 neighbours, some fewer than there are elements."""
    return x[jnp.arange(x.shape[0] - 15)[:, None] + jnp.arange(16)].std(1)


@pytest.mark.parametrize("program", [steps, delays, turned])
@pytest.mark.parametrize("n", [2048, 2043])
def test_gradients_are_split_as_what_they_are_of(program: Callable[[Any], Any], n: int) -> None:
    """Also if nobody says how: what is added at the places is as what was read there."""

    def loss(x: Any) -> Any:
        return jnp.sin(program(x)).sum()

    x = jnp.sin(jnp.arange(float(n)) ** 2)
    compiled = run(jax.grad(loss), LINE, [SPLIT], x, error=1e-4, absolute=1e-5)
    assert compiled.wire_bytes < 1000 < n * 4 * 7 / 8


@pytest.mark.parametrize("goes_around", [True, False])
def test_what_is_added_at_places_beyond_the_ends(goes_around: bool) -> None:
    places = jnp.arange(N)[:, None] + jnp.arange(-4, 5, 2)
    places = places % N if goes_around else jnp.clip(places, 0, N - 1)

    def added(x: Any, y: Any) -> Any:
        return x.at[places].add(y[:, None] * jnp.arange(5.0))

    compiled = run(added, LINE, [SPLIT, SPLIT], numbers((N,)), numbers((N,)), out=SPLIT)
    assert compiled.wire_bytes < N * 4 * 7 / 8


def overlapped(y: Any, hop: int, is_cut: bool) -> Any:
    """The sum of frames that overlap, into what begins with whole numbers."""
    count, length = y.shape
    places = jnp.arange(count)[:, None] * hop + jnp.arange(length)
    size = (count - 1) * hop + length
    total = jnp.full(size, 3.0).at[places].add(y)
    return total[: count * hop] if is_cut else total


@pytest.mark.parametrize(("hop", "length"), [(4, 16), (4, 14), (3, 7), (5, 10), (6, 6), (6, 5)])
@pytest.mark.parametrize("count", [64, 63])
def test_frames_are_added_up_row_by_row(hop: int, length: int, count: int) -> None:
    def whole(y: Any) -> Any:
        return overlapped(y, hop, False)

    def part(y: Any) -> Any:
        return overlapped(y, hop, True)

    y = numbers((count, length))
    run(whole, LINE, [["x", None]], y, out=["x"])
    if length > hop:
        compiled = run(part, LINE, [["x", None]], y, out=["x"])
        rows = -(-length // hop) - 1
        assert count == 63 or compiled.wire_bytes == rows * hop * 4
    run(
        jax.grad(lambda y: jnp.sum(whole(y) ** 2)), GRID, [["y", "x"]], numbers((count + 1, length))
    )
