"""What a program of one device costs: its collectives, and its floating-point operations."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from dtensor.dialect.attributes import axes_of
from dtensor.dialect.axes import AxisRef
from dtensor.dialect.mesh import Mesh
from dtensor.dialect.mlir import ir
from dtensor.dialect.names import (
    ALL_GATHER,
    ALL_REDUCE,
    ALL_TO_ALL,
    AXES,
    COLLECTIVE_PERMUTE,
    FROM,
    HALO_EXCHANGE,
    REDUCE_SCATTER,
)
from dtensor.passes.cost.model import (
    all_gather_bytes,
    all_reduce_bytes,
    all_to_all_bytes,
    permute_bytes,
    reduce_scatter_bytes,
)
from dtensor.passes.graph import element_bytes
from dtensor.passes.ledger import FIRST_RECORD, Ledger, Record
from dtensor.passes.locations import all_ids, location_text
from dtensor.passes.ops.opdef import unknown_flops
from dtensor.passes.ops.rule import OpInfo
from dtensor.passes.ops.table import opdef
from dtensor.passes.trip_count import trip_count


@dataclass(frozen=True)
class Collective:
    """One planned collective.

    Attributes:
        kind: `all_gather`, `all_reduce`, `reduce_scatter`, `all_to_all`, `collective_permute` or
            `halo_exchange`.
        mesh_axes: names of the mesh axes it runs over, the first major.
        dtype: element type as MLIR writes it: `f32`, `bf16`, `i1`.
        shape: local shape in elements of what the convention counts: an all_gather's result, else
            the operand; of the first operand where several are combined.
        bytes: wire bytes per device of one execution, on a ring.
        trip_count: executions per call of the program; None in a loop of unknown length.
        location: the user's line, and the library's below it.
        reason: why it is there, one sentence.
        records: ids of its records in the ledger.
    """

    kind: str
    mesh_axes: tuple[str, ...]
    dtype: str
    shape: tuple[int, ...]
    bytes: float
    trip_count: int | None
    location: str
    reason: str
    records: tuple[int, ...]


_WIRE: dict[str, Callable[[float, float, int], float]] = {
    ALL_GATHER: lambda operand, result, n: all_gather_bytes(result, n),
    ALL_REDUCE: lambda operand, result, n: all_reduce_bytes(operand, n),
    REDUCE_SCATTER: lambda operand, result, n: reduce_scatter_bytes(operand, n),
    ALL_TO_ALL: lambda operand, result, n: all_to_all_bytes(operand, n),
    COLLECTIVE_PERMUTE: lambda operand, result, n: permute_bytes(operand),
    HALO_EXCHANGE: lambda operand, result, n: max(result - operand, 0.0),
}


def local_cost(
    function: ir.Operation, meshes: dict[str, Mesh], ledger: Ledger
) -> tuple[tuple[Collective, ...], float]:
    """The collectives and the flops of a function of local shapes, before it is lowered."""
    reader = _Reader(meshes, ledger)
    reader.block(function.regions[0].blocks[0], 1)
    return tuple(reader.collectives), reader.flops


class _Reader:
    def __init__(self, meshes: dict[str, Mesh], ledger: Ledger) -> None:
        self.meshes = meshes
        self.ledger = ledger
        self.collectives: list[Collective] = []
        self.flops = 0.0
        self._sizes: dict[ir.Type, tuple[tuple[int, ...], str, float]] = {}

    def block(self, block: ir.Block, trips: int | None) -> None:
        for view in block.operations:
            op = view.operation
            name = op.name
            if name in _WIRE:
                self.collectives.append(self._collective(op, name, trips))
            elif name == "stablehlo.while":
                inner = trip_count(op)
                inside = None if inner is None or trips is None else trips * inner
                for region in op.regions:
                    self.block(region.blocks[0], inside)
            elif name in ("stablehlo.case", "stablehlo.if"):
                for region in op.regions:
                    self.block(region.blocks[0], trips)
            else:
                self.flops += self._op_flops(op, name) * (1 if trips is None else trips)

    def _read(self, type_: ir.Type) -> tuple[tuple[int, ...], str, float]:
        found = self._sizes.get(type_)
        if found is None:
            try:
                tensor = ir.RankedTensorType(type_)
            except ValueError:
                found = ((), "token", 0.0)
            else:
                shape, element = tuple(tensor.shape), str(tensor.element_type)
                found = (shape, element, math.prod(shape) * element_bytes(element))
            self._sizes[type_] = found
        return found

    def _op_flops(self, op: ir.Operation, name: str) -> float:
        definition = opdef(name)
        if definition.moves_only or definition.flops is unknown_flops:
            return 0.0
        results = [self._read(v.type) for v in op.results]
        operands = [self._read(v.type) for v in op.operands]
        shapes = tuple([r[0] for r in operands]), tuple([r[0] for r in results])
        elements = tuple([r[1] for r in operands]), tuple([r[1] for r in results])
        return definition.flops(OpInfo(op, name, *shapes, *elements))

    def _collective(self, op: ir.Operation, name: str, trips: int | None) -> Collective:
        key = FROM if name == COLLECTIVE_PERMUTE else AXES
        axes: tuple[AxisRef, ...] = axes_of(op.attributes[key], self.meshes)
        n = math.prod(axis.size for axis in axes)
        operand_bytes = sum(self._read(v.type)[2] for v in op.operands)
        result_bytes = sum(self._read(v.type)[2] for v in op.results)
        counted = op.results[0] if name == ALL_GATHER else op.operands[0]
        shape, element, _ = self._read(counted.type)
        ids = tuple(dict.fromkeys(i for i in all_ids(op.location) if i >= FIRST_RECORD))
        records = [r for r in map(self.ledger.record, ids) if r is not None]
        return Collective(
            name.split(".")[1],
            tuple(dict.fromkeys(axis.name for axis in axes)),
            element,
            shape,
            _WIRE[name](operand_bytes, result_bytes, n),
            trips,
            records[0].location if records else location_text(op.location),
            _reason(records),
            ids,
        )


def _reason(records: list[Record]) -> str:
    if not records:
        return ""
    more = f" (and {len(records) - 1} combined with it)" if len(records) > 1 else ""
    return records[0].text + more
