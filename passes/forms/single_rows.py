"""What `jnp.matmul` writes of one row: the product of matrices without the dimension of rows."""

from __future__ import annotations

from collections.abc import Sequence

from dtensor.dialect.mlir import Value, ir, maker_of, stablehlo
from dtensor.passes.forms.scalars import attributes_of
from dtensor.passes.ops.attributes import integers, shape_of

_NUMBERS = "dot_dimension_numbers"


def without_ones(value: Value) -> tuple[Value, list[ir.Operation]]:
    """What a value is but for dimensions of one element; and what adds and leaves out those."""
    ops: list[ir.Operation] = []
    while (op := maker_of(value)) is not None and adds_ones(op):
        ops.append(op)
        value = op.operands[0]
    return value, ops


def adds_ones(op: ir.Operation) -> bool:
    """Whether an op does nothing but add dimensions of one element, or leave some out."""
    if op.name == "stablehlo.broadcast_in_dim":
        dims = integers(op.attributes["broadcast_dimensions"])
        if dims != sorted(dims):
            return False
    elif op.name != "stablehlo.reshape":
        return False
    before, after = shape_of(op.operands[0]), shape_of(op.results[0])
    return [n for n in before if n != 1] == [n for n in after if n != 1]


def is_dot_of_one(wanted: ir.Operation, op: ir.Operation) -> bool:
    """Whether an op multiplies the matrices of one row as another one does those of many."""
    if op.name != "stablehlo.dot_general" or wanted.name != op.name:
        return False
    said = [attributes_of(each) for each in (wanted, op)]
    rows, row = (stablehlo.DotDimensionNumbers(each.pop(_NUMBERS)) for each in said)
    if said[0] != said[1]:
        return False
    batches = zip(rows.lhs_batching_dimensions, rows.rhs_batching_dimensions, strict=True)
    return any(_is_without(wanted, op, rows, row, k, batch) for k, batch in enumerate(batches))


def _is_without(
    wanted: ir.Operation,
    op: ir.Operation,
    rows: stablehlo.DotDimensionNumbers,
    row: stablehlo.DotDimensionNumbers,
    number: int,
    batch: tuple[int, int],
) -> bool:
    """Whether a product is another one without one of the dimensions that go together."""
    for side, name in enumerate(("lhs", "rhs")):
        dim = batch[side]
        many, one = (
            [list(getattr(each, f"{name}_{kind}ing_dimensions")) for kind in ("batch", "contract")]
            for each in (rows, row)
        )
        many[0].pop(number)
        shapes = [shape_of(each.operands[side]) for each in (wanted, op)]
        shapes[0].pop(dim)
        if shapes[0] != shapes[1] or [_left_out(dims, dim) for dims in many] != one:
            return False
    return True


def _left_out(dims: Sequence[int], dim: int) -> list[int]:
    return [d - (d > dim) for d in dims]
