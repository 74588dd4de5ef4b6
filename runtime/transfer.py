"""Between hosts and devices: pack and unpack shards, copy an array to a mesh."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from typing import Any

import jax
import numpy as np

from dtensor.dialect.errors import LayoutError
from dtensor.dialect.layout import Layout
from dtensor.dialect.mesh import Mesh
from dtensor.runtime.array import DTensor, array_type, dtensor_of, from_jax, with_layout
from dtensor.runtime.clients.agreement import clients_of, exchange
from dtensor.runtime.donation import note_alias
from dtensor.runtime.host_arrays import refusal
from dtensor.runtime.keys import key_kind
from dtensor.runtime.padding import Ranges, Shape, padded, ranges_of, shape_of_parts
from dtensor.runtime.placement import local_devices, named_sharding
from dtensor.runtime.shardings import AnyLayout, as_layout
from dtensor.runtime.tracing import is_eager

Index = tuple[slice, ...]


def pack(tensors: Sequence[Any], layout: AnyLayout) -> DTensor:
    """One array from the shards of each device.

    Of shards that other clients have, the shapes are exchanged: all clients must call it.

    Args:
        tensors: one shard per device that this process drives, in the order of
            `mesh.local_devices()`; all of one shape and element type. Shards already on their
            device are not copied. Replicas are not compared.
        layout: how the shards make up the array.

    Raises:
        LayoutError: wrong number of shards, or shapes, element types or rank do not agree, or this
            process drives no device of the mesh.
        ClientError: another client does not call it in time.
        RuntimeError: called while tracing.
    """
    if not isinstance(tensors, Iterable):
        raise TypeError(
            f"pack needs a list of shards, got {type(tensors).__name__}; to split one array, use "
            "dtensor.copy_to_mesh"
        )
    if isinstance(tensors, DTensor | dict):
        raise TypeError(
            f"pack needs a list of shards, got a {type(tensors).__name__}; a DTensor goes to "
            "another layout by dtensor.relayout"
        )
    parts = list(tensors)
    if any(isinstance(part, jax.core.Tracer) for part in parts) or not is_eager():
        raise RuntimeError("pack must be called outside of traced functions")
    layout = as_layout(layout, jax.numpy.ndim(parts[0]) if parts else 0)
    devices = local_devices(layout.mesh)
    if len(parts) != len(devices):
        raise LayoutError(
            f"pack got {len(parts)} shards for the {len(devices)} local devices of "
            f"{layout.mesh.short()}; give one per device, replicas included"
        )
    if not parts:
        raise LayoutError(
            f"this client has no device in {layout.mesh.short()}, so it has no shard of the array "
            "to tell its shape by; call pack on the clients that have"
        )
    parts = [part if isinstance(part, jax.Array) else _on_host(part) for part in parts]
    dtypes = [part.dtype for part in parts]
    odd = next((i for i, dtype in enumerate(dtypes) if dtype != dtypes[0]), None)
    if odd is not None:
        raise LayoutError(
            f"shards must all have one dtype: shard 0 has {dtypes[0]}, shard {odd} has "
            f"{dtypes[odd]}"
        )
    if parts[0].ndim != layout.rank:
        is_array = isinstance(tensors, jax.Array | np.ndarray)
        raise LayoutError(
            f"layout {layout.short()} has {layout.rank} dimensions but the shards have rank "
            f"{parts[0].ndim}"
            + ("; to split one array, use dtensor.copy_to_mesh" if is_array else "")
        )
    sharding = named_sharding(layout)
    shape = _shape_of_parts([part.shape for part in parts], devices, layout)
    local = layout.local_shape(shape)
    parts = [_lengthened(part, local) for part in parts]
    placed = [jax.device_put(_owned(p), device) for p, device in zip(parts, devices, strict=True)]
    whole = layout.padded_shape(shape)
    array = jax.make_array_from_single_device_arrays(whole, sharding, placed)
    note_alias(array)
    return dtensor_of(array, array_type(shape, array.dtype, layout))


def _shape_of_parts(
    shapes: Sequence[Shape], devices: Sequence[jax.Device], layout: Layout
) -> Shape:
    """The shape of an array of these shards, of which the last may be shorter.

    A client whose shards are all alike cannot tell by them whether another has a shorter one.
    """
    whole = [dim.split for dim in layout.dims]
    places = named_sharding(layout).devices_indices_map(tuple(whole))
    starts = [tuple([start for start, _ in ranges_of(places[d], whole)]) for d in devices]
    if len(set(starts)) != math.prod(whole):
        shapes, starts = _of_all_clients(shapes, starts, layout.mesh)
    if all(shape == shapes[0] for shape in shapes):
        return layout.global_shape(shapes[0])
    odd = next(i for i, shape in enumerate(shapes) if shape != shapes[0])
    is_alike = all(len(shape) == layout.rank for shape in shapes)
    found = shape_of_parts(shapes, starts, layout) if is_alike else None
    if found is None:
        raise LayoutError(
            f"shards must all have one shape: shard 0 has {shapes[0]}, shard {odd} has "
            f"{shapes[odd]}; of a dimension that the devices do not divide only the last may be "
            "shorter"
        )
    return found


def _of_all_clients(
    shapes: Sequence[Shape], starts: Sequence[Shape], mesh: Mesh
) -> tuple[list[Shape], list[Shape]]:
    """The shapes of the shards of all clients, and which shard along each dimension each is."""
    own = json.dumps([shapes, starts])
    _, said = exchange("pack", clients_of(mesh), own)
    every = [json.loads(said[client]) for client in sorted(said)]
    found = [[tuple(row) for each in every for row in each[k]] for k in range(2)]
    return found[0], found[1]


def _lengthened(part: Any, local_shape: tuple[int, ...]) -> Any:
    if part.shape == local_shape:
        return part
    behind = [(0, n - size) for n, size in zip(local_shape, part.shape, strict=True)]
    return (jax.numpy if isinstance(part, jax.Array) else np).pad(part, behind)


def unpack(tensor: DTensor) -> list[jax.Array]:
    """The shards of `tensor` on this process's devices, in the order of `mesh.local_devices()`.

    Raises:
        TypeError: not a DTensor.
    """
    if isinstance(tensor, jax.core.Tracer):
        raise TypeError("unpack is for concrete arrays; in a traced function there are no shards")
    if not isinstance(tensor, DTensor):
        raise TypeError(
            f"unpack needs a DTensor, got {type(tensor).__name__}; place it with "
            "dtensor.copy_to_mesh, or use it as it is"
        )
    return tensor.unpack()


def fetch_layout(tensor: Any) -> Layout | None:
    """The layout of a DTensor or of a jax.Array on a mesh; None for anything else.

    Raises:
        TypeError: a traced array, whose layout is decided only after tracing.
    """
    if isinstance(tensor, DTensor):
        return tensor.layout
    if isinstance(tensor, jax.core.Tracer):
        raise TypeError(
            "fetch_layout got a traced array, whose layout is decided only after tracing; fetch it "
            "outside of the traced function"
        )
    if isinstance(tensor, jax.Array):
        try:
            return from_jax(tensor).layout
        except (LayoutError, TypeError):
            return None
    return None


def place(array: Any, layout: Layout) -> DTensor:
    """Copy an array to the mesh of `layout`, shard by shard.

    No device gets more than its own shard.

    Args:
        array: a host array, or a jax.Array anywhere.
        layout: complete and contiguous; where it does not divide a dimension, the last shards are
            padded.

    Raises:
        LayoutError: the layout does not fit the array.
        TypeError: not a numeric array.
    """
    source = array.to_jax() if isinstance(array, DTensor) else array
    if isinstance(source, jax.Array) and (kind := key_kind(source.dtype)) is not None:
        layout = layout.for_rank(source.ndim)
        layout.verify(source.shape, "an array of keys", uneven=True)
        data = place(jax.random.key_data(source), kind.data_layout(layout))
        return dtensor_of(kind.keys(data._array), array_type(source.shape, source.dtype, layout))
    source = source if isinstance(source, jax.Array) else host_array(source)
    layout = layout.for_rank(source.ndim)
    sharding = named_sharding(layout)
    layout.verify(source.shape, "an array", uneven=True)
    if isinstance(source, jax.Array):
        is_readable = source.is_fully_addressable or source.is_fully_replicated
        if not is_readable or source.sharding.is_equivalent_to(sharding, source.ndim):
            return with_layout(source, layout)
        # By the host: jax.device_put keeps the buffers of a device that has its shard already,
        # with may_alias=False too (0.10.2), and whoever donates the copy would take the source's.
        source = np.asarray(source)
    whole = padded(source, layout)
    shards: dict[Ranges, np.ndarray[Any, Any]] = {}  # copies: jax may take their memory as its own

    def shard(index: Index | None) -> np.ndarray[Any, Any]:
        ranges = ranges_of(index or (), whole.shape)
        if ranges not in shards:
            shards[ranges] = np.array(whole[index or ...])
        return shards[ranges]

    result = jax.make_array_from_callback(whole.shape, sharding, shard, dtype=source.dtype)
    return dtensor_of(result, array_type(source.shape, result.dtype, layout))


def host_array(value: Any) -> np.ndarray[Any, Any]:
    """The NumPy array of a value that is on the host, of an element type that jax has.

    Raises:
        OverflowError: an integer is outside of that type.
        TypeError: the value is not numeric.
        ValueError: its rows have different lengths.
    """
    try:
        array = np.asarray(value)
    except LayoutError:  # of a sharded DTensor
        raise TypeError(
            f"a {type(value).__name__} of sharded DTensors is not an array; for a tree of arrays, "
            "jax.tree.map the function over the arrays and their layouts, and to join them, "
            "dtensor.numpy.stack"
        ) from None
    except ValueError as error:
        raise ValueError(
            f"{type(value).__name__} is not an array: {_first_sentence(error)}; give "
            "rows of one length"
        ) from None
    if isinstance(value, Layout):
        raise TypeError("got a Layout where an array is expected; the array comes first")
    if isinstance(value, dict):
        raise TypeError(
            "a dict is not an array; for a tree of arrays, jax.tree.map the function over the "
            "arrays and their layouts"
        )
    _on_host(value)
    if isinstance(value, bool | int | float | complex):
        wanted = jax.dtypes.result_type(value)
    else:
        wanted = jax.dtypes.canonicalize_dtype(array.dtype)
    if wanted != array.dtype and wanted.kind in "iu" and array.size:
        _check_range(int(array.min()), int(array.max()), array.dtype, wanted)
    return array.astype(wanted, copy=False)


def _on_host(value: Any) -> np.ndarray[Any, Any]:
    """The NumPy array of a value, which devices can hold."""
    array = np.asarray(value)
    wrong = refusal(value) or refusal(array)
    if wrong is not None:
        raise TypeError(f"{type(value).__name__} {wrong}")
    return array


def _first_sentence(error: BaseException) -> str:
    return str(error).split(". ", 1)[0].rstrip(".")


def _check_range(low: int, high: int, given: np.dtype[Any], wanted: np.dtype[Any]) -> None:
    info = np.iinfo(wanted)
    if low < info.min or high > info.max:
        raise OverflowError(
            f"integer {low if low < info.min else high} does not fit {wanted}, which jax makes of "
            f"{given} unless jax_enable_x64 is on; turn that on, or convert the array first"
        )


def _owned(part: Any) -> Any:
    # On CPU jax may use a numpy array's memory as the buffer itself; the caller may write to it.
    return part if isinstance(part, jax.Array) else np.array(host_array(part))
