"""What a DTensor looks like in print."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from dtensor.dialect.mesh import Mesh
from dtensor.runtime.donation import DELETED
from dtensor.runtime.keys import data_of
from dtensor.runtime.padding import ranges_of
from dtensor.runtime.placement import jax_mesh, local_devices

if TYPE_CHECKING:
    from dtensor.runtime.array import DTensor

_WHOLE_VALUES = 1000  # elements of a replicated array that are written out in full
_SHARDS_SHOWN = 8
_DEVICES_NAMED = 8  # of a mesh of so many devices all are named, as TensorFlow names them


def in_full(x: DTensor) -> str:
    """A number by itself; else TensorFlow's form.

    That is the values, or those of the first local devices, and the layout, with its devices where
    they are few.
    """
    if not x.shape and x._type.key is None and not x._array.is_deleted() and local_devices(x.mesh):
        return str(_host(x._array.addressable_data(0)))
    if x._array.is_deleted():
        values = DELETED
    elif not local_devices(x.mesh):
        values = "{}"
    elif x.layout.is_fully_replicated():
        values = _summary(_host(x._array.addressable_data(0)))
    else:
        names = [name.rpartition("device:")[2] for name in x.mesh.local_devices()]
        shards = zip(names, x.unpack(), strict=True)
        shown = [*islice(shards, _DEVICES_NAMED)]
        texts = [f'"{name}": {_summary(_host(shard))}' for name, shard in shown]
        texts += ["..."] if len(names) > len(shown) else []
        values = "{" + ", ".join(texts) + "}"
    layout = f'"{x.layout.to_string()}"'
    if x.mesh.size > _DEVICES_NAMED:
        layout = f"{x.layout.short()}, mesh={x.mesh.short()}"
    return f"DTensor({values}, layout={layout}, shape={x.shape}, dtype={x.dtype})"


def values(x: DTensor) -> str:
    """The values, of a sharded array those of each shard that is here after its indices."""
    if x._array.is_deleted():
        return DELETED
    if not local_devices(x.mesh):
        return elsewhere(x.mesh)
    if x.layout.is_fully_replicated():
        values = _host(x._array.addressable_data(0))
        return np.array2string(values, threshold=_WHOLE_VALUES)
    seen: dict[str, str] = {}
    for shard in x._shards():
        ranges = ranges_of(shard.index, x.shape)
        index = "[" + ", ".join(f"{start}:{stop}" for start, stop in ranges) + "]"
        if index in seen:
            continue
        if len(seen) == _SHARDS_SHOWN:
            seen["..."] = ""
            break
        text = np.array2string(
            _host(shard.data), threshold=8, edgeitems=2, max_line_width=1_000_000
        )
        seen[index] = " ".join(text.split())
    return "\n".join(f"{index} {values}".rstrip() for index, values in seen.items())


def elsewhere(mesh: Mesh) -> str:
    """Why this client has no value of an array on a mesh."""
    clients = sorted({device.process_index for device in jax_mesh(mesh).devices.flat})
    return (
        f"this is client {jax.process_index()}, which has no device in {mesh.short()}; "
        f"its clients are {', '.join(map(str, clients))}"
    )


def _host(array: jax.Array) -> np.ndarray[Any, Any]:
    """The values of an array that is here; of random keys, their data."""
    return np.asarray(data_of(array))


def _summary(values: np.ndarray[Any, Any]) -> str:
    """The first and last three elements along each dimension, floats in nine digits."""
    if values.dtype.kind == "V":  # bfloat16 and other types that numpy cannot write
        values = values.astype(np.float32)
    return np.array2string(
        values,
        threshold=0,
        edgeitems=3,
        max_line_width=1_000_000,
        formatter={"float_kind": lambda value: f"{value:.9g}"},
    )
