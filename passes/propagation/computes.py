"""Whether an op has an algorithm that computes it with one mesh axis."""

from __future__ import annotations

from dtensor.dialect.axes import AxisRef
from dtensor.dialect.layout import Layout
from dtensor.dialect.mesh import Mesh
from dtensor.passes.ops.opdef import Placed, algorithm_of
from dtensor.passes.ops.rule import OpRule
from dtensor.passes.ops.table import opdef
from dtensor.passes.propagation.labels import Computes
from dtensor.passes.propagation.places import MAX_RANK, WHOLE, LayoutTable, split_place

Places = tuple[int, ...]


def computes_with(atom: AxisRef) -> Computes:
    """Whether there is an algorithm if nothing but this axis splits anything.

    What stands ahead of the axis in a dimension is taken for another axis.
    """

    def computes(rule: OpRule, ins: Places, outs: Places) -> bool:
        op = rule.op
        if op is None:
            return False
        ahead = max([1, *(place // MAX_RANK for place in (*ins, *outs))])
        sizes = [(atom.name, atom.size)] if ahead == 1 else [("ahead", ahead), ("axis", atom.size)]
        mesh = Mesh(sizes)
        table = LayoutTable([mesh.axis(name) for name in mesh.axis_names], mesh)

        def layouts(shapes: tuple[tuple[int, ...], ...], places: Places) -> tuple[Layout, ...]:
            pairs = zip(shapes, places, strict=True)
            return tuple(table.layout(len(s), _places(place, len(sizes))) for s, place in pairs)

        placed = Placed(op, layouts(op.operand_shapes, ins), layouts(op.result_shapes, outs))
        return algorithm_of(opdef(op.name), placed) is not None

    return computes


def _places(place: int, axes: int) -> Places:
    """The place of the axis, behind that of the axis ahead of it if there are two."""
    if axes == 1:
        return (place,)
    major, dim = divmod(place, MAX_RANK)
    return (split_place(dim, 1) if place >= 0 and major > 1 else WHOLE, place)
