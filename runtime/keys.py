"""Arrays of random keys: their data, which is what programs and layouts on devices are about.

An array of keys has a data array beneath, of integers and with the dimensions of one key at its
end: `key<fry>[8]` is `uint32[8, 2]`. A layout of keys speaks of the keys' dimensions; a key itself
is never divided among devices.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import jax

from dtensor.dialect.dim import Dim
from dtensor.dialect.layout import Layout


@dataclass(frozen=True)
class KeyKind:
    """A kind of random key.

    Attributes:
        dtype: the element type of arrays of such keys.
        impl: the generator they are for, as jax.random.wrap_key_data takes it.
        shape: shape of the data of one key.
        data_dtype: name of the data's element type.
    """

    dtype: Any
    impl: Any
    shape: tuple[int, ...]
    data_dtype: str

    def data_layout(self, layout: Layout) -> Layout:
        """The layout of the data of keys that are laid out as `layout` says."""
        return Layout.of((*layout.dims, *[Dim(())] * len(self.shape)), layout.mesh)

    def layout(self, data_layout: Layout) -> Layout:
        """The layout of keys whose data is laid out as `data_layout` says."""
        return Layout.of(data_layout.dims[: data_layout.rank - len(self.shape)], data_layout.mesh)

    def keys(self, data: jax.Array) -> jax.Array:
        """The keys of a data array."""
        array: jax.Array = jax.random.wrap_key_data(data, impl=self.impl)
        return array


def is_key(dtype: Any) -> bool:
    """Whether an element type is that of random keys."""
    return bool(jax.numpy.issubdtype(dtype, jax.dtypes.prng_key))


def key_kind(dtype: Any) -> KeyKind | None:
    """The kind of the keys of an element type; None for any other type."""
    return _kind(dtype) if is_key(dtype) else None


@lru_cache
def _kind(dtype: Any) -> KeyKind:
    found: list[Any] = []

    def look(key: Any) -> Any:
        found.append(jax.random.key_impl(key))
        return jax.random.key_data(key)

    data = jax.eval_shape(look, jax.ShapeDtypeStruct((), dtype))
    return KeyKind(dtype, found[0], data.shape, data.dtype.name)


def data_of(array: Any) -> Any:
    """The data of an array of keys; any other array as it is."""
    return jax.random.key_data(array) if is_key(array.dtype) else array
