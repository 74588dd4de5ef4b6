"""Arrays without elements: one dimension is 0, the axes split the others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import dtensor
from dtensor.runtime.padding import even_layout
from tests.py.line.layouts import all_layouts, mesh, sample

Shapes = tuple[tuple[int, ...], ...]


def _convolution(image: Any, kernel: Any) -> Any:
    return lax.conv_general_dilated(image, kernel, (1, 1), "VALID")


PROGRAMS: dict[str, tuple[Callable[..., Any], Shapes]] = {
    "itself": (lambda a: a, ((0, 8),)),
    "elementwise": (lambda a: jnp.exp(a) + 1, ((0, 8),)),
    "transpose": (lambda a: a.T, ((0, 8),)),
    "reduce_nothing": (lambda a: (a.sum(0), a.max(0, initial=-3.0)), ((0, 8),)),
    "reduce_to_nothing": (lambda a: (a.sum(1), a.max(1)), ((0, 8),)),
    "init": (lambda a: lax.reduce(a, np.float32(3), lax.add, (0,)), ((0, 8),)),
    "concatenate": (lambda a, b: jnp.concatenate([a, b, a], 0), ((0, 8), (8, 8))),
    "concatenate_nothing": (lambda a, b: jnp.concatenate([a, b], 1), ((0, 8), (0, 4))),
    "dot_over_nothing": (lambda a, b: a @ b, ((8, 0), (0, 16))),
    "dot_of_no_rows": (lambda a, b: a @ b, ((0, 8), (8, 16))),
    "two_dots": (lambda a, b, c: (a @ b) @ c, ((8, 0), (0, 16), (16, 4))),
    "gather_nothing": (lambda a, i: a[i.astype(int)], ((8, 16), (0,))),
    "scatter_nothing": (lambda a, i, u: a.at[i.astype(int)].add(u), ((8, 16), (0,), (0, 16))),
    "sort": (lambda a: (jnp.sort(a, 0), jnp.sort(a, 1)), ((0, 8),)),
    "slice": (lambda a: (a[2:2], a[:, 4:4] * 2), ((8, 16),)),
    "pad": (lambda a: jnp.pad(a, ((2, 2), (0, 0))), ((0, 8),)),
    "pad_to_nothing": (lambda a: lax.pad(a, np.float32(0), ((-8, 0, 0), (0, 0, 0))), ((8, 16),)),
    "convolution": (_convolution, ((8, 4, 2, 8), (4, 4, 3, 3))),
    "convolution_of_no_channels": (_convolution, ((8, 0, 8, 8), (4, 0, 3, 3))),
    "fft": (lambda a: lax.fft(a.astype(np.complex64), "FFT", (0,)), ((8, 0),)),
    "irfft_to_nothing": (lambda a: jnp.fft.irfft(a.astype(np.complex64)), ((8, 1),)),
    "reshape": (lambda a: (a.reshape(4, 0, 2), a.reshape(0)), ((0, 8),)),
    "broadcast": (lambda a: jnp.broadcast_to(a[:, None], (8, 0, 16)), ((8, 16),)),
    "loop": (lambda a: lax.fori_loop(0, 3, lambda _, c: c * 2, a), ((0, 8),)),
    "scan": (lambda a: lax.scan(lambda c, r: (c + r, c), jnp.zeros(8), a), ((0, 8),)),
    "gradient": (lambda a: jax.grad(lambda v: (v @ v.T).sum())(a), ((0, 8),)),
    "normalise": (lambda a: a / a.sum(1, keepdims=True), ((0, 8),)),
}


def _assert_same(got: Any, want: Any) -> None:
    """As one device's, and each shard has its part of the shape, in jax whole if it is uneven."""
    results = jax.tree.leaves(got, is_leaf=lambda leaf: isinstance(leaf, dtensor.DTensor))
    for result, expected in zip(results, jax.tree.leaves(want), strict=True):
        array = result.to_jax()
        np.testing.assert_array_equal(np.asarray(array), np.asarray(expected))
        even = even_layout(result.layout, expected.shape)
        for shard in array.addressable_shards:
            assert shard.data.shape == even.local_shape(expected.shape)


@pytest.mark.sweep
@pytest.mark.parametrize("name", PROGRAMS)
def test_nothing_is_computed_as_on_one_device(name: str) -> None:
    fn, shapes = PROGRAMS[name]
    arrays = [np.arange(np.prod(s), dtype=np.float32).reshape(s) for s in shapes]
    want = jax.jit(fn)(*arrays)
    for layouts in sample(list(shapes), 3, seed=1):
        got = dtensor.jit(fn, in_layouts=layouts, mesh=mesh())(*arrays)
        _assert_same(got, want)


@pytest.mark.parametrize("dtype", ["float32", "complex64", "bfloat16"])
def test_nothing_is_moved_from_any_layout_to_any_other(dtype: str) -> None:
    empty = np.zeros((8, 0), jnp.dtype(dtype))
    for layout in all_layouts(empty.shape)[::4]:
        array = dtensor.copy_to_mesh(empty, layout)
        for after in all_layouts(empty.shape)[::5]:
            _assert_same(dtensor.relayout(array, after), empty)


def test_a_program_of_some_empty_arrays_is_called_with_donation_and_described() -> None:
    split = dtensor.Layout(["x", "y"], mesh())
    empty = dtensor.copy_to_mesh(np.zeros((2, 0), np.float32), split)
    full = np.arange(8.0, dtype=np.float32).reshape(2, 4)

    def step(nothing: Any, some: Any) -> tuple[Any, Any, Any]:
        return nothing + 1, some + 1, nothing.sum() + some.sum()

    jitted = dtensor.jit(step, in_layouts=(split, split), donate_argnums=(0, 1))
    for _ in range(2):
        some = dtensor.copy_to_mesh(full, split)
        _assert_same(jitted(empty, some), (empty, full + 1, np.float32(28)))
        assert some.to_jax().is_deleted()
    compiled = jitted.lower(empty, full).compile()
    assert compiled.program.results[0].shape == (2, 0)
    assert compiled.memory_analysis().argument_size_in_bytes == 4
