"""What an op's own algorithm communicates, as seconds of one mesh axis."""

from __future__ import annotations

from dtensor.dialect.axes import AxisRef
from dtensor.dialect.layout import Layout
from dtensor.dialect.mesh import Mesh
from dtensor.passes.cost.model import CostModel
from dtensor.passes.ops.opdef import Placed, Traffic, algorithm_of
from dtensor.passes.ops.rule import OpRule
from dtensor.passes.ops.table import opdef
from dtensor.passes.propagation.labels import Inside
from dtensor.passes.propagation.places import MAX_RANK, WHOLE, LayoutTable, split_place

Places = tuple[int, ...]


def inside_seconds(atom: AxisRef, cost: CostModel) -> Inside:
    """The price of algorithms on one axis, as if nothing else were split.

    What stands ahead of the axis in a dimension is taken for another axis.
    """

    def seconds(rule: OpRule, ins: Places, outs: Places) -> float | None:
        op = rule.op
        if op is None:
            return None
        ahead = max([1, *(place // MAX_RANK for place in (*ins, *outs))])
        sizes = [(atom.name, atom.size)] if ahead == 1 else [("ahead", ahead), ("axis", atom.size)]
        mesh = Mesh(sizes)
        table = LayoutTable([mesh.axis(name) for name in mesh.axis_names], mesh)

        def layouts(shapes: tuple[tuple[int, ...], ...], places: Places) -> tuple[Layout, ...]:
            pairs = zip(shapes, places, strict=True)
            return tuple(table.layout(len(s), _places(place, len(sizes))) for s, place in pairs)

        placed = Placed(op, layouts(op.operand_shapes, ins), layouts(op.result_shapes, outs))
        found = algorithm_of(opdef(op.name), placed, price)
        return None if found is None else sum(map(price, found.comm_bytes(placed)), 0.0)

    def price(traffic: Traffic) -> float:
        return cost.seconds_of(traffic.wire_bytes, traffic.collectives, [atom])

    return seconds


def _places(place: int, axes: int) -> Places:
    """The place of the axis, behind that of the axis ahead of it if there are two."""
    if axes == 1:
        return (place,)
    major, dim = divmod(place, MAX_RANK)
    return (split_place(dim, 1) if place >= 0 and major > 1 else WHOLE, place)
