"""What is known of an array without its elements."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jax._src.array import ArrayImpl

from dtensor.dialect.layout import Layout
from dtensor.runtime.keys import KeyKind, key_kind


@dataclass(eq=False, repr=False, slots=True)
class ArrayType:
    """Global shape, element type and layout of an array; one object for each combination.

    Equal types are the same object, so a tuple of types is a cheap cache key.

    Attributes:
        shape: global shape in elements.
        dtype: element type; jax's own, for random keys.
        layout: how the array is laid out; None where it is not laid out over a dtensor mesh.
        sharding: jax's sharding, for an array on a device that came without a layout.
        weak_type: whether the element type gives way to others, as a Python number's does.
        padded_shape: global shape of what the devices hold, longer than `shape` along dimensions
            that the layout does not divide.
        key: the kind of random keys that it is an array of, whose data the devices hold; else None.
    """

    shape: tuple[int, ...] = ()
    dtype: np.dtype[Any] = np.dtype(bool)  # noqa: RUF009 - an element type does not change
    layout: Layout | None = None
    sharding: jax.sharding.Sharding | None = None
    weak_type: bool = False
    padded_shape: tuple[int, ...] = ()
    key: KeyKind | None = None

    @property
    def is_padded(self) -> bool:
        """Whether the devices hold more than the array's elements."""
        return self.padded_shape != self.shape

    def of_data(self) -> ArrayType:
        """The type of what the devices hold: of random keys, their data."""
        if self.key is None:
            return self
        layout = None if self.layout is None else self.key.data_layout(self.layout)
        return array_type((*self.shape, *self.key.shape), self.key.data_dtype, layout)

    def __reduce__(self) -> Any:  # so that a copy is the same object again
        return array_type, (self.shape, self.dtype, self.layout, self.sharding, self.weak_type)

    def __repr__(self) -> str:
        layout = "" if self.layout is None else f" {self.layout.short()}"
        return f"{self.dtype}[{','.join(map(str, self.shape))}]{layout}"


TRACED = ArrayType()
"""The type of a leaf that jax is tracing: the call stands inside another traced function."""

_types: dict[tuple[Any, ...], ArrayType] = {}


def array_type(
    shape: tuple[int, ...],
    dtype: Any,
    layout: Layout | None = None,
    sharding: jax.sharding.Sharding | None = None,
    weak_type: bool = False,
) -> ArrayType:
    """The one `ArrayType` of these properties."""
    key = (shape, dtype, layout, sharding, weak_type)
    found = _types.get(key)
    if found is None and layout is not None and layout.closed() is not layout:
        found = _types[key] = array_type(shape, dtype, layout.closed(), sharding, weak_type)
    if found is None:
        padded = shape
        # A layout that does not fit is refused elsewhere, by whoever lays the array out.
        if layout is not None and not layout.problem(shape, uneven=True):
            padded = layout.padded_shape(shape)
        kind = key_kind(dtype)
        dtype = np.dtype(dtype) if kind is None else dtype
        found = ArrayType(shape, dtype, layout, sharding, weak_type, padded, kind)
        found = _types.setdefault(key, found)  # another thread may have been first
    return found


def narrowed(dtype: Any) -> str | None:
    """Why jax cannot hold an element type as it is, said of an array; None if it can."""
    if key_kind(dtype) is not None or jax.dtypes.canonicalize_dtype(dtype) == dtype:
        return None
    return (
        f"is {dtype}, but jax's 64-bit types are off; turn them on with "
        'jax.config.update("jax_enable_x64", True), or convert it while they are on'
    )


def is_weak(array: Any) -> bool:
    """Whether an array, or a number of Python's, has a type that gives way to others."""
    number = isinstance(array, int | float | complex) and not isinstance(array, bool | np.generic)
    return number or getattr(array, "weak_type", False)  # random keys have none


def as_weak(array: jax.Array, weak: bool = True) -> jax.Array:
    """The array, in the same buffers, of a type that gives way to others if `weak` says so."""
    if not weak or isinstance(array, jax.core.Tracer) or array.weak_type:
        return array
    held: Any = array
    aval = held.aval.update(weak_type=True)
    return ArrayImpl(aval, array.sharding, held._arrays, array.committed, _skip_checks=True)
