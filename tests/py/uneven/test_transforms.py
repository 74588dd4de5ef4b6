"""Fourier transforms of planes that do not divide: the split moves, nothing is gathered."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dtensor.dialect.layout import UNSHARDED, Layout
from dtensor.dialect.mesh import Mesh
from dtensor.runtime.client import create_mesh
from tests.py.uneven.on_meshes import FIVE, GRID, SIX, check, gathered, sent

LINE = create_mesh([("x", 8)])


def waves(*shape: int) -> np.ndarray[Any, Any]:
    x = np.random.default_rng(0).normal(size=(2, *shape))
    found: np.ndarray[Any, Any] = (x[0] + 1j * x[1]).astype(np.complex64)
    return found


FORMS: dict[str, Callable[[Any], Any]] = {
    "plane": jnp.fft.fft2,
    "back": jnp.fft.ifft2,
    "real": lambda x: jnp.fft.irfft2(jnp.fft.rfft2(x.real), x.shape),
}


@pytest.mark.sweep
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("mesh", "axes", "shape"),
    [
        (LINE, "x", (100, 100)),
        (LINE, "x", (96, 101)),
        (LINE, "x", (97, 130)),
        (GRID, "y", (66, 130)),
        (GRID, ("y", "x"), (100, 90)),
        (FIVE, "x", (41, 83)),
        (FIVE, "x", (43, 41)),
    ],
)
def test_planes_that_do_not_divide(
    form: str, mesh: Mesh, axes: Any, shape: tuple[int, int]
) -> None:
    rows = Layout([axes, UNSHARDED], mesh)
    x = waves(*shape)
    compiled = check(
        FORMS[form], x, mesh=mesh, in_layouts=(rows,), out_layouts=rows, absolute=1e-4 * x.size**0.5
    )
    assert not gathered(compiled)
    assert {each.kind for each in compiled.collectives} == {"all_to_all"}


def test_cubes_that_do_not_divide() -> None:
    planes = Layout(["x", UNSHARDED, UNSHARDED], LINE)
    x = waves(18, 30, 26)
    compiled = check(
        jnp.fft.fftn, x, mesh=LINE, in_layouts=(planes,), out_layouts=planes, absolute=1e-2
    )
    assert not gathered(compiled)


def filtered(x: Any) -> Any:
    """Real numbers, of which frequencies are weighted."""
    half = x.shape[-1] // 2 + 1
    return jnp.fft.irfft2(jnp.fft.rfft2(x) * jnp.arange(1.0, half + 1) / half, x.shape[-2:])


def truncated(x: Any) -> Any:
    """Real numbers without their highest frequencies along the last dimension."""
    half = x.shape[-1] // 2 + 1
    kept = jnp.fft.rfft2(x)[..., : 2 * half // 3]
    behind = [(0, 0)] * (x.ndim - 1) + [(0, half - kept.shape[-1])]
    return jnp.fft.irfft2(jnp.pad(kept, behind), x.shape[-2:])


def steps(x: Any) -> Any:
    """Three steps whose state is of frequencies, with a product of places between."""

    def step(_: int, waves: Any) -> Any:
        places = jnp.fft.irfft2(waves, x.shape)
        return waves + 0.01 * jnp.fft.rfft2(places * places)

    return jnp.fft.irfft2(jax.lax.fori_loop(0, 3, step, jnp.fft.rfft2(x)), x.shape)


@pytest.mark.sweep
@pytest.mark.parametrize(
    ("form", "mesh", "axes", "shape", "transforms"),
    [
        (filtered, LINE, "x", (128, 128), 2),
        (filtered, LINE, "x", (3, 128, 128), 2),
        (filtered, LINE, "x", (100, 90), 2),
        (filtered, FIVE, "x", (40, 80), 2),
        (filtered, GRID, ("y", "x"), (96, 130), 2),
        (truncated, LINE, "x", (128, 128), 2),
        (steps, LINE, "x", (64, 64), 8),
    ],
)
def test_waves_stay_where_they_were_transformed(
    form: Callable[[Any], Any], mesh: Mesh, axes: Any, shape: tuple[int, ...], transforms: int
) -> None:
    """Halves of rows are padded, and split until columns are transformed back: each moves once."""
    rows = Layout([*[UNSHARDED] * (len(shape) - 2), axes, UNSHARDED], mesh)
    x = waves(*shape).real / shape[-1]
    compiled = check(form, x, mesh=mesh, in_layouts=(rows,), out_layouts=rows, absolute=1e-5)
    count = mesh.size
    half = -(-(shape[-1] // 2 + 1) // count) * count
    plane = half * (-(-shape[-2] // count)) * 8 * (shape[0] if len(shape) == 3 else 1)
    assert sent(compiled) == transforms * plane * (count - 1) / count


def test_images_of_a_batch_are_not_padded() -> None:
    """Axes that split the batch have no need of another dimension."""

    def smoothed(x: Any, kernel: Any) -> Any:
        waves = jnp.fft.rfft2(x) * jnp.fft.rfft2(kernel)
        return jnp.fft.irfft2(waves, x.shape[-2:]), jnp.abs(jnp.fft.fft(x, axis=1)).sum(-1)

    batch = Layout(["x", UNSHARDED, UNSHARDED], LINE)
    x, kernel = waves(16, 32, 32).real, waves(32, 32).real
    compiled = check(smoothed, x, kernel, mesh=LINE, in_layouts=(batch, None), absolute=1e-3)
    assert sent(compiled) == 0
    assert "c64[2,32,24]" not in compiled.as_text()


@pytest.mark.parametrize("form", FORMS)
def test_planes_that_are_whole_are_transformed_at_once(form: str) -> None:
    """As on one device: what was written apart, so that it might be split, was not."""
    whole = Layout([UNSHARDED, UNSHARDED], LINE)
    x = waves(32, 48)
    compiled = check(
        FORMS[form], x, mesh=LINE, in_layouts=(whole,), out_layouts=whole, absolute=1e-3
    )
    assert sent(compiled) == 0
    assert "fft_length={32,48}" in compiled.as_text()
    assert not re.search(r"fft_length=\{\d+\}", compiled.as_text())


def test_zeros_behind_the_end_do_not_spread_nan() -> None:
    rows = Layout(["x", UNSHARDED], LINE)
    x = waves(64, 66)
    x[3, 5] = np.nan
    check(lambda x: jnp.fft.fft2(x).real, x, mesh=LINE, in_layouts=(rows,))


def few_modes(x: Any) -> Any:
    """Two corners of what was transformed, put back between zeros."""
    z = jnp.fft.rfft2(x.real, norm="ortho")
    kept = jnp.zeros_like(z).at[..., :5, :7].set(z[..., :5, :7] * 2)
    kept = kept.at[..., -5:, :7].set(z[..., -5:, :7])
    return jnp.fft.irfft2(kept, x.shape[-2:], norm="ortho"), jnp.fft.fft2(x)[..., 3:19:5, -9:]


@pytest.mark.sweep
@pytest.mark.parametrize("shape", [(50, 30), (3, 41, 37), (9, 26, 44)])
@pytest.mark.parametrize("mesh", [LINE, FIVE, GRID, SIX])
def test_few_modes_of_planes_that_do_not_divide(mesh: Mesh, shape: tuple[int, ...]) -> None:
    x = waves(*shape)
    specs = [UNSHARDED] * (len(shape) - 2) + ["x", "y" if "y" in mesh.axis_names else UNSHARDED]
    layouts = Layout(specs, mesh)
    check(few_modes, x, mesh=mesh, in_layouts=(layouts,), error=3e-5, absolute=2e-4)

    def step(x: Any) -> Any:
        return jax.grad(lambda x: jnp.mean(few_modes(x)[0] ** 2))(x.real)

    check(step, x, mesh=mesh, in_layouts=(layouts,), error=3e-5, absolute=1e-6)
