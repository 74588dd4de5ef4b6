"""What a variable may be given: checks of values against its shape, element type and layout."""

from __future__ import annotations

import reprlib
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dtensor.dialect.errors import LayoutError
from dtensor.dialect.layout import Layout
from dtensor.runtime.array import ON_HOST, ArrayType, DTensor, from_jax
from dtensor.runtime.array_type import is_weak
from dtensor.runtime.clients.agreement import agree_on_values
from dtensor.runtime.donation import refuse_deleted
from dtensor.runtime.eager import Slot
from dtensor.runtime.keys import data_of, is_key
from dtensor.runtime.placement import layout_of, named_sharding
from dtensor.runtime.shardings import AnyLayout, as_layout, layout_anywhere
from dtensor.runtime.transfer import asked_for, host_array, outside, place

_CONVERT = "convert it with value.astype(v.dtype)"

SMALL = 20
"""Integers, booleans and keys of fewer elements need no layout, as in single operations."""


def initial_tensor(value: Any, dtype: Any, layout: AnyLayout | None, who: str) -> DTensor:
    """The first value of a variable, which errors call `who`; its arguments are a variable's.

    Raises:
        LayoutError: there is no layout, or there are two, or it does not fit.
        TypeError: a DTensor of another element type, or no numeric value.
        ClientError: another client gives another host value.
    """
    try:
        dtype = None if dtype is None else jax.dtypes.canonicalize_dtype(dtype, True)
    except TypeError:
        raise TypeError(
            f"{who}: dtype is {reprlib.repr(dtype)}; give an element type, such as jnp.float32"
        ) from None
    if layout is not None:
        layout = _layout_for(value, layout, f"{who}: layout=")
        problem = layout.border_problem()
        if problem is not None:
            raise LayoutError(f"{who}: layout= cannot be {layout.short()}: {problem}")
        layout = layout.closed()
    if callable(value) and not isinstance(value, DTensor):
        if layout is not None:
            return Slot.engine.create(value, dtype, layout, who)
        value = value()
    found = _tensor(value)
    if found is None:
        if layout is None:
            raise LayoutError(
                f"{who} has no layout: give layout=, or a DTensor as the initial value, not one of "
                f"type {type(value).__name__}"
            )
        host = _host_values(value, dtype, who)
        with asked_for():
            tensor = place(host, layout)
            _agree(host, layout, who)
        return tensor
    refuse_deleted((found._array,), ("initial_value",))
    if layout is not None and found.layout != layout:
        raise LayoutError(
            f"{who}: the initial value has the layout {found.layout.short()} of "
            f"{found.mesh.short()}, but layout= says {layout.short()} of {layout.mesh.short()}; "
            "leave out layout=, or move the value with dtensor.relayout(value, layout)"
        )
    if dtype is not None and found.dtype != dtype:
        raise TypeError(
            f"{who}: the initial value is of {found.dtype}, but dtype= says {dtype}; leave out "
            "dtype=, or convert the value with value.astype(dtype)"
        )
    return found


def _agree(values: Any, layout: Layout, who: str) -> None:
    """Check that every client gives a variable the same values, where each gives its own.

    Unlike a copy, a variable is made and assigned to by all clients together, so they can compare.
    """
    is_own = not isinstance(values, jax.Array) or values.is_fully_addressable
    if is_own and not named_sharding(layout).is_fully_addressable:
        host = np.asarray(data_of(values) if isinstance(values, jax.Array) else values)
        agree_on_values(f"the value of {who}", host, layout.mesh)


def _layout_for(value: Any, layout: AnyLayout, what: str) -> Layout:
    """The layout given for a value, or for what a function makes."""
    if isinstance(layout, Layout):
        return layout
    if isinstance(value, DTensor):
        return layout_anywhere(layout, value.ndim, value.mesh, what)
    shape = jax.eval_shape(value).shape if callable(value) else np.shape(value)
    return as_layout(layout, len(shape), None, what)


def assigned_array(value: Any, type_: ArrayType, who: str) -> jax.Array:
    """The array that `value` gives a variable of this type, in the variable's layout.

    Raises:
        LayoutError: another shape or mesh, or an array that lies on none.
        TypeError: another element type, or no numeric value.
        ClientError: another client gives another host value.
    """
    layout = type_.layout
    assert layout is not None
    found = _tensor(value)
    if found is None:
        host = _small_values(value, type_.dtype, who)
        _check_shape(host.shape, type_, who)
        _agree(host, layout, who)
        return place(host, layout)._array
    refuse_deleted((found._array,), ("value",))
    _check_shape(found.shape, type_, who)
    _check_dtype(found.dtype, type_, who)
    _check_mesh(found, type_, who)
    if found.layout != layout:
        found = Slot.engine.to_device(found, layout)
    return found._array


def assigned_symbol(value: Any, type_: ArrayType, who: str) -> Any:
    """The traced array that `value` gives a variable within a program; errors as above."""
    symbol = value.to_jax() if isinstance(value, DTensor) else value
    if isinstance(symbol, jax.Array):
        _check_shape(symbol.shape, type_, who)
        if getattr(symbol, "weak_type", False) and _fits(symbol.dtype, type_.dtype):
            return symbol.astype(type_.dtype)
        _check_dtype(symbol.dtype, type_, who)
        return symbol
    host = _host_values(symbol, type_.dtype, who)
    _check_shape(host.shape, type_, who)
    return jnp.asarray(host)


def checked_delta(value: Any, type_: ArrayType, who: str) -> Any:
    """What is added to a variable outside of programs: a DTensor, a number, a small array.

    Raises:
        LayoutError: an array that lies on no mesh and is not small.
        OverflowError: an integer that the variable's element type does not have.
        TypeError: not numeric.
        ClientError: another client gives another host value.
    """
    found = _tensor(value)
    if found is not None:
        return found
    if type(value) is int:
        _check_range(np.asarray(value), type_.dtype, who)
    delta = value if _is_number(value) else _small_values(value, None, who)
    assert type_.layout is not None
    _agree(delta, type_.layout, who)
    return delta


def check_sum(delta: Any, type_: ArrayType, who: str) -> None:
    """Say of a variable by its name why a value of `checked_delta` could not be added to it.

    Raises:
        LayoutError: they lie on two meshes, or the sum has another shape.
        TypeError: the sum has another element type, or there is none.
    """
    if isinstance(delta, DTensor):
        _check_mesh(delta, type_, who)
    shape, dtype = np.shape(delta), jnp.result_type(delta) if _is_number(delta) else delta.dtype
    try:
        whole = np.broadcast_shapes(type_.shape, shape)
    except ValueError:
        whole = shape
    _check_shape(whole, type_, who)
    if is_key(type_.dtype) or is_key(dtype):
        raise TypeError(
            f"{who} is of {type_.dtype} and the value added to it of {dtype}; random keys cannot "
            "be added, use assign"
        )
    given: Any = jax.ShapeDtypeStruct(shape, dtype, weak_type=is_weak(delta))
    wanted = jax.dtypes.result_type(type_.dtype, given)
    remedy = "give a number of that kind" if _is_number(delta) else _CONVERT
    _check_dtype(wanted, type_, who, remedy)


def _is_number(value: Any) -> bool:
    return isinstance(value, bool | int | float | complex)


def _tensor(value: Any) -> DTensor | None:
    if isinstance(value, DTensor):
        return value
    if isinstance(value, jax.core.Tracer):
        raise TypeError("a traced array cannot be the value of a variable outside of dtensor.jit")
    if not isinstance(value, jax.Array) or value.sharding.memory_kind == ON_HOST:
        return None
    return None if layout_of(value.sharding, value.ndim) is None else from_jax(value)


def _small_values(value: Any, dtype: Any, who: str) -> Any:
    host = _host_values(value, dtype, who)
    is_counted = _is_keys(value) or np.asarray(value).dtype.kind in "iub"
    if host.ndim and not (host.size < SMALL and is_counted):
        raise LayoutError(
            f"{who} is given a plain {type(value).__name__} of {host.dtype}{list(host.shape)}; "
            f"only numbers, random keys and integer arrays of fewer than {SMALL} elements go to "
            "the mesh by themselves: use dtensor.copy_to_mesh(array, v.layout)"
        )
    return host


def _host_values(value: Any, dtype: Any, who: str) -> Any:
    """The NumPy array of a value in an element type; random keys stay an array of jax's."""
    host = value if _is_keys(value) else host_array(value)
    if dtype is None or host.dtype == dtype:
        return host
    if not _fits(host.dtype, dtype):
        remedy = "give keys of its generator" if is_key(dtype) else "convert it first"
        raise TypeError(
            f"{who} is of {dtype} and cannot take a value of {host.dtype} as it is; {remedy}"
        )
    _check_range(host, np.dtype(dtype), who)
    with np.errstate(over="ignore"):  # what is too large for a float type becomes infinite
        return host.astype(dtype, copy=False)


def _fits(given: Any, wanted: Any) -> bool:
    """Whether numbers of a type may become those of another by themselves: int to float, say."""
    return not is_key(given) and not is_key(wanted) and _rank(given) <= _rank(wanted)


def _is_keys(value: Any) -> bool:
    return isinstance(value, jax.Array) and is_key(value.dtype)


def _rank(dtype: Any) -> int:
    kinds = (np.bool_, np.integer, np.floating, np.complexfloating)
    return next((i for i, kind in enumerate(kinds) if jnp.issubdtype(dtype, kind)), len(kinds))


def _check_range(values: np.ndarray[Any, Any], dtype: np.dtype[Any], who: str) -> None:
    """Raise OverflowError where integers would change their value in an integer type."""
    beyond = outside(values, dtype)
    if beyond is not None:
        limits: Any = jnp.iinfo(dtype)  # type: ignore[no-untyped-call]
        raise OverflowError(
            f"{who} is of {np.dtype(dtype)}, {limits.min} to {limits.max}, and cannot take "
            f"{beyond}; give values in that range, or make a variable of a wider type"
        )


def _check_shape(shape: tuple[int, ...], type_: ArrayType, who: str) -> None:
    if shape != type_.shape:
        raise LayoutError(
            f"{who} has the shape {list(type_.shape)}, the value assigned to it {list(shape)}; a "
            "variable keeps its shape"
        )


def _check_dtype(dtype: Any, type_: ArrayType, who: str, remedy: str = _CONVERT) -> None:
    if dtype != type_.dtype:
        raise TypeError(f"{who} is of {type_.dtype}, the value assigned to it of {dtype}; {remedy}")


def _check_mesh(value: DTensor, type_: ArrayType, who: str) -> None:
    assert type_.layout is not None
    if value.mesh != type_.layout.mesh:
        raise LayoutError(
            f"{who} lies on {type_.layout.mesh.short()}, the value assigned to it on "
            f"{value.mesh.short()}; bring it over with dtensor.copy_to_mesh(value, v.layout)"
        )
