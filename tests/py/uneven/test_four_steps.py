"""Fourier transforms along split rows of any length: in four steps, nothing is gathered."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dtensor.dialect.layout import UNSHARDED, Layout
from dtensor.dialect.mesh import Mesh
from dtensor.passes.ops.transform_rows import FourSteps, Kind, RowsOfShards, best_steps, factors
from tests.py.uneven.on_meshes import FIVE, GRID, LINE, SIX, check, gathered, sent

MESHES: list[tuple[Mesh, Any]] = [
    (LINE, "x"),
    (GRID, ("y", "x")),
    (SIX, ("x", "y")),
    (FIVE, "x"),
]
LENGTHS = [1000, 999, 1536, 4104]


def numbers(*shape: int, dtype: Any = np.complex64) -> np.ndarray[Any, Any]:
    rng = np.random.default_rng(2)
    real, imaginary = rng.normal(size=(2, *shape))
    is_complex = np.issubdtype(dtype, np.complexfloating)
    found: np.ndarray[Any, Any] = (real + 1j * imaginary if is_complex else real).astype(dtype)
    return found


def transforms(length: int, dtype: Any = np.complex64) -> dict[str, tuple[Callable[..., Any], Any]]:
    """Each transform of rows of a length, and three such rows."""
    real = np.float32 if dtype == np.complex64 else np.float64
    rows = numbers(3, length, dtype=dtype)
    return {
        "fft": (jnp.fft.fft, rows),
        "ifft": (jnp.fft.ifft, rows),
        "rfft": (jnp.fft.rfft, numbers(3, length, dtype=real)),
        "irfft": (lambda x: jnp.fft.irfft(x, length), rows[:, : length // 2 + 1]),
    }


def rounding(function: Callable[..., Any], x: Any) -> float:
    """What four transforms of each row may be off by, in all."""
    largest = float(np.abs(np.asarray(jax.jit(function)(x))).max())
    return 16 * float(np.finfo(x.dtype).eps) * largest


def checked(function: Callable[..., Any], x: Any, split: Layout, results: Layout | None) -> Any:
    """Compiled for an argument that is split, and run beside one device."""
    return check(
        function,
        x,
        mesh=split.mesh,
        in_layouts=(split,),
        out_layouts=results,
        absolute=rounding(function, x),
    )


@pytest.mark.sweep
@pytest.mark.parametrize(("mesh", "axes"), MESHES)
@pytest.mark.parametrize("length", LENGTHS)
def test_a_row_of_any_length(mesh: Mesh, axes: Any, length: int) -> None:
    split = Layout([UNSHARDED, axes], mesh)
    turn = MESHES.index((mesh, axes)) + LENGTHS.index(length)
    for k, (function, rows) in enumerate(transforms(length).values()):
        x = rows[:1]  # more might be divided among the devices
        results = split if (turn + k) % 2 else None
        compiled = checked(function, x, split, results)
        assert not gathered(compiled)
        assert {each.kind for each in compiled.collectives} == {"all_to_all"}


SHORT, NAMES = [96, 105, 30, 8], ["fft", "ifft", "rfft", "irfft"]


@pytest.mark.sweep
@pytest.mark.parametrize("length", SHORT)
@pytest.mark.parametrize("name", NAMES)
def test_short_rows_in_double_precision(name: str, length: int) -> None:
    with jax.enable_x64(True):
        function, x = transforms(length, np.complex128)[name]
        for mesh, axes in MESHES[(SHORT.index(length) + NAMES.index(name)) % 2 :: 2]:
            split = Layout([UNSHARDED, axes], mesh)
            error = rounding(function, x)
            check(function, x, mesh=mesh, in_layouts=(split,), absolute=error)


@pytest.mark.parametrize(
    ("name", "length", "most"),
    [
        ("fft", 8 * 513, 1.02),
        ("ifft", 8 * 513, 1.02),
        ("fft", 300_000, 1.05),
        ("rfft", 1 << 18, 1.05),
        ("irfft", 1 << 18, 1.05),
    ],
)
def test_little_more_is_sent_than_all_elements_three_times(
    name: str, length: int, most: float
) -> None:
    function, rows = transforms(length)[name]
    x, split = rows[0], Layout(["x"], LINE)
    compiled = check(
        function, x, mesh=LINE, in_layouts=(split,), absolute=rounding(function, x) * 4
    )
    elements = x.nbytes if name != "irfft" else x.nbytes - 8
    assert sent(compiled) <= most * 3 * 7 / 8 * elements / 8


def test_what_stands_between_transforms_of_real_rows_is_split_too() -> None:
    """The half of 4097 numbers that is kept is not given a layout by anyone."""

    def smoothed(x: Any) -> Any:
        waves = jnp.fft.rfft(x)
        return jnp.fft.irfft(waves * jnp.exp(-jnp.arange(waves.shape[-1]) / 100), x.shape[-1])

    split = Layout(["x"], LINE)
    x = numbers(1 << 13, dtype=np.float32)
    compiled = checked(smoothed, x, split, split)
    assert not gathered(compiled)
    assert sent(compiled) <= 1.25 * 2 * 3 * 7 / 8 * x.nbytes / 8


def test_gradients_of_transforms_of_real_rows() -> None:
    def loss(x: Any) -> Any:
        return jnp.sum(jnp.abs(jnp.fft.rfft(x)) ** 2 * jnp.arange(1 + (1 << 14))) / 1e6

    split = Layout(["x"], LINE)
    x = numbers(1 << 15, dtype=np.float32)
    gradient = jax.grad(loss)
    compiled = checked(gradient, x, split, split)
    assert not gathered(compiled)


@pytest.mark.parametrize("length", [180, 182, 105])
def test_what_a_real_transform_ignores_is_ignored(length: int) -> None:
    """The first number, and the last one of even lengths, count as real."""
    x = numbers(length // 2 + 1)
    x[0] += 5j
    x[-1] += 7j
    for mesh, axes in MESHES:
        function = transforms(length)["irfft"][0]
        check(
            function,
            x,
            mesh=mesh,
            in_layouts=(Layout([axes], mesh),),
            absolute=rounding(function, x),
        )


def test_a_prime_length_is_put_together() -> None:
    for function, x in transforms(997).values():
        split = Layout([UNSHARDED, "x"], LINE)
        check(function, x, mesh=LINE, in_layouts=(split,), absolute=rounding(function, x))
    assert best_steps(Kind.FFT, 997, 8, 125, 125) is None
    assert not factors(2)
    assert factors(12) == (2, 3, 4, 6)


@pytest.mark.parametrize("width", [1, 2, 3, 5, 7, 29, 36])
@pytest.mark.parametrize(("shard", "shards"), [(10, 4), (7, 6), (12, 3)])
def test_every_number_of_a_row_comes_from_its_shard(width: int, shard: int, shards: int) -> None:
    """What shards have, in rows, put together by `sources`, and cut up again by `wanted`."""
    rows = RowsOfShards(width, shard, shards)
    count, whole = shards * shard // width, np.arange(shards * shard)
    joined = np.zeros((shards * rows.count + 1) * width, dtype=int)
    for k in range(shards):
        at = k * rows.count * width + k * shard % width
        joined[at : at + shard] = whole[k * shard : (k + 1) * shard]
    blocks = joined.reshape(-1, width)
    found = sum(blocks[list(column)] for column in zip(*rows.sources(count), strict=True))
    np.testing.assert_array_equal(found, whole[: count * width].reshape(count, width))
    if count * width < len(whole):
        return
    wanted = np.asarray(found)[rows.wanted(count)].reshape(shards, -1)
    for k, held in enumerate(wanted):
        start = k * shard % width
        np.testing.assert_array_equal(
            held[start : start + shard], whole[k * shard : (k + 1) * shard]
        )


def test_rows_of_which_shards_hold_whole_ones_send_nothing_twice() -> None:
    steps = best_steps(Kind.FFT, 4096, 8, 512, 512)
    assert steps == FourSteps(Kind.FFT, 8, 512, 8, 512, 512)
    assert steps.elements == (512, 512, 512)
