"""Convolutions whose windows overlap little, or less than those of the kernel: patches, frames."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax import lax

from tests.py.passes.on_mesh import GRID, LINE, numbers, run

ROWS = [None, "y", None, None]


def conv(
    stride: int, padding: Any = "VALID", dilation: int = 1, base: int = 1
) -> Callable[[Any, Any], Any]:
    def function(x: Any, kernel: Any) -> Any:
        return lax.conv_general_dilated(
            x,
            kernel,
            (stride, stride),
            padding,
            (base, base),
            (dilation, dilation),
            dimension_numbers=("NHWC", "HWIO", "NHWC"),
        )

    return function


# Rows, kernel, stride: windows side by side, with gaps between, and fewer than a kernel is long.
PATCHES = [(32, 4, 4), (64, 16, 16), (48, 3, 4), (24, 6, 6), (96, 8, 12)]


@pytest.mark.parametrize(("rows", "size", "stride"), PATCHES)
def test_patches_stay_where_they_are(rows: int, size: int, stride: int) -> None:
    x, kernel = numbers((2, rows, rows, 3)), numbers((size, size, 3, 5))
    compiled = run(conv(stride), GRID, [ROWS, None], x, kernel, out=ROWS)
    assert compiled.wire_bytes == 0


@pytest.mark.parametrize(("rows", "size"), [(32, 4), (64, 16), (24, 6)])
def test_the_gradient_of_a_kernel_of_patches_is_one_sum(rows: int, size: int) -> None:
    def gradient(x: Any, kernel: Any) -> Any:
        return jax.grad(lambda k: jnp.sum(jnp.sin(conv(size)(x, k))))(kernel)

    x, kernel = numbers((2, rows, rows, 3)), 0.01 * numbers((size, size, 3, 5))
    compiled = run(gradient, GRID, [ROWS, None], x, kernel, error=1e-5, absolute=1e-3)
    assert [(c.kind, c.mesh_axes) for c in compiled.collectives] == [("all_reduce", ("y",))]


def test_a_mean_of_patches_sends_the_mean() -> None:
    def tokens(x: Any, kernel: Any) -> Any:
        return jnp.sum(conv(16)(x, kernel), axis=(1, 2))

    x, kernel = numbers((2, 64, 64, 3)), numbers((16, 16, 3, 5))
    compiled = run(tokens, GRID, [ROWS, None], x, kernel)
    assert [(c.kind, c.shape) for c in compiled.collectives] == [("all_reduce", (2, 5))]


def test_frames_shorter_than_their_overlap_bring_the_overlap() -> None:
    def frames(x: Any, kernel: Any) -> Any:
        return lax.conv_general_dilated(
            x, kernel, (16,), [(12, 12)], dimension_numbers=("NWC", "WIO", "NWC")
        )

    # 16 frames of 40, of which each shard has two: 12 samples before them and 12 behind.
    x, kernel = numbers((2, 256, 1)), numbers((40, 1, 16))
    compiled = run(frames, LINE, [[None, "x", None], None], x, kernel, out=[None, "x", None])
    assert {c.kind for c in compiled.collectives} == {"halo_exchange"}
    assert compiled.wire_bytes == 2 * 4 * (12 + 12)
    # A frame of each neighbour reads samples of a shard: of few channels, parts of these are sent.
    few = run(frames, LINE, [[None, "x", None], None], x, kernel[..., :3], out=[None, "x", None])
    assert few.wire_bytes == 2 * 4 * (3 + 3)


# Rows, kernel, stride, padding, dilation, base dilation.
ODD = [
    (28, 14, 2, "SAME", 1, 1),
    (30, 5, 5, "VALID", 1, 1),
    (32, 3, 9, [(1, 2), (1, 2)], 4, 1),
    (13, 7, 1, "SAME", 2, 1),
    (9, 8, 3, [(6, 5), (6, 5)], 1, 3),
    (40, 5, 2, "VALID", 8, 1),
    (17, 17, 4, [(3, 0), (3, 0)], 1, 2),
]


@pytest.mark.parametrize("parts", ["forward", "kernel", "input"])
@pytest.mark.parametrize(("rows", "size", "stride", "padding", "dilation", "base"), ODD)
def test_values_of_odd_windows(
    rows: int, size: int, stride: int, padding: Any, dilation: int, base: int, parts: str
) -> None:
    layer = conv(stride, padding, dilation, base)
    x, kernel = numbers((2, rows, rows, 3)), numbers((size, size, 3, 5))

    def loss(x: Any, kernel: Any) -> Any:
        return jnp.sum(layer(x, kernel) ** 2) / 2

    functions = {"forward": layer, "kernel": jax.grad(loss, 1), "input": jax.grad(loss)}
    run(functions[parts], GRID, [ROWS, None], x, kernel, error=1e-5)
    run(
        functions[parts],
        GRID,
        [[None, "x", "y", None], ["y", None, None, None]],
        x,
        kernel,
        error=1e-5,
    )


@pytest.mark.parametrize("dilation", [12, 24])
def test_few_elements_far_apart_leave_results_split(dilation: int) -> None:
    """A kernel of 3 overlaps less than the results do, but 8 devices cannot split it."""
    layer = conv(1, [(dilation, dilation)] * 2, dilation)
    x, kernel = numbers((2, 64, 64, 4)), numbers((3, 3, 4, 3))
    rows = [None, "x", None, None]
    whole = run(layer, LINE, [[None] * 4, None], x, kernel, out=[None] * 4)
    compiled = run(layer, LINE, [rows, None], x, kernel, out=rows)
    assert compiled.local_flops <= 1.05 * whole.local_flops / 8
    assert compiled.wire_bytes <= 2 * 2 * dilation * 64 * 4 * 4
