"""Between hosts and devices: pack and unpack shards, copy an array to a mesh, ask how it lies."""

from __future__ import annotations

import json
import math
import operator
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from dtensor.dialect.errors import LayoutError, MeshError
from dtensor.dialect.layout import Layout
from dtensor.runtime.array import DTensor, array_type, dtensor_of, keys_like, with_layout
from dtensor.runtime.array_type import as_weak, is_weak
from dtensor.runtime.clients.agreement import clients_of, exchange
from dtensor.runtime.context import without_mesh
from dtensor.runtime.donation import note_alias, refuse_deleted
from dtensor.runtime.keys import data_of, key_kind
from dtensor.runtime.padding import Shape, from_host, lengthened, ranges_of
from dtensor.runtime.placement import layout_of, local_devices, named_sharding
from dtensor.runtime.shardings import AnyLayout, as_layout, layout_anywhere
from dtensor.runtime.tracing import is_eager

if TYPE_CHECKING:
    from typing_extensions import TypeIs  # type checkers have it, whether it is installed or not


def pack(tensors: Sequence[Any], layout: AnyLayout) -> DTensor:
    """One array from the shards of each device.

    Of shards that other clients have, the shapes are exchanged: all clients must call it.

    Args:
        tensors: one shard per device that this process drives, in the order of
            `mesh.local_devices()`; all of one shape and element type. Shards already on their
            device are not copied. Replicas are compared, those of other clients are not.
        layout: how the shards make up the array.

    Raises:
        LayoutError: wrong number of shards, or shapes, element types or rank do not agree, or
            replicas differ, or this process drives no device of the mesh.
        ClientError: another client does not call it in time.
        RuntimeError: called while tracing.

    Example:
        >>> rows = dtensor.Layout([("x", "y"), dtensor.UNSHARDED], mesh)
        >>> shards = [np.full((1, 2), i) for i in range(8)]  # one for each device
        >>> dtensor.pack(shards, rows).shape
        (8, 2)
    """
    if isinstance(tensors, DTensor | dict) or not isinstance(tensors, Iterable):
        raise TypeError(
            f"pack needs a list of shards, got {type(tensors).__name__}; to split one array, use "
            "dtensor.copy_to_mesh, and dtensor.relayout to lay a DTensor out otherwise"
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
    odd = next((i for i, part in enumerate(parts) if part.dtype != parts[0].dtype), None)
    if odd is not None:
        raise LayoutError(
            f"shards must all have one dtype: shard 0 has {parts[0].dtype}, shard {odd} has "
            f"{parts[odd].dtype}"
        )
    if parts[0].ndim != layout.rank:
        raise LayoutError(
            f"layout {layout.short()} has {layout.rank} dimensions but the shards have rank "
            f"{parts[0].ndim}; to split one array, use dtensor.copy_to_mesh"
        )
    shape = _shape_of_parts([part.shape for part in parts], devices, layout)
    places = _places(layout, devices)
    kind = key_kind(parts[0].dtype)
    if kind is not None:  # an array of keys is not padded, but that of their data is
        shape, layout = (*shape, *kind.shape), kind.data_layout(layout)
    local = layout.local_shape(shape)
    held = [lengthened(data_of(part), local) for part in parts]
    placed = [
        # On CPU jax may use a NumPy array's memory as the buffer; the caller may write to it.
        jax.device_put(part if isinstance(part, jax.Array) else np.array(host_array(part)), device)
        for part, device in zip(held, devices, strict=True)
    ]
    _check_replicas(parts, placed, places)
    array = jax.make_array_from_single_device_arrays(
        layout.padded_shape(shape), named_sharding(layout), placed
    )
    note_alias(array)
    return keys_like(parts[0], dtensor_of(array, array_type(shape, array.dtype, layout)))


def _shape_of_parts(
    shapes: Sequence[Shape], devices: Sequence[jax.Device], layout: Layout
) -> Shape:
    """The shape of an array of these shards, of which the last may be shorter.

    A client whose shards are all alike cannot tell by them whether another has a shorter one.
    """
    counts = tuple([dim.split for dim in layout.dims])
    places = _places(layout, devices)
    if len(set(places)) != math.prod(counts):
        own = json.dumps([shapes, places])
        _, said = exchange("pack", clients_of(layout.mesh), own)
        every = [json.loads(said[client]) for client in sorted(said)]
        shapes, places = ([tuple(row) for each in every for row in each[k]] for k in range(2))
    if all(shape == shapes[0] for shape in shapes):
        return layout.global_shape(shapes[0])
    if all(len(shape) == layout.rank for shape in shapes):
        sizes: list[dict[int, int]] = [{} for _ in counts]
        for shape, place in zip(shapes, places, strict=True):
            for d, k in enumerate(place):
                sizes[d][k] = shape[d]
        found = tuple([sum(of.values()) for of in sizes])
        each = layout.local_shape(found)
        starts = [tuple(map(operator.mul, place, each)) for place in places]
        parts = [tuple(np.clip(np.subtract(found, s), 0, each).tolist()) for s in starts]
        if list(shapes) == parts:
            return found
    odd = next(i for i, shape in enumerate(shapes) if shape != shapes[0])
    raise LayoutError(
        f"shards must all have one shape: shard 0 has {shapes[0]}, shard {odd} has {shapes[odd]}; "
        "of a dimension that the devices do not divide only the last may be shorter"
    )


def _places(layout: Layout, devices: Sequence[jax.Device]) -> list[Shape]:
    """Which of the shards along each dimension each device has."""
    counts = tuple([dim.split for dim in layout.dims])
    indices = named_sharding(layout).devices_indices_map(counts)
    return [tuple([start for start, _ in ranges_of(indices[d], counts)]) for d in devices]


def _check_replicas(
    parts: Sequence[Any], placed: Sequence[jax.Array], places: Sequence[Shape]
) -> None:
    """Check that shards of one place are equal, NaN to NaN: on the host or else on their devices.

    Args:
        parts: the shards as they were given.
        placed: each on its device.
        places: which part of the array each is.

    Raises:
        LayoutError: two differ.
    """
    first: dict[Shape, int] = {}
    pairs: list[tuple[int, int, Any]] = []
    for number, (part, place) in enumerate(zip(parts, places, strict=True)):
        other = first.setdefault(place, number)
        if part is parts[other]:
            continue
        if isinstance(part, np.ndarray) and isinstance(parts[other], np.ndarray):
            pairs.append((other, number, _differs(part, parts[other]).any()))
        else:
            moved = jax.device_put(placed[other], placed[number].sharding)
            with without_mesh():
                pairs.append((other, number, _any_differs(placed[number], moved)))
    for other, number, differs in jax.device_get(pairs):
        if differs:
            own, others = (np.asarray(jax.device_get(placed[k])) for k in (number, other))
            at = tuple(map(int, np.argwhere(_differs(own, others))[0]))
            raise LayoutError(
                f"shards {other} and {number} are replicas of one part of the array, and differ: "
                f"at {list(at)} they have {others[at]} and {own[at]}; give both the same, "
                "or a layout that splits the array"
            )


def _differs(one: Any, other: Any) -> Any:
    return (one != other) & ((one == one) | (other == other))


@jax.jit
def _any_differs(one: jax.Array, other: jax.Array) -> jax.Array:
    return jax.numpy.any(_differs(one, other))


def unpack(tensor: DTensor) -> list[jax.Array]:
    """The shards of `tensor` on this process's devices, in the order of `mesh.local_devices()`.

    Raises:
        TypeError: not a DTensor.

    Example:
        >>> rows = dtensor.Layout.batch_sharded(mesh, "x", rank=2)
        >>> x = dtensor.copy_to_mesh(np.ones((4, 8)), rows)
        >>> dtensor.unpack(x)[0].shape
        (2, 8)
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

    Example:
        >>> rows = dtensor.Layout.batch_sharded(mesh, "x", rank=2)
        >>> x = dtensor.copy_to_mesh(np.ones((4, 8)), rows)
        >>> dtensor.fetch_layout(x.to_jax())
        Layout(['x', UNSHARDED], Mesh(x=2, y=4))
        >>> dtensor.fetch_layout(np.ones(3)) is None
        True
    """
    return _layout_here(tensor, "fetch_layout")


def _layout_here(tensor: Any, name: str) -> Layout | None:
    if isinstance(tensor, DTensor):
        return tensor.layout
    if isinstance(tensor, jax.core.Tracer):
        raise TypeError(
            f"{name} got a traced array, whose layout is decided only after tracing; ask outside "
            "of the traced function"
        )
    found = layout_of(tensor.sharding, tensor.ndim) if isinstance(tensor, jax.Array) else None
    return None if found is None else found.closed()


def is_dtensor(tensor: Any) -> TypeIs[DTensor]:
    """Whether a value is a DTensor, or a variable of one; False for anything else.

    Example:
        >>> rows = dtensor.Layout.batch_sharded(mesh, "x", rank=2)
        >>> x = dtensor.copy_to_mesh(np.ones((4, 8)), rows)
        >>> dtensor.is_dtensor(x), dtensor.is_dtensor(x.to_jax())
        (True, False)
    """
    return isinstance(tensor, DTensor)


def check_layout(tensor: Any, layout: AnyLayout) -> None:
    """Check that an array has a layout.

    Args:
        tensor: a DTensor, or a jax.Array on a mesh.
        layout: the layout it should have, on the same mesh; or a NamedSharding, or a PartitionSpec
            over the array's mesh. Priorities say when the compiler spreads a layout, and no array
            has them: they are not compared.

    Raises:
        LayoutError: it has another one, or none.

    Example:
        >>> rows = dtensor.Layout.batch_sharded(mesh, "x", rank=2)
        >>> x = dtensor.copy_to_mesh(np.ones((4, 8)), rows)
        >>> dtensor.check_layout(x, rows)  # raises nothing: that is its layout
    """
    if not isinstance(layout, AnyLayout):
        wrong = type(layout).__name__
        raise TypeError(f"check_layout compares with a Layout, not a value of type {wrong}")
    found = _layout_here(tensor, "check_layout")
    layout = layout_anywhere(layout, np.ndim(tensor), None if found is None else found.mesh)
    is_open = any(dim.is_open for dim in layout.dims)
    if found is None:
        raise LayoutError(
            f"a {type(tensor).__name__} that lies on no mesh has no layout, and {layout.short()} "
            "was expected; place it with dtensor.copy_to_mesh(tensor, layout)"
        )
    if found != (layout if is_open else layout.closed()):
        here, there = found.short(), layout.short()
        if found.mesh != layout.mesh:
            here, there = f"{here} on {found.mesh.short()}", f"{there} on {layout.mesh.short()}"
            there += " of other devices" if found.mesh.short() == layout.mesh.short() else ""
        raise LayoutError(
            f"Layout of tensor: {here}, did not match expected layout: {there}; bring it there "
            "with dtensor.relayout(tensor, layout)"
        )


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
    weak = is_weak(array)
    refuse_deleted((source,), ("array",))
    if isinstance(source, jax.Array) and (kind := key_kind(source.dtype)) is not None:
        layout = layout.for_rank(source.ndim)
        layout.verify(source.shape, "an array of keys", uneven=True)
        return keys_like(kind, place(jax.random.key_data(source), kind.data_layout(layout)))
    source = source if isinstance(source, jax.Array) else host_array(source)
    layout = layout.for_rank(source.ndim)
    sharding = named_sharding(layout)
    layout.verify(source.shape, "an array", uneven=True)
    if isinstance(source, jax.Array):
        is_whole_here = source.is_fully_replicated and source.addressable_shards
        is_readable = source.is_fully_addressable or is_whole_here
        if not is_readable or source.sharding.is_equivalent_to(sharding, source.ndim):
            _refuse_between_clients(source, layout)
            return with_layout(source, layout)
        # By the host: jax.device_put keeps the buffers of a device that has its shard already,
        # with may_alias=False too (0.10.2), and whoever donates the copy would take the source's.
        source = np.asarray(source)
    result = from_host(source, layout)
    type_ = array_type(source.shape, result.dtype, layout, None, weak)
    return dtensor_of(as_weak(result, weak), type_)


def asked_for() -> AbstractContextManager[Any]:
    """Around copies that were asked for: to jax's transfer guard explicit, as jax.device_put is."""
    how: Any = jax.config
    if how.jax_transfer_guard_host_to_device in ("disallow", "log"):  # explicit ones are allowed
        return jax.transfer_guard("allow")
    return nullcontext()


def _refuse_between_clients(source: jax.Array, layout: Layout) -> None:
    """Refuse an array that lies on other devices, of which this client does not drive all.

    Raises:
        MeshError: it does: jax moves arrays of several clients among the same devices only.
    """
    if source.sharding.device_set != named_sharding(layout).device_set:
        raise MeshError(
            f"cannot copy an array that other clients have a part of to {layout.mesh.short()}, "
            "which has other devices; relayout it replicated on its own mesh first, if each client "
            "has a device there, or save it and restore it in the new layout"
        )


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
            f"{type(value).__name__} is not an array: {str(error).split('. ')[0].rstrip('.')}; "
            "give rows of one length"
        ) from None
    if isinstance(value, Layout):
        raise TypeError("got a Layout where an array is expected; the array comes first")
    if isinstance(value, dict):
        raise TypeError(
            "a dict is not an array; for a tree of arrays, jax.tree.map the function over the "
            "arrays and their layouts"
        )
    _on_host(value)
    if isinstance(value, bool | int | float | complex) and not isinstance(value, np.generic):
        wanted = jax.dtypes.result_type(value)
    else:
        wanted = jax.dtypes.canonicalize_dtype(array.dtype)
    beyond = None if wanted == array.dtype else outside(array, wanted)
    if beyond is not None:
        raise OverflowError(
            f"integer {beyond} does not fit {wanted}, which jax makes of {array.dtype} unless "
            "jax_enable_x64 is on; turn that on, or convert the array first"
        )
    return array.astype(wanted, copy=False)


def outside(values: np.ndarray[Any, Any], dtype: Any) -> int | None:
    """One of some integers that an integer type does not have; None where it has them all."""
    is_integer = values.dtype.kind in "iuO" and jax.numpy.issubdtype(dtype, np.integer)
    if not is_integer or not values.size:
        return None
    limits: Any = jax.numpy.iinfo(dtype)  # type: ignore[no-untyped-call]
    ends = int(values.min()), int(values.max())
    return next((end for end in ends if not int(limits.min) <= end <= int(limits.max)), None)


def _on_host(value: Any) -> np.ndarray[Any, Any]:
    """The NumPy array of a value, which devices can hold."""
    array = np.asarray(value)
    wrong = refusal(value) or refusal(array)
    if wrong is not None:
        raise TypeError(f"{type(value).__name__} {wrong}")
    return array


def refusal(array: Any) -> str | None:
    """Why devices cannot hold a NumPy array as it is: what follows its name; None if they can.

    What is no array of NumPy's is not looked at.
    """
    if isinstance(array, np.ma.MaskedArray):
        return "is a masked array, whose mask would be lost; fill it first: x.filled(value)"
    if not isinstance(array, np.ndarray | np.generic):
        return None
    dtype = array.dtype
    # numpy counts bfloat16 and its like among the structures; jax knows them
    is_number = dtype.kind == "b" or (dtype.kind != "m" and jax.numpy.issubdtype(dtype, np.number))
    if not is_number or dtype.itemsize > (16 if dtype.kind == "c" else 8):
        limit = "give numbers of at most 64 bits, or an array of them"
        return f"has element type {dtype}, which devices cannot hold; {limit}"
    if not dtype.isnative:
        return (
            f"has element type {dtype}, of another order of bytes than the machine; give "
            "x.astype(x.dtype.newbyteorder('='))"
        )
    return None
