"""Convolutions of which shards multiply their own elements, on 8 devices against one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from dtensor.compiler.api import jit
from dtensor.compiler.stages import Compiled
from dtensor.dialect.layout import UNSHARDED, Layout
from dtensor.dialect.mesh import Mesh
from tests.py.passes.on_mesh import GRID, LINE, kinds, numbers, run, sent
from tests.py.uneven.on_meshes import SIX, check

NHWC = ("NHWC", "HWIO", "NHWC")
ROWS = [UNSHARDED, "x", UNSHARDED, UNSHARDED]
TILES = [UNSHARDED, "x", "y", UNSHARDED]
WHOLE = [UNSHARDED] * 4

Layer = Callable[[Any, Any], Any]


def layer(
    stride: int = 1, padding: Any = "SAME", apart: int = 1, gap: int = 1, groups: int = 1
) -> Layer:
    """Windows of images: `apart` are elements of the kernel, `gap` those of the images."""

    def convolved(x: Any, kernel: Any) -> Any:
        steps = (stride, 1), padding, (gap, 1), (apart, 1)
        return lax.conv_general_dilated(x, kernel, *steps, NHWC, feature_group_count=groups)

    return convolved


def gradients(function: Layer) -> Layer:
    def both(x: Any, kernel: Any) -> Any:
        return jax.grad(lambda x, k: jnp.sum(function(x, k) ** 2) / 2, (0, 1))(x, kernel)

    return both


def far(compiled: Compiled) -> list[str]:
    """The kinds of what is sent, but for sums over all devices."""
    return [c.kind for c in compiled.collectives if c.kind != "all_reduce"]


@pytest.mark.parametrize(("size", "stride", "rows"), [(3, 1, 2), (5, 1, 4), (3, 2, 1), (5, 2, 2)])
def test_few_channels_are_sent_as_results(size: int, stride: int, rows: int) -> None:
    x, kernel = numbers((2, 64, 12, 16)), numbers((size, 4, 16, 3))
    compiled = run(layer(stride), LINE, [ROWS, None], x, kernel, out=ROWS)
    assert set(far(compiled)) == {"shard_permute"}
    assert sent(compiled) == rows * 2 * 12 * 3 * 4
    # Rows of results; what is done if the kernel is infinite is not planned to be.
    made = 64 // 8 // stride + rows
    assert compiled.local_flops == pytest.approx(2 * 2 * made * 12 * 3 * size * 4 * 16, rel=0.05)


def test_many_channels_are_made_of_rows() -> None:
    x, kernel = numbers((2, 64, 12, 3)), numbers((3, 4, 3, 16))
    compiled = run(layer(), LINE, [ROWS, None], x, kernel, out=ROWS)
    assert far(compiled) == ["halo_exchange"]
    assert sent(compiled) == 2 * 2 * 12 * 3 * 4


def test_a_training_step_sends_the_side_of_few_channels() -> None:
    def step(x: Any, kernel: Any) -> Any:
        value, grads = jax.value_and_grad(lambda x, k: jnp.sum(layer()(x, k) ** 2) / 2, (0, 1))(
            x, kernel
        )
        return grads, value

    x, kernel = numbers((2, 64, 12, 16)) - 1, numbers((3, 4, 16, 3)) - 1
    compiled = run(step, LINE, [ROWS, None], x, kernel)
    shared = 3 * 4 * 16 * 3 * 4 + 4
    # Results, and what both gradients read of their cotangents.
    assert sent(compiled) == 2 * (2 * 2 * 12 * 3 * 4) + 2 * 7 / 8 * shared
    assert sorted(far(compiled)) == ["halo_exchange", "shard_permute", "shard_permute"]


def test_what_several_layers_read_is_fetched_once() -> None:
    def branches(x: Any, *kernels: Any) -> list[Any]:
        return [layer()(x, kernel) for kernel in kernels]

    def of(sizes: list[int], channels: int) -> Compiled:
        kernels = [numbers((size, 4, 48, channels)) for size in sizes]
        return run(branches, LINE, [ROWS, *[None] * len(sizes)], x, *kernels, out=ROWS)

    x = numbers((2, 64, 12, 48))
    assert far(of([3] * 5, 4)) == ["halo_exchange"]  # 48 channels, and not 20 in ten messages
    assert sent(of([3, 3, 5, 5, 5, 5], 4)) == 4 * 2 * 12 * 48 * 4
    assert sent(of([3, 3], 4)) == 2 * 2 * 12 * 8 * 4


def test_nearly_as_many_channels_are_not_worth_more_collectives() -> None:
    x, kernel = numbers((2, 64, 12, 16)), numbers((3, 4, 16, 8))
    compiled = run(layer(), LINE, [ROWS, None], x, kernel, out=ROWS)
    assert far(compiled) == ["halo_exchange"]


# Size, stride, padding, and how far the elements of the kernel and of the images are apart.
FORMS: list[tuple[int, int, Any, int, int]] = [
    (3, 1, "SAME", 1, 1),
    (4, 1, [(0, 3), (1, 2)], 1, 1),
    (5, 2, [(4, 0), (2, 1)], 1, 1),
    (3, 1, [(-1, 3), (2, -1)], 1, 1),
    (3, 1, [(2, 2), (1, 2)], 2, 1),
    (2, 3, "SAME", 2, 1),
    (4, 1, [(2, 2), (1, 2)], 1, 2),
    (3, 1, [(1, 2), (1, 2)], 2, 3),
    (2, 2, [(0, 2), (2, 1)], 1, 2),
    (2, 4, [(1, -1), (2, 1)], 1, 1),
]
MESHES: list[tuple[Mesh, list[Any]]] = [
    (LINE, ROWS),
    (GRID, TILES),
    (GRID, [UNSHARDED, ("y", "x"), UNSHARDED, UNSHARDED]),
    (GRID, [UNSHARDED, "y", UNSHARDED, "x"]),
]


@pytest.mark.sweep
@pytest.mark.parametrize("parts", ["forward", "gradients"])
@pytest.mark.parametrize(("mesh", "specs"), MESHES)
@pytest.mark.parametrize(("size", "stride", "padding", "apart", "gap"), FORMS)
def test_windows_of_all_forms(
    size: int, stride: int, padding: Any, apart: int, gap: int, mesh: Mesh, specs: Any, parts: str
) -> None:
    function = layer(stride, padding, apart, gap)
    x, kernel = numbers((2, 96, 8, 6)) - 1, numbers((size, 4, 6, 1)) - 1
    run(function if parts == "forward" else gradients(function), mesh, [specs, None], x, kernel)


@pytest.mark.parametrize("dtype", [np.int32, np.uint8, np.float16, jnp.bfloat16, np.complex64])
def test_element_types(dtype: Any) -> None:
    x, kernel = numbers((2, 64, 12, 16), dtype), numbers((3, 4, 16, 2), dtype)
    compiled = run(layer(), LINE, [ROWS, None], x, kernel, out=ROWS)
    assert set(far(compiled)) == {"shard_permute"}


def test_groups() -> None:
    x, kernel = numbers((2, 64, 12, 16)), numbers((3, 4, 8, 4))
    compiled = run(layer(groups=2), LINE, [ROWS, None], x, kernel, out=ROWS)
    assert set(far(compiled)) == {"shard_permute"}
    run(layer(groups=2), GRID, [[UNSHARDED, "y", UNSHARDED, "x"], None], x, kernel)


def test_parts_that_float16_cannot_hold() -> None:
    x = np.zeros((1, 64, 4, 16), np.float16)
    x[0, 7], x[0, 8] = 3000, -3000
    kernel = np.ones((3, 4, 16, 2), np.float16)
    compiled = run(layer(), LINE, [ROWS, None], jnp.asarray(x), jnp.asarray(kernel), out=ROWS)
    assert set(far(compiled)) == {"shard_permute"}


@pytest.mark.sweep
@pytest.mark.parametrize("number", [np.inf, -np.inf, np.nan])
@pytest.mark.parametrize("row", range(5))
@pytest.mark.parametrize(("mesh", "specs"), MESHES[:2])
def test_kernels_that_are_not_finite(mesh: Mesh, specs: Any, row: int, number: float) -> None:
    kernel = np.random.default_rng(0).integers(-2, 3, (5, 3, 6, 2)).astype(np.float32)
    kernel[row, row % 3, 3, 1] = number
    x = numbers((1, 64, 12, 6)) - 1
    given = jnp.asarray(kernel)
    for function in (layer(), layer(2), layer(1, [(6, -1), (1, 1)])):
        run(function, mesh, [specs, None], x, given)


@pytest.mark.sweep
@pytest.mark.parametrize("number", [np.inf, np.nan])
@pytest.mark.parametrize("place", [0, 7, 8, 30, 63])
@pytest.mark.parametrize(("mesh", "specs"), MESHES[:2])
def test_cotangents_that_are_not_finite(mesh: Mesh, specs: Any, place: int, number: float) -> None:
    cotangent = np.random.default_rng(0).integers(-2, 3, (1, 64, 12, 2)).astype(np.float32)
    cotangent[0, place, place % 12, 1] = number

    def gradient(x: Any, kernel: Any, cotangent: Any) -> Any:
        return jax.vjp(layer(), x, kernel)[1](cotangent)[1]

    x, kernel = numbers((1, 64, 12, 6)) - 1, numbers((5, 3, 6, 2))
    run(gradient, mesh, [specs, None, specs], x, kernel, jnp.asarray(cotangent))


@pytest.mark.parametrize("channels", [160, 40])
def test_what_is_computed_more_is_part_of_the_price(channels: int) -> None:
    """Of 2 rows for a shard, 4 would be computed, which takes longer than sending a little more."""
    x, kernel = numbers((1, 16, 4, 512)), numbers((3, 3, 512, channels))
    rows = Layout(ROWS, LINE)
    jitted = jit(layer(), in_layouts=(rows, None), out_layouts=rows, mesh=LINE)
    sent_as = far(jitted.lower(x, kernel).compile())
    assert set(sent_as) == {"halo_exchange" if channels == 160 else "shard_permute"}


@pytest.mark.sweep
@pytest.mark.parametrize(("rows", "columns"), [(61, 12), (64, 11), (45, 13)])
@pytest.mark.parametrize(("mesh", "specs"), [(LINE, ROWS), (GRID, TILES), (SIX, TILES)])
def test_sizes_that_do_not_divide(mesh: Mesh, specs: Any, rows: int, columns: int) -> None:
    x, kernel = numbers((2, rows, columns, 8)), numbers((3, 3, 8, 2))
    layouts = Layout(specs, mesh), Layout(WHOLE, mesh)
    for function in (layer(), layer(2), gradients(layer()), gradients(layer(1, "VALID"))):
        check(function, x, kernel, mesh=mesh, in_layouts=layouts)


def test_inside_a_loop_and_of_many() -> None:
    def looped(x: Any, kernel: Any) -> Any:
        def step(x: Any, _: Any) -> Any:
            thin = layer()(x, kernel)
            return jnp.concatenate([thin % 3, x[..., 2:]], -1), jnp.sum(thin, (1, 2))

        return lax.scan(step, x, None, length=3)

    x, kernel = numbers((2, 64, 12, 8)), numbers((3, 4, 8, 2))
    compiled = run(looped, LINE, [ROWS, None], x, kernel)
    assert "shard_permute" in kinds(compiled)
    many = jax.vmap(layer(), (0, None))
    split = [UNSHARDED, *ROWS]
    run(many, LINE, [split, None], numbers((3, 2, 64, 12, 8)), kernel, out=split)
