"""The distributed array: a jax.Array and its layout."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

import jax
import numpy as np
from jax.sharding import get_abstract_mesh

from dtensor.dialect.errors import LayoutError, MeshError
from dtensor.dialect.layout import Layout
from dtensor.dialect.mesh import Mesh
from dtensor.dialect.of_torch import instead_of_torch
from dtensor.runtime import texts
from dtensor.runtime.array_type import TRACED as TRACED
from dtensor.runtime.array_type import ArrayType as ArrayType
from dtensor.runtime.array_type import array_type as array_type
from dtensor.runtime.array_type import as_weak, is_weak, narrowed
from dtensor.runtime.clients.agreement import agree_on_values
from dtensor.runtime.context import has_explicit_axes, sharding_on, typed_on
from dtensor.runtime.donation import note_alias, refuse_gone
from dtensor.runtime.keys import KeyKind, data_of, is_key, key_kind
from dtensor.runtime.operators import Operators, asked_by_operator, named
from dtensor.runtime.padding import Shard, cut, from_host, padded, true_part, true_ranges
from dtensor.runtime.placement import layout_of, local_devices, named_sharding
from dtensor.runtime.shardings import AnyMesh, as_mesh
from dtensor.runtime.tracing import arrays_from_outside, becomes_program

_T = TypeVar("_T")


def _asked(name: str, what: str) -> Callable[..., Any]:
    return named(lambda self: getattr(self._array, name)(), name, what)


def _to_python(kind: Callable[[Any], _T]) -> Callable[[Any], _T]:
    return lambda self: kind(self.item())


class DTensor(Operators):
    """An array laid out over a mesh: a `jax.Array` plus its `Layout`.

    Made by `copy_to_mesh`, `pack`, `from_jax` and compiled functions. It is a leaf-like node of
    jax's pytrees: `jax.tree.map` and `jax.jit` see the `jax.Array` beneath.

    Example:
        >>> rows = dtensor.Layout.batch_sharded(mesh, "x", rank=2)
        >>> x = dtensor.copy_to_mesh(np.ones((4, 8)), rows)
        >>> x.sum(axis=1).layout
        Layout(['x'], Mesh(x=2, y=4))
    """

    __slots__ = ("__weakref__", "_array", "_type")

    _array: jax.Array
    _type: ArrayType

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Refuse: `new_dtensor` makes one, and whoever calls it gives it an array and a type.

        Setting both here would take a third of the time of a result.
        """
        raise TypeError(
            "a DTensor is not made by calling its class: use dtensor.copy_to_mesh, pack or from_jax"
        )

    @property
    def shape(self) -> tuple[int, ...]:
        """Global shape in elements."""
        return self._type.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """Element type."""
        return self._type.dtype

    @property
    def layout(self) -> Layout:
        """How the array is laid out over its mesh."""
        assert self._type.layout is not None
        return self._type.layout

    @property
    def sharding(self) -> jax.sharding.Sharding:
        """The layout as jax's sharding."""
        key = self._type.key
        sharding = (self._array if key is None else key.keys(self._array)).sharding
        return sharding_on(sharding, get_abstract_mesh()) if has_explicit_axes() else sharding

    @property
    def mesh(self) -> Mesh:
        """The mesh the array lies on."""
        return self.layout.mesh

    @property
    def device(self) -> Mesh:
        """Where the array lies, in the array API's words: its mesh."""
        return self.mesh

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Global number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Global size in bytes; a replica does not count again."""
        return self._array.nbytes * self.size // max(1, math.prod(self._type.padded_shape))

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return self.dtype.itemsize

    @property
    def local_shape(self) -> tuple[int, ...]:
        """Shape of the shard one device holds, in elements."""
        return self.layout.local_shape(self.shape)

    def to_jax(self) -> jax.Array:
        """The jax.Array beneath, with a NamedSharding; nothing is copied.

        jax has no arrays that their sharding does not divide. Of such a layout this is a copy of
        the true size, the dimensions that are not divided whole on every device.

        Example:
            >>> rows = dtensor.Layout.batch_sharded(mesh, "x", rank=2)
            >>> x = dtensor.copy_to_mesh(np.ones((4, 8)), rows)
            >>> x.to_jax().addressable_data(0).shape
            (2, 8)
        """
        array, type_ = self._array, self._type
        if type_.is_padded:
            data = data_of_keys(self)
            array = as_weak(cut(array, data.shape, data.layout), type_.weak_type)
        if type_.key is not None:
            array = type_.key.keys(array)
        return typed_on(get_abstract_mesh(), array) if has_explicit_axes() else array

    @property
    def __jax_array__(self) -> Callable[[], jax.Array]:
        # What functions of jax.numpy take. A function that jax itself traces takes arguments only,
        # and of `array * x` the result shall be a DTensor: in both it is as if this were not there.
        is_program = becomes_program()
        if asked_by_operator() or (is_program and arrays_from_outside() is None):
            raise AttributeError("'DTensor' object has no attribute '__jax_array__' here")
        return partial(in_program, self) if is_program else self.to_jax

    def unpack(self) -> list[jax.Array]:
        """The shards this process holds, one per device, in the order of `mesh.local_devices()`.

        Returns:
            Arrays of `local_shape`, each on its own device; nothing is copied. Where the layout
            does not divide a dimension, the last shards have fewer elements, or none.

        Example:
            >>> rows = dtensor.Layout.batch_sharded(mesh, "x", rank=2)
            >>> x = dtensor.copy_to_mesh(np.ones((4, 8)), rows)
            >>> [shard.shape for shard in x.unpack()][:3]
            [(2, 8), (2, 8), (2, 8)]
        """
        refuse_gone(self._array)
        data = {shard.device: shard.data for shard in self.addressable_shards}
        here = local_devices(self.mesh)
        if not data.keys() >= set(here):
            raise MeshError(
                "the array lies on devices of before jax started anew, made by a program of then; "
                "compile the program again"
            )
        return [data[device] for device in here]

    @property
    def addressable_shards(self) -> list[Any]:
        """The parts that this process holds: `device`, `index`, `replica_id` and `data` of each."""
        note_alias(self._array)
        return self._shards()

    def _shards(self) -> list[Any]:
        shards = self._array.addressable_shards
        if self._type.key is not None or self._type.is_padded:
            return list(map(self._true_shard, shards))
        return list(shards)

    def _true_shard(self, shard: Any) -> Shard:
        ranges = true_ranges(shard.index, self._type.padded_shape, self.shape)
        index = tuple([slice(*ends) for ends in ranges])
        data = true_part(shard.data, ranges)
        if self._type.key is not None:
            data = self._type.key.keys(data)
        return Shard(shard.device, index, shard.replica_id, data)

    def addressable_data(self, index: int) -> jax.Array:
        """The part of one device, by its number among those of this process."""
        data: jax.Array = self.addressable_shards[index].data
        return data

    devices = _asked("devices", "The devices of jax that hold a part of the array.")
    is_deleted = _asked("is_deleted", "Whether the buffers are gone: donated, or deleted.")
    delete = _asked("delete", "Free the buffers now; the array cannot be used any more.")
    is_ready = _asked("is_ready", "Whether the array is computed.")
    copy_to_host_async = _asked(
        "copy_to_host_async", "Begin to copy this process's parts to the host."
    )
    committed = True  # jax moves no DTensor by itself

    @property
    def weak_type(self) -> bool:
        """Whether the element type gives way to others, as a Python number's does."""
        return self._type.weak_type

    @property
    def is_fully_addressable(self) -> bool:
        """Whether this process holds all of the array's parts."""
        return self._array.is_fully_addressable

    @property
    def is_fully_replicated(self) -> bool:
        """Whether each device holds all of the array."""
        return self._array.is_fully_replicated

    def __copy__(self) -> DTensor:
        return dtensor_of(self._array, self._type)

    def __deepcopy__(self, memo: Any) -> DTensor:
        return self.copy()

    def __reduce__(self) -> Any:
        if not self._array.is_fully_addressable:
            raise TypeError(
                f"a DTensor on {self.mesh.short()} cannot be pickled: other clients have a part of "
                "it; save it with dtensor.name_based_save"
            )
        refuse_gone(self._array)
        values = np.asarray(data_of(self.to_jax()))
        return _unpickled, (values, self.layout, self._type.key, self.weak_type)

    def block_until_ready(self) -> DTensor:
        """Wait until the array is computed; returns the array."""
        refuse_gone(self._array)
        self._array.block_until_ready()
        return self

    def numpy(self) -> np.ndarray[Any, Any]:
        """The values, of an array that is whole on every device.

        Raises:
            LayoutError: the array is sharded, so no device has all of it.
            MeshError: it lies on devices of other clients only.
            TypeError: it is of random keys, which NumPy does not have.

        Example:
            >>> x = dtensor.copy_to_mesh([1, 2, 3], dtensor.Layout.replicated(mesh, rank=1))
            >>> x.numpy()
            array([1, 2, 3], dtype=int32)
        """
        refuse_gone(self._array)
        if is_key(self.dtype):
            raise TypeError(
                f"NumPy has no arrays of {self.dtype}; read the data of the keys, with "
                "np.asarray(jax.random.key_data(x.to_jax()))"
            )
        if not self.layout.is_fully_replicated():
            whole = "Layout.replicated(x.mesh, x.ndim)"
            raise LayoutError(
                f"cannot read an array of layout {self.layout.short()}: no device holds all of it; "
                f"gather it with dtensor.relayout(x, {whole}), or read its shards with x.unpack()"
            )
        if not local_devices(self.mesh):
            raise MeshError(f"cannot read an array here: {texts.elsewhere(self.mesh)}")
        return np.asarray(self._array.addressable_data(0))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        return np.array(self.numpy(), dtype=dtype, copy=copy)

    def tolist(self) -> Any:
        """The elements as nested lists of Python numbers, of an array that is whole everywhere."""
        return self.numpy().tolist()

    def item(self) -> Any:
        """The value of an array of one element, as a Python number.

        Raises:
            ValueError: it has more elements, or none.

        Example:
            >>> dtensor.copy_to_mesh(2.5, dtensor.Layout.replicated(mesh, rank=0)).item()
            2.5
        """
        if self.size != 1:
            raise ValueError(
                f"an array of shape {list(self.shape)} is not one number; index it, or reduce it"
            )
        return self.numpy().item()

    def __bool__(self) -> bool:
        if self.size == 1:
            return bool(self.item())
        what = "x.any() or x.all()" if self.size else "x.size > 0"
        raise ValueError(
            f"the truth of an array of shape {list(self.shape)} is ambiguous; use {what}"
        )

    __float__ = _to_python(float)
    __int__ = _to_python(int)
    __complex__ = _to_python(complex)

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of an array without dimensions")
        return self.shape[0]

    def __format__(self, spec: str) -> str:
        return format(self.item(), spec) if spec else str(self)

    def __str__(self) -> str:
        """A number by itself; else TensorFlow's form: the values by device, and the layout."""
        return texts.in_full(self)

    def __repr__(self) -> str:
        head = f"DTensor(shape={self.shape}, dtype={self.dtype}, layout={self.layout.short()}, "
        return f"{head}mesh={self.mesh.short()})\n{texts.values(self)}"

    def _repr_html_(self) -> str:
        """Which devices hold which part, as a picture, and the values folded, in notebooks."""
        from dtensor.dialect.pictures.html import array_html

        return array_html(self.shape, str(self.dtype), self.layout, texts.values(self))

    if not TYPE_CHECKING:  # which then find misspelt names

        def __getattr__(self, name: str) -> Any:
            # Only names that a DTensor lacks come here.
            hint, instead = "", instead_of_torch(name)
            if instead is not None:
                hint = f"; write {instead}"
            elif not name.startswith("_") and hasattr(type(self._array), name):
                hint = f", but a jax.Array has: write x.to_jax().{name}"
            raise AttributeError(
                f"'{type(self).__name__}' object has no attribute '{name}'{hint}",
                name=name,
                obj=self,
            )


new_dtensor = DTensor.__new__


def dtensor_of(array: jax.Array, type: ArrayType) -> DTensor:
    """The DTensor of an array that is of this type; nothing is checked."""
    tensor = new_dtensor(DTensor)
    tensor._array = array
    tensor._type = type
    return tensor


ON_HOST: Final = "pinned_host"  # what jax calls the host's memory, where no DTensor lies


def from_jax(array: jax.Array, mesh: AnyMesh | None = None) -> DTensor:
    """The DTensor of a jax.Array that lies on a mesh; no element is copied.

    Args:
        array: an array with a NamedSharding (of a mesh with axes of any type).
        mesh: the mesh that the layout shall name, dtensor's or jax's; None finds it from the array.

    Raises:
        TypeError: not a jax.Array.
        LayoutError: its sharding is of another kind, or on other devices than `mesh`, or it lies in
            the host's memory.

    Example:
        >>> columns = jax.NamedSharding(jax.make_mesh((8,), ("x",)), jax.P(None, "x"))
        >>> dtensor.from_jax(jax.device_put(jnp.ones((4, 8)), columns)).layout
        Layout([UNSHARDED, 'x'], Mesh(x=8))
    """
    if not isinstance(array, jax.Array) or isinstance(array, jax.core.Tracer):
        is_as_it_is = isinstance(array, jax.core.Tracer | DTensor)
        hint = "it is used as it is" if is_as_it_is else "use copy_to_mesh for host arrays"
        kind = type(array).__name__
        raise TypeError(f"from_jax needs a concrete jax.Array, got {kind}; {hint}")
    mesh = None if mesh is None else as_mesh(mesh)
    if array.sharding.memory_kind == ON_HOST:
        raise LayoutError(
            "the array lies in the host's memory, and DTensors in the memory that devices compute "
            "in; place it there with dtensor.copy_to_mesh(array, layout)"
        )
    layout = layout_of(array.sharding, array.ndim, mesh)
    if layout is None:
        where = "a mesh" if mesh is None else mesh.short()
        raise LayoutError(
            f"array with sharding {array.sharding} is not laid out over {where}; "
            "place it with dtensor.copy_to_mesh(array, layout)"
        )
    return with_layout(array, layout)


def with_layout(array: jax.Array, layout: Layout) -> DTensor:
    """The DTensor of an array; no element moves where it lies as `layout` says.

    Unless the layout does not divide it, which makes a padded copy.
    jax can write one placement in several ways and would compile a program again for each, so the
    array's sharding becomes the one that `named_sharding` writes.
    """
    type_ = array_type(array.shape, array.dtype, layout, None, is_weak(array))
    if type_.key is not None:
        data = with_layout(jax.random.key_data(array), type_.key.data_layout(layout))
        return dtensor_of(data._array, type_)
    sharding = named_sharding(layout)
    if array.is_fully_addressable and not sharding.is_fully_addressable:
        array = as_weak(same_everywhere("an array", array, layout), type_.weak_type)
    elif type_.is_padded:
        array = as_weak(padded(array, layout), type_.weak_type)
    if array.sharding != sharding:
        array = jax.device_put(array, sharding)
        note_alias(array)
    return dtensor_of(array, type_)


def same_everywhere(name: str, values: Any, layout: Layout) -> jax.Array:
    """An array of values that each client has, laid out over several clients; padded.

    jax.device_put would send all of it to all clients, and says of a NaN that it differs.

    Raises:
        ClientError: another client has other values.
    """
    host = np.asarray(values)
    agree_on_values(name, host, layout.mesh)
    return from_host(host, layout)


def data_of_keys(tensor: DTensor) -> DTensor:
    """The data of a DTensor of random keys; any other DTensor as it is."""
    return tensor if tensor._type.key is None else dtensor_of(tensor._array, tensor._type.of_data())


def keys_like(old: Any, data: DTensor) -> DTensor:
    """The DTensor of random keys of this data, where `old` is of keys; else `data` itself."""
    kind = key_kind(old.dtype) if hasattr(old, "dtype") else None
    if kind is None:
        return data
    layout = kind.layout(data.layout)
    return dtensor_of(data._array, array_type(data.shape[: layout.rank], old.dtype, layout))


def true_array(array: jax.Array, type: ArrayType) -> jax.Array:
    """What `to_jax` gives of a DTensor of this array and type; a traced array is not cut."""
    if isinstance(array, jax.core.Tracer):
        return array if type.key is None or is_key(array.dtype) else type.key.keys(array)
    return dtensor_of(array, type).to_jax()


def in_program(tensor: DTensor) -> jax.Array:
    """What a function that jax traces computes with in place of a DTensor from outside of it.

    In one that `dtensor.jit` traces it is an argument of the program; under grad or vmap alone, a
    constant.

    Raises:
        TypeError: jax itself traces the function.
    """
    if not becomes_program():
        return true_array(tensor._array, tensor._type)
    if arrays_from_outside() is None:
        raise TypeError(
            "a DTensor from outside is used in a function that jax is tracing; pass it as an "
            "argument of that function, or compile the function with dtensor.jit"
        )
    value: jax.Array = arrays_from_outside().value_of(tensor)
    return value


def _unpickled(
    values: np.ndarray[Any, Any], layout: Layout, kind: KeyKind | None = None, weak: bool = False
) -> DTensor:
    wrong = narrowed(values.dtype)
    if wrong is not None:
        raise TypeError(f"the pickled array {wrong}")
    whole = layout if kind is None else kind.data_layout(layout)
    array = as_weak(from_host(values, whole), weak)
    type_ = array_type(values.shape, array.dtype, whole, None, weak)
    return keys_like(kind, dtensor_of(array, type_))
