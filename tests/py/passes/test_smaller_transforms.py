"""Transforms of which few modes are read, or given: 8 devices against one, and what they send."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dtensor.dialect.layout import UNSHARDED
from dtensor.dialect.mesh import Mesh
from tests.py.passes.on_mesh import GRID, LINE, run, sent

BATCH, ROWS, COLUMNS, CHANNELS, MODES = 2, 48, 32, 6, 5
ERROR = 3e-5  # of sums of 1536 numbers in f32, in another order
LAYOUTS: list[tuple[Mesh, list[Any]]] = [
    (LINE, [UNSHARDED, "x", UNSHARDED, UNSHARDED]),
    (LINE, [UNSHARDED, UNSHARDED, "x", UNSHARDED]),
    (GRID, ["x", "y", UNSHARDED, UNSHARDED]),
    (GRID, [UNSHARDED, "y", "x", UNSHARDED]),
]


def numbers(*shape: int, dtype: Any = np.float32, seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    made = rng.standard_normal(shape)
    return (made + 1j * rng.standard_normal(shape) if dtype is np.complex64 else made).astype(dtype)


def corners(z: Any) -> tuple[Any, Any]:
    return z[:, :MODES, :MODES], z[:, -MODES:, :MODES]


def operator(x: Any, one: Any, other: Any) -> Any:
    """A layer of a Fourier neural operator: few modes, each by a matrix of its own."""
    low, high = corners(jnp.fft.rfft2(x, axes=(1, 2), norm="ortho"))
    z = jnp.zeros((*x.shape[:2], x.shape[2] // 2 + 1, x.shape[3]), jnp.complex64)
    z = z.at[:, :MODES, :MODES].set(jnp.einsum("bxyi,xyio->bxyo", low, one))
    z = z.at[:, -MODES:, :MODES].set(jnp.einsum("bxyi,xyio->bxyo", high, other))
    return jnp.fft.irfft2(z, axes=(1, 2), norm="ortho") + x


def step(x: Any, one: Any, other: Any) -> Any:
    def loss(x: Any, one: Any, other: Any) -> Any:
        return jnp.mean(operator(x, one, other) ** 2)

    return jax.grad(loss, argnums=(0, 1, 2))(x, one, other)


def forward(x: Any) -> Any:
    """Strides, several kinds, and some that are read in other places too."""
    whole = jnp.fft.fft2(x, axes=(1, 2))
    cut = jnp.fft.rfft2(x, axes=(2, 1), norm="ortho")
    return (
        jnp.fft.fft2(x * 1j, axes=(1, 2))[:, 3:20:4, ::8],
        cut[:, 1:4, -7:],
        jnp.fft.ifft2(x, axes=(1, 2))[:1, :, 9:12],
        jnp.fft.irfft2(x, axes=(1, 2))[:, 4:8].sum(axis=2),
        jnp.sum(jnp.abs(whole), axis=(1, 2)) + whole[:, 0, 0].real,
        jnp.fft.rfftn(x, axes=(1, 2, 3))[:, :5, :7, :2],
    )


def backward(x: Any) -> Any:
    """Zeros around, between and of either sign; and numbers that are none."""
    few = x[:, :6, :4]
    wide = jnp.pad(few, ((0, 0), (6, 36), (0, 28), (0, 0)))
    spread = jnp.zeros_like(x).at[:, 6:12, 1:5].set(few).at[:, 30:36, 20:24].add(few)
    return (
        jnp.fft.ifft2(wide * -2.0, axes=(1, 2)),
        jnp.fft.fft2(spread, axes=(1, 2)),
        jnp.fft.irfftn(-wide[..., :3] + 0j, axes=(1, 2, 3)),
        jnp.fft.fft2(
            jnp.pad(few, ((0, 0), (6, 36), (0, 28), (0, 0)), constant_values=1.0), axes=(1, 2)
        ),
        jnp.fft.fft2(wide / (wide.sum() * 0), axes=(1, 2)),
    )


@pytest.mark.parametrize(("mesh", "specs"), LAYOUTS)
@pytest.mark.parametrize("form", [forward, backward])
def test_modes(form: Any, mesh: Mesh, specs: list[Any]) -> None:
    x = numbers(BATCH, ROWS, COLUMNS, CHANNELS)
    run(form, mesh, [specs], x, error=ERROR, absolute=2e-4)


@pytest.mark.parametrize(("mesh", "specs"), LAYOUTS)
@pytest.mark.parametrize("batch", [1, BATCH])
def test_operator(batch: int, mesh: Mesh, specs: list[Any]) -> None:
    x = numbers(batch, ROWS, COLUMNS, CHANNELS)
    weights = [
        numbers(MODES, MODES, CHANNELS, CHANNELS, dtype=np.complex64, seed=s) for s in (1, 2)
    ]
    specs = [None if batch == 1 else specs[0], *specs[1:]]
    for form in (operator, step):
        run(form, mesh, [specs, None, None], x, *weights, error=ERROR, absolute=1e-5)


def solid(x: Any) -> Any:
    """Four corners of three dimensions; the gradient reads each of what others were cleared of."""
    z = jnp.fft.rfftn(x, axes=(1, 2, 3))
    kept = jnp.zeros_like(z)
    for a in (slice(None, 3), slice(-3, None)):
        for b in (slice(None, 2), slice(-2, None)):
            kept = kept.at[:, a, b, :3].set(z[:, a, b, :3] * 2)
    return jnp.fft.irfftn(kept, axes=(1, 2, 3))


@pytest.mark.parametrize(("mesh", "specs"), [*LAYOUTS[:1], *LAYOUTS[2:]])
def test_corners_of_three_dimensions(mesh: Mesh, specs: list[Any]) -> None:
    x = numbers(BATCH, 16, 12, 20, 3)
    given = [[*specs, UNSHARDED]]
    compiled = run(solid, mesh, given, x, error=ERROR, absolute=1e-5)
    assert sent(compiled) < x.nbytes / 8
    gradient = jax.grad(lambda x: jnp.mean(solid(x) ** 2))
    run(gradient, mesh, given, x, error=ERROR, absolute=1e-6)


@pytest.mark.parametrize("columns", [COLUMNS, 31])
def test_one_image(columns: int) -> None:
    """Of one array each dimension is transformed by itself, the last one a little longer."""

    def low(x: Any) -> Any:
        z = jnp.fft.rfft2(x)
        return jnp.fft.irfft2(jnp.zeros_like(z).at[3:8, :4].set(z[3:8, :4]), s=x.shape)

    x, specs = numbers(ROWS, columns), ["x", UNSHARDED]
    compiled = run(low, LINE, [specs], x, error=ERROR, absolute=1e-5, out=specs)
    assert sent(compiled) <= 2 * 5 * 4 * 8 * 2


def test_modes_are_cut_before_rows_are_sent() -> None:
    """Each device sends the modes of its rows, and gathers those of all."""

    def modes(x: Any) -> Any:
        return jnp.fft.rfft2(x, axes=(1, 2))[:, :MODES, :MODES]

    x, split = numbers(BATCH, 64, 48, 8), [UNSHARDED, "x", UNSHARDED, UNSHARDED]
    whole = [UNSHARDED] * 4
    compiled = run(modes, LINE, [split], x, error=ERROR, absolute=2e-4, out=whole)
    rows, result = (BATCH * n * MODES * 8 * 8 for n in (64 // 8, MODES))
    assert sent(compiled) == (rows + result) * 7 / 8


def test_few_modes_are_sent_there_and_none_back() -> None:
    """Less than half of what a device holds; all rows would be sent whole, twice."""
    x = numbers(BATCH, 64, 64, 8)
    weights = [numbers(MODES, MODES, 8, 8, dtype=np.complex64, seed=s) for s in (1, 2)]
    split = [UNSHARDED, "x", UNSHARDED, UNSHARDED]
    given = [split, None, None]
    compiled = run(operator, LINE, given, x, *weights, error=ERROR, absolute=2e-4, out=split)
    held = BATCH * 64 // 8 * 64 * 8 * 4
    assert sent(compiled) < held / 2
