"""CHLO's operations that broadcast their operands: a broadcast, and the operation."""

from __future__ import annotations

from dataclasses import replace

from dtensor.dialect.mlir import Value, ir
from dtensor.passes.builder import Builder
from dtensor.passes.ops.attributes import integers, shape_of
from dtensor.passes.ops.opdef import UNKNOWN

_OF_CHLO = ("next_after", "polygamma", "zeta")  # which StableHLO has not


def _broadcast(op: ir.Operation, made: list[ir.Operation]) -> list[Value]:
    """Each operand in the shape of the result, and the operation of these; nothing of open shapes.

    The dimensions of an operand of lower rank are the result's last ones, unless the op says which.
    A predicate of no dimensions selects all as it is.
    """
    result = op.results[0].type
    operands = list(op.operands)
    if not all(ir.RankedTensorType(v.type).has_static_shape for v in (*operands, op.results[0])):
        return []
    shape = shape_of(op.results[0])
    make = Builder(op, made)
    name = op.name.removeprefix("chlo.broadcast_")
    attributes = {key: op.attributes[key] for key in op.attributes}
    given = attributes.pop("broadcast_dimensions", None)
    for k, value in enumerate(operands):
        own = shape_of(value)
        if own == shape or (name == "select" and k == 0 and not own):
            continue
        behind = list(range(len(shape) - len(own), len(shape)))
        operands[k] = make.broadcast(value, shape, behind if given is None else integers(given))
    if name == "compare":
        attributes = {key: _in_stablehlo(value) for key, value in attributes.items()}
    dialect = "chlo" if name in _OF_CHLO else "stablehlo"
    return [make.value(f"{dialect}.{name}", operands, result, attributes)]


def _in_stablehlo(attribute: ir.Attribute) -> ir.Attribute:
    """A direction or a type of comparison as StableHLO writes it."""
    return ir.Attribute.parse(str(attribute).replace("#chlo", "#stablehlo"))


BROADCASTING = replace(UNKNOWN, anew=_broadcast)
