"""Collectives of each device with itself, which jax writes for `shard_map` over axes of one device.

There jax leaves no `sdy.manual_computation` around them: what stands in the region stands in the
program, which is right for any mesh.
"""

from __future__ import annotations

from dtensor.dialect.mesh import Mesh
from dtensor.dialect.mlir import Value, ir, replace_op
from dtensor.passes.builder import Builder
from dtensor.passes.importing.groups import list_groups
from dtensor.passes.ops.opdef import BY_DEVICE
from dtensor.passes.ops.table import opdef
from dtensor.passes.program import walk

_PERMUTE = "stablehlo.collective_permute"


def drop_lonely_collectives(function: ir.Operation, mesh: Mesh) -> None:
    """Put what each device has itself in the place of what it would get from itself alone.

    On a mesh of one device, its number is 0. Manual regions in the function are left as they are.
    """
    for op, name, _ in walk(function):
        if mesh.size == 1 and opdef(name).varies == BY_DEVICE:
            found: list[Value] = [Builder(op).zeros(op.results[0].type)]
        elif name == _PERMUTE:
            found = _permuted(op, mesh)
        else:
            found = list(op.operands) if _is_lonely(op, mesh) else []
        if found:
            replace_op(op, found)


def _is_lonely(op: ir.Operation, mesh: Mesh) -> bool:
    if "replica_groups" not in op.attributes:
        return False
    list_groups(op, mesh)
    groups = ir.DenseIntElementsAttr(op.attributes["replica_groups"])
    return bool(ir.RankedTensorType(groups.type).shape[1] == 1)


def _permuted(op: ir.Operation, mesh: Mesh) -> list[Value]:
    """What a permutation gives if every device sends to itself, or none to any; else nothing.

    A program that is written for one device may name that one alone.
    """
    given = ir.DenseIntElementsAttr(op.attributes["source_target_pairs"])
    pairs = [given[i] for i in range(len(given))]
    if not pairs:
        return [Builder(op).zeros(op.results[0].type)]
    itself = [device for number in range(mesh.size) for device in (number, number)]
    return list(op.operands) if pairs in (itself, [0, 0]) else []
