"""Gathers whose positions are computed of constants, and their gradients: cuts, not gathers."""

from collections.abc import Callable
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dtensor
from dtensor.dialect.context import make_context, parse_module
from dtensor.passes.cuts.digits import PositionDigits
from dtensor.passes.functions import main_function
from dtensor.passes.ops.numbers import known_integers
from tests.py.on_host import on_host

MESH = dtensor.create_mesh([("x", 2), ("y", 4)])
IMAGE = np.random.default_rng(0).normal(size=(4, 16, 8, 6)).astype(np.float32)
TABLE = np.random.default_rng(1).normal(size=(64, 12)).astype(np.float32)
ROWS_OF_IMAGE, ROWS_OF_TABLE = [None, "y", None, None], ["y", None]
LOCAL: set[str] = set()
MOVED = {"all_to_all"}
Function = Callable[[Any], Any]


def resized(height: int, width: int) -> Function:
    return lambda a: jax.image.resize(a, (4, height, width, 6), "nearest")


def transposed(table: Any) -> Any:
    """Rows of the result are columns of the table."""
    numbers = jax.lax.GatherDimensionNumbers((0,), (1,), (1,))
    return jax.lax.gather(table, jnp.arange(12)[:, None], numbers, (64, 1))


def bits_reversed(count: int) -> Any:
    """Positions of as many elements as a power of two says, their bits the other way round."""
    found = np.zeros(1, np.int32)
    while len(found) < count:
        found = np.concatenate([2 * found, 2 * found + 1])
    return found


CASES: dict[str, tuple[Any, list[Any], Function, set[str]]] = {
    "twice as large": (IMAGE, ROWS_OF_IMAGE, resized(32, 16), LOCAL),
    "three times": (IMAGE, ROWS_OF_IMAGE, resized(48, 24), LOCAL),
    "half": (IMAGE, ROWS_OF_IMAGE, resized(8, 4), LOCAL),
    "no whole number": (IMAGE, ROWS_OF_IMAGE, resized(20, 8), {"all_to_all", "all_gather"}),
    "all": (TABLE, ROWS_OF_TABLE, lambda t: t[jnp.arange(64)], LOCAL),
    # In the gradient one of the halves of the axis is gathered: no more bytes than there and back.
    "first half": (TABLE, ROWS_OF_TABLE, lambda t: t[jnp.arange(32)], MOVED | {"all_gather"}),
    "from the end": (TABLE, ROWS_OF_TABLE, lambda t: t[jnp.arange(-8, 0)], {"reduce_scatter"}),
    "backwards": (
        TABLE,
        ROWS_OF_TABLE,
        lambda t: t[jnp.arange(63, -1, -1)],
        {"shard_permute", "all_to_all"},  # the gradient there and back: three quarters of the bytes
    ),
    "repeated": (TABLE, ROWS_OF_TABLE, lambda t: t[np.arange(9) // 3], {"all_reduce"}),
    "halves exchanged": (
        TABLE,
        ROWS_OF_TABLE,
        lambda t: t[np.roll(np.arange(64), 32)],
        {"shard_permute", "all_to_all"},
    ),
    "pairs exchanged": (TABLE, ROWS_OF_TABLE, lambda t: t[np.arange(64) ^ 1], LOCAL),
    "blocks exchanged": (TABLE, ROWS_OF_TABLE, lambda t: t[jnp.arange(64) ^ 13], LOCAL),
    "blocks turned": (
        TABLE,
        ROWS_OF_TABLE,
        lambda t: t[np.arange(64) // 8 * 8 + 7 - np.arange(64) % 8],
        LOCAL,
    ),
    "shards exchanged": (
        TABLE,
        ROWS_OF_TABLE,
        lambda t: t[np.arange(64) ^ 16],
        {"shard_permute", "all_gather", "all_to_all"},
    ),
    "bits reversed": (TABLE, ROWS_OF_TABLE, lambda t: t[bits_reversed(64)], MOVED | {"all_gather"}),
    "pairs of a part exchanged": (
        TABLE,
        ["x", None],
        lambda t: t[8 + (np.arange(32) ^ 1)],
        {"shard_permute", "all_gather", "all_to_all"},
    ),
    "rows of a square": (
        TABLE,
        ROWS_OF_TABLE,
        lambda t: t[np.arange(64).reshape(8, 8).T],
        {"all_to_all", "all_gather"},
    ),
    "pairs of a butterfly": (
        TABLE,
        ROWS_OF_TABLE,
        lambda t: t[np.stack([np.arange(64)[np.arange(64) & 4 == 0] ^ k for k in (0, 4)], 1)],
        LOCAL,
    ),
    "tiles": (
        TABLE,
        ["y", None],
        lambda t: t.reshape(8, 8, 12)[:, np.arange(8).reshape(2, 2, 2).transpose(1, 2, 0)],
        LOCAL,
    ),
    "a square set": (
        TABLE,
        [None, "y"],
        lambda t: t.at[np.arange(64).reshape(8, 8).T].set(jnp.sin(t).reshape(8, 8, 12)),
        LOCAL,
    ),
    "pairs set": (TABLE, ROWS_OF_TABLE, lambda t: t.at[np.arange(64) ^ 1].set(jnp.sin(t)), LOCAL),
    "blocks added to": (
        TABLE,
        ROWS_OF_TABLE,
        lambda t: t.at[np.arange(64) ^ 6].add(jnp.sin(t)),
        LOCAL,
    ),
    "pairs of a part set": (
        TABLE,
        [None, "x"],
        lambda t: t.at[np.arange(32) ^ 1].set(jnp.sin(t[:32])),
        LOCAL,
    ),
    "columns of two digits": (
        TABLE,
        ["y", "x"],
        lambda t: t[:, np.arange(12) % 3 * 4 + np.arange(12) // 3],
        {"all_to_all", "all_gather", "shard_permute"},
    ),
    "beyond the end": (
        TABLE,
        ROWS_OF_TABLE,
        lambda t: jnp.take(t, np.arange(60, 70), 0, mode="clip"),
        {"all_reduce"},
    ),
    "filled": (
        TABLE,
        ROWS_OF_TABLE,
        lambda t: jnp.take(t, np.arange(60, 70), 0, mode="fill", fill_value=3),
        {"all_reduce"},
    ),
    "every second row set": (
        TABLE,
        ROWS_OF_TABLE,
        lambda t: t.at[::2].set(jnp.sin(t[1::2])),
        LOCAL,
    ),
    "a grid set": (
        TABLE,
        ["y", "x"],
        lambda t: t.at[1::2, ::3].set(t[::2, 1::3]).at[::4, 1::2].multiply(2.0),
        LOCAL,
    ),
    "a grid added to": (TABLE, ["y", "x"], lambda t: t.at[1::2, ::3].add(t[::2, 1::3]), LOCAL),
    "a grid read": (TABLE, ["y", "x"], lambda t: t[jnp.arange(64)[:, None], np.r_[0:6]], MOVED),
    "one of each row": (TABLE, ROWS_OF_TABLE, lambda t: t.at[::2, 3].add(t[1::2, 4]), LOCAL),
    "halves set": (
        TABLE,
        ROWS_OF_TABLE,
        lambda t: t.at[np.roll(np.arange(64), 32)].set(jnp.cos(t)),
        {"shard_permute", "all_to_all", "all_gather"},  # of half the axis: a shard, as a permute
    ),
    "every second column": (TABLE, ["y", "x"], lambda t: t[:, jnp.arange(0, 12, 2)], LOCAL),
    "columns as rows": (TABLE, ["y", "x"], transposed, LOCAL),
    "rows in the middle": (
        TABLE,
        ROWS_OF_TABLE,
        lambda t: t.reshape(8, 8, 12)[:, jnp.arange(3, 7)],
        LOCAL,
    ),
}


@pytest.mark.sweep
@pytest.mark.parametrize("is_gradient", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_positions_that_are_known(case: str, is_gradient: bool) -> None:
    argument, specs, forward, sent = CASES[case]

    def weighted(a: Any) -> Any:
        found = forward(a)
        return (jnp.cos(found) * jnp.arange(found.size).reshape(found.shape)).sum()

    function = jax.grad(weighted) if is_gradient else forward
    step = dtensor.jit(function, in_layouts=(dtensor.Layout(specs, MESH),))
    compiled = step.lower(argument).compile()
    expected = jax.jit(function)(argument)
    np.testing.assert_allclose(compiled(argument).to_jax(), expected, rtol=1e-5, atol=1e-5)
    assert {c.kind for c in compiled.collectives} <= sent


def frames(count: int, hop: int, length: int) -> Any:
    return np.arange(count)[:, None] * hop + np.arange(length)


def windows(table: Any, count: int, hop: int, length: int) -> Any:
    """Frames as `jax.vmap` of a slice writes them: index vectors of where each starts."""
    rows = jnp.arange(count) * hop
    return jax.vmap(lambda row: jax.lax.dynamic_slice_in_dim(table, row, length))(rows)


def causal(table: Any, length: int) -> Any:
    """Of each row those up to it, as a sliding window of attention reads its keys."""
    padded = jnp.pad(table, ((length - 1, 0), (0, 0)))
    return padded[frames(len(table), 1, length)]


def in_a_row(signal: Any) -> Any:
    """Frames of columns, of which index vectors are one behind the other."""
    return signal[:, frames(127, 32, 64).reshape(-1)]


def in_a_row_added(values: Any, size: int, hop: int = 3) -> Any:
    """Such frames of rows, added where they overlap."""
    count, length, *columns = values.shape
    at = (jnp.arange(count)[:, None] * hop + jnp.arange(length)).reshape(-1)
    return jnp.zeros((size, *columns)).at[at].add(values.reshape(-1, *columns))


FRAMES: dict[str, Function] = {
    "half overlap": lambda t: t[frames(15, 4, 8)],
    "whole rows": lambda t: t[frames(16, 4, 4)],
    "gaps": lambda t: t[frames(16, 4, 3)],
    "no whole number of rows": lambda t: t[frames(14, 4, 9)],
    "one further": lambda t: t[frames(60, 1, 5)],
    "many rows": lambda t: causal(t, 12),
    "many rows, elements first": lambda t: jnp.pad(t, ((7, 7), (0, 0)))[frames(64, 1, 15).T],
    "many rows of two": lambda t: jnp.pad(t, ((0, 18), (0, 0)))[frames(32, 2, 20)],
    "many rows, of slices": lambda t: windows(jnp.concatenate([t[:9] + 1, t]), 64, 1, 10),
    "many rows added": lambda t: jnp.ones((70, 12)).at[frames(60, 1, 11)].add(t[:60, None]),
    "from the end": lambda t: t[frames(8, 4, 8) - 36],
    "elements first": lambda t: t[frames(15, 4, 8).T],
    "columns": lambda t: t[:, frames(5, 2, 4)],
    "computed": lambda t: t[jnp.arange(15)[:, None] * 4 + jnp.arange(8)],
    "slices": lambda t: windows(t, 15, 4, 8),
    "slices moved inside": lambda t: windows(t, 9, 8, 8) * windows(t, 8, 8, 8)[:1],
    "added": lambda t: jnp.ones((64, 12)).at[frames(15, 4, 8)].add(t[:8]),
    "in a row": lambda t: t[frames(15, 4, 8).reshape(-1)],
    "in a row, with gaps": lambda t: t[frames(12, 5, 3).reshape(-1)],
    "in a row, added": lambda t: in_a_row_added(jnp.cos(t[:60].reshape(15, 4, 12)), 64),
    "in a row, set": lambda t: t.at[frames(4, 16, 4).reshape(-1)].set(t[:16] + 1),
    "spectrogram": lambda t: jnp.abs(jax.scipy.signal.stft(t.T, nperseg=16, noverlap=8)[2]),
}


@cache
def of_frames(case: str, is_gradient: bool) -> Function:
    """One function for all meshes: jax compiles it for one device once."""
    forward = FRAMES[case]

    def weighted(a: Any) -> Any:
        found = forward(a)
        return (jnp.cos(found) * jnp.arange(found.size).reshape(found.shape) / found.size).sum()

    return jax.grad(weighted) if is_gradient else forward


FRAMED = [(("x", 2), ("y", 4)), (("x", 3), ("y", 2)), (("x", 5),)]


@pytest.mark.sweep
@pytest.mark.parametrize("is_gradient", [False, True])
@pytest.mark.parametrize("sizes", FRAMED, ids=str)
@pytest.mark.parametrize("case", FRAMES)
def test_frames(case: str, sizes: Any, is_gradient: bool) -> None:
    """Each case in each of three layouts, on another mesh in each; its gradient likewise."""
    function, count = of_frames(case, is_gradient), int(np.prod([size for _, size in sizes]))
    mesh = dtensor.create_mesh(list(sizes), devices=jax.devices()[:count])
    layouts = [sizes[-1][0], None], [tuple(name for name, _ in sizes), None], [None, "x"]
    turn = [*FRAMES].index(case) + FRAMED.index(sizes) + is_gradient
    layout = dtensor.Layout(layouts[turn % len(layouts)], mesh)
    step = dtensor.jit(function, in_layouts=(layout,), mesh=mesh)
    (found,), expected = on_host(step(TABLE)), jax.jit(function)(TABLE)
    # sums of up to twenty frames, in another order
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


SIGNAL = np.random.default_rng(3).normal(size=(4, 4096)).astype(np.float32)
# A function, and how many columns a device may send.
SHARED: dict[str, tuple[Function, int]] = {
    "half overlap": (lambda t: t[:, frames(127, 32, 64)] * 2, 32),
    "fewer than fit": (lambda t: t[:, frames(125, 32, 64)] * 2, 32),
    "slices": (lambda t: windows(t.T, 127, 32, 64) * 2, 32),
    # five slices, of which each sends what it is moved by: 2, 1, 0, 1 and 2 columns
    "one further": (lambda t: t[:, frames(4092, 1, 5)].max(-1), 12),
    "in a row": (lambda t: in_a_row(t).reshape(4, 127, 64) * 2, 32),
    "in a row, both ways": (lambda t: jax.grad(lambda u: (in_a_row(u) ** 2).sum())(t), 64),
    # 15 columns from before, and one that stands behind the first 16 of a shard
    "many rows": (lambda t: causal(t.T, 16) * 2, 16),
    "many rows, both ways": (lambda t: jax.grad(lambda u: (causal(u.T, 16) ** 2).sum())(t), 32),
}


@pytest.mark.sweep
@pytest.mark.parametrize("case", SHARED)
def test_neighbours_send_what_frames_share(case: str) -> None:
    function, columns = SHARED[case]
    step = dtensor.jit(function, in_layouts=(dtensor.Layout([None, "y"], MESH),))
    compiled = step.lower(SIGNAL).compile()
    expected = jax.jit(function)(SIGNAL)
    np.testing.assert_allclose(compiled(SIGNAL).to_jax(), expected, rtol=1e-6)
    assert 0 < compiled.wire_bytes <= columns * 4 * SIGNAL.itemsize


POSITIONS = [np.arange(15, -1, -1), np.arange(32) // 2, np.r_[8:16, 0:8], np.arange(13, 18)]


@pytest.mark.sweep
@pytest.mark.parametrize("dtype", [np.uint8, jnp.bfloat16, np.complex64, jnp.float8_e4m3fn])
@pytest.mark.parametrize("rows", POSITIONS, ids=["reversed", "repeated", "exchanged", "outside"])
def test_rows_of_any_type_are_read_and_added_to(rows: Any, dtype: Any) -> None:
    def read_and_add(table: Any) -> Any:
        return table[rows], table.at[rows].add(jnp.ones((len(rows), 6), table.dtype))

    table = np.random.default_rng(2).integers(0, 3, (16, 6)).astype(dtype)
    step = dtensor.jit(read_and_add, in_layouts=dtensor.Layout([("y", "x"), None], MESH))
    for found, expected in zip(step(table), jax.jit(read_and_add)(table), strict=True):
        np.testing.assert_array_equal(found.to_jax(), expected)


def test_adding_to_known_rows_keeps_the_sign_of_zeros() -> None:
    def add(table: Any) -> Any:
        return jnp.full((24, 6), -0.0).at[np.arange(16)].add(table)

    step = dtensor.jit(add, in_layouts=dtensor.Layout([None, "x"], MESH))
    found = step(np.full((16, 6), -0.0, np.float32)).to_jax()
    assert np.signbit(found).all()


def numbers(lines: str, type_: str = "4xi32") -> Any:
    """What is known of the value `%r`."""
    text = f"func.func @main() -> tensor<{type_}> {{\n{lines}\nreturn %r : tensor<{type_}>\n}}"
    with make_context():
        module = parse_module(text, "text")
        end = list(main_function(module).regions[0].blocks[0].operations)[-1]
        return known_integers(end.operands[0])


IOTA = "%i = stablehlo.iota dim = 0 : tensor<4xf32>\n"


def scaled(operation: str, by: float) -> str:
    return (
        f"{IOTA}%c = stablehlo.constant dense<{by:.9e}> : tensor<4xf32>\n"
        f"%d = stablehlo.{operation} %i, %c : tensor<4xf32>\n"
        "%f = stablehlo.floor %d : tensor<4xf32>\n"
        "%r = stablehlo.convert %f : (tensor<4xf32>) -> tensor<4xi32>"
    )


def test_integers_are_known_where_rounding_does_not_matter() -> None:
    assert numbers(scaled("divide", 2.0)).tolist() == [0, 0, 1, 1]
    assert numbers(scaled("multiply", 0.75)).tolist() == [0, 0, 1, 2]


def test_integers_are_not_known_where_rounding_decides() -> None:
    assert numbers(scaled("divide", 0.1)) is None  # 3 / 0.1, and 3 times its inverse
    assert numbers(scaled("multiply", 5 / 3)) is None  # 3 times this is 5 in 32 bits alone


def test_what_depends_on_the_machine_is_not_known() -> None:
    far = "%c = stablehlo.constant dense<1.0e+20> : tensor<4xf32>\n"
    to_integers = "%r = stablehlo.convert %c : (tensor<4xf32>) -> tensor<4xi32>"
    assert numbers(far + to_integers) is None
    zero = "%c = stablehlo.constant dense<0> : tensor<4xi32>\n"
    assert numbers(zero + "%r = stablehlo.divide %c, %c : tensor<4xi32>") is None


@pytest.mark.parametrize(
    ("operation", "expected"), [("divide", [-3, 3, -3, 3]), ("remainder", [-1, 1, 1, -1])]
)
def test_integers_are_divided_towards_zero(operation: str, expected: list[int]) -> None:
    sides = (
        "%a = stablehlo.constant dense<[-7, 7, 7, -7]> : tensor<4xi32>\n"
        "%b = stablehlo.constant dense<[2, 2, -2, -2]> : tensor<4xi32>\n"
    )
    assert (
        numbers(sides + f"%r = stablehlo.{operation} %a, %b : tensor<4xi32>").tolist() == expected
    )


def test_a_broadcast_may_change_the_order_of_dimensions() -> None:
    text = (
        "%c = stablehlo.constant dense<[[1, 2, 3], [4, 5, 6]]> : tensor<2x3xi32>\n"
        "%r = stablehlo.broadcast_in_dim %c, dims = [1, 0] : (tensor<2x3xi32>) -> tensor<3x2xi32>"
    )
    assert numbers(text, "3x2xi32").tolist() == [[1, 4], [2, 5], [3, 6]]


def test_positions_that_a_loop_carries_and_does_not_change() -> None:
    """The gradient of a scan carries where each step wrote into its loop."""

    def loss(u: Any) -> Any:
        def step(u: Any, _: Any) -> Any:
            return u.at[:, 1:-1].set(jnp.sin(u[:, 2:] - u[:, :-2])), None

        return jnp.sum(jax.lax.scan(step, u, None, length=3)[0] ** 2)

    step = dtensor.jit(jax.grad(loss), in_layouts=(dtensor.Layout([None, "y"], MESH),))
    compiled = step.lower(SIGNAL).compile()
    expected = jax.jit(jax.grad(loss))(SIGNAL)
    np.testing.assert_allclose(compiled(SIGNAL).to_jax(), expected, rtol=1e-5, atol=1e-5)
    assert {c.kind for c in compiled.collectives} == {"shard_permute"}


@pytest.mark.parametrize(("columns", "is_chosen"), [(12, True), (512, False)])
def test_few_of_many_elements_are_written_in_their_place(columns: int, is_chosen: bool) -> None:
    """In a loop a scatter writes these alone; a choice writes all."""
    table = np.random.default_rng(2).normal(size=(64, columns)).astype(np.float32)
    step = dtensor.jit(
        lambda t: t.at[::2, 3].set(1.0), in_layouts=(dtensor.Layout(ROWS_OF_TABLE, MESH),)
    )
    compiled = step.lower(table).compile()
    expected = table.copy()
    expected[::2, 3] = 1.0
    np.testing.assert_array_equal(compiled(table).to_jax(), expected)
    assert ("stablehlo.scatter" not in compiled.executable.lowered.as_text()) == is_chosen


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_positions_of_digits_are_found_and_others_are_not(data: st.DataObject) -> None:
    sizes = data.draw(st.lists(st.integers(2, 4), min_size=1, max_size=4))
    order = data.draw(st.permutations(range(len(sizes))))
    turned = data.draw(st.lists(st.booleans(), min_size=len(sizes), max_size=len(sizes)))
    count, start = int(np.prod(sizes)), data.draw(st.integers(0, 3))
    cube = np.arange(count).reshape(sizes)
    cube = cube[tuple(slice(None, None, -1 if turn else 1) for turn in turned)]
    positions = start + cube.transpose(order).reshape(-1)
    found = PositionDigits.of(positions)
    assert found is not None
    assert found.shape == positions.shape
    assert found.start == start
    steps = zip(np.indices(found.sizes).reshape(len(found.sizes), -1), found.steps, strict=True)
    np.testing.assert_array_equal(positions - positions[0], sum(at * step for at, step in steps))
    one, other = data.draw(st.permutations(range(count)))[:2]
    wrong = positions.copy()
    wrong[one] = wrong[other]  # one is there twice, and one is missing
    assert PositionDigits.of(wrong) is None
