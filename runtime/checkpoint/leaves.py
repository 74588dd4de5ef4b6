"""Arrays that are no DTensors, as DTensors, and back: host arrays, counters, random keys."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from dtensor.dialect.errors import CheckpointError
from dtensor.dialect.layout import Layout
from dtensor.dialect.mesh import Mesh
from dtensor.runtime.array import DTensor, data_of_keys, keys_like
from dtensor.runtime.checkpoint.named import is_variable, source_of, target_like, target_of
from dtensor.runtime.checkpoint.reading import Target
from dtensor.runtime.checkpoint.writing import Source
from dtensor.runtime.keys import is_key
from dtensor.runtime.placement import layout_of
from dtensor.runtime.transfer import place


def save_source(name: str, value: Any, mesh: Mesh) -> Source:
    """What is to be saved for an array or variable; what is not on a mesh is saved whole.

    Raises:
        CheckpointError: an array over the devices of another mesh, or of an element type that jax
            does not have.
    """
    if _is_on_mesh(value, mesh):
        return source_of(name, value, mesh)
    _check_single(name, value, mesh)
    if isinstance(value, jax.Array) and value.is_deleted():
        raise CheckpointError(f"'{name}' is deleted: its buffers were donated to a program")
    host = value if is_key(value.dtype) else np.asarray(value)
    try:
        return Source(data_of_keys(place(host, Layout.replicated(mesh, value.ndim))))
    except TypeError as error:
        raise CheckpointError(f"'{name}' cannot be saved: {error}") from None


def restore_target(name: str, value: Any, mesh: Mesh) -> Target:
    """As what is to be restored what shall take the place of an array or variable.

    Raises:
        CheckpointError: as for `save_source`.
    """
    if _is_on_mesh(value, mesh):
        return target_of(name, value, mesh)
    _check_single(name, value, mesh)
    return target_like(Layout.replicated(mesh, value.ndim), tuple(value.shape), value.dtype)


def _is_on_mesh(value: Any, mesh: Mesh) -> bool:
    if is_variable(value) or isinstance(value, DTensor | jax.core.Tracer):
        return True
    if not isinstance(value, jax.Array):
        return False
    return layout_of(value.sharding, value.ndim, mesh) is not None


def _check_single(name: str, value: Any, mesh: Mesh) -> None:
    if isinstance(value, jax.Array) and len(value.sharding.device_set) > 1:
        raise CheckpointError(
            f"'{name}' is laid out over several devices, but not over {mesh.short()}; copy it to "
            "that mesh with dtensor.copy_to_mesh(value, layout)"
        )
    if not is_key(value.dtype) and jax.dtypes.canonicalize_dtype(value.dtype) != value.dtype:
        raise CheckpointError(
            f"'{name}' is {value.dtype}, which jax uses only with "
            "jax.config.update('jax_enable_x64', True); set that, or convert the array"
        )


def restored_like(old: Any, tensor: DTensor) -> Any:
    """What takes the place of `old` when `tensor` was restored for it.

    A variable is assigned and stays; otherwise a value of the kind and the placement of `old`.
    """
    tensor = keys_like(old, tensor)
    if is_variable(old):
        old.assign(tensor)
        return old
    if isinstance(old, DTensor):
        return tensor
    if isinstance(old, jax.Array):
        return jax.device_put(tensor.to_jax(), old.sharding)
    values = np.array(tensor.to_jax().addressable_data(0))
    return values[()] if isinstance(old, np.generic) else values
