"""Saving and restoring arrays by name."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

from dtensor.dialect.errors import CheckpointError
from dtensor.runtime.array import DTensor
from dtensor.runtime.checkpoint import series
from dtensor.runtime.checkpoint.checkpoint import DTensorCheckpoint
from dtensor.runtime.checkpoint.files import read_checkpoint
from dtensor.runtime.checkpoint.record import CheckpointInfo, read_record
from dtensor.runtime.checkpoint.state import is_plain, target_of
from dtensor.runtime.shardings import AnyMesh, as_mesh


def sharded_save(
    mesh: AnyMesh,
    file_prefix: Any,
    tensor_names: Sequence[str],
    shape_and_slices: Sequence[str | None],
    tensors: Sequence[Any],
    checksums: bool = True,
) -> None:
    """As `name_based_save`, from lists of names, of slices and of arrays.

    Arrays are saved whole, so each slice is "" or None.

    Raises:
        CheckpointError: the lists do not fit together, an array cannot be saved, or the checkpoint
            cannot be written.

    Example:
        >>> rows = dtensor.Layout.batch_sharded(mesh, "x", rank=2)
        >>> x = dtensor.copy_to_mesh(np.ones((4, 8)), rows)
        >>> dtensor.sharded_save(mesh, "weights", ["w"], [""], [x])
        >>> dtensor.list_checkpoint("weights")["w"].shape
        (4, 8)
    """
    names, slices, values = list(tensor_names), list(shape_and_slices), list(tensors)
    if not len(set(names)) == len(names) == len(slices) == len(values):
        raise CheckpointError(
            f"sharded_save got {len(set(names))} different names, {len(slices)} slices and "
            f"{len(values)} tensors; give one of each per tensor"
        )
    odd = next((part for part in slices if part), None)
    if odd is not None:
        raise CheckpointError(
            f'sharded_save was asked for the slice {odd!r}; arrays are saved whole, so give ""'
        )
    arrays = dict(zip(names, values, strict=True))
    name_based_save(mesh, file_prefix, arrays, checksums)


def name_based_save(
    mesh: AnyMesh,
    checkpoint_prefix: Any,
    name_tensor_dict: Mapping[str, Any],
    checksums: bool = True,
) -> None:
    """Save arrays by name to one checkpoint. Returns when it is on disk.

    Args:
        mesh: the mesh of the arrays.
        checkpoint_prefix: path of the checkpoint; one that is there is replaced, when the new one
            is whole.
        name_tensor_dict: by name DTensors, DVariables, or arrays of jax or NumPy, of which those
            that lie on no mesh are saved once.
        checksums: whether the elements get checksums, which restoring compares.

    Raises:
        CheckpointError: an array cannot be saved, or the checkpoint cannot be written.

    Example:
        >>> rows = dtensor.Layout.batch_sharded(mesh, "x", rank=2)
        >>> x = dtensor.copy_to_mesh(np.ones((4, 8)), rows)
        >>> dtensor.name_based_save(mesh, "weights", {"w": x})
        >>> dtensor.list_checkpoint("weights")["w"].shape
        (4, 8)
    """
    arrays = _checked(name_tensor_dict)
    for name, value in arrays.items():
        if is_plain(value):
            raise CheckpointError(
                f"'{name}' is of type {type(value).__name__}; what is saved by name are DTensors, "
                "variables, and arrays of jax or NumPy"
            )
    DTensorCheckpoint(mesh, arrays, checksums=checksums).write(checkpoint_prefix)


def name_based_restore(
    mesh: AnyMesh, checkpoint_prefix: Any, name_tensor_dict: Mapping[str, Any]
) -> OrderedDict[str, DTensor]:
    """The arrays of a checkpoint that have the given names, in the given layouts.

    The layout, the mesh and the number of devices may be others than when they were saved: each
    client reads only the parts that its devices hold.

    Args:
        mesh: the mesh of the layouts.
        checkpoint_prefix: path of the checkpoint.
        name_tensor_dict: by name what `name_based_save` takes, whose shape, element type and layout
            the result shall have (its values do not matter), a `jax.ShapeDtypeStruct`, or a
            layout alone, for random keys one of the keys: a `Layout`, a NamedSharding, or a
            PartitionSpec over `mesh`. What has no layout becomes whole on every device.

    Raises:
        CheckpointError: there is no such checkpoint, it lacks a name, an array has another shape or
            element type, or its files are damaged.
        LayoutError: an array cannot have the layout.

    Example:
        >>> rows = dtensor.Layout.batch_sharded(mesh, "x", rank=2)
        >>> x = dtensor.copy_to_mesh(np.ones((4, 8)), rows)
        >>> dtensor.name_based_save(mesh, "weights", {"w": x})
        >>> columns = dtensor.Layout.inner_sharded(mesh, "y", rank=2)
        >>> dtensor.name_based_restore(mesh, "weights", {"w": columns})["w"].layout
        Layout([UNSHARDED, 'y'], Mesh(x=2, y=4))
    """
    arrays, mesh = _checked(name_tensor_dict), as_mesh(mesh)
    path = series.checked(checkpoint_prefix)
    targets = {name: target_of(name, value, mesh) for name, value in arrays.items()}
    restored, _, _ = read_checkpoint(path, mesh, targets)
    return OrderedDict((name, restored[name]) for name in arrays)


def list_checkpoint(path: Any) -> CheckpointInfo:
    """What a checkpoint holds: names, shapes, element types, and the layouts when it was saved.

    Args:
        path: path of the checkpoint. Only its description is read; its arrays are not checked.

    Raises:
        CheckpointError: there is no such checkpoint, or its description is damaged.

    Example:
        >>> rows = dtensor.Layout.batch_sharded(mesh, "x", rank=2)
        >>> x = dtensor.copy_to_mesh(np.ones((4, 8)), rows)
        >>> dtensor.name_based_save(mesh, "weights", {"w": x})
        >>> print(dtensor.list_checkpoint("weights"))
        checkpoint .../weights: 1 array, 128 bytes, from mesh(x=2, y=4) by 1 client, ...
          name  shape   dtype    layout when saved
          w     [4, 8]  float32  [{"x"}, {}]
    """
    place = series.checked(path)
    return read_record(series.existing(place), place)


def _checked(tensors: Any) -> dict[str, Any]:
    if not isinstance(tensors, Mapping) or not tensors:
        raise CheckpointError(
            "arrays are given by name, in a dict that is not empty; this one is of type "
            f"{type(tensors).__name__}{'' if tensors else ', and empty'}"
        )
    for name in tensors:
        if not isinstance(name, str) or not name:
            raise CheckpointError(f"the name of an array is a text that is not empty, not {name!r}")
    return dict(tensors)
