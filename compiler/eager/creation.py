"""Arrays out of what lies on no mesh: `array`, and where any function's results shall lie."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dtensor.compiler.calls import is_dtensor
from dtensor.compiler.default_mesh import get_default_mesh
from dtensor.compiler.eager.calls import call, is_traced
from dtensor.compiler.relayout import copy_to_mesh, relayout
from dtensor.dialect.errors import LayoutError
from dtensor.dialect.layout import Layout
from dtensor.dialect.mesh import Mesh
from dtensor.runtime.array import DTensor, array_type, dtensor_of
from dtensor.runtime.array_type import as_weak, is_weak
from dtensor.runtime.shardings import AnyLayout, as_mesh
from dtensor.runtime.variables.facts import value_of


def placement(name: str, layout: Any, device: Any) -> tuple[Any, Mesh | None]:
    """The layout and the mesh that `layout=` and `device=` of a function ask for.

    Raises:
        LayoutError: both are given.
        TypeError: `device` is neither a mesh nor a layout.
    """
    if device is None:
        return layout, None
    if layout is not None:
        raise LayoutError(f"{name} got layout= and device=; give one of them")
    if isinstance(device, Mesh | jax.sharding.Mesh):
        return None, as_mesh(device)
    if isinstance(device, AnyLayout):
        return device, None
    raise TypeError(
        f"{name} got device= of type {type(device).__name__}; the device of a DTensor is its mesh"
    )


_LIKE = frozenset(("empty_like", "full_like", "ones_like", "zeros_like"))


def layout_of_model(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Layout | None:
    """The layout of the array that a new one is to be like; None for any other function."""
    if name not in _LIKE or not args or kwargs.get("shape") is not None:
        return None
    return args[0].layout if isinstance(args[0], DTensor) else None


def array(
    object: Any,
    dtype: Any = None,
    copy: bool = True,
    order: str = "K",
    ndmin: int = 0,
    *,
    layout: Layout | None = None,
    device: Mesh | Layout | None = None,
) -> Any:
    """The DTensor of a list, a NumPy array, a jax.Array or a DTensor, as jax.numpy.array.

    Args:
        object: what to make an array of; each device gets its shard only.
        dtype: element type; None is that of `object`, for Python numbers that of jax.numpy, which
            gives way to others.
        copy: whether a DTensor is copied.
        order: "K" or "C": there is no other order.
        ndmin: least number of dimensions; new ones come first.
        layout: the layout; None is that of a DTensor, or replicated on the default mesh.
        device: a mesh to replicate on, or a layout.

    Raises:
        LayoutError: neither a layout nor a mesh is known, or the layout does not fit.
        OverflowError: a Python integer is outside of the element type.
    """
    layout, mesh = placement("array", layout, device)
    if order not in ("K", "C"):
        raise ValueError(f"array got order={order!r}; a DTensor has no other than 'C'")
    object = value_of(object)
    leaves = jax.tree_util.tree_leaves(object, is_leaf=is_dtensor)
    if isinstance(object, DTensor):
        return _of_dtensor(object, dtype, copy, ndmin, layout, mesh)
    if any(isinstance(leaf, DTensor) for leaf in leaves):
        return call(jnp.array, (object,), {"dtype": dtype, "ndmin": ndmin}, "array", layout)
    if is_traced(leaves):
        traced = jnp.array(object, dtype=dtype, ndmin=ndmin)
        return traced if layout is None else relayout(traced, layout)
    host = _host_array(object, dtype)
    host = host.reshape((1,) * (ndmin - host.ndim) + host.shape)
    mesh = mesh or get_default_mesh()
    if layout is None:
        if mesh is None:
            raise LayoutError(
                "array got no layout, so its mesh is not known; give layout=, or call it inside of "
                "dtensor.default_mesh(mesh)"
            )
        layout = Layout.replicated(mesh, host.ndim)
    made = copy_to_mesh(host, layout)
    if dtype is not None or not is_weak(object):
        return made
    type_ = array_type(made.shape, made.dtype, made.layout, None, True)
    return dtensor_of(as_weak(made._array), type_)


def asarray(
    a: Any,
    dtype: Any = None,
    order: str | None = None,
    *,
    copy: bool | None = None,
    layout: Layout | None = None,
    device: Mesh | Layout | None = None,
) -> Any:
    """The DTensor of a list, an array or a DTensor, which is not copied; see `array`."""
    return array(a, dtype, bool(copy), order or "K", layout=layout, device=device)


def from_dlpack(
    x: Any,
    /,
    *,
    device: Mesh | Layout | None = None,
    copy: bool | None = None,
    layout: Layout | None = None,
) -> Any:
    """The DTensor of an array of another library, which exports it by DLPack; see `array`.

    Raises:
        ValueError: `copy` is False: shards are copies.
    """
    if copy is False:
        raise ValueError("from_dlpack got copy=False, but the shards of a DTensor are copies")
    return array(np.from_dlpack(x), layout=layout, device=device)


def to_device(x: Any, device: Any) -> Any:
    """`x` on another mesh, with the same sharding specs, or in another layout.

    Raises:
        LayoutError: the mesh lacks an axis, or its axis does not divide the dimension.
        TypeError: neither a mesh nor a layout.
    """
    layout, mesh = placement("to_device", None, device)
    if layout is None:
        layout = x.layout if mesh in (None, x.mesh) else _on_mesh(x, mesh)
    return relayout(x, layout)


def _on_mesh(x: Any, mesh: Any) -> Layout:
    if x.layout.is_fully_replicated():
        return Layout.replicated(mesh, x.ndim)
    try:
        layout = Layout([tuple(axis.name for axis in dim.axes) for dim in x.layout.dims], mesh)
        layout.verify(x.shape, uneven=True)
    except LayoutError as error:
        raise LayoutError(
            f"to_device cannot keep {x.layout.short()} on {mesh.short()}: {error}; give a layout, "
            "x.to_device(layout)"
        ) from None
    return layout


def _of_dtensor(
    x: Any, dtype: Any, copy: bool, ndmin: int, layout: Layout | None, mesh: Mesh | None
) -> Any:
    result = x
    if ndmin > x.ndim:
        result = result.reshape((1,) * (ndmin - x.ndim) + x.shape)
    if dtype is not None and (x.weak_type or jnp.dtype(dtype) != x.dtype):
        result = result.astype(dtype)
    if layout is None and mesh is not None:
        return to_device(result, mesh)
    if layout is not None:
        result = relayout(result, layout)
    return result.copy() if copy and result is x else result


def _host_array(value: Any, dtype: Any) -> np.ndarray[Any, Any]:
    given = np.asarray(value)
    wanted = jax.dtypes.canonicalize_dtype(given.dtype if dtype is None else dtype)
    if given.dtype.kind in "iu" and wanted.kind in "iu" and given.size:
        low, high = int(given.min()), int(given.max())
        info = np.iinfo(wanted)
        if low < info.min or high > info.max:
            bad = low if low < info.min else high
            raise OverflowError(f"{bad} is outside of {wanted}, {info.min} to {info.max}")
    return given.astype(wanted)
