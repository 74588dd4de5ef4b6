"""Rolls, shifts and stencils of split dimensions on 8 devices, against one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dtensor.dialect.layout import UNSHARDED
from dtensor.dialect.mesh import Mesh
from tests.py.passes.on_mesh import BOTH, GRID, LINE, run, sent

Form = Callable[[Any], Any]


def numbers(shape: tuple[int, ...], dtype: Any = np.float32) -> np.ndarray[Any, Any]:
    """Small whole numbers, all sums of which are exact."""
    return np.random.default_rng(0).integers(0, 2 if dtype == np.bool_ else 9, shape).astype(dtype)


def rolls(x: Any) -> Any:
    shifts = (1, -1, 3, -5, 7, 11, x.shape[0] // 2)
    return [jnp.roll(x, by, 0) for by in shifts], jnp.roll(x, (2, -3), (0, 1))


def shifts(x: Any) -> Any:
    """Zeros, rows and other values come in where rows go out."""
    padded = jnp.pad(x, ((2, 3), (1, 1)))
    rows = x[4:6] if x.dtype == bool else x[4:6] + x[:2]
    return (
        [padded[i : i + x.shape[0], j : j + x.shape[1]] for i in (0, 1, 2, 5) for j in (0, 2)],
        jnp.concatenate([jnp.ones_like(x[:1]), x[:-1]]),
        jnp.concatenate([x[2:], rows]),
        jnp.concatenate([rows[:1], x[3:-3], rows, x[:3]]),
        jax.lax.pad(x, jnp.ones((), x.dtype), [(-7, 7, 0), (1, -1, 0)]),
    )


def borders(x: Any) -> Any:
    """What jnp.pad can put around a tensor, seen by a stencil of both diagonals."""
    found = []
    for mode in ("edge", "wrap", "reflect", "symmetric"):
        p = jnp.pad(x, 1, mode=mode)
        found.append((p[2:, 2:], p[:-2, 1:-1], p[1:-1, :-2]))
        q = jnp.pad(x, ((3, 2), (2, 2)), mode=mode)
        found.append((q[5:, 4:], q[:-5, 2:-2], q[1:-4, :-4]))
    return found


def filters(x: Any) -> Any:
    """Every second and third element of what goes on at the other end, from any on."""
    y, rows = jnp.concatenate([x, x[:5]]), x.shape[0]
    p = jnp.pad(x, ((4, 3), (2, 2)), mode="wrap")
    thirds = [p[k : k + rows - rows % 3 : 3, ::2] for k in range(5)]
    return [y[k : k + rows : 2] for k in range(6)], thirds, p[5::2, 1:-1:2]


def walls(x: Any) -> Any:
    """Rows and columns at the edge that are those beside them."""
    x = x.at[0].set(x[1]).at[-1].set(x[-2]).at[:, 0].set(x[:, 1]).at[:, -1].set(x[:, -2])
    return x, x.at[5].set(x[5] + x[6]), x.at[7].set(x[2]).at[2].add(x[3])


def nothing(x: Any) -> Any:
    """Rows that are computed of padding alone."""
    zeros = jnp.pad(x, ((x.shape[0], 0), (0, 0)))[:-2]
    rows = x[2:] - zeros[: x.shape[0] - 2]
    return jnp.concatenate([x[:1], rows, x[-1:]]) + x, jnp.concatenate([rows[1:-1], x[:4]])


LAYOUTS: list[tuple[Mesh, list[Any]]] = [
    (GRID, ["x", "y"]),
    (GRID, ["y", "x"]),
    (GRID, BOTH),
    (GRID, [("y", "x"), UNSHARDED]),
    (GRID, [UNSHARDED, ("x", "y")]),
    (LINE, ["x", UNSHARDED]),
]


@pytest.mark.sweep
@pytest.mark.parametrize("form", [rolls, shifts, borders, walls, filters, nothing])
@pytest.mark.parametrize(("mesh", "specs"), LAYOUTS)
def test_rows_move_in_any_layout(form: Form, mesh: Mesh, specs: list[Any]) -> None:
    run(form, mesh, [specs], numbers((16, 24)))


@pytest.mark.parametrize("column", [0, 1])
def test_a_row_that_is_moved_along_itself_is_no_boundary(column: int) -> None:
    """StableHLO may name another dimension than the one that an update lacks: row 0 is set."""
    numbers_ = jax.lax.ScatterDimensionNumbers(
        update_window_dims=(0,), inserted_window_dims=(0,), scatter_dims_to_operand_dims=(1,)
    )

    def form(x: Any) -> Any:  # nothing is set behind the end
        return jax.lax.scatter(x, jnp.array([column]), x[3], numbers_, mode="drop")

    run(form, GRID, [BOTH], numbers((16, 24)))


@pytest.mark.sweep
@pytest.mark.parametrize("dtype", [np.bool_, np.int8, np.uint32, np.float16, np.complex64])
def test_rows_of_any_type_move(dtype: Any) -> None:
    run(lambda x: (rolls(x), shifts(x)), GRID, [["y", "x"]], numbers((8, 10), dtype))


def test_nan_and_infinity_stay_where_they_are() -> None:
    x = numbers((16, 3))
    x[3], x[4], x[15] = np.nan, np.inf, -np.inf
    run(lambda a: (rolls(a[:, :3]), shifts(a)[1:3]), GRID, [BOTH], x)


@pytest.mark.sweep
@pytest.mark.parametrize(
    ("form", "rows"),
    [
        (lambda x: jnp.roll(x, 1, 0), 1),
        (lambda x: jnp.roll(x, 5, 0), 4),  # shards have 4 rows: 3 from one, 1 from the next
        (lambda x: jnp.roll(x, 8, 0), 4),
        (lambda x: jnp.roll(x, -31, 0), 1),
        (lambda x: jnp.diff(x, axis=0, prepend=0.0), 1),
        (lambda x: jnp.pad(x, ((1, 1), (0, 0)))[2:] + jnp.pad(x, ((1, 1), (0, 0)))[:-2], 2),
        (lambda x: jnp.concatenate([jnp.zeros_like(x[:2]), x[:-2]]), 2),
        (lambda x: jnp.pad(x, ((2, 2), (0, 0)), mode="edge")[1:-3], 1),
        (lambda x: jnp.pad(x, ((2, 2), (0, 0)), mode="reflect")[:-4], 2),
        (lambda x: jnp.pad(x, ((2, 2), (0, 0)), mode="symmetric")[4:], 2),
        (lambda x: x.at[0].set(x[1]).at[-1].set(x[-2]), 0),
        (lambda x: x.at[0].set(x[4]), 1),
        (lambda x: jnp.concatenate([x, x[:2]])[2:33:2], 2),
        (lambda x: jnp.concatenate([x, x[:2]])[3::2], 2),
        (lambda x: jnp.pad(x, ((3, 3), (0, 0)))[1:33:4], 2),
        (lambda x: jnp.gradient(x, axis=0), 2),
    ],
)
def test_shards_send_the_rows_that_others_lack(form: Form, rows: int) -> None:
    compiled = run(form, LINE, [["x", UNSHARDED]], numbers((32, 24)))
    assert sent(compiled) == rows * 24 * 4


def test_stencils_send_one_row_and_one_column_each_way() -> None:
    def heat(u: Any) -> Any:
        p = jnp.pad(u, 1)
        return u + p[2:, 1:-1] + p[:-2, 1:-1] + p[1:-1, 2:] + p[1:-1, :-2]

    def wave(u: Any) -> Any:
        return jax.lax.fori_loop(0, 3, lambda _, v: jnp.roll(v, 1, 0) - jnp.roll(v, -1, 1), u)

    u = numbers((256, 256))
    heated = run(heat, GRID, [["x", "y"]], u)
    assert sent(heated) == 2 * (64 + 128) * 4
    assert heated.local_flops <= 1.05 * 4 * 256 * 256 / 8
    assert sent(run(wave, GRID, [["x", "y"]], u)) == 3 * (64 + 128) * 4


def test_a_sliding_window_of_a_cache_takes_the_new_rows_in() -> None:
    def push(cache: Any) -> Any:
        return jnp.concatenate([cache[2:], 2 * jnp.ones((2, cache.shape[1]), cache.dtype)])

    assert sent(run(push, GRID, [BOTH], numbers((32, 6)))) == 2 * 6 * 4


def heat(u: Any) -> Any:
    inner = u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4 * u[1:-1, 1:-1]
    return u.at[1:-1, 1:-1].set(u[1:-1, 1:-1] + 2 * inner)


def interiors(u: Any) -> Any:
    """What is computed of slices, put where it belongs, added up, or both."""
    second = u[2:] - 2 * u[1:-1] + u[:-2]
    return (
        heat(u),
        jnp.pad(second, ((1, 1), (0, 0))),
        jnp.concatenate([u[:2] * 3, second]),
        u.at[3:-3].add(second[2:-2]),
        u.at[1:-1, 2:].multiply(second[:, 2:]),
        u.at[:-2].max(second),
        jnp.sum(jnp.diff(u, axis=0) ** 2) + jnp.sum(jnp.diff(u, axis=1) ** 2),
        jnp.max(second, 0),
        jnp.prod(1 - (u[4:] == u[:-4]), axis=(0, 1)),
        second,
    )


@pytest.mark.sweep
@pytest.mark.parametrize(("mesh", "specs"), LAYOUTS)
def test_interiors_of_split_dimensions(mesh: Mesh, specs: list[Any]) -> None:
    run(interiors, mesh, [specs], numbers((16, 24)))


@pytest.mark.sweep
@pytest.mark.parametrize("dtype", [np.int8, np.uint32, np.float16])
def test_interiors_of_any_type(dtype: Any) -> None:
    run(interiors, GRID, [["y", "x"]], numbers((8, 12), dtype))


def test_what_stands_around_an_interior_is_nobodys() -> None:
    u = numbers((16, 24)) + 1
    u[0], u[-1] = 0, np.inf
    run(lambda v: jnp.pad(1 / v[1:-1], ((1, 1), (0, 0))), GRID, [BOTH], u)
    run(lambda v: jnp.sum(jnp.log(v[1:-1] / v[1:-1])), GRID, [BOTH], u)


def test_constants_of_an_interior_are_made_where_it_stands() -> None:
    twos, sent_rows = np.full((62, 6), 2.0, np.float32), 2 * 6 * 4

    def step(u: Any) -> Any:
        return u.at[1:-1].add((u[2:] + u[:-2]) * twos)

    assert sent(run(step, LINE, [["x", UNSHARDED]], numbers((64, 6)))) == sent_rows


def test_interiors_send_what_stencils_send() -> None:
    def steps(u: Any) -> Any:
        return jax.lax.fori_loop(0, 5, lambda _, v: heat(v) % 16, u)

    def variation(u: Any) -> Any:
        return jnp.sum(jnp.diff(u, axis=0) ** 2) + jnp.sum(jnp.diff(u, axis=1) ** 2)

    u = numbers((64, 96))
    compiled = run(steps, GRID, [["x", "y"]], u)
    assert sent(compiled) == 5 * 2 * (24 + 32) * 4
    compiled = run(variation, GRID, [["x", "y"]], u)
    assert sent(compiled) == (24 + 32) * 4 + 2 * 7 / 8 * 4
    compiled = run(jax.grad(variation), GRID, [["x", "y"]], u)
    assert sent(compiled) == 2 * (24 + 32) * 4
    compiled = run(jax.grad(lambda v: jnp.sum(heat(v) ** 2)), GRID, [["x", "y"]], u)
    assert sent(compiled) == 2 * 2 * (24 + 32) * 4


def test_the_gradient_of_rolls_side_by_side_moves_rows() -> None:
    """JAX writes that of `jnp.roll(x, 0)` with a slice that has no rows, padded to all of them."""

    def total(x: Any) -> Any:
        delayed = jnp.stack([jnp.roll(x, k, 0) for k in range(3)], 1)
        return jnp.sum(delayed * jnp.arange(3.0)[:, None] * delayed)

    compiled = run(jax.grad(total), LINE, [["x", UNSHARDED]], numbers((64, 6)))
    assert sent(compiled) <= 2 * 3 * 6 * 4


def ghosts(kind: str) -> Form:
    """A stencil over what is inside, and rows around that it does not compute."""

    def step(u: Any) -> Any:
        inner = (u[2:] + u[:-2] + 3 * u[1:-1]) % 8
        first, last = {
            "copied": (inner[:1], inner[-1:]),
            "mirrored": (inner[1:2], inner[-2:-1]),
            "around": (inner[-1:], inner[:1]),
            "negated": (-inner[:1], -inner[-1:]),
            "two": (inner[:2][::-1], inner[-1:]),
        }[kind]
        return jnp.concatenate([first, inner, last])[: u.shape[0]]

    return step


@pytest.mark.parametrize("kind", ["copied", "mirrored", "around", "negated", "two"])
def test_ghost_rows_are_copied_of_what_is_computed(kind: str) -> None:
    def steps(u: Any) -> Any:
        return jax.lax.fori_loop(0, 20, lambda _, v: ghosts(kind)(v), u)

    for size in (256, 258):
        compiled = run(steps, LINE, [["x", UNSHARDED]], numbers((size, 6)), out=["x", UNSHARDED])
        if kind != "negated":
            rows = {"around": 4, "two": 3}.get(kind, 2) + (size == 258)
            assert sent(compiled) <= 20 * rows * 6 * 4
    run(jax.grad(lambda u: jnp.sum(ghosts(kind)(u) ** 2)), GRID, [["y", "x"]], numbers((16, 24)))
    run(ghosts(kind), GRID, [[("y", "x"), UNSHARDED]], numbers((32, 5)))


@pytest.mark.parametrize("size", [65, 66, 70])
def test_slices_of_an_uneven_dimension_share_one_exchange(size: int) -> None:
    def middle(u: Any) -> Any:
        return (u[1:] + u[:-1]) * u[:-1]

    def divergence(u: Any, v: Any) -> Any:
        return (u[1:] - u[:-1]) + (v[:, 1:] - v[:, :-1])

    below = ["x", UNSHARDED]
    u, v = numbers((size, 24)), numbers((size - 1, 25))
    compiled = run(divergence, LINE, [below, below], u, v, out=below)
    if size == 65:
        assert sent(compiled) <= 7 * 24 * 4
    run(jax.grad(lambda u: jnp.sum(middle(u) ** 2)), LINE, [below], u, out=below)
    run(middle, GRID, [["y", "x"]], u, out=["y", "x"])
