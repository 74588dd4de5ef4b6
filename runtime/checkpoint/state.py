"""What there is to save in dicts, pytrees and objects, under which name, and what takes its place.

Arrays that lie on no mesh, such as NumPy's, are saved once, and are whole on every device.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

from dtensor.dialect.dim import Dim
from dtensor.dialect.errors import CheckpointError
from dtensor.dialect.layout import Layout
from dtensor.dialect.mesh import Mesh
from dtensor.runtime.array import DTensor, data_of_keys
from dtensor.runtime.checkpoint.record import SavedArray
from dtensor.runtime.donation import DELETED
from dtensor.runtime.keys import KeyKind, data_of, is_key, key_kind
from dtensor.runtime.placement import jax_mesh, layout_of
from dtensor.runtime.shardings import layout_anywhere, rank_of
from dtensor.runtime.transfer import place
from dtensor.runtime.variables.variable import DVariable

_ARRAYS = (DTensor, jax.Array, np.ndarray, np.generic)

# Types that tensorstore does not have, as what they are stored: with the same values or bits.
_SAME_BITS = "float8_e4m3"
_STORED = {"uint2": "uint8", "uint4": "uint8", _SAME_BITS: "uint8"}


class Source(NamedTuple):
    """An array to save, of random keys their data, and what the checkpoint says about it."""

    tensor: DTensor
    saved: SavedArray


class Target(NamedTuple):
    """What an array to restore shall be; None takes what was saved."""

    layout: Layout
    shape: tuple[int, ...] | None = None
    dtype: np.dtype[Any] | None = None
    keys: KeyKind | None = None  # of random keys their kind; the rest is about their data
    is_first: bool = False  # whether the layout is one of the first dimensions alone


def source_of(name: str, value: Any, mesh: Mesh) -> Source:
    """What is to be saved of a DTensor, a variable, or an array of jax or NumPy.

    Raises:
        CheckpointError: it lies on another mesh, is deleted, or has an element type that jax does
            not have.
    """
    layout = _layout_on(name, value, mesh, _SAVED)
    as_bf16 = isinstance(value, DVariable) and value.save_as_bf16
    value = value.read_value() if isinstance(value, DVariable) else value
    held = value._array if isinstance(value, DTensor) else value
    if isinstance(held, jax.Array) and held.is_deleted():
        raise CheckpointError(f"'{name}' is {DELETED}")
    if not isinstance(value, DTensor):
        if not is_key(value.dtype):
            check_width(f"'{name}'", value.dtype)
        try:
            value = place(value, layout)
        except TypeError as error:
            raise CheckpointError(f"'{name}' cannot be saved: {error}") from None
    data = data_of_keys(value)
    stored = jnp.bfloat16 if as_bf16 else _STORED.get(data.dtype.name, data.dtype)
    generator = _generator(key_kind(value.dtype))
    about = data.shape, data.dtype, np.dtype(stored), data.layout, generator
    return Source(data, SavedArray(name, *about))


def target_of(name: str, value: Any, mesh: Mesh) -> Target:
    """As what an array is to be restored; of random keys, their data.

    `value` is what `source_of` takes, a `jax.ShapeDtypeStruct`, or a layout alone, which may be a
    NamedSharding, or a PartitionSpec over `mesh`.

    Raises:
        CheckpointError: it does not say in which layout on `mesh`.
    """
    if isinstance(value, PartitionSpec | NamedSharding):
        given = layout_anywhere(value, rank_of(value), mesh, f"'{name}'")
        return Target(_layout_on(name, given, mesh, _RESTORED), is_first=True)
    layout = _layout_on(name, value, mesh, _RESTORED)
    if isinstance(value, Layout):
        return Target(layout)
    kind = key_kind(value.dtype)
    if kind is None:
        return Target(layout, tuple(value.shape), np.dtype(value.dtype))
    return _of_keys(layout, kind)._replace(shape=(*value.shape, *kind.shape))


def _of_keys(layout: Layout, kind: KeyKind) -> Target:
    return Target(kind.data_layout(layout), None, np.dtype(kind.data_dtype), kind)


def target_for(target: Target, saved: SavedArray, which: str) -> Target:
    """The target of a saved array: a layout alone, for random keys, is that of the keys.

    Raises:
        CheckpointError: the keys that were saved are of another generator.
    """
    wanted, found = _generator(target.keys), saved.generator
    if wanted and found and wanted != found:
        raise CheckpointError(
            f"{which} has random keys of {found}, but those of {wanted} are needed; restore it "
            f"into keys of its own generator, jax.random.key(0, impl={found!r})"
        )
    kind = None
    if found and target.dtype is None:
        kind = key_kind(jax.eval_shape(lambda: jax.random.key(0, impl=found)).dtype)
    if target.is_first:
        rank = len(saved.shape) - (0 if kind is None else len(kind.shape))
        more = rank - target.layout.rank
        whole = Layout.of((*target.layout.dims, *[Dim(())] * more), target.layout.mesh)
        target = Target(whole)
    return target if kind is None else _of_keys(target.layout, kind)


def _generator(kind: KeyKind | None) -> str:
    return kind.impl if kind is not None and isinstance(kind.impl, str) else ""


_SAVED = (
    "on {}, but the checkpoint is of {}; copy it to that mesh first, or use one checkpoint for "
    "each mesh"
)
_RESTORED = (
    "to be restored on {}, but the mesh given is {}; give the mesh of the layouts, and restore "
    "once for each mesh: the one that it was saved on does not matter"
)


def _layout_on(name: str, value: Any, mesh: Mesh, other: str) -> Layout:
    if isinstance(value, DTensor | Layout):
        layout = value if isinstance(value, Layout) else value.layout
        if layout.mesh != mesh and jax_mesh(layout.mesh) != jax_mesh(mesh):
            raise CheckpointError(f"'{name}' is {other.format(layout.mesh.short(), mesh.short())}")
        return layout
    if not isinstance(value, (*_ARRAYS, jax.ShapeDtypeStruct)):
        raise CheckpointError(
            f"'{name}' is of type {type(value).__name__}; give an array, a variable, a "
            "jax.ShapeDtypeStruct or a layout"
        )
    sharding = getattr(value, "sharding", None)
    found = None if sharding is None else layout_of(sharding, value.ndim, mesh)
    if found is None and sharding is not None and len(sharding.device_set) > 1:
        raise CheckpointError(
            f"'{name}' is laid out over several devices, but not over {mesh.short()}; copy it to "
            "that mesh with dtensor.copy_to_mesh(value, layout)"
        )
    return found or Layout.replicated(mesh, value.ndim)


def check_width(what: str, dtype: Any) -> None:
    """Raise CheckpointError for an element type that jax would make narrower."""
    if jax.dtypes.canonicalize_dtype(dtype) != dtype:
        raise CheckpointError(
            f"{what} is {dtype}, which jax uses only with "
            "jax.config.update('jax_enable_x64', True); set that, or convert the array"
        )


def converted(array: jax.Array, dtype: np.dtype[Any]) -> jax.Array:
    """The array in another element type, laid out as before; to a stored one, or from it."""
    if array.dtype == dtype:
        return array
    same_bits = _SAME_BITS in (array.dtype.name, dtype.name)

    def convert(x: jax.Array) -> jax.Array:
        return jax.lax.bitcast_convert_type(x, dtype) if same_bits else x.astype(dtype)

    result: jax.Array = jax.jit(convert, out_shardings=array.sharding)(array)
    return result


def restored_like(old: Any, tensor: DTensor) -> Any:
    """What takes the place of `old` when `tensor` was restored for it.

    A variable is assigned and stays; otherwise a value of the kind and the placement of `old`.
    """
    if isinstance(old, DVariable):
        return old.assign(tensor)
    if isinstance(old, DTensor):
        return tensor
    if isinstance(old, jax.Array):
        return _where_it_was(old, tensor)
    values = np.array(tensor.to_jax().addressable_data(0))
    return values[()] if isinstance(old, np.generic) else values


def _where_it_was(old: jax.Array, tensor: DTensor) -> jax.Array:
    """A restored array in the place of `old`; jax may move it again if it might move `old`."""
    found: jax.Array = tensor.to_jax()
    if old.is_fully_addressable and not found.is_fully_addressable:
        found = tensor.addressable_data(0)  # of an array that each client has for itself, all
    if old.committed:
        found = jax.device_put(found, old.sharding)
        return found
    kind, data = key_kind(old.dtype), jnp.array(np.asarray(data_of(found)))
    return data if kind is None else kind.keys(data)


Visit = Callable[[str, Any], Any]

_PLAIN = (bool, int, float, str)
_CODE = (type, types.FunctionType, types.BuiltinFunctionType, types.MethodType, types.ModuleType)
_LIBRARIES = ("jax", "jaxlib", "dtensor", "numpy")  # their objects hold caches, not state


def is_plain(value: Any) -> bool:
    """Whether this is a number or a text, which a checkpoint keeps as it is."""
    return type(value) in _PLAIN


def transform(
    value: Any, name: str, visit: Visit, is_attribute: bool = False, inside: tuple[int, ...] = ()
) -> Any:
    """The same value, with what `visit` returns in place of each thing to save.

    Dicts, lists and attributes of objects are changed in place, tuples and other nodes of jax's
    pytrees are made anew. What is in an object's attributes and is neither an array nor a variable
    is taken for configuration and left alone; anywhere else it is an error.

    Names of what a value holds follow after its own and a slash. `inside` has the ids of what is
    around it, and `is_attribute` says whether that is an object.

    Raises:
        CheckpointError: something that cannot be saved.
    """
    if isinstance(value, _ARRAYS) or is_plain(value):
        return value if is_attribute and is_plain(value) else visit(name, value)
    if id(value) in inside:
        return value

    def child(key: Any, item: Any, is_attribute: bool = is_attribute) -> Any:
        part = f"{name}/{key}" if name else str(key)
        return transform(item, part, visit, is_attribute, (*inside, id(value)))

    if isinstance(value, dict | list):
        for key, old in list(value.items() if isinstance(value, dict) else enumerate(value)):
            _put(child(key, old), old, partial(value.__setitem__, key))
        return value
    node: Any
    found, node = jax.tree_util.tree_flatten_with_path(value, is_leaf=lambda x: x is not value)
    if all(path for path, _ in found):  # a leaf of jax's is itself, at an empty path
        made = [child(jax.tree_util.keystr(path, simple=True), item) for path, item in found]
        is_same = all(new is old for new, (_, old) in zip(made, found, strict=True))
        return value if is_same else node.unflatten(made)
    if _holds_state(value):
        for key, old in list(vars(value).items()):
            _put(child(key, old, True), old, partial(setattr, value, key))
    elif not is_attribute:
        raise CheckpointError(_refusal(name, value))
    return value


def _refusal(name: str, value: Any) -> str:
    takes = "DTensors, variables, arrays, numbers, texts, and dicts, lists, objects of them"
    if callable(value):  # which modules hold beside their arrays
        takes += "; of an equinox module give eqx.filter(module, eqx.is_array)"
    kind = type(value).__name__
    return f"'{name}' is of type {kind}, which cannot be saved; a checkpoint takes {takes}"


def _put(new: Any, old: Any, put: Callable[[Any], None]) -> None:
    if new is not old:
        put(new)


def _holds_state(value: Any) -> bool:
    home = type(value).__module__.split(".")[0]
    return hasattr(value, "__dict__") and not isinstance(value, _CODE) and home not in _LIBRARIES
