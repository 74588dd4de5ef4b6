"""Meshes, layouts and comparisons of the tests of single operations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import dtensor
from dtensor import UNSHARDED, DTensor, Layout, Mesh
from dtensor.compiler.eager.calls import requested
from dtensor.compiler.stages import Lowered

MESH_2X4 = dtensor.create_mesh([("x", 2), ("y", 4)])
MESH_3X2 = dtensor.create_mesh([("x", 3), ("y", 2)])


def layout(mesh: Mesh, *specs: Any) -> Layout:
    """A layout by its specs."""
    return Layout(list(specs), mesh)


def placed(values: Any, mesh: Mesh, *specs: Any) -> DTensor:
    """A DTensor of host values; dimensions without a spec are whole."""
    array = np.asarray(values)
    return dtensor.copy_to_mesh(
        array, Layout([*specs, *[UNSHARDED] * (array.ndim - len(specs))], mesh)
    )


def whole(x: Any) -> np.ndarray[Any, Any]:
    """The values of a DTensor of any layout, on the host; checks that every replica agrees."""
    assert isinstance(x, DTensor), f"{type(x)} is no DTensor"
    assert not x.layout.is_partial
    result: np.ndarray[Any, Any] = np.empty(x.shape, x.dtype)
    if any(size % dim.split for size, dim in zip(x.shape, x.layout.dims, strict=True)):
        return np.asarray(x.to_jax())  # its shards are padded, and put together
    if not x.size:  # the shards of jax.jit's empty results have the shape of the whole
        return result
    seen: dict[Any, np.ndarray[Any, Any]] = {}
    for shard in x.to_jax().addressable_shards:
        values = np.asarray(shard.data)
        assert values.shape == x.local_shape
        key = tuple((s.start, s.stop) for s in shard.index)
        np.testing.assert_array_equal(seen.setdefault(key, values), values)
        result[shard.index] = values
    return result


def assert_same(got: Any, expected: Any, rtol: float = 1e-6) -> None:
    """Compare DTensors, in tuples or alone, with host values."""
    if isinstance(expected, tuple | list):
        assert len(got) == len(expected)
        for one, other in zip(got, expected, strict=True):
            assert_same(one, other, rtol)
        return
    values = whole(got)
    assert values.shape == np.shape(expected)
    np.testing.assert_allclose(values, expected, rtol=rtol, atol=rtol)


def message(run: Callable[[], Any], error: type[BaseException]) -> str:
    """The message of the error that `run` raises, which is one line."""
    try:
        run()
    except error as found:
        text = str(found)
        assert "\n" not in text, text
        return text
    raise AssertionError(f"no {error.__name__} was raised")


def lowered(fn: Callable[..., Any], where: Any, *args: Any, **kwargs: Any) -> Lowered:
    """What `call_with_layout` compiles for these arguments; it does not run."""
    request = requested(fn, args, kwargs, "fn", where)
    assert request is not None
    return request.lower(request.bind(False)[0])
