"""Reductions by bodies that are no one known combiner, on 8 devices against one.

Whole numbers are compared exactly: they wrap alike in any order, and a wrong order shows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dtensor.compiler.mlir_frontend import compile_mlir
from dtensor.dialect.axes import AxisRef
from dtensor.dialect.layout import UNSHARDED, Layout
from dtensor.dialect.mesh import Mesh
from dtensor.runtime.client import create_mesh
from tests.py.passes.on_mesh import GRID, LINE, kinds, run, sent
from tests.py.uneven.on_meshes import SIX, check, cuts, gathered, split

THREE = create_mesh([("x", 3), ("y", 2)])
Array = np.ndarray[Any, Any]
Body = Callable[[Any, Any], Any]


def complex_product(left: Any, right: Any) -> Any:
    (a, b), (c, d) = left, right
    return a * c - b * d, a * d + b * c


def affine(left: Any, right: Any) -> Any:
    """Maps x to a x + b, one after the other: it does not commute."""
    (a, b), (c, d) = left, right
    return a * c, b * c + d


def quaternions(left: Any, right: Any) -> Any:
    (a, b, c, d), (e, f, g, h) = left, right
    return (
        a * e - b * f - c * g - d * h,
        a * f + b * e + c * h - d * g,
        a * g - b * h + c * e + d * f,
        a * h + b * g - c * f + d * e,
    )


def welford(left: Any, right: Any) -> Any:
    (mean, square, count), (other, more, others) = left, right
    total, apart = count + others, other - mean
    return mean + apart * others / total, square + more + apart**2 * count * others / total, total


def circle(a: Any, b: Any) -> Any:
    """(1 + a) (1 + b) - 1."""
    return a + b + a * b


def largest_number(a: Any, b: Any) -> Any:
    """The larger of two, or the one that is a number."""
    return jnp.where(a != a, b, jnp.where(b != b, a, jnp.maximum(a, b)))


def numbers(count: int, shape: tuple[int, ...], kind: Any = np.int32) -> list[Array]:
    draw = np.random.default_rng(len(shape) + count)
    return [draw.integers(-9, 9, shape).astype(kind) for _ in range(count)]


def reduce(values: Sequence[Any], inits: Sequence[Any], body: Body, dims: tuple[int, ...]) -> Any:
    starts = tuple([np.asarray(n, value.dtype) for n, value in zip(inits, values, strict=True)])
    if len(values) == 1:
        return jax.lax.reduce(values[0], starts[0], body, dims)
    return jax.lax.reduce(tuple(values), starts, body, dims)


BODIES: dict[str, tuple[Body, tuple[float, ...]]] = {
    "complex product": (complex_product, (1, 0)),
    "affine": (affine, (1, 0)),
    "quaternions": (quaternions, (1, 0, 0, 0)),
    "circle": (circle, (0,)),
    "xor": (jax.lax.bitwise_xor, (0,)),
}
MESHES: list[tuple[Mesh, list[Any]]] = [
    (LINE, ["x", UNSHARDED, UNSHARDED]),
    (LINE, [UNSHARDED, UNSHARDED, "x"]),
    (GRID, ["x", "y", UNSHARDED]),
    (GRID, ["y", UNSHARDED, "x"]),
    (GRID, [("y", "x"), UNSHARDED, UNSHARDED]),
    (THREE, [UNSHARDED, ("x", "y"), UNSHARDED]),
    (THREE, ["y", "x", UNSHARDED]),
    (LINE, [AxisRef("x", 2, 4), AxisRef("x", 1, 2), UNSHARDED]),  # parts of an axis
]


@pytest.mark.sweep
@pytest.mark.parametrize("name", BODIES)
@pytest.mark.parametrize(("mesh", "specs"), MESHES)
def test_any_body_along_any_dimensions(name: str, mesh: Mesh, specs: list[Any]) -> None:
    body, inits = BODIES[name]

    def some(*values: Any) -> Any:
        return [reduce(values, inits, body, dims) for dims in ((0,), (1,), (0, 1), (0, 1, 2))]

    values = numbers(len(inits), (24, 48, 16))
    run(some, mesh, [specs] * len(inits), *values)


@pytest.mark.parametrize("name", BODIES)
def test_init_values_are_met_once(name: str) -> None:
    body, inits = BODIES[name]
    starts = [n + 3 for n in range(len(inits))]
    values = numbers(len(inits), (64, 24))
    for dims in ((0,), (1,)):

        def one(*values: Any, dims: tuple[int, ...] = dims) -> Any:
            return reduce(values, starts, body, dims)

        run(one, GRID, [["x", "y"]] * len(inits), *values)


def scalars(a: Any) -> Any:
    return reduce([a], [0], circle, (0, 1)), reduce([a], [0], circle, (0,))


@pytest.mark.parametrize("kind", [np.float32, jnp.bfloat16, np.complex64, np.uint8])
def test_any_element_type(kind: Any) -> None:
    # Powers of two less one: products of sums are exact.
    x = np.random.default_rng(0).choice([0, -0.5, 1], (64, 8), p=[0.8, 0.1, 0.1]).astype(kind)
    run(scalars, GRID, [["y", "x"]], x)


def test_truth_values() -> None:
    x = np.random.default_rng(0).integers(0, 2, (64, 24)).astype(bool)
    run(lambda a: reduce([a], [False], jax.lax.bitwise_xor, (0,)), GRID, [["y", "x"]], x)


def moments(a: Any) -> Any:
    return reduce([a, jnp.zeros_like(a), jnp.ones_like(a)], [0, 0, 0], welford, (0, 1))


def log_sum(a: Any) -> Any:
    return reduce([a], [-np.inf], jnp.logaddexp, (0, 1))


@pytest.mark.parametrize("function", [moments, log_sum])
def test_bodies_that_commute_send_totals_of_tiles(function: Any) -> None:
    x = np.random.default_rng(0).normal(size=(256, 64)).astype(np.float32)
    compiled = run(function, GRID, [["x", "y"]], x, error=1e-5, absolute=1e-5)  # 16384 floats
    assert sent(compiled) == 7 * 4 * (3 if function is moments else 1)


def test_the_order_of_tiles_is_kept() -> None:
    def both(a: Any, b: Any) -> Any:
        return reduce([a, b], [1, 0], affine, (0, 1))

    # Inner shards are not contiguous: the axis is moved to the outer dimension.
    compiled = run(both, GRID, [["x", "y"]] * 2, *numbers(2, (256, 64)))
    assert sent(compiled) < 2 * 256 * 64 * 4 / 8
    compiled = run(both, GRID, [[("x", "y"), UNSHARDED]] * 2, *numbers(2, (256, 64)))
    assert sent(compiled) == 2 * 7 * 4


@pytest.mark.parametrize("specs", [["x", UNSHARDED], [UNSHARDED, "x"], ["x", "y"]])
def test_elements_are_reduced_in_order_however_dimensions_are_listed(specs: list[Any]) -> None:
    """So the specification has it; one of XLA's emitters takes dimensions as they are listed."""
    program = """
    func.func @main(%a: tensor<4x8xi32>, %b: tensor<4x8xi32>) -> (tensor<i32>, tensor<i32>) {
      %zero = stablehlo.constant dense<0> : tensor<i32>
      %one = stablehlo.constant dense<1> : tensor<i32>
      %0:2 = stablehlo.reduce(%a init: %one), (%b init: %zero) across dimensions = [1, 0]
          : (tensor<4x8xi32>, tensor<4x8xi32>, tensor<i32>, tensor<i32>)
          -> (tensor<i32>, tensor<i32>)
        reducer(%l: tensor<i32>, %r: tensor<i32>) (%m: tensor<i32>, %s: tensor<i32>) {
          %1 = stablehlo.multiply %l, %r : tensor<i32>
          %2 = stablehlo.multiply %m, %r : tensor<i32>
          %3 = stablehlo.add %2, %s : tensor<i32>
          stablehlo.return %1, %3 : tensor<i32>, tensor<i32>
        }
      return %0#0, %0#1 : tensor<i32>, tensor<i32>
    }
    """
    a, b = (1 + values % 2 for values in numbers(2, (4, 8)))
    wanted = (1, 0)
    for each in zip(a.flat, b.flat, strict=True):
        wanted = affine(wanted, tuple(map(int, each)))
    layout = Layout(specs, GRID)
    found = compile_mlir(program, mesh=GRID, in_layouts=[layout, layout])(a, b)
    for value, number in zip(found, wanted, strict=True):
        assert int(np.asarray(value.to_jax())) % 2**32 == number % 2**32


@pytest.mark.parametrize("name", BODIES)
def test_blocks_of_which_each_is_split(name: str) -> None:
    body, inits = BODIES[name]

    def rows(*values: Any) -> Any:
        blocks = [split(value, GRID, ("x", 3, "y")) for value in values]
        return reduce(blocks, inits, body, (0,))

    run(rows, GRID, [None] * len(inits), *numbers(len(inits), (48, 8)))


def test_a_choice_keeps_the_order_of_tiles() -> None:
    x = np.zeros((8, 16), np.int32)
    x[5, 0] = x[1, 12] = 7
    place = np.arange(128, dtype=np.int32).reshape(8, 16)
    run(lambda a, b: reduce([a, b], [-9, -1], first, (0, 1)), GRID, [["x", "y"]] * 2, x, place)


def last(left: Any, right: Any) -> Any:
    """Of equal ones the last, and what comes with it."""
    is_left = left[0] > right[0]
    return jnp.where(is_left, left[0], right[0]), jnp.where(is_left, left[1], right[1])


def test_a_choice_meets_its_init_values_once() -> None:
    x, place = np.full((13, 4), -5, np.int32), np.arange(52, dtype=np.int32).reshape(13, 4)
    x[3, 1] = x[12, 2] = 0  # as large as the init value, which it comes behind

    def one(a: Any, b: Any) -> Any:
        return reduce([a, b], [0, -1], last, (0,))

    check(one, x, place, mesh=LINE, in_layouts=(Layout(["x", None], LINE),) * 2)
    run(one, LINE, [["x", UNSHARDED]] * 2, x[:8], place[:8])


def test_what_is_neither_nan_nor_absent() -> None:
    x = np.random.default_rng(0).normal(size=(64, 24)).astype(np.float32)
    x[:, 1] = np.nan
    x[9, 2], x[40, 3], x[3, 4] = np.nan, np.inf, -np.inf
    run(lambda a: reduce([a], [-np.inf], largest_number, (0,)), LINE, [["x", UNSHARDED]], x)
    compiled = run(
        lambda a: reduce([a], [-np.inf], jnp.logaddexp, (0,)),
        LINE,
        [["x", UNSHARDED]],
        x,
        error=1e-5,  # sums of 64 floats
    )
    assert kinds(compiled) == {"all_to_all", "all_gather"}
    assert "because reduce needs" in compiled.explain()


def test_wide_results_are_shared_among_the_shards() -> None:
    def rows(a: Any, b: Any) -> Any:
        return reduce([a, b], [1, 0], affine, (1,))

    def of(count: int, out: Any = None) -> float:
        values = numbers(2, (count, 64))
        return sent(run(rows, LINE, [[UNSHARDED, "x"]] * 2, *values, out=out))

    assert of(96) == 2 * 2 * 7 / 8 * 96 * 4
    assert of(96, ["x"]) == 2 * 7 / 8 * 96 * 4
    assert of(9) == 2 * 7 * 9 * 4


def test_loops_and_batches() -> None:
    def loop(a: Any, b: Any) -> Any:
        def step(_: Any, carried: Any) -> Any:
            c, d = reduce([*carried], [1, 0], affine, (0,))
            return carried[0] + c, carried[1] - d

        return jax.lax.fori_loop(0, 5, step, (a, b))

    values = numbers(2, (64, 24))
    run(loop, GRID, [["x", "y"]] * 2, *values)
    run(jax.vmap(loop, 1, 1), GRID, [["x", "y"]] * 2, *values)


def test_gradients() -> None:
    def loss(a: Any, b: Any) -> Any:
        c, d = reduce([a, b], [1, 0], complex_product, (0,))
        return jnp.sum(c * d)

    draw = np.random.default_rng(0)
    values = [(draw.normal(size=(64, 8)) / 4 + one).astype(np.float32) for one in (1, 0)]
    run(jax.grad(loss, (0, 1)), GRID, [["y", "x"]] * 2, *values, error=1e-4, absolute=1e-5)


WINDOWS: list[dict[str, Any]] = [
    {"window_dimensions": (5, 1), "window_strides": (1, 1), "padding": "SAME"},
    {"window_dimensions": (5, 3), "window_strides": (1, 1), "padding": "VALID"},
    {"window_dimensions": (3, 2), "window_strides": (2, 1), "padding": ((1, 0), (1, 1))},
    {
        "window_dimensions": (2, 1),
        "window_strides": (1, 1),
        "padding": ((1, 2), (0, 0)),
        "window_dilation": (3, 1),
    },
]


# In which order XLA combines the elements of a window of two dimensions, it does not promise.
IN_ORDER = [
    (name, window)
    for window in WINDOWS
    for name in BODIES
    if name not in ("affine", "quaternions") or 1 in window["window_dimensions"]
]


@pytest.mark.sweep
@pytest.mark.parametrize(("name", "window"), IN_ORDER)
def test_windows_meet_their_init_values_once(name: str, window: dict[str, Any]) -> None:
    body, inits = BODIES[name]
    starts = [np.int32(n + 3) for n in range(len(inits))]

    def windows(*values: Any) -> Any:
        if len(values) == 1:
            return jax.lax.reduce_window(values[0], starts[0], body, **window)
        return jax.lax.reduce_window(values, tuple(starts), body, **window)

    # On each mesh rows that divide, or that do not, in turn.
    turn = WINDOWS.index(window) + [*BODIES].index(name)
    meshes: list[tuple[Mesh, list[Any]]] = [(LINE, ["x", None]), (GRID, ["x", "y"])]
    for k, (mesh, specs) in enumerate(meshes):
        layouts = [Layout(specs, mesh)] * len(inits)
        values = numbers(len(inits), ((64, 61)[(turn + k) % 2], 16))
        compiled = check(windows, *values, mesh=mesh, in_layouts=tuple(layouts))
        assert mesh is GRID or not gathered(compiled)


def test_nan_beside_the_padding_of_windows() -> None:
    def pooled(a: Any, b: Any) -> Any:
        def pool(a: Any) -> Any:
            return jax.lax.reduce_window(a, -jnp.inf, jax.lax.max, (3, 1), (1, 1), "SAME")

        return jax.jvp(pool, (a,), (b,))[1]

    x, tangent = (value.astype(np.float32) for value in numbers(2, (64, 9)))
    x[[0, 40, 63]] = np.nan
    compiled = run(pooled, LINE, [["x", UNSHARDED]] * 2, x, tangent)
    assert kinds(compiled) == {"halo_exchange"}


def first(left: Any, right: Any) -> Any:
    """Of equal ones the first, and what comes with it."""
    is_left = left[0] >= right[0]
    return jnp.where(is_left, left[0], right[0]), jnp.where(is_left, left[1], right[1])


@pytest.mark.parametrize("body", [first, last])
def test_windows_that_choose(body: Any) -> None:
    def windows(a: Any, b: Any) -> Any:
        return jax.lax.reduce_window((a, b), (0, -1), body, (3, 1), (1, 1), "SAME")

    x, place = np.full((16, 9), -5, np.int32), np.arange(144, dtype=np.int32).reshape(16, 9)
    x[15, 1] = x[7, 2] = x[8, 2] = 0  # as large as the init value
    compiled = run(windows, LINE, [["x", UNSHARDED]] * 2, x, place)
    assert kinds(compiled) == {"halo_exchange"}


UNEVEN: list[tuple[Mesh, list[Any], tuple[int, ...]]] = [
    (LINE, ["x", None], (13, 4)),
    (LINE, ["x", None], (5, 4)),  # shards that hold nothing
    (GRID, ["y", "x"], (6, 5)),
    (GRID, [("y", "x"), None], (21, 3)),
    (SIX, ["x", "y"], (10, 7)),
    (SIX, [None, ("x", "y")], (4, 13)),
]


@pytest.mark.sweep
@pytest.mark.parametrize("name", BODIES)
@pytest.mark.parametrize(("mesh", "specs", "shape"), UNEVEN)
def test_nothing_beyond_the_end_counts(
    name: str, mesh: Mesh, specs: list[Any], shape: tuple[int, ...]
) -> None:
    body, inits = BODIES[name]
    starts = [n + 3 for n in range(len(inits))]

    def some(*values: Any) -> Any:
        return [reduce(values, starts, body, dims) for dims in ((0,), (1,))]

    def all_of_it(*values: Any) -> Any:
        return reduce(values, starts, body, (0, 1))

    layouts = tuple([Layout(specs, mesh)] * len(inits))
    kind = np.int32 if name == "xor" else np.float32  # floats, beyond whose end stands NaN
    values = [v / 8 if kind == np.float32 else v for v in numbers(len(inits), shape, kind)]
    error = 1e-4  # of products of up to 70 floats
    for function in (some, all_of_it):
        compiled = check(
            function, *values, mesh=mesh, in_layouts=layouts, error=error, absolute=error
        )
        # Of a body that does not commute the inner dimension is whole.
        is_whole = name in ("affine", "quaternions") and specs[1] is not None
        assert bool(cuts(compiled)) == (function is all_of_it and is_whole)
