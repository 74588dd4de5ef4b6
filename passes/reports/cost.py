"""What a program of one device costs: its collectives, and its floating-point operations."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from dtensor.dialect.attributes import axes_of
from dtensor.dialect.axes import AxisRef, devices_along
from dtensor.dialect.diagnostics import place_of
from dtensor.dialect.mesh import Mesh
from dtensor.dialect.mlir import Value, ir
from dtensor.dialect.names import AXES, FROM, NAMESPACE, TRIPS
from dtensor.passes.base import Pass, PassState
from dtensor.passes.cost.model import (
    CostModel,
    all_gather_bytes,
    all_reduce_bytes,
    all_to_all_bytes,
    permute_bytes,
    reduce_scatter_bytes,
)
from dtensor.passes.functions import main_function
from dtensor.passes.graph import OpReader, TypeInfo, op_info
from dtensor.passes.ledger import FIRST_RECORD, Ledger, Record
from dtensor.passes.locations import all_ids, function_text, fused_count, location_text
from dtensor.passes.ops.attributes import integer
from dtensor.passes.ops.opdef import one_per_element, unknown_flops
from dtensor.passes.ops.table import opdef
from dtensor.passes.program import CONTROL, Scope, walk


@dataclass(frozen=True)
class Collective:
    """One planned collective.

    Attributes:
        kind: `all_gather`, `all_reduce`, `reduce_scatter`, `all_to_all`, `collective_permute`,
            `shard_permute` or `halo_exchange`.
        mesh_axes: names of the mesh axes it runs over, the first major.
        dtype: element type as MLIR writes it: `f32`, `bf16`, `i1`.
        shape: local shape in elements of what the convention counts: an all_gather's result, else
            the operand; of the first operand where several are combined.
        bytes: wire bytes per device of one execution, on a ring.
        trip_count: executions per call of the program; None in a loop of unknown length.
        location: the user's line, and the library's below it.
        reason: why it is there, one sentence.
        records: ids of its records in the ledger.
        function: the user's function, `train.py:loss`; empty where it is not known.
        parts: local shape and wire bytes of each operand; several where they are combined.
        file: the file of the user's line with its folders; empty where it is not known.
        seconds: planned for one execution, by the machine that the plan is made for.

    Example:
        >>> rows = dtensor.Layout.batch_sharded(mesh, "x", rank=2)
        >>> step = dtensor.jit(lambda x: x.sum(axis=0), in_layouts=rows)
        >>> sent = step.lower(np.ones((4, 8))).collectives[0]
        >>> (sent.kind, sent.mesh_axes, sent.bytes)
        ('all_reduce', ('x',), 32.0)
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
    function: str = ""
    parts: tuple[tuple[tuple[int, ...], float], ...] = ()
    file: str = ""
    seconds: float = 0.0

    def text(self) -> str:
        """`all_reduce over y of f32 4x32, 768 bytes per device, 3 times`.

        Example:
            >>> rows = dtensor.Layout.batch_sharded(mesh, "x", rank=2)
            >>> step = dtensor.jit(lambda x: x.sum(axis=0), in_layouts=rows)
            >>> step.lower(np.ones((4, 8))).collectives[0].text()
            'all_reduce over x of f32 8, 32 bytes per device, once'
        """
        times = "once" if self.trip_count == 1 else f"{self.trip_count} times"
        if self.trip_count is None:
            times = "in a loop of unknown length"
        shape = "x".join(map(str, self.shape)) or "scalar"
        return (
            f"{self.kind} over {', '.join(self.mesh_axes)} of {self.dtype} {shape}, "
            f"{self.bytes:.0f} bytes per device, {times}"
        )


# Wire bytes from the bytes of operands, of results, and the number of devices: of our collectives,
# and of StableHLO's that a user wrote inside `jax.shard_map`.
_WIRE: dict[str, Callable[[float, float, int], float]] = {
    "all_gather": lambda operand, result, n: all_gather_bytes(result, n),
    "all_reduce": lambda operand, result, n: all_reduce_bytes(operand, n),
    "reduce_scatter": lambda operand, result, n: reduce_scatter_bytes(operand, n),
    "all_to_all": lambda operand, result, n: all_to_all_bytes(operand, n),
    "collective_broadcast": lambda operand, result, n: permute_bytes(operand),
    "collective_permute": lambda operand, result, n: permute_bytes(operand),
    "shard_permute": lambda operand, result, n: permute_bytes(operand),
    "halo_exchange": lambda operand, result, n: max(result - operand, 0.0),
}


@dataclass(frozen=True)
class CostReport:
    """What one device sends and computes per call of the program.

    Attributes:
        collectives: every planned collective, in program order.
        local_flops: floating-point operations, loops counted in full.
    """

    collectives: tuple[Collective, ...]
    local_flops: float

    def __str__(self) -> str:
        lines = [f"collective {i}: {c.text()}" for i, c in enumerate(self.collectives)]
        return "\n".join([*lines, f"local flops: {self.local_flops:.0f}"])


@dataclass(frozen=True)
class ReportCostPass(Pass):
    """Reads what a per-device module sends and computes; changes nothing.

    Every collective with its axes, bytes and executions, and the floating-point operations of one
    device. Stands in front of dtensor-lower, which no longer knows why a collective is there.
    """

    name: ClassVar[str] = "dtensor-report-cost"
    needs_mesh: ClassVar[bool] = True

    print: bool = False  # write the report to standard error

    def run(self, module: ir.Module, state: PassState) -> None:
        function, cost = main_function(module), state.cost_model()
        state.cost_report = cost_report(function, state.meshes, state.ledger, cost)
        if self.print:
            sys.stderr.write(f"{state.cost_report}\n")


def cost_report(
    function: ir.Operation, meshes: dict[str, Mesh], ledger: Ledger, cost: CostModel
) -> CostReport:
    """The collectives and the flops of a function of local shapes, before it is lowered."""
    reader = _Reader(meshes, ledger, cost)
    for op, name, scope in walk(function):
        reader.read(op, name, scope)
    return CostReport(tuple(reader.collectives), reader.flops)


def _planned_trips(scope: Scope) -> int:
    """How often a block is planned to run: once in a loop of unknown length, if it is to at all."""
    if scope.trips is not None:
        return scope.trips
    loops = [each.block.owner.attributes for each in scope.outwards()]
    return int(all(TRIPS not in said or integer(said[TRIPS]) for said in loops))


class _Reader:
    def __init__(self, meshes: dict[str, Mesh], ledger: Ledger, cost: CostModel) -> None:
        self.meshes = meshes
        self.ledger = ledger
        self.cost = cost
        self.collectives: list[Collective] = []
        self.flops = 0.0
        self._ops = OpReader()

    def read(self, op: ir.Operation, name: str, scope: Scope) -> None:
        dialect, _, kind = name.partition(".")
        if kind in _WIRE:
            if dialect == NAMESPACE:
                names, n = _axes(op, self.meshes)
            else:
                names, n = _written_axes(op, next(iter(self.meshes.values())))
            self._add(op, kind, names, n, scope.trips)
        elif dialect != NAMESPACE and name not in CONTROL:
            self.flops += self._op_flops(op, name) * _planned_trips(scope)

    def _type(self, value: Value) -> TypeInfo:
        return self._ops.type_info(value.type, None)

    def _op_flops(self, op: ir.Operation, name: str) -> float:
        definition = opdef(name)
        if definition.moves_only or definition.flops is unknown_flops:
            return 0.0
        if definition.flops is one_per_element and len(op.results):  # most ops: nothing else counts
            return float(math.prod(self._type(op.results[0]).shape))
        return definition.flops(op_info(op, name, *self._ops.sides(op)))

    def _add(
        self, op: ir.Operation, kind: str, axes: tuple[str, ...], devices: int, trips: int | None
    ) -> None:
        wire = _WIRE[kind]
        operand_bytes = sum(self._type(v).bytes for v in op.operands)
        result_bytes = sum(self._type(v).bytes for v in op.results)
        counted = op.results[0] if kind == "all_gather" else op.operands[0]
        info = self._type(counted)
        ids = tuple(dict.fromkeys(i for i in all_ids(op.location) if i >= FIRST_RECORD))
        records = [r for r in map(self.ledger.record, ids) if r is not None]
        parts = []
        counted_values = op.results if kind == "all_gather" else op.operands
        for operand, result, value in zip(op.operands, op.results, counted_values, strict=True):
            sizes = self._type(operand).bytes, self._type(result).bytes
            parts.append((self._type(value).shape, wire(*sizes, devices)))
        function, file = self._function_and_file(records, op)
        wire_bytes = wire(operand_bytes, result_bytes, devices)
        self.collectives.append(
            Collective(
                kind,
                axes,
                info.element,
                info.shape,
                wire_bytes,
                trips,
                records[0].location if records else location_text(op.location),
                self._reason(records, op),
                ids,
                function,
                tuple(parts),
                file,
                self.cost.seconds(wire_bytes, axes),
            )
        )

    def _reason(self, records: list[Record], op: ir.Operation) -> str:
        """Why a collective is there: its records, or the operation whose algorithm sends."""
        if not op.name.startswith(f"{NAMESPACE}."):
            return "written in shard_map"
        count = len(records) or fused_count(op.location)
        more = f" (and {count - 1} combined with it)" if count > 1 else ""
        if records:
            return records[0].text + more
        inside = [i for i in all_ids(op.location) if i < len(self.ledger.op_names)]
        if not inside:
            return ""
        name = self.ledger.op_names[inside[0]].split(".")[-1]
        return f"{name} needs some elements of other shards{more}"

    def _function_and_file(self, records: list[Record], op: ir.Operation) -> tuple[str, str]:
        """The user's function around the operation that is responsible, and its file."""
        location: ir.Location | str = op.location
        if records and records[0].ops:
            location = self.ledger.op_locations[records[0].ops[0]]
        if isinstance(location, str):
            return location, ""
        place = place_of(location)
        return function_text(location), "" if place is None else place.file


def _axes(op: ir.Operation, meshes: dict[str, Mesh]) -> tuple[tuple[str, ...], int]:
    """The mesh axes that a collective of ours runs over, and how many devices are in a group."""
    key = FROM if FROM in op.attributes else AXES
    axes: tuple[AxisRef, ...] = axes_of(op.attributes[key], meshes)
    return tuple(dict.fromkeys(axis.name for axis in axes)), devices_along(axes)


def _written_axes(op: ir.Operation, mesh: Mesh) -> tuple[tuple[str, ...], int]:
    """The mesh axes along which devices of one group differ, and the size of a group."""
    name = "source_target_pairs" if "source_target_pairs" in op.attributes else "replica_groups"
    groups = np.array(ir.DenseElementsAttr(op.attributes[name]))
    if not groups.size:  # nothing listed: one group of all devices
        groups = np.arange(mesh.size).reshape(1, -1)
    places = np.stack(np.unravel_index(np.maximum(groups, 0), [n for _, n in mesh.axes]), -1)
    differs = (places != places[:, :1]).any((0, 1))
    names = mesh.axis_names
    return tuple([n for n, d in zip(names, differs, strict=True) if d]), groups.shape[1]
