"""The devices that collectives of manual regions run over, as lists of positions in the mesh."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

import numpy as np

from dtensor.dialect.diagnostics import error
from dtensor.dialect.mesh import Mesh
from dtensor.dialect.mlir import ir
from dtensor.passes.creation import matrix_attr

_GROUPS = "replica_groups"
_PAIRS = "source_target_pairs"
_CHANNEL = "channel_handle"
_GLOBAL_IDS = "use_global_device_ids"
_BY_PARTITION = ("stablehlo.all_to_all", "stablehlo.collective_broadcast")  # with a channel alone


def list_groups(op: ir.Operation, mesh: Mesh) -> None:
    """Write replica groups that jax 0.12 names by mesh axes as lists of devices.

    Raises:
        LocatedError: they are along a part of an axis, or along one that the mesh does not have.
    """
    written = str(op.attributes[_GROUPS])
    if not written.startswith("#stablehlo.replica_group_mesh_axes"):
        return
    axes = re.findall(r'name = "([^"]+)"', written)
    sizes = dict(mesh.axes)
    if "sub_axis" in written or any(axis not in sizes for axis in axes):
        error(op, f"a collective in shard_map runs over {written}; name whole axes of the mesh")
    devices = np.arange(mesh.size).reshape(list(sizes.values()))
    order = [list(sizes).index(axis) for axis in axes]
    groups = np.moveaxis(devices, order, range(-len(order), 0))
    groups = groups.reshape(-1, math.prod(sizes[axis] for axis in axes))
    op.attributes[_GROUPS] = matrix_attr(groups.tolist())


def check_groups(op: ir.Operation, name: str, mesh: Mesh, free: Sequence[str]) -> None:
    """Check which devices an operation of a manual region exchanges with, if it does.

    For each place along the axes that the region leaves to the compiler its groups have to be the
    same: only then do they mean the same on whatever shards the compiler makes along them.

    Args:
        op: the operation; its groups are lists already.
        name: its name.
        mesh: the module's mesh.
        free: axes of the mesh over which the region is not manual.

    Raises:
        LocatedError: its groups are not of devices, name one that is not there, or differ along a
            free axis.
    """
    key = next((key for key in (_GROUPS, _PAIRS) if key in op.attributes), None)
    if key is None:
        return
    _check_ids(op, name, key)
    groups = _rows(op.attributes[key])
    if key == _GROUPS and not groups:
        groups = [list(range(mesh.size))]
    strange = [n for group in groups for n in group if n >= mesh.size]
    if strange:
        error(
            op,
            f"{key} of {name} names device {strange[0]}, where {mesh.short()} has {mesh.size}, "
            "counted from 0; name those",
        )
    if free and not _is_alike(groups, mesh, free):
        manual = ", ".join(n for n, size in mesh.axes if size > 1 and n not in free)
        error(
            op,
            f"{key} of {name} differ along {', '.join(free)}, which this region of jax.shard_map "
            f"leaves to the compiler; let them run over {manual} alone, alike for each place "
            f"along {', '.join(free)}, or make it manual too",
        )


def _check_ids(op: ir.Operation, name: str, key: str) -> None:
    """Refuse what counts replicas, of which there is one, where devices are partitions of it."""
    is_by_id = key == _GROUPS and name not in _BY_PARTITION
    needed = [_CHANNEL, _GLOBAL_IDS] if is_by_id else [_CHANNEL]
    missing = [attribute for attribute in needed if attribute not in op.attributes]
    if missing:
        error(
            op,
            f"{name} has no {' and no '.join(missing)}, so it would run over replicas, of which "
            f"there is one; to run over devices, give it {' and '.join(needed)}",
        )


def _rows(attribute: ir.Attribute) -> list[list[int]]:
    """The rows of a matrix of devices, without the -1 that fill up shorter ones."""
    count, length = ir.RankedTensorType(ir.DenseIntElementsAttr(attribute).type).shape
    numbers = ir.DenseIntElementsAttr(attribute)
    rows = [[int(numbers[i * length + k]) for k in range(length)] for i in range(count)]
    return [[number for number in row if number >= 0] for row in rows]


def _is_alike(groups: Sequence[Sequence[int]], mesh: Mesh, free: Sequence[str]) -> bool:
    """Whether each group stands at one place along the free axes, and each place has the same."""
    positions = np.arange(mesh.size).reshape([size for _, size in mesh.axes])
    left = [k for k, (name, _) in enumerate(mesh.axes) if name in free]
    count = math.prod(mesh.axes[k][1] for k in left)
    table = np.moveaxis(positions, left, range(len(left))).reshape(count, -1)
    where = {int(n): (i, j) for i, row in enumerate(table) for j, n in enumerate(row)}
    found: list[list[list[int]]] = [[] for _ in range(count)]
    for group in groups:
        places = [where[n] for n in group]
        if len({place for place, _ in places}) != 1:
            return False
        found[places[0][0]].append([number for _, number in places])
    return all(sorted(each) == sorted(found[0]) for each in found)
