"""What an op's own algorithm communicates, as seconds of one mesh axis."""

from __future__ import annotations

from dtensor.dialect.axes import AxisRef
from dtensor.dialect.layout import Layout
from dtensor.dialect.mesh import Mesh
from dtensor.passes.cost.model import CostModel
from dtensor.passes.ops.opdef import Placed, algorithm_of
from dtensor.passes.ops.rule import OpRule
from dtensor.passes.ops.table import opdef
from dtensor.passes.propagation.labels import Inside
from dtensor.passes.propagation.places import LayoutTable

Layouts = tuple[Layout, ...]


def inside_seconds(atom: AxisRef, cost: CostModel) -> Inside:
    """The price of algorithms on one axis, as if nothing else were split."""
    mesh = Mesh([(atom.name, atom.size)])
    table = LayoutTable([mesh.axis(atom.name)], mesh)

    def layouts(shapes: tuple[tuple[int, ...], ...], places: tuple[int, ...]) -> Layouts:
        pairs = zip(shapes, places, strict=True)
        return tuple(table.layout(len(shape), (place,)) for shape, place in pairs)

    def seconds(rule: OpRule, ins: tuple[int, ...], outs: tuple[int, ...]) -> float | None:
        op = rule.op
        if op is None:
            return None
        placed = Placed(op, layouts(op.operand_shapes, ins), layouts(op.result_shapes, outs))
        found = algorithm_of(opdef(op.name), placed)
        if found is None:
            return None
        link = cost.axis_link(atom.name)
        return sum(
            (t.collectives * link.alpha + t.wire_bytes / link.bytes_per_second)
            for t in found.comm_bytes(placed)
        )

    return seconds
