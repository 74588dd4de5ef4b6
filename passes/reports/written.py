"""StableHLO's collectives that a user wrote inside `jax.shard_map`: their axes and bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

import numpy as np

from dtensor.dialect.mesh import Mesh
from dtensor.dialect.mlir import ir
from dtensor.passes.cost.model import (
    all_gather_bytes,
    all_reduce_bytes,
    all_to_all_bytes,
    permute_bytes,
    reduce_scatter_bytes,
)

# Wire bytes from the bytes of operands, of results, and the number of devices.
WRITTEN: Final[dict[str, Callable[[float, float, int], float]]] = {
    "stablehlo.all_gather": lambda _, result, n: all_gather_bytes(result, n),
    "stablehlo.all_reduce": lambda operand, _, n: all_reduce_bytes(operand, n),
    "stablehlo.all_to_all": lambda operand, _, n: all_to_all_bytes(operand, n),
    "stablehlo.collective_broadcast": lambda operand, _, n: permute_bytes(operand),
    "stablehlo.collective_permute": lambda operand, _, n: permute_bytes(operand),
    "stablehlo.reduce_scatter": lambda operand, _, n: reduce_scatter_bytes(operand, n),
}


def written_axes(op: ir.Operation, mesh: Mesh) -> tuple[tuple[str, ...], int]:
    """The mesh axes along which devices of one group differ, and the size of a group."""
    name = "source_target_pairs" if "source_target_pairs" in op.attributes else "replica_groups"
    groups = np.array(ir.DenseElementsAttr(op.attributes[name]))
    if not groups.size:  # nothing listed: one group of all devices
        groups = np.arange(mesh.size).reshape(1, -1)
    sizes = [size for _, size in mesh.axes]
    places = np.stack(np.unravel_index(np.maximum(groups, 0), sizes), -1)
    differs = (places != places[:, :1]).any((0, 1))
    names: Iterable[tuple[str, int]] = mesh.axes
    return tuple([n for (n, _), d in zip(names, differs, strict=True) if d]), groups.shape[1]
