"""Collectives inside branches and loops: all devices that take part must get there.

A device that takes another branch, or runs a loop once more, never arrives at a collective that
its partners wait in: the program hangs. So the axes over which a predicate may differ between
devices and the axes of the collectives it governs must not meet. Which axes a value may differ
over is found by conservative data flow: a shard differs over the axes that split it, a coordinate
over its axis, and reducing or gathering over an axis makes equal again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dtensor.dialect import names
from dtensor.dialect.attributes import mesh_and_axes
from dtensor.dialect.axes import AxisRef
from dtensor.dialect.diagnostics import error
from dtensor.dialect.functions import function_name
from dtensor.dialect.mesh import Mesh
from dtensor.dialect.mlir import Value, ir, ops_of
from dtensor.passes.functions import boundary_layouts
from dtensor.passes.ops.table import opdef
from dtensor.passes.program import BRANCHES, CALLS, WHILE
from dtensor.passes.relayout.sub_axes import is_chain, split_axis

_EQUALISING = (names.ALL_REDUCE, names.ALL_GATHER)


def check_control_flow(
    functions: Sequence[ir.Operation], collectives: Iterable[ir.Operation], meshes: dict[str, Mesh]
) -> None:
    """Check every collective that stands in a branch or in a loop of per-device functions.

    Raises:
        LocatedError: devices that a collective needs might not reach it.
    """
    listed = list(collectives)
    if any(_is_governed(op) for op in listed):
        flow = _Flow(functions, listed, meshes)
        for function in functions:
            flow.function(function)


def _is_governed(op: ir.Operation) -> bool:
    if op.name == names.AXIS_INDEX or op.name == names.ALL_SLICE:
        return False
    parent = op.parent
    return parent is not None and parent.operation.name != names.FUNC


class _Flow:
    """Which axes each value may differ over, as bits: one per part of an axis, and `unknown`."""

    def __init__(
        self,
        functions: Sequence[ir.Operation],
        collectives: Sequence[ir.Operation],
        meshes: dict[str, Mesh],
    ) -> None:
        self.meshes = meshes
        self.varies: dict[Value, int] = {}
        self.functions = {function_name(f): f for f in functions}
        self.calls: dict[tuple[str, tuple[int, ...], int], list[int]] = {}
        self.cuts = _cuts(functions, collectives, meshes)
        parts = [
            part
            for name, cuts in self.cuts.items()
            for part in split_axis(AxisRef(name, 1, max(cuts)), cuts)
        ]
        self.bits = {part: 1 << index for index, part in enumerate(parts)}
        self.everything = (1 << (len(parts) + 1)) - 1  # the last bit: no axis, but the device

    def mask(self, axes: Iterable[AxisRef]) -> int:
        """The bits of some axes."""
        bits = 0
        for axis in axes:
            for part, bit in self.bits.items():
                if part.overlaps(axis):
                    bits |= bit
        return bits

    def covered(self, axes: Iterable[AxisRef]) -> int:
        """The bits of the parts that lie entirely in some axis."""
        bits = 0
        for axis in axes:
            for part, bit in self.bits.items():
                inside = axis.pre <= part.pre and part.pre * part.size <= axis.pre * axis.size
                if part.name == axis.name and inside:
                    bits |= bit
        return bits

    def function(self, function: ir.Operation) -> None:
        """Check a public function; private ones are checked where they are called."""
        if names.SYM_VISIBILITY in function.attributes or not function.regions[0].blocks:
            return
        block = function.regions[0].blocks[0]
        self.block(block, self.arguments(function), 0)

    def arguments(self, function: ir.Operation) -> list[int]:
        """What the arguments differ over; without a layout, perhaps everything."""
        found = []
        for layout in boundary_layouts(function, names.ARG_ATTRS, self.meshes):
            if layout is None:
                found.append(self.everything)
            else:
                found.append(self.mask((*layout.axes, *layout.partial_axes)))
        return found

    def block(self, block: ir.Block, arguments: Sequence[int], governed: int) -> list[int]:
        """Follow a block that runs under predicates differing over `governed`.

        Returns:
            What the values it passes on differ over.
        """
        varies = self.varies
        for argument, bits in zip(block.arguments, arguments, strict=True):
            varies[argument] = bits
        *operations, end = ops_of(block)
        for op in operations:
            name = op.name
            operands = [varies[v] for v in op.operands]
            if name.startswith("dtensor."):
                results = self.collective(op, name, operands, governed)
            elif name == WHILE:
                results = self.loop(op, operands, governed)
            elif name in BRANCHES:
                results = self.branches(op, operands, governed)
            elif name in CALLS:
                results = self.call(op, operands, governed)
            else:
                union = self.everything if opdef(name).varies else 0  # in ways no axis names
                for bits in operands:
                    union |= bits
                results = [union] * len(op.results)
            for value, bits in zip(op.results, results, strict=True):
                varies[value] = bits
        return [varies[v] for v in end.operands]

    def collective(
        self, op: ir.Operation, name: str, operands: Sequence[int], governed: int
    ) -> list[int]:
        """Check one dtensor operation; what its results differ over."""
        axes = _axes_of(op, self.meshes)
        mine = self.mask(axes)
        if name == names.AXIS_INDEX:
            return [mine]
        if governed & (mine | self.unknown) and name != names.ALL_SLICE:
            self.refuse(op, axes, governed)
        if name in _EQUALISING:
            return [bits & ~self.covered(axes) for bits in operands]
        return [bits | mine for bits in operands]

    @property
    def unknown(self) -> int:
        """The bit of differences that no axis explains."""
        return (self.everything + 1) >> 1

    def refuse(self, op: ir.Operation, axes: Sequence[AxisRef], governed: int) -> None:
        """Report a collective that some of its devices may not reach."""
        short = op.name.removeprefix("dtensor.")
        used = sorted({axis.name for axis in axes})
        over = sorted({part.name for part, bit in self.bits.items() if bit & governed})
        differs = f"may differ over mesh axes {over}" if over else "may differ between devices"
        error(
            op,
            f"{short} over mesh axes {used} stands in a branch or loop whose predicate {differs}: "
            "devices would wait for others that never come; compute the predicate from replicated "
            "values, or move the sharded work out of the branch or loop",
        )

    def loop(self, op: ir.Operation, operands: Sequence[int], governed: int) -> list[int]:
        """A while: what is carried may differ over what is carried back, and over the predicate.

        Repeated until nothing grows; only then are the collectives inside judged.
        """
        condition, body = op.regions[0].blocks[0], op.regions[1].blocks[0]
        carried = list(operands)
        while True:
            predicate = self.block(condition, carried, 0)[0]
            passed = self.block(body, carried, 0)
            grown = [c | p | predicate for c, p in zip(carried, passed, strict=True)]
            if grown == carried:
                break
            carried = grown
        governed |= predicate
        if governed:
            self.block(condition, carried, governed)
            self.block(body, carried, governed)
        return carried

    def branches(self, op: ir.Operation, operands: Sequence[int], governed: int) -> list[int]:
        """A case or an if: its results may differ over what the predicate differs over."""
        predicate = operands[0]
        results = [predicate] * len(op.results)
        for region in op.regions:
            passed = self.block(region.blocks[0], [], governed | predicate)
            results = [r | p for r, p in zip(results, passed, strict=True)]
        return results

    def call(self, op: ir.Operation, operands: Sequence[int], governed: int) -> list[int]:
        """A call: the function is followed for these arguments."""
        name = ir.FlatSymbolRefAttr(op.attributes["callee"]).value
        key = (name, tuple(operands), governed)
        if key not in self.calls:
            block = self.functions[name].regions[0].blocks[0]
            self.calls[key] = self.block(block, operands, governed)
        return self.calls[key]


def _axes_of(op: ir.Operation, meshes: dict[str, Mesh]) -> tuple[AxisRef, ...]:
    found: list[AxisRef] = []
    for name in (names.AXES, names.FROM, names.TO):
        if name in op.attributes:
            found += mesh_and_axes(op.attributes[name], meshes)[1]
    return tuple(found)


def _cuts(
    functions: Sequence[ir.Operation], collectives: Sequence[ir.Operation], meshes: dict[str, Mesh]
) -> dict[str, set[int]]:
    """Where the program cuts each axis; not at all where the cuts do not divide each other."""
    cuts = {name: {1, size} for mesh in meshes.values() for name, size in mesh.axes}
    used = [axis for op in collectives for axis in _axes_of(op, meshes)]
    for function in functions:
        for layout in boundary_layouts(function, names.ARG_ATTRS, meshes):
            if layout is not None:
                used += [*layout.axes, *layout.partial_axes]
    for axis in used:
        cuts[axis.name].update((axis.pre, axis.pre * axis.size))
    return {name: c if is_chain(c) else {1, max(c)} for name, c in cuts.items()}
