"""Saving and restoring arrays by name."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dtensor.dialect.errors import CheckpointError, LayoutError
from dtensor.dialect.layout import Layout
from dtensor.dialect.mesh import Mesh
from dtensor.runtime.array import DTensor, data_of_keys, from_jax, keys_like
from dtensor.runtime.checkpoint import series
from dtensor.runtime.checkpoint.reading import Target, open_checkpoint, read_checkpoint
from dtensor.runtime.checkpoint.record import CheckpointInfo
from dtensor.runtime.checkpoint.writing import Source, write_checkpoint
from dtensor.runtime.keys import key_kind
from dtensor.runtime.placement import jax_mesh, layout_of


def sharded_save(
    mesh: Mesh,
    file_prefix: Any,
    tensor_names: Sequence[str],
    shape_and_slices: Sequence[str | None],
    tensors: Sequence[Any],
    checksums: bool = True,
) -> None:
    """Save arrays to one checkpoint; every client writes its shards. Returns when it is on disk.

    Args:
        mesh: the mesh of the arrays.
        file_prefix: path of the checkpoint; one that is there is replaced, when the new one is
            whole.
        tensor_names: a name for each array.
        shape_and_slices: "" or None for each array: arrays are saved whole.
        tensors: DTensors, jax.Arrays on the mesh, or DVariables.
        checksums: whether the elements get checksums, which restoring compares.

    Raises:
        CheckpointError: the lists do not fit together, an array cannot be saved, or the checkpoint
            cannot be written.
    """
    names, slices, values = list(tensor_names), list(shape_and_slices), list(tensors)
    if not len(names) == len(slices) == len(values):
        raise CheckpointError(
            f"sharded_save got {len(names)} names, {len(slices)} slices and {len(values)} tensors; "
            "give one of each per tensor"
        )
    for name, part in zip(names, slices, strict=True):
        if part not in ("", None):
            raise CheckpointError(
                f"sharded_save was asked for the slice {part!r} of '{name}'; arrays are saved "
                'whole, so give ""'
            )
        if names.count(name) > 1:
            raise CheckpointError(f"two tensors have the name {name!r}; names must differ")
    _save(mesh, file_prefix, dict(zip(names, values, strict=True)), "sharded_save", checksums)


def name_based_save(
    mesh: Mesh,
    checkpoint_prefix: Any,
    name_tensor_dict: Mapping[str, Any],
    checksums: bool = True,
) -> None:
    """Save arrays by name to one checkpoint. Returns when it is on disk.

    Args:
        mesh: the mesh of the arrays.
        checkpoint_prefix: path of the checkpoint; one that is there is replaced, when the new one
            is whole.
        name_tensor_dict: DTensors, jax.Arrays on the mesh, or DVariables, by name.
        checksums: whether the elements get checksums, which restoring compares.

    Raises:
        CheckpointError: an array cannot be saved, or the checkpoint cannot be written.
    """
    _save(mesh, checkpoint_prefix, name_tensor_dict, "name_based_save", checksums)


def _save(mesh: Mesh, prefix: Any, tensors: Mapping[str, Any], what: str, checksums: bool) -> None:
    _check_call(mesh, tensors, what)
    path = series.checked(prefix)
    sources = {name: source_of(name, value, mesh) for name, value in tensors.items()}
    place = series.replaced(path)
    write_checkpoint(place, mesh, sources, lambda number: {}, checksums=checksums).wait()


def name_based_restore(
    mesh: Mesh, checkpoint_prefix: Any, name_tensor_dict: Mapping[str, Any]
) -> OrderedDict[str, DTensor]:
    """The arrays of a checkpoint that have the given names, in the given layouts.

    The layout, the mesh and the number of devices may be others than when they were saved: each
    client reads only the parts that its devices hold.

    Args:
        mesh: the mesh of the layouts.
        checkpoint_prefix: path of the checkpoint.
        name_tensor_dict: by name a DTensor, DVariable or jax.Array whose shape, element type and
            layout the result shall have (its values do not matter), a `jax.ShapeDtypeStruct` with a
            sharding, or a `Layout` alone.

    Raises:
        CheckpointError: there is no such checkpoint, it lacks a name, an array has another shape or
            element type, or its files are damaged.
    """
    _check_call(mesh, name_tensor_dict, "name_based_restore")
    path = series.checked(checkpoint_prefix)
    targets = {name: target_of(name, value, mesh) for name, value in name_tensor_dict.items()}
    restored, _ = read_checkpoint(path, mesh, targets)
    return OrderedDict(
        (name, keys_like(value, restored[name])) for name, value in name_tensor_dict.items()
    )


def list_checkpoint(path: Any) -> CheckpointInfo:
    """What a checkpoint holds: names, shapes, element types, and the layouts when it was saved.

    Args:
        path: path of the checkpoint. Only its description is read; its arrays are not checked.

    Raises:
        CheckpointError: there is no such checkpoint, or its description is damaged.
    """
    return open_checkpoint(series.checked(path))[1]


def is_variable(value: Any) -> bool:
    """Whether this is a variable: something with a layout, to read and to assign to."""
    return all(hasattr(value, name) for name in ("layout", "read_value", "assign"))


def source_of(name: str, value: Any, mesh: Mesh) -> Source:
    """What is to be saved under `name`.

    Raises:
        CheckpointError: not an array on `mesh`.
    """
    as_bf16 = False
    if is_variable(value):
        as_bf16 = bool(getattr(value, "save_as_bf16", False))
        value = value.read_value()
    tensor = _on_mesh(name, value, mesh)
    if tensor._array.is_deleted():
        raise CheckpointError(f"'{name}' is deleted: its buffers were donated to a program")
    return Source(data_of_keys(tensor), as_bf16)


def target_of(name: str, value: Any, mesh: Mesh) -> Target:
    """What is to be restored under `name`.

    Raises:
        CheckpointError: it does not say in which layout on `mesh`.
    """
    if isinstance(value, Layout):
        _check_mesh(name, value, mesh)
        return Target(value)
    if isinstance(value, jax.ShapeDtypeStruct):
        layout = layout_of(value.sharding, len(value.shape), mesh)
        if layout is None:
            raise CheckpointError(
                f"'{name}' has the sharding {value.sharding}, which is no layout on "
                f"{mesh.short()}; give a Layout"
            )
        return target_like(layout, tuple(value.shape), value.dtype)
    tensor = value if is_variable(value) else _on_mesh(name, value, mesh)
    _check_mesh(name, tensor.layout, mesh)
    return target_like(tensor.layout, tensor.shape, tensor.dtype)


def target_like(layout: Layout, shape: tuple[int, ...], dtype: Any) -> Target:
    """As what is restored an array of this layout, shape and type; of random keys, their data."""
    kind = key_kind(dtype)
    if kind is None:
        return Target(layout, shape, np.dtype(dtype))
    return Target(kind.data_layout(layout), (*shape, *kind.shape), np.dtype(kind.data_dtype))


def _on_mesh(name: str, value: Any, mesh: Mesh) -> DTensor:
    if isinstance(value, jax.core.Tracer):
        raise CheckpointError(_traced(f"'{name}'"))
    if isinstance(value, jax.Array):
        try:
            value = from_jax(value)
        except (LayoutError, TypeError) as error:
            raise CheckpointError(f"'{name}' is not an array on {mesh.short()}: {error}") from None
    if not isinstance(value, DTensor):
        raise CheckpointError(
            f"'{name}' is of type {type(value).__name__}; a checkpoint takes DTensors: place it "
            "with dtensor.copy_to_mesh(value, layout)"
        )
    _check_mesh(name, value.layout, mesh)
    return value


def _check_mesh(name: str, layout: Layout, mesh: Mesh) -> None:
    if layout.mesh != mesh and jax_mesh(layout.mesh) != jax_mesh(mesh):
        raise CheckpointError(
            f"'{name}' is on {layout.mesh.short()}, but the checkpoint is of {mesh.short()}; copy "
            "it to that mesh first, or use one checkpoint for each mesh"
        )


def check_eager(what: str) -> None:
    """Raise CheckpointError inside a traced function, where there are no values.

    Args:
        what: what was called, for the message.
    """
    if isinstance(jnp.zeros(()), jax.core.Tracer):
        raise CheckpointError(_traced(what))


def _traced(what: str) -> str:
    return f"{what} is in a traced function, where there are no values; call it outside of jit"


def _check_call(mesh: Any, tensors: Any, what: str) -> None:
    check_eager(what)
    if not isinstance(mesh, Mesh):
        raise CheckpointError(f"{what} needs a Mesh first, got {type(mesh).__name__}")
    if not isinstance(tensors, Mapping):
        raise CheckpointError(
            f"{what} needs a dict of names to arrays, got {type(tensors).__name__}"
        )
    if not tensors:
        raise CheckpointError(f"{what} was given no arrays; name at least one")
    for name in tensors:
        check_name(name)


def check_name(name: Any) -> None:
    """Raise CheckpointError unless this can be the name of an array."""
    if not isinstance(name, str) or not name:
        raise CheckpointError(f"the name of an array is a text that is not empty, not {name!r}")
    try:
        name.encode()
    except UnicodeEncodeError as error:
        raise CheckpointError(f"the name {name!r} cannot be written: {error.reason}") from None
