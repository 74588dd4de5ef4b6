"""Windows padded with elements of their own dimension: any mesh against one device."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from dtensor.dialect.layout import UNSHARDED
from dtensor.runtime.client import create_mesh
from tests.py.passes.on_mesh import GRID, LINE, kinds, run, sent

Form = Callable[..., Any]
MODES = ("wrap", "reflect", "symmetric", "edge")
FIVE = create_mesh([("x", 5)])
SIX = create_mesh([("x", 3), ("y", 2)])
MESHES: dict[str, tuple[Any, list[Any]]] = {
    "8": (LINE, ["x", UNSHARDED]),
    "2x4, rows": (GRID, ["x", UNSHARDED]),
    "2x4, columns": (GRID, [UNSHARDED, ("y", "x")]),
    "2x4, tiles": (GRID, ["y", "x"]),
    "3x2, tiles": (SIX, ["x", "y"]),
    "3x2, rows": (SIX, [("x", "y"), UNSHARDED]),
    "5": (FIVE, ["x", UNSHARDED]),
}
SHAPES = [(120, 48), (31, 17), (9, 7)]
SHAPE_OF = [(mesh, SHAPES[i % len(SHAPES)]) for i, mesh in enumerate(MESHES)]
# What is padded in front and behind, elements of a window, places between them, windows apart.
WALKS = [
    (1, 1, 3, 1, 1),
    (2, 1, 3, 1, 2),
    (0, 3, 4, 1, 1),
    (2, 2, 3, 2, 1),
    (3, 0, 2, 3, 1),
    (2, 2, 4, 1, 3),
    (5, 4, 6, 1, 1),
]


def numbers(shape: tuple[int, ...], dtype: Any = np.float32, seed: int = 0) -> Any:
    """Small whole numbers, all sums of which are exact."""
    return np.random.default_rng(seed).integers(-3, 4, shape).astype(dtype)


def padded(x: Any, mode: str, low: int, high: int) -> Any:
    """Rows and columns of one image."""
    return jnp.pad(x, ((low, high), (high, low)), mode=mode)


def convolved(x: Any, k: Any, stride: int = 1, dilation: int = 1) -> Any:
    return lax.conv_general_dilated(
        x[None, :, :, None],
        k[:, :, None, None],
        (stride, 1),
        "VALID",
        rhs_dilation=(dilation, 1),
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
    )[0, :, :, 0]


def walks(mode: str, turn: int) -> Form:
    """Convolutions and pools of every second shape."""

    def form(x: Any, k: Any) -> Any:
        found = []
        for low, high, size, dilation, stride in WALKS[turn::2]:
            if max(low, high) < min(x.shape):
                p = padded(x, mode, low, high)
                found.append(convolved(p, k[:size, :size], stride, dilation))
                start = jnp.array(-9, x.dtype)
                pool = lax.reduce_window(
                    p, start, lax.max, (size, 2), (stride, 1), "VALID", None, (dilation, 1)
                )
                found.append(pool)
        return found

    return form


FORMS = {(mode, turn): walks(mode, turn) for mode in MODES for turn in range(2)}
# Each mode on each mesh; given and free layouts in turn, so that each mesh and mode has both.
GIVEN = [
    (mode, mesh, shape, (i + k) % 2 == 0)
    for i, mode in enumerate(MODES)
    for k, (mesh, shape) in enumerate(SHAPE_OF)
]


KERNEL = numbers((6, 6), seed=1)


def turn_of(mode: str, mesh: str) -> int:
    """Which half of the windows: each shape, and each mode, has both."""
    return ([*MESHES].index(mesh) // len(SHAPES) + MODES.index(mode)) % 2


@pytest.mark.sweep
@pytest.mark.parametrize(("mode", "mesh", "shape", "is_given"), GIVEN)
def test_windows_of_any_shape(mode: str, mesh: str, shape: tuple[int, int], is_given: bool) -> None:
    devices, layout = MESHES[mesh]
    given = layout if is_given else None
    run(FORMS[mode, turn_of(mode, mesh)], devices, [given, None], numbers(shape), KERNEL)


TYPES = (np.int32, jnp.bfloat16, np.float16, np.uint8, np.complex64)
# Each mode with each type; a size that 8 divides and one that it does not, in turn.
TYPED = [
    (mode, dtype, (24, 22)[(i + k) % 2])
    for i, mode in enumerate(MODES)
    for k, dtype in enumerate(TYPES)
]


@pytest.mark.sweep
@pytest.mark.parametrize(("mode", "dtype", "size"), TYPED)
def test_elements_of_any_type(mode: str, dtype: Any, size: int) -> None:
    def sums(x: Any) -> Any:
        p = padded(x, mode, 2, 1)
        zero = jnp.zeros((), x.dtype)
        return lax.reduce_window(p, zero, lax.add, (4, 3), (1, 1), "VALID"), convolved(p, p[:3, :3])

    x = numbers((size, 12), np.int32) % 3
    run(sums, LINE, [["x", UNSHARDED]], x.astype(dtype))


@pytest.mark.sweep
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("size", [24, 21])
def test_infinity_and_nan_at_the_ends_stay_where_they_are(mode: str, size: int) -> None:
    x = numbers((size, 12))
    x[0, 3], x[1, 5], x[-1, 2], x[-2, 7], x[4, 0] = np.inf, np.nan, -np.inf, np.nan, np.inf

    def form(x: Any, k: Any) -> Any:
        p = padded(x, mode, 2, 1)
        return convolved(p, k), lax.reduce_window(p, -jnp.inf, lax.max, (4, 3), (1, 1), "VALID")

    def gradients(x: Any, k: Any) -> Any:
        return jax.grad(lambda x, k: jnp.sum(form(x, k)[0]), (0, 1))(x, k)

    for each in (form, gradients):
        for mesh, layout in ((LINE, ["x", UNSHARDED]), (GRID, ["x", "y"])):
            run(each, mesh, [layout, None], x, numbers((4, 4), seed=1))


def one_row(mode: str, low: int, high: int, size: int, stride: int = 1) -> Form:
    def form(x: Any, k: Any) -> Any:
        p = jnp.pad(x, ((0, 0), (low, high), (0, 0)), mode=mode)
        return lax.conv_general_dilated(
            p, k[:size], (stride,), "VALID", dimension_numbers=("NWC", "WIO", "NWC")
        )

    return form


SIGNAL, TAPS = numbers((2, 64, 3)), numbers((17, 3, 3), seed=1)
ROWS = [UNSHARDED, "x", UNSHARDED]
ROW = SIGNAL[:, :1].nbytes


@pytest.mark.sweep
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("low", "high", "size", "stride", "rows"),
    [(1, 1, 3, 1, 2), (2, 0, 3, 1, 2), (0, 1, 2, 1, 1), (1, 1, 3, 2, 1), (7, 7, 15, 1, 14)],
)
def test_ends_cost_no_bytes(
    mode: str, low: int, high: int, size: int, stride: int, rows: int
) -> None:
    compiled = run(one_row(mode, low, high, size, stride), LINE, [ROWS, None], SIGNAL, TAPS)
    assert sent(compiled) == rows * ROW
    assert kinds(compiled) == {"shard_permute"}


@pytest.mark.sweep
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("low", "high"), [(8, 8), (9, 7), (16, 0)])
def test_halos_as_wide_as_a_shard_and_wider(mode: str, low: int, high: int) -> None:
    run(one_row(mode, low, high, 17), LINE, [ROWS, None], SIGNAL, TAPS)


# Each mode with each size, and with half of the windows, so that each size meets all of them.
ODD_WALKS = ((1, 1, 3, 1), (1, 1, 3, 2), (2, 1, 4, 1), (0, 2, 3, 1))
ODD = [
    (mode, size, ODD_WALKS[(i + k) % 2 :: 2])
    for i, mode in enumerate(MODES)
    for k, size in enumerate((63, 57, 20, 9))
]


@pytest.mark.sweep
@pytest.mark.parametrize(("mode", "size", "walks"), ODD)
def test_dimensions_that_no_axis_divides(
    mode: str, size: int, walks: Sequence[tuple[int, int, int, int]]
) -> None:
    for walk in walks:
        run(one_row(mode, *walk), LINE, [ROWS, None], SIGNAL[:, :size], TAPS)


def test_what_stands_around_may_be_all_of_it() -> None:
    run(one_row("wrap", 4, 4, 9), LINE, [ROWS, None], SIGNAL[:, :4], TAPS)
    run(one_row("wrap", 9, 4, 9), LINE, [ROWS, None], SIGNAL[:, :4], TAPS)
    run(one_row("edge", 9, 4, 9), LINE, [ROWS, None], SIGNAL[:, :16], TAPS)
    run(one_row("edge", 1, 1, 3), LINE, [ROWS, None], SIGNAL[:, :1], TAPS)


def differentiated(form: Form) -> Form:
    """Gradients of the value and of the kernel; each result counts another number of times."""

    def loss(x: Any, k: Any) -> Any:
        parts = jax.tree.leaves(form(x, k))
        return sum(
            jnp.sum(part * (jnp.arange(part.size).reshape(part.shape) % 5)) for part in parts
        )

    return jax.grad(loss, (0, 1))


def averages(mode: str, turn: int) -> Form:
    """Convolutions and sums over windows of every second shape."""

    def form(x: Any, k: Any) -> Any:
        found = []
        for low, high, size, dilation, stride in WALKS[turn::2]:
            if max(low, high) < min(x.shape):
                p = padded(x, mode, low, high)
                found.append(convolved(p, k[:size, :size], stride, dilation))
                window = (size, 2), (stride, 1), "VALID", None, (dilation, 1)
                found.append(lax.reduce_window(p, 0.0, lax.add, *window))
        return found

    return form


GRADIENTS = {
    (mode, turn): differentiated(averages(mode, turn)) for mode in MODES for turn in range(2)
}


@pytest.mark.sweep
@pytest.mark.parametrize(("mode", "mesh", "shape", "is_given"), GIVEN)
def test_gradients_of_windows_of_any_shape(
    mode: str, mesh: str, shape: tuple[int, int], is_given: bool
) -> None:
    devices, layout = MESHES[mesh]
    given = layout if is_given else None
    run(GRADIENTS[mode, turn_of(mode, mesh)], devices, [given, None], numbers(shape), KERNEL)


@pytest.mark.sweep
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("low", "high", "size", "stride", "rows"),
    [(1, 1, 3, 1, 4), (2, 0, 3, 1, 4), (0, 1, 2, 1, 2), (1, 1, 3, 2, 2), (4, 4, 9, 1, 16)],
)
def test_gradients_send_rows_there_and_back(
    mode: str, low: int, high: int, size: int, stride: int, rows: int
) -> None:
    taps = TAPS[:size]
    form = differentiated(lambda x, k: one_row(mode, low, high, size, stride)(x, k) ** 2)
    compiled = run(form, LINE, [ROWS, None], SIGNAL, taps)
    assert sent(compiled) == rows * ROW + 2 * 7 / 8 * taps.nbytes
    assert kinds(compiled) <= {"halo_exchange", "shard_permute", "all_reduce"}


@pytest.mark.sweep
@pytest.mark.parametrize(("mode", "size", "walks"), ODD)
def test_gradients_of_dimensions_that_no_axis_divides(
    mode: str, size: int, walks: Sequence[tuple[int, int, int, int]]
) -> None:
    for walk in walks:
        run(differentiated(one_row(mode, *walk)), LINE, [ROWS, None], SIGNAL[:, :size], TAPS)


@pytest.mark.parametrize("mode", MODES)
def test_gradients_of_gradients(mode: str) -> None:
    form = one_row(mode, 1, 1, 3)

    def loss(x: Any, k: Any) -> Any:
        return jnp.sum(form(form(x, k) ** 2, k))

    def twice(x: Any, k: Any) -> Any:
        return jax.grad(lambda x: jnp.sum(jax.grad(loss)(x, k) ** 2) / 64)(x)

    run(twice, LINE, [ROWS, None], SIGNAL / 4, TAPS / 4, error=1e-5, absolute=1e-2)


@pytest.mark.sweep
@pytest.mark.parametrize(
    ("mode", "dtype", "size"), [case for case in TYPED if case[1] in TYPES[:3]]
)
def test_what_is_added_back_of_any_type(mode: str, dtype: Any, size: int) -> None:
    """Small whole numbers, as sums along each dimension padded are."""

    def form(g: Any, k: Any) -> Any:
        def pads(x: Any) -> Any:
            return padded(x, mode, 2, 1)

        zeros = jax.ShapeDtypeStruct(g.shape, g.dtype)
        (back,) = jax.linear_transpose(pads, zeros)(convolved(jnp.pad(g, 3), k[:4, :4]))
        return back

    g = numbers((size, 16), np.int32).astype(dtype)
    run(form, LINE, [["x", UNSHARDED], None], g, numbers((4, 4), np.int32).astype(dtype))


@pytest.mark.sweep
@pytest.mark.parametrize(("mesh", "size"), [(LINE, 12), (LINE, 10), (FIVE, 12)])
@pytest.mark.parametrize("mode", MODES)
def test_windows_behind_the_end_read_what_is_around_it(mesh: Any, size: int, mode: str) -> None:
    """There are more windows than elements; the last ones are of a shard that has no elements."""

    def program(x: Any) -> Any:
        pads = [((0, 1), 1), ((1, 0), 1), ((0, 3), 2), ((3, 0), 2), ((3, 3), 3)]
        return [
            convolved(jnp.pad(x, (around, (0, 0)), mode=mode), jnp.arange(1.0, k + 1)[:, None])
            for around, k in pads
        ]

    run(program, mesh, [["x", UNSHARDED]], numbers((size, 2)))


def test_a_window_of_one_element_over_what_is_made_longer() -> None:
    """Rows are read whole: padding behind them that is negative is more than XLA knows."""

    def program(x: Any) -> Any:
        padded = jnp.pad(x, ((2, 1), (0, 0)), mode="reflect")
        return lax.reduce_window(padded, 0.0, lax.add, (1, 1), (1, 1), "VALID")

    run(program, LINE, [["x", UNSHARDED]], numbers((12, 2)))
