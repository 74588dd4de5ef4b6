"""Loops whose carries each trip multiplies and adds to, along split dimensions, on 8 and on one.

Factors are powers of two and zeros, and what is added is whole: all that comes of them is exact.
"""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import dtensor
from dtensor.compiler.stages import Compiled
from dtensor.dialect.layout import UNSHARDED, Layout
from dtensor.dialect.mesh import Mesh
from tests.py.passes.on_mesh import GRID, LINE, one_by_one, run, sent
from tests.py.uneven.on_meshes import FIVE

ROWS = ["x", UNSHARDED]
SLICE = 6 * 4.0  # bytes of a carry


def factors(n: int, dtype: Any = np.float32) -> jax.Array:
    return jnp.asarray(np.random.default_rng(0).choice([-1, 1, 0.5, -0.5, 1, 0], (n, 6)), dtype)


def whole(n: int, dtype: Any = np.float32) -> jax.Array:
    return jnp.asarray(np.random.default_rng(1).integers(-3, 4, (n, 6)), dtype)


def linear(a: jax.Array, b: jax.Array) -> Any:
    """The recurrence, and what it starts and ends with."""

    def step(h: Any, ab: Any) -> Any:
        after = ab[0] * h - ab[1]
        return after, (h, after)

    return lax.scan(step, jnp.ones_like(b[0]), (a, b))


def stopped(a: jax.Array, b: jax.Array) -> Any:
    """From the last element on, beginning anew where a factor is not positive."""

    def step(h: Any, ab: Any) -> Any:
        h = jnp.where(ab[0] > 0, h, ab[1]) * ab[0] + ab[1] / 2
        return h, h

    return lax.scan(step, jnp.ones_like(b[0]), (a, b), reverse=True)


def several(a: jax.Array, b: jax.Array) -> Any:
    """Two carries that depend on each other, one that is only set, a sum, and a count."""

    def step(carry: Any, ab: Any) -> Any:
        h, g, last, total, n = carry
        a, b = ab
        after = (a * h, g - a * last, b, total + jnp.sum(b * h), n + 2)
        return after, (g.sum() + n, last)

    start = (jnp.ones_like(b[0]), *2 * (jnp.zeros_like(b[0]),), jnp.zeros((), b.dtype), 3)
    return lax.scan(step, start, (a, b))


def products(a: jax.Array, b: jax.Array) -> Any:
    """What is added is a product with a matrix, and so is what is read."""
    w = jnp.arange(36, dtype=b.dtype).reshape(6, 6) % 3 - 1

    def step(h: Any, ab: Any) -> Any:
        added = jnp.concatenate([(w @ ab[1])[:3], (ab[1] @ w)[3:]])[::-1]
        h = (
            ab[0] * h
            + added
            + jnp.pad(ab[1][1:], (1, 0))
            + jnp.einsum("i,ij,j->j", ab[1], w, ab[1])
        )
        return h, (w @ h, jnp.max(h), h[None] * w.T)

    return lax.scan(step, jnp.zeros_like(b[0]), (a, b))


def by_hand(a: jax.Array, b: jax.Array) -> Any:
    """Along columns, by the place of each."""
    a, b = a.T, b.T

    def step(i: Any, carry: Any) -> Any:
        h, y = carry
        h = a[:, i] * h + b[:, i] * (i % 3).astype(b.dtype)
        return h, y.at[:, i].set(h)

    return lax.fori_loop(0, a.shape[1], step, (jnp.zeros_like(a[:, 0]), jnp.zeros_like(a)))


def filtered(a: jax.Array, b: jax.Array, reverse: bool = False) -> Any:
    """By gains that depend on one another and on nothing else, as those of a Kalman filter."""

    def step(carry: Any, ab: Any) -> Any:
        h, gain, n = carry
        h = gain * h + ab[0] * ab[1]
        n = (n * n + 3) % 7
        after = (h, jnp.where(n > 3, 1 / gain, -gain).astype(b.dtype), n)
        return after, (h, gain)

    start = (jnp.ones_like(b[0]), jnp.full_like(b[0], 0.5), jnp.int32(5))
    return lax.scan(step, start, (a, b), reverse=reverse)


def filtered_backwards(a: jax.Array, b: jax.Array) -> Any:
    return filtered(a, b, True)


PROGRAMS: list[Callable[..., Any]] = [linear, stopped, several, products, by_hand]
PROGRAMS += [filtered, filtered_backwards]


def totals_alone(compiled: Compiled, carries: int = 1) -> bool:
    """Whether no more than a few carries are sent, and no array."""
    return 0 < sent(compiled) <= (12 * carries + 12) * SLICE


MESHES = [(301, LINE, "x"), (320, GRID, "y"), (301, GRID, ("x", "y")), (320, FIVE, "x")]
# Each program on two meshes, one of which divides its trips.
SPLIT = [
    pytest.param(*split, program, id=f"{program.__name__}-{k}")
    for i, program in enumerate(PROGRAMS)
    for k, split in enumerate(MESHES)
    if (i + k // 2) % 2 == k % 2
]


@pytest.mark.sweep
@pytest.mark.parametrize(("n", "mesh", "axes", "program"), SPLIT)
def test_only_totals_are_sent(n: int, mesh: Mesh, axes: Any, program: Callable[..., Any]) -> None:
    rows = [axes, UNSHARDED]
    compiled = run(program, mesh, [rows, rows], factors(n), whole(n))
    assert totals_alone(compiled, 3 if program is several else 1)


@pytest.mark.sweep
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_another_axis_splits_what_is_carried(program: Callable[..., Any]) -> None:
    rows = ["y", "x"]
    run(program, GRID, [rows, rows], factors(61), whole(61))


@pytest.mark.sweep
@pytest.mark.parametrize("n", [64, 61, 37])
@pytest.mark.parametrize("program", [linear, stopped], ids=lambda f: f.__name__)
@pytest.mark.parametrize(
    "spots",
    [
        [(5, 1, np.nan), (20, 2, np.inf), (33, 2, -np.inf), (36, 4, np.nan)],
        [(0, 0, np.inf), (35, 5, np.nan)],
    ],
)
def test_what_is_not_finite_goes_where_it_goes_on_one_device(
    n: int, program: Callable[..., Any], spots: list[Any]
) -> None:
    a, b = np.array(factors(n)), np.array(whole(n))
    for row, column, value in spots:
        b[row, column] = value
    run(program, LINE, [ROWS, ROWS], a, b)
    run(program, LINE, [ROWS, ROWS], b, a)


def test_factors_whose_product_is_not_finite_are_multiplied_one_by_one() -> None:
    a, b = np.full((64, 6), 2.0**40, np.float32), np.zeros((64, 6), np.float32)
    b[3, 1], b[50, 2], b[62] = 2.0**-140, 2.0**-100, 1
    start = jax.jit(lambda a, b: lax.scan(lambda h, ab: (ab[0] * h + ab[1],) * 2, 0 * b[0], (a, b)))
    compiled = run(start, LINE, [ROWS, ROWS], a, b)
    assert totals_alone(compiled)


def test_a_body_stands_twice() -> None:
    """For what trips do to a carry, and for what they write; if need be that runs again."""

    def step(h: Any, b: Any) -> Any:
        h = jnp.sin(b) * h + b
        return h, h

    def program(b: Any) -> Any:
        return lax.scan(step, b[0], b)[1]

    assert totals_alone(run(program, LINE, [ROWS], factors(64), error=1e-5))
    jitted = dtensor.jit(program, mesh=LINE, in_layouts=(Layout(ROWS, LINE),))
    assert jitted.lower(factors(64)).as_text().count("stablehlo.sine") == 2


@pytest.mark.sweep
@pytest.mark.parametrize("dtype", [jnp.bfloat16, jnp.float16, jnp.float64, jnp.complex64])
def test_elements_of_any_inexact_type(dtype: Any) -> None:
    with jax.enable_x64(dtype == jnp.float64):
        signs = jnp.asarray(np.sign(factors(61)), dtype)
        turns = signs * (1j if dtype == jnp.complex64 else 1)
        compiled = run(linear, LINE, [ROWS, ROWS], turns, jnp.asarray(np.sign(whole(61)), dtype))
    assert {c.kind for c in compiled.collectives} <= {"all_reduce", "shard_permute"}


def test_both_loops_of_a_gradient_send_totals() -> None:
    signs = jnp.asarray(np.sign(factors(320)))

    def of_factors(a: Any, b: Any) -> Any:
        return jax.grad(lambda a, b: jnp.sum(linear(a, b)[1][1] * b), (0, 1))(a, b)

    assert totals_alone(run(of_factors, LINE, [ROWS, ROWS], signs, whole(320)), 2)

    def of_weights(b: Any, w: Any) -> Any:
        def loss(w: Any) -> Any:
            step = jax.checkpoint(lambda h, x: (w * h + x, w * h))
            return jnp.sum(lax.scan(step, 0 * b[0], b)[1] * b)

        return jax.grad(loss)(w)

    assert totals_alone(run(of_weights, LINE, [ROWS, None], whole(320), signs[5]), 2)


@pytest.mark.parametrize("out", [ROWS, None])
def test_a_loop_over_what_another_loop_in_blocks_gives_is_in_blocks(out: Any) -> None:
    """Also where no layout given leads there, but for that of the first loop."""

    def smoothed(b: Any) -> Any:
        once = lax.scan(lambda h, x: (h / 2 + x,) * 2, 0 * b[0], b)[1]
        return lax.scan(lambda h, x: (x - h / 2,) * 2, 0 * b[0], jnp.abs(once) * 2, reverse=True)[1]

    compiled = run(smoothed, LINE, [ROWS], whole(320), out=out, error=1e-6, absolute=1e-5)
    assert totals_alone(compiled, 2)


def test_states_that_a_loop_keeps_for_its_gradient_stay_where_they_are() -> None:
    """They are larger than what is given, and split as the trips that write them."""

    def loss(keys: Any, values: Any) -> Any:
        def step(state: Any, now: Any) -> Any:
            key, value = now
            state = state / 2 + key[:, None] * value
            return state, jnp.sum(state**2, 0)

        return jnp.sum(lax.scan(step, jnp.zeros((6, 6)), (keys, values))[1])

    given = jax.grad(loss, (0, 1)), LINE, [ROWS, ROWS], whole(512) / 4, whole(512) / 8
    compiled = run(*given, error=1e-5, absolute=1e-5)
    assert sent(compiled) <= 16 * 6 * SLICE  # a few states, of 512 that the trips keep


def test_generalised_advantages() -> None:
    def advantages(rewards: Any, values: Any, done: Any) -> Any:
        def step(carry: Any, now: Any) -> Any:
            advantage, after = carry
            reward, value, done = now
            left = reward + 0.5 * after * (1 - done) - value
            advantage = left + 0.25 * (1 - done) * advantage
            return (advantage, value), advantage

        start = (jnp.zeros_like(values[0]), jnp.ones_like(values[0]))
        return lax.scan(step, start, (rewards, values, done), reverse=True)[1]

    n = np.random.default_rng(2)
    given = [n.normal(size=999).astype(np.float32) for _ in range(2)]
    done = (n.random(999) < 0.1).astype(np.float32)
    compiled = run(advantages, LINE, [["x"]] * 3, *given, done, error=1e-5, absolute=1e-6)
    assert sent(compiled) < 150
    kinds = {record["kind"] for record in compiled.ledger["records"]}
    assert not kinds & {"warning", "fallback"}


def test_under_strict_its_own_moves_are_no_error() -> None:
    """What blocks leave moves to the scan that combines it: nobody could ask for that."""
    shapes = [jax.ShapeDtypeStruct((4096, 24), np.float32)] * 2
    given = Layout(ROWS, LINE)
    strict = dtensor.CompileOptions(strict=True)

    def compiled(function: Callable[..., Any]) -> dtensor.Lowered:
        return dtensor.jit(function, in_layouts=(given, given), options=strict).lower(*shapes)

    moved = [r for r in compiled(linear).ledger["records"] if r["kind"] == "relayout"]
    assert moved
    assert all(r["asked_for"] for r in moved)
    with pytest.raises(dtensor.StrictError, match="strict: "):
        compiled(lambda a, b: (linear(a, b)[1][0], a @ a.T)).as_text()


def test_a_loop_that_only_its_result_splits_sends_nothing() -> None:
    def decay(start: Any) -> Any:
        return lax.scan(lambda h, _: (h * 0.5 + 1, h), start, None, 320)[1]

    assert sent(run(decay, LINE, [None], whole(1)[0], out=ROWS)) == 0


def test_the_last_carry_alone() -> None:
    def last(a: Any, b: Any) -> Any:
        return lax.scan(lambda h, ab: (ab[0] * h + ab[1], None), b[0], (a, b))[0]

    assert totals_alone(run(last, LINE, [ROWS, ROWS], factors(320), whole(320)))


def test_a_loop_of_scalars_under_vmap() -> None:
    def one(a: Any, b: Any) -> Any:
        return lax.scan(lambda h, ab: (ab[0] * h + ab[1],) * 2, 0.0, (a, b))[1]

    given = factors(320), whole(320)
    assert totals_alone(run(jax.vmap(one, 1, 1), LINE, [ROWS, ROWS], *given))


def test_a_loop_in_a_loop() -> None:
    def epochs(a: Any, b: Any) -> Any:
        return lax.fori_loop(0, 3, lambda _, b: linear(a, b)[1][1] * 0.5, b)

    run(epochs, LINE, [ROWS, ROWS], factors(64), whole(64))


def test_a_loop_in_blocks_in_a_loop_in_blocks() -> None:
    """The outer one is, and takes the inner one with it."""

    def scales(a: Any) -> Any:
        def scale(_: None, times: Any) -> Any:
            return None, lax.scan(lambda c, row: (c * 0.5 + row, c), a[0], a * times)[1]

        return lax.scan(scale, None, jnp.arange(6.0))[1]

    run(scales, GRID, [["y", UNSHARDED]], whole(64), out=["x", "y", UNSHARDED])


def turned(a: Any, b: Any) -> Any:
    """A state of four, of each of three rows, by a matrix that only moves and changes signs."""
    w = jnp.asarray(np.eye(4)[[2, 0, 3, 1]] * [1, -1, 1, -1], b.dtype)

    def step(h: Any, now: Any) -> Any:
        a, b = now
        h = a[:3, None] * (h @ w) + b[3:, None]
        return h, h.sum(0)

    return lax.scan(step, jnp.ones((3, 4), b.dtype), (a, b), reverse=True)


def by_matrices(a: Any, b: Any) -> Any:
    """A matrix for each trip, and a carry of another shape that is added."""
    signs = jnp.asarray(np.eye(3)[[1, 2, 0]], b.dtype) * a[:, :3, None]

    def step(carry: Any, now: Any) -> Any:
        h, g = carry
        w, b = now
        return (jnp.einsum("ij,bj->bi", w, h) + g[:, None], b[:2] - g), h

    return lax.scan(step, (jnp.ones((2, 3), b.dtype), jnp.zeros(2, b.dtype)), (signs, b))


def delayed(a: Any, b: Any) -> Any:
    """A filter that keeps what it gave last in a vector."""

    def step(z: Any, now: Any) -> Any:
        a, b = now
        new = b - z[:, 1] + a * z[:, 3] / 2
        z = jnp.concatenate([new[:, None], z[:, :-1]], 1)
        return z, z[::-1]

    return lax.scan(step, jnp.zeros((6, 4), b.dtype), (jnp.zeros_like(a), b))


def crossed(a: Any, b: Any) -> Any:
    """Rows that become columns."""

    def step(h: Any, now: Any) -> Any:
        a, b = now
        h = h.mT * a[:3, None, None] + b[3:, None, None]
        return h, h[:, 0]

    return lax.scan(step, jnp.arange(12.0).reshape(3, 2, 2), (a, b))


@pytest.mark.sweep
@pytest.mark.parametrize(
    "program", [turned, by_matrices, delayed, crossed], ids=lambda f: f.__name__
)
@pytest.mark.parametrize(
    ("n", "mesh", "axes"), [(1600, LINE, "x"), (1501, GRID, "y"), (1501, FIVE, "x")]
)
def test_states_of_a_few_elements_are_multiplied_by_matrices(
    n: int, mesh: Mesh, axes: Any, program: Callable[..., Any]
) -> None:
    rows = [axes, UNSHARDED]
    few = jnp.where(jnp.arange(n)[:, None] % 50 == 0, whole(n), 0)  # sums stay small
    signs = jnp.where(factors(n) > 0, 1.0, -1.0)  # all blocks matter
    compiled = run(program, mesh, [rows, rows], signs, few)
    assert totals_alone(compiled, 8)


def test_gradients_of_a_state_that_a_matrix_multiplies() -> None:
    def loss(w: Any, b: Any) -> Any:
        step = lambda h, x: ((w @ h + x), w @ h)  # noqa: E731
        return jnp.sum(lax.scan(step, 0 * b[0], b)[1] * b)

    w = np.random.default_rng(4).normal(size=(4, 4)).astype(np.float32) / 4
    run(
        jax.grad(loss, (0, 1)),
        LINE,
        [None, ROWS],
        w,
        whole(333)[:, :4],
        error=1e-4,
        absolute=1e-3,
    )


# What comes into a block is still there, in other elements, when it ends.
LINEAR: list[Callable[..., Any]] = [
    lambda h, a, b: h[::-1] + b,
    lambda h, a, b: jnp.roll(h, 1) * a + b,
    lambda h, a, b: jnp.pad(h, (1, 1))[2:] + jnp.pad(h[:1], (3, 0)) * a + b,
    lambda h, a, b: lax.pad(h, 0.0, [(1, -1, 0)]) + jnp.pad(h[3:], (0, 3)) + b,
    lambda h, a, b: h.sum() / 8 + a * h[2] / 4 + b,
    lambda h, a, b: h.reshape(2, 2).T.reshape(4) + b,
    lambda h, a, b: jnp.eye(4)[::-1] @ h + b,
    lambda h, a, b: jnp.where(a > -2, h[::-1], -b),
    lambda h, a, b: h[2] * a - lax.dynamic_slice(h, (1,), (1,)) * jnp.eye(4)[2] + b,
    lambda h, a, b: jnp.stack([h[1], h[0] * a[0], *h[2:]]) + b,
    lambda h, a, b: lax.cumsum(jnp.where(jnp.arange(4) == 0, a, 0)) * h[::-1] + b,
    lambda h, a, b: lax.reduce(h[None] * jnp.eye(4)[::-1], 1.0, lax.add, (1,)) - 1 + b,
]


def scanned(step: Callable[..., Any], start: Any, a: Any, b: Any) -> Any:
    """The carries after each trip, and the last."""

    def trip(h: Any, ab: Any) -> Any:
        h = step(h, *ab)
        return h, h

    return lax.scan(trip, start, (a, b))


@pytest.mark.sweep
@pytest.mark.parametrize("step", LINEAR, ids=range(len(LINEAR)))
def test_elements_that_meet(step: Callable[..., Any]) -> None:
    program = partial(scanned, step, jnp.arange(1.0, 5.0) * 1000)
    signs = jnp.where(factors(648)[:, :4] > 0, 1, -1)
    few = jnp.where(jnp.arange(648)[:, None] % 20 == 0, whole(648)[:, :4], 0)
    compiled = run(program, LINE, [ROWS, ROWS], signs.astype(np.float32), few, error=1e-4)
    assert totals_alone(compiled, 8)


UNLIKE: list[Callable[..., Any]] = [
    lambda h, a, b: jnp.tanh(h) + b,
    lambda h, a, b: h * h + b,
    lambda h, a, b: a / (2 + h),
    lambda h, a, b: jnp.where(h > 0, h, b),
    lambda h, a, b: h.astype(jnp.bfloat16).astype(jnp.float32) + b,
    lambda h, a, b: jnp.maximum(h, h * b),
    lambda h, a, b: jnp.max(h) + b,
    lambda h, a, b: (h * h[::-1]) + b,
    lambda h, a, b: jnp.outer(h, h) @ b,
    lambda h, a, b: jnp.pad(h[1:], (0, 1), constant_values=1) * jnp.tanh(h) + b,
    lambda h, a, b: jnp.convolve(a, jnp.ones(3), mode="same") * h + b,  # has no rule for blocks
]


@pytest.mark.sweep
@pytest.mark.parametrize("step", UNLIKE, ids=range(len(UNLIKE)))
def test_other_loops_run_one_block_after_another(step: Callable[..., Any]) -> None:
    program = partial(scanned, step, jnp.ones(6))
    small = factors(320) / 4, whole(320) / 4
    compiled = run(program, LINE, [ROWS, ROWS], *small, error=1e-5, absolute=1e-6)
    assert totals_alone(compiled) == one_by_one(compiled) == (step is not UNLIKE[-1])


def test_trips_that_walk_along_nothing_are_not_listed() -> None:
    def program(a: Any) -> Any:
        return lax.fori_loop(0, 2_000_000_000, lambda _, h: h * 0.5 + a[0], jnp.zeros(4))

    array = jax.ShapeDtypeStruct((64, 4), jnp.float32)
    tracemalloc.start()
    try:
        dtensor.jit(program, in_layouts=dtensor.Layout(ROWS, LINE)).lower(array).explain()
        assert tracemalloc.get_traced_memory()[1] < 1e9  # a number for each trip takes more
    finally:
        tracemalloc.stop()
