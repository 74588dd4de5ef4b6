"""Frames of a split signal, one more than its devices divide: neighbours send what they lack."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dtensor.dialect.layout import UNSHARDED, Layout
from dtensor.dialect.mesh import Mesh
from tests.py.uneven.on_meshes import FIVE, GRID, LINE, check, cuts, gathered, sent

HOP, LENGTH = 16, 32


def places(count: int) -> Any:
    return jnp.arange(count)[:, None] * HOP + jnp.arange(LENGTH)


def centred(x: Any) -> Any:
    """The spectrum of frames, half of the first and of the last of which are outside."""
    signal = jnp.pad(x, LENGTH // 2)
    return jnp.abs(jnp.fft.rfft(signal[places(len(x) // HOP + 1)] * jnp.hanning(LENGTH)))


def there_and_back(x: Any) -> Any:
    """Quiet waves are taken out of a signal; what frames share is added up."""
    window = jnp.hanning(LENGTH)
    at = places(len(x) // HOP + 1)
    waves = jnp.fft.rfft(jnp.pad(x, LENGTH // 2)[at] * window)
    frames = jnp.fft.irfft(jnp.where(jnp.abs(waves) > 1, waves, 0), LENGTH) * window
    total = jnp.zeros(len(x) + LENGTH).at[at].add(frames)
    weight = jnp.zeros(len(x) + LENGTH).at[at].add(jnp.ones(at.shape) * window**2)
    return (total / jnp.maximum(weight, 1e-3))[LENGTH // 2 : -(LENGTH // 2)]


def library(x: Any) -> Any:
    """Frames that overlap by three quarters, as JAX makes them and adds them up."""
    shared = LENGTH * 3 // 4
    waves = jax.scipy.signal.stft(x, nperseg=LENGTH, noverlap=shared)[2]
    waves *= jnp.arange(1, waves.shape[-2] + 1)[:, None]
    return jax.scipy.signal.istft(waves, nperseg=LENGTH, noverlap=shared)[1]


@pytest.mark.sweep
@pytest.mark.parametrize(
    ("mesh", "axes", "size"), [(LINE, "x", 4096), (GRID, ("y", "x"), 2200), (FIVE, "x", 3200)]
)
def test_frames_of_the_library_are_added_up_where_they_are(
    mesh: Mesh, axes: Any, size: int
) -> None:
    signals = np.random.default_rng(0).normal(size=(2, size)).astype(np.float32)
    layout = Layout([axes], mesh)
    given: dict[str, Any] = {"in_layouts": (layout,), "out_layouts": layout, "error": 1e-4}
    compiled = check(library, signals[0], mesh=mesh, **given, absolute=1e-3)
    assert not gathered(compiled)
    check(
        jax.grad(lambda x: jnp.sum(library(x) ** 2)), signals[1], mesh=mesh, **given, absolute=1e-2
    )
    batch = Layout([UNSHARDED, axes], mesh)
    check(library, signals, mesh=mesh, in_layouts=(batch,), error=1e-4, absolute=1e-3)


@pytest.mark.sweep
@pytest.mark.parametrize("form", [centred, there_and_back])
@pytest.mark.parametrize(
    ("mesh", "axes", "size"),
    [(LINE, "x", 4096), (LINE, "x", 2048 + 128), (GRID, ("y", "x"), 4096), (FIVE, "x", 3200)],
)
def test_frames_around_both_ends(form: Any, mesh: Mesh, axes: Any, size: int) -> None:
    x = np.random.default_rng(0).normal(size=size).astype(np.float32)
    layout = Layout([axes], mesh)
    back = layout if form is there_and_back else None
    compiled = check(
        form, x, mesh=mesh, in_layouts=(layout,), out_layouts=back, error=1e-5, absolute=1e-5
    )
    assert not gathered(compiled)
    assert not cuts(compiled)
    # As many rows as there are shards, where each is one frame behind the one before it.
    assert sent(compiled) <= 4 * (mesh.size + 1) * HOP * 4


def halves(x: Any) -> Any:
    """Frames of two blocks each, the last of which ends outside."""
    blocks = jnp.pad(x, ((0, 0), (0, HOP))).reshape(len(x), -1, HOP)
    return jnp.concatenate([blocks[:, :-1], blocks[:, 1:]], -1)


def joined_halves(x: Any) -> Any:
    """The same, the end of which are ones."""
    blocks = jnp.concatenate([x, jnp.ones((len(x), HOP))], 1).reshape(len(x), -1, HOP)
    return blocks[:, :-1] * blocks[:, 1:]


def without_ends(x: Any) -> Any:
    """Blocks put one after another, all but the first and the last."""
    count = x.shape[1] // HOP
    blocks = x.reshape(len(x), count, HOP) * jnp.arange(1.0, count + 1)[:, None]
    inner = blocks.reshape(x.shape)[:, HOP:-HOP]
    return jnp.pad(inner.reshape(len(x), count - 2, HOP), ((0, 0), (1, 1), (0, 0)))


@pytest.mark.parametrize(("form", "rows"), [(halves, 1), (joined_halves, 1), (without_ends, 0)])
def test_cuts_of_blocks_are_cuts_of_rows(form: Any, rows: int) -> None:
    x = np.random.default_rng(1).normal(size=(3, 2048)).astype(np.float32)
    layout = Layout([UNSHARDED, "x"], LINE)
    blocks = Layout([UNSHARDED, "x", UNSHARDED], LINE)
    compiled = check(form, x, mesh=LINE, in_layouts=(layout,), out_layouts=blocks)
    assert sent(compiled) == rows * 3 * HOP * 4


def back_in_place(x: Any) -> Any:
    """Blocks of four rows, put one after another and moved."""
    blocks = jnp.sin(x).reshape(-1, 4, x.shape[1]) * 2
    return jnp.roll(blocks.reshape(x.shape), -2, 0)


def added_to_the_next(x: Any) -> Any:
    """Blocks of sixteen rows, to each of which the one before is added."""
    blocks = x.reshape(-1, 16, x.shape[1])
    before = jnp.concatenate([jnp.zeros_like(blocks[:1]), blocks[:-1]])
    return (blocks + before).reshape(x.shape)


@pytest.mark.parametrize("form", [back_in_place, added_to_the_next])
def test_blocks_that_do_not_divide_are_cut_like_what_they_are_read_of(form: Any) -> None:
    """What is cut anew for its blocks stays so: neighbours exchange a few rows of 4,128."""
    x = np.random.default_rng(2).normal(size=(4128, 3)).astype(np.float32)
    rows = Layout(["x", UNSHARDED], FIVE)
    compiled = check(form, x, mesh=FIVE, in_layouts=(rows,), out_layouts=rows, error=1e-6)
    assert not gathered(compiled)
    assert not cuts(compiled)
    assert sent(compiled) <= 4 * 5 * 16 * 3 * 4
