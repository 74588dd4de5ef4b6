"""Algorithms that communicate inside an op, on 8 devices against one."""

import re
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dtensor
from dtensor.compiler.api import jit
from dtensor.compiler.relayout import relayout
from dtensor.compiler.stages import Compiled
from dtensor.dialect.layout import UNSHARDED, Layout
from dtensor.runtime.client import create_mesh

MESH = create_mesh([("x", 2), ("y", 4)])
Array = np.ndarray[Any, Any]


def run(function: Callable[..., Any], layouts: list[Any], *arguments: Any) -> Compiled:
    """Compile and run `function` on the mesh; its results must be those of one device, exactly."""
    in_layouts = tuple(None if specs is None else Layout(specs, MESH) for specs in layouts)
    compiled = jit(function, mesh=MESH, in_layouts=in_layouts).lower(*arguments).compile()
    expected = jax.jit(function)(*arguments)
    actual = compiled(*arguments)
    for want, got in zip(jax.tree.leaves(expected), jax.tree.leaves(actual), strict=True):
        np.testing.assert_array_equal(np.asarray(got), np.asarray(want))
    return compiled


def sent(compiled: Compiled) -> float:
    return float(sum(collective.bytes for collective in compiled.collectives))


def values(shape: tuple[int, ...], dtype: Any = np.float32) -> Array:
    """Few different values, so that the largest stands in several shards."""
    return np.random.default_rng(0).integers(-4, 4, shape).astype(dtype)


@pytest.mark.parametrize(
    ("specs", "most"),
    [
        (["x", "y"], 384),
        ([UNSHARDED, ("x", "y")], 112),
        ([UNSHARDED, ("y", "x")], 112),
        (["y", "x"], 384),
        ([("x", "y"), UNSHARDED], 168),
    ],
)
def test_argmax_and_argmin_in_any_layout(specs: list[Any], most: float) -> None:
    x = values((8, 24))
    x[3, 5] = x[3, 21] = x[6, 0] = np.nan
    x[5] = -np.inf
    compiled = run(lambda a: (jnp.argmax(a, 1), jnp.argmin(a, 0)), [specs], x)
    assert sent(compiled) <= most  # a gather of the array sends 672


def test_argmax_sends_a_key_and_a_place_of_each_row() -> None:
    x = values((3, 4096))
    compiled = run(lambda a: jnp.argmax(a, 1), [[UNSHARDED, ("x", "y")]], x)
    # Two all_reduces over 8 devices, of 4 bytes for each of 3 rows.
    assert sent(compiled) == 2 * (2 * 7 / 8) * 3 * 4


@pytest.mark.parametrize("dtype", [np.int32, np.uint8, np.float16])
def test_argmax_of_all_elements(dtype: Any) -> None:
    x = values((2, 4, 6), np.int32).astype(dtype)
    run(lambda a: jnp.argmax(a.reshape(-1)), [["x", "y", UNSHARDED]], x)


@pytest.mark.parametrize("taken", [1, 3])
@pytest.mark.parametrize("place", [0, 5, 30])
def test_a_cache_is_read_and_updated_by_its_owner(taken: int, place: int) -> None:
    def step(cache: Any, new: Any, at: Any) -> Any:
        cache = jax.lax.dynamic_update_slice(cache, new, (0, at, 0))
        return cache, jax.lax.dynamic_slice(cache, (0, at, 1), (2, taken, 2))

    cache, new = values((2, 16, 6)), values((2, taken, 6)) + 100
    compiled = run(
        step, [[UNSHARDED, ("x", "y"), UNSHARDED], None, None], cache, new, np.int32(place)
    )
    assert sent(compiled) <= 2 * (2 * taken * 2) * 4


POOLS = [  # window, stride, padding, dilation
    (3, 1, (1, 1), 1),
    (3, 2, (0, 1), 1),
    (2, 2, (2, -2), 1),
    (5, 1, (4, 0), 1),
    (3, 1, (2, 2), 2),
    (9, 1, (0, 0), 1),  # 24 elements, 16 windows
]


@pytest.mark.parametrize(
    ("apart", "window", "stride", "padding"),
    [
        (2, 3, 1, (1, 1)),
        (2, 4, 2, (3, 4)),
        (3, 4, 3, (2, 0)),
        (2, 3, 2, (-1, -2)),
        (3, 1, 3, (0, 0)),
    ],
)
def test_windows_over_elements_that_are_apart(
    apart: int, window: int, stride: int, padding: tuple[int, int]
) -> None:
    def pool(a: Any) -> Any:
        sizes = (window, 1), (stride, 1), (padding, (0, 0)), (apart, 1)
        most = jax.lax.reduce_window(a, -jnp.inf, jax.lax.max, *sizes)
        return most, jax.lax.reduce_window(a, 0.0, jax.lax.add, *sizes)

    run(pool, [["y", UNSHARDED]], values((24, 5)))


@pytest.mark.sweep
@pytest.mark.parametrize(("window", "stride", "padding", "dilation"), POOLS)
@pytest.mark.parametrize("axes", ["x", "y", ("y", "x")])
def test_pooling_with_halos(
    window: int, stride: int, padding: tuple[int, int], dilation: int, axes: Any
) -> None:
    def pool(a: Any) -> Any:
        arguments = ((1, window, 1), (1, stride, 1), ((0, 0), padding, (0, 0)))
        most = jax.lax.reduce_window(
            a, -jnp.inf, jax.lax.max, *arguments, window_dilation=(1, dilation, 1)
        )
        total = jax.lax.reduce_window(
            a, 0.0, jax.lax.add, *arguments, window_dilation=(1, dilation, 1)
        )
        return most, total

    x = values((3, 24, 256))
    compiled = run(pool, [[UNSHARDED, axes, UNSHARDED]], x)
    kinds = {c.kind for c in compiled.collectives}
    if window == 3 and dilation == 1 and stride == 1:
        assert kinds == {"halo_exchange"}
        assert sent(compiled) == 2 * (3 * 256) * 4  # once for both


@pytest.mark.sweep
@pytest.mark.parametrize(
    ("window", "stride", "padding"),
    [
        (3, 2, (0, 1)),
        (3, 1, (1, 1)),
        (3, 2, (1, 0)),
        (5, 2, (1, 2)),
        (4, 2, (2, 0)),
        (2, 2, (0, 0)),
    ],
)
@pytest.mark.parametrize("axes", [("y", UNSHARDED), (("x", "y"), UNSHARDED), ("y", "x")])
def test_gradient_of_max_pooling_with_halos(
    window: int, stride: int, padding: tuple[int, int], axes: Any
) -> None:
    def gradient(a: Any, cotangent: Any) -> Any:
        def pool(a: Any) -> Any:
            sizes, steps = (1, window, 3, 1), (1, stride, 2, 1)
            pads = ((0, 0), padding, (0, 1), (0, 0))
            return jax.lax.reduce_window(a, -jnp.inf, jax.lax.max, sizes, steps, pads)

        return jax.vjp(pool, a)[1](cotangent)

    # Ties, NaN and -inf at the borders of the tensor, of the shards and elsewhere.
    x = np.random.default_rng(1).choice([0.0, 1, 2, -np.inf, np.nan], (2, 48, 16, 128))
    x[0, :6], x[0, -6:], x[1, :, :3] = -np.inf, -np.inf, -np.inf
    x[0, 1], x[0, -2] = np.nan, np.nan
    x = x.astype(np.float32)
    pooled = (48 + sum(padding) - window) // stride + 1
    specs = [UNSHARDED, *axes, UNSHARDED]
    compiled = run(gradient, [specs, specs], x, values((2, pooled, 8, 128)) + 5)
    assert {c.kind for c in compiled.collectives} <= {"halo_exchange", "shard_permute"}
    if axes == ("y", UNSHARDED):  # what windows read beyond a shard, and what they scatter there
        assert sent(compiled) == 2 * (window - stride) * (2 * 16 * 128) * 4


REVERSED = """
func.func @main(%a: tensor<16x2x3xf32>, %b: tensor<KERNELx3x5xf32>) -> tensor<COUNTx2x5xf32> {
  %0 = stablehlo.convolution(%a, %b) dim_numbers = [0, b, f]x[0, i, o]->[0, b, f],
      window = {pad = [[PAD, PAD]], reverse = [true]}
      {batch_group_count = 1 : i64, feature_group_count = 1 : i64}
      : (tensor<16x2x3xf32>, tensor<KERNELx3x5xf32>) -> tensor<COUNTx2x5xf32>
  return %0 : tensor<COUNTx2x5xf32>
}
"""


@pytest.mark.parametrize(("kernel", "pad"), [(16, 0), (16, 1), (4, 2)])
def test_a_reversed_kernel_is_not_read_from_its_other_end(kernel: int, pad: int) -> None:
    count = 16 + 2 * pad - kernel + 1
    words = {"KERNEL": kernel, "PAD": pad, "COUNT": count}
    text = re.sub("|".join(words), lambda found: str(words[found[0]]), REVERSED)
    found = on_one_and_on_all(text, values((16, 2, 3)), values((kernel, 3, 5)))
    np.testing.assert_array_equal(found[1], found[0])


def on_one_and_on_all(text: str, *arguments: Any) -> list[Any]:
    """The first result on one device, and with dimension 0 of the arguments split over eight."""
    alone = create_mesh([("z", 1)], devices=jax.devices()[:1])
    rows = Layout([("y", "x"), UNSHARDED, UNSHARDED], MESH)
    split = [rows if argument.shape[0] % 8 == 0 else None for argument in arguments]
    found = []
    for mesh, layouts in ((alone, None), (MESH, split)):
        compiled = dtensor.compile_mlir(text, mesh=mesh, in_layouts=layouts)
        found.append(np.asarray(compiled(*arguments)[0].to_jax()))
    return found


PADDED_POOL = """
func.func @main(%a: tensor<2x48x16xf32>, %s: tensor<2xCOUNTx16xf32>) -> tensor<2x48x16xf32> {
  %init = stablehlo.constant dense<3.0> : tensor<f32>
  %0 = "stablehlo.select_and_scatter"(%a, %s, %init) <{window_dimensions = array<i64: 1, SIZE, 3>,
      window_strides = array<i64: 1, STRIDE, 1>,
      padding = dense<[[0, 0], [LOW, HIGH], [1, 1]]> : tensor<3x2xi64>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %1 = stablehlo.compare COMPARED, %x, %y : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %1 : tensor<i1>
  }, {
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %1 = stablehlo.add %x, %y : tensor<f32>
    stablehlo.return %1 : tensor<f32>
  }) : (tensor<2x48x16xf32>, tensor<2xCOUNTx16xf32>, tensor<f32>) -> tensor<2x48x16xf32>
  return %0 : tensor<2x48x16xf32>
}
"""


@pytest.mark.sweep
@pytest.mark.parametrize("compared", ["GE", "GT", "LT"])
@pytest.mark.parametrize(
    ("size", "stride", "low", "high"), [(3, 2, 1, 0), (3, 1, 1, 1), (5, 2, 3, 1)]
)
def test_padding_is_not_selected_at_the_border_of_a_shard(
    size: int, stride: int, low: int, high: int, compared: str
) -> None:
    count = (48 + low + high - size) // stride + 1
    given = {"SIZE": size, "STRIDE": stride, "LOW": low, "HIGH": high, "COUNT": count}
    text = PADDED_POOL.replace("COMPARED", compared)
    for name, value in given.items():
        text = text.replace(name, str(value))
    x = np.random.default_rng(1).choice([0.0, 1, -np.inf, np.inf, np.nan], (2, 48, 16))
    x[0, :4], x[0, -4:], x[0, 1], x[0, -2] = -np.inf, -np.inf, np.nan, np.nan
    source = values((2, count, 16)) + 5
    alone = create_mesh([("z", 1)], devices=jax.devices()[:1])
    found = []
    for layout in (None, Layout([UNSHARDED, ("y", "x"), UNSHARDED], MESH)):
        mesh = alone if layout is None else MESH
        compiled = dtensor.compile_mlir(text, mesh=mesh, in_layouts=layout)
        found.append(np.asarray(compiled(x.astype(np.float32), source)[0].to_jax()))
    assert {c.kind for c in compiled.collectives} == {"halo_exchange", "shard_permute"}
    np.testing.assert_array_equal(found[1], found[0])


@pytest.mark.sweep
@pytest.mark.parametrize("strides", [(1, 1), (2, 1), (2, 2)])
@pytest.mark.parametrize(
    "specs",
    [
        [UNSHARDED, "x", "y", UNSHARDED],
        ["x", "y", UNSHARDED, UNSHARDED],
        [UNSHARDED, ("x", "y"), UNSHARDED, UNSHARDED],
    ],
)
@pytest.mark.parametrize("kernel", [(3, 3), (1, 5)])
def test_convolution_over_split_rows_and_columns(
    strides: tuple[int, int], specs: list[Any], kernel: tuple[int, int]
) -> None:
    def convolve(a: Any, w: Any) -> Any:
        numbers = ("NHWC", "HWIO", "NHWC")
        return jax.lax.conv_general_dilated(a, w, strides, "SAME", dimension_numbers=numbers)

    image, weights = values((2, 64, 32, 12)), values((*kernel, 12, 40))
    compiled = run(convolve, [specs, None], image, weights)
    assert {c.kind for c in compiled.collectives} <= {"halo_exchange"}
    assert sent(compiled) <= 2 * image.nbytes / 8


@pytest.mark.sweep
@pytest.mark.parametrize(
    ("strides", "kernel", "dilation", "padding"),
    [
        ((1, 1), (3, 3), (1, 1), "SAME"),
        ((2, 2), (3, 5), (1, 1), "SAME"),
        ((4, 1), (4, 3), (1, 2), ((0, 0), (2, 2))),
        ((1, 2), (5, 2), (2, 1), ((4, 4), (0, 0))),
    ],
)
@pytest.mark.parametrize(
    "specs",
    [
        [UNSHARDED, "x", "y", UNSHARDED],
        [UNSHARDED, ("x", "y"), UNSHARDED, UNSHARDED],
    ],
)
def test_gradients_of_a_convolution_over_split_rows_and_columns(
    strides: tuple[int, int],
    kernel: tuple[int, int],
    dilation: tuple[int, int],
    padding: Any,
    specs: list[Any],
) -> None:
    def convolve(a: Any, w: Any) -> Any:
        numbers = ("NHWC", "HWIO", "NHWC")
        return jax.lax.conv_general_dilated(
            a, w, strides, padding, rhs_dilation=dilation, dimension_numbers=numbers
        )

    def gradients(a: Any, w: Any, cotangent: Any) -> Any:
        return jax.vjp(convolve, a, w)[1](cotangent)

    image, weights = values((2, 64, 32, 6)), values((*kernel, 6, 3))
    cotangent = values(jax.eval_shape(convolve, image, weights).shape) + 1
    compiled = run(gradients, [specs, None, specs], image, weights, cotangent)
    assert {c.kind for c in compiled.collectives} <= {"halo_exchange", "all_reduce"}
    assert sent(compiled) <= 2 * (image.nbytes + cotangent.nbytes) / 8 + 2 * weights.nbytes


def test_shards_of_blocks_have_no_neighbours_and_are_moved_before() -> None:
    def pool(a: Any) -> Any:
        blocks = Layout([UNSHARDED, (3, "x")], MESH)
        a = relayout(a, blocks)
        a = jax.lax.reduce_window(a, 0.0, jax.lax.add, (1, 3), (1, 1), ((0, 0), (1, 1)))
        return relayout(a, blocks)

    compiled = run(pool, [[UNSHARDED, "x"]], values((512, 24)))
    # What comes in without blocks fetches its halo, and what is left of it comes in blocks after.
    assert 0 < sum(c.bytes for c in compiled.collectives) < 512 * 24 * 4 / 2


@pytest.mark.parametrize("groups", [2, 6])
def test_gradients_of_grouped_convolutions_over_split_rows(groups: int) -> None:
    def convolve(a: Any, w: Any) -> Any:
        numbers = ("NHWC", "HWIO", "NHWC")
        return jax.lax.conv_general_dilated(
            a, w, (1, 2), "SAME", feature_group_count=groups, dimension_numbers=numbers
        )

    def gradients(a: Any, w: Any, cotangent: Any) -> Any:
        return jax.vjp(convolve, a, w)[1](cotangent)

    image, weights = values((2, 32, 16, 6)), values((3, 3, 6 // groups, 12))
    cotangent = values((2, 32, 8, 12)) + 1
    specs = [UNSHARDED, "x", "y", UNSHARDED]
    compiled = run(gradients, [specs, None, specs], image, weights, cotangent)
    assert {c.kind for c in compiled.collectives} == {"halo_exchange", "all_reduce"}


def test_images_with_kernels_of_their_own_are_split() -> None:
    def convolve(a: Any, w: Any) -> Any:
        return jax.vmap(lambda a, w: jax.lax.conv(a[None], w, (1, 1), "SAME")[0])(a, w)

    def gradients(a: Any, w: Any, cotangent: Any) -> Any:
        return jax.vjp(convolve, a, w)[1](cotangent)

    images, weights = values((8, 3, 6, 10)), values((8, 2, 3, 3, 5))
    specs = [[("y", "x"), *[UNSHARDED] * n] for n in (3, 4, 3)]
    for function, arrays in (
        (convolve, (images, weights)),
        (gradients, (images, weights, values((8, 2, 6, 10)) + 1)),
    ):
        assert not run(function, specs[: len(arrays)], *arrays).collectives


@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("batch", [(), (3,)])
def test_right_sides_of_a_triangular_solve_are_split(left: bool, batch: tuple[int, ...]) -> None:
    # Halves of small integers: any order of the sums, so any BLAS, gives the same.
    a = np.tril(values((*batch, 6, 6)) // 2, -1) + 2 * np.eye(6, dtype=np.float32)
    b = values((*batch, *((6, 16) if left else (16, 6))))
    columns: list[Any] = [UNSHARDED, ("y", "x")] if left else [("y", "x"), UNSHARDED]
    specs = [UNSHARDED] * len(batch) + columns

    def solve(a: Any, b: Any) -> Any:
        return jax.lax.linalg.triangular_solve(a, b, left_side=left, lower=True, transpose_a=left)

    assert not run(solve, [None, specs], a, b).collectives


@pytest.mark.parametrize("batch", [(), (3,)])
def test_right_sides_of_a_tridiagonal_solve_are_split(batch: tuple[int, ...]) -> None:
    off, right = values((*batch, 6)) / 8, values((*batch, 6, 16))

    def solve(off: Any, b: Any) -> Any:
        return jax.lax.linalg.tridiagonal_solve(off, off + 4, off, b)

    specs = [UNSHARDED] * len(batch) + [UNSHARDED, ("y", "x")]
    assert not run(solve, [None, specs], off, right).collectives


@pytest.mark.parametrize("start", [0, 8, 4])
def test_halves_of_what_was_put_together_are_told_apart(start: int) -> None:
    def f(a: Any, b: Any) -> Any:
        return (jnp.concatenate([a, b]) * 2)[start : start + 8]

    run(f, [["x", UNSHARDED], ["x", UNSHARDED]], values((8, 5)), values((8, 5)) + 3)


def test_what_is_cut_of_zeros_around_a_value_is_zeros() -> None:
    def f(a: Any) -> Any:
        return (jnp.pad(jnp.sin(a), ((0, 8), (0, 0))) * 2)[8:]

    run(f, [["x", UNSHARDED]], values((8, 5)))
