"""Fourier transforms between collectives, which may order values in memory in another way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dtensor
from tests.py.line.layouts import mesh

TRANSFORMS: dict[str, Callable[[Any], Any]] = {
    "fft": jnp.fft.fft,
    "rfft": jnp.fft.rfft,
    "fft2": jnp.fft.fft2,
}


@pytest.mark.sweep
@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("shape", [(4, 8, 16), (2, 4, 8, 16)])
def test_a_transform_beside_a_gather_of_any_dimension(
    transform: str, shape: tuple[int, ...]
) -> None:
    """XLA's CPU code failed where the gather was not of the first dimension."""
    fn = TRANSFORMS[transform]
    array = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    want = np.asarray(jax.jit(fn)(array))
    rank = len(shape)
    for dim in range(rank):
        specs: list[Any] = [dtensor.UNSHARDED] * rank
        specs[dim] = "x"
        layout = dtensor.Layout(specs, mesh())
        got = dtensor.jit(
            fn, in_layouts=layout, out_layouts=dtensor.Layout.replicated(mesh(), rank)
        )(array)
        # The same transform of the same rows on each device: only XLA's fusions may differ.
        np.testing.assert_allclose(got.numpy(), want, rtol=1e-5, atol=1e-5)
