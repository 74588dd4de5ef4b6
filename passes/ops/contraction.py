"""Contractions: sums of products."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from dtensor.dialect.mlir import Value, ir, stablehlo
from dtensor.dialect.names import DOT_NUMBERS, PRECISION
from dtensor.passes.builder import Builder
from dtensor.passes.ops import padding
from dtensor.passes.ops.accuracy import summed
from dtensor.passes.ops.attributes import dot_sides
from dtensor.passes.ops.elements import element_kind, keeps_sums
from dtensor.passes.ops.known import never_infinite
from dtensor.passes.ops.opdef import OpDef
from dtensor.passes.ops.reduction import Reduction, reductions_of
from dtensor.passes.ops.rule import OpInfo, OpRule, RuleBuilder

Pairs = Sequence[tuple[int, int]]


def dot_general_rule(op: OpInfo) -> OpRule:
    """`bij,bjk->bik`: split over j, each shard's product is a part of the sum.

    A sum passes through one operand if the other is complete and known to be finite, as integers
    and constants are: (a + b) c = a c + b c. Not where the result has wider integers than the
    operand, for the parts wrap and the sum would not.
    """
    batching, contracting = zip(*dot_sides(op.operation), strict=True)
    return contraction(op, batching, contracting)


def dot_rule(op: OpInfo) -> OpRule:
    """As dot_general: the last dimension of the left with the first of the right."""
    return contraction(op, ([], []), ([len(op.operand_shapes[0]) - 1], [0]))


def contraction(
    op: OpInfo, batching: Sequence[Sequence[int]], contracting: Sequence[Sequence[int]]
) -> OpRule:
    """The rule of a product summed over the dimension pairs `contracting`.

    The result has the dimension pairs `batching`, then what is left of each operand.
    """
    builder = RuleBuilder(op)
    made = itertools.count()  # dimensions of the result
    for left, right in zip(*batching, strict=True):
        builder.share((0, left), (1, right), (~0, next(made)))
    element = op.result_elements[0]
    for left, right in zip(*contracting, strict=True):
        builder.share((0, left), (1, right), reduction=Reduction.SUM.on(element))
    for k, shape in enumerate(op.operand_shapes):
        for d in range(len(shape)):
            if d not in batching[k] and d not in contracting[k]:
                builder.share((k, d), (~0, next(made)))
    finite = known_finite(op.operation)
    for k in range(2):
        is_sum = Reduction.SUM in reductions_of(element)
        if is_sum and finite[1 - k] and keeps_sums(op.operand_elements[k], element):
            builder.passes_each([Reduction.SUM], [k == 0, k == 1])
    return builder.build()


def dot_numbers(batching: Pairs, summed: Pairs) -> stablehlo.DotDimensionNumbers:
    """What a product says of pairs of dimensions that the result has, and that it sums over."""
    rows = [[pair[k] for pair in pairs] for pairs in (batching, summed) for k in (0, 1)]
    return stablehlo.DotDimensionNumbers.get(rows[0], rows[1], rows[2], rows[3])


def product(
    make: Builder,
    sides: Sequence[Value],
    batching: Pairs,
    summed: Pairs,
    said: Mapping[str, ir.Attribute],
    element: str,
) -> Value:
    """The product of two values: dimensions `batching`, those of the left alone, of the right."""
    shapes = [make.shape_of(side) for side in sides]
    shape = [shapes[0][d] for d, _ in batching]
    for k in (0, 1):
        gone = {pair[k] for pair in (*batching, *summed)}
        shape += [size for d, size in enumerate(shapes[k]) if d not in gone]
    attributes = {DOT_NUMBERS: dot_numbers(batching, summed), **said}
    return make.value("stablehlo.dot_general", sides, make.tensor_type(shape, element), attributes)


def matrix_product(make: Builder, left: Value, right: Value) -> Value:
    """The products of matrices of a batch, to the precision of their elements."""
    many = len(make.shape_of(left)) - 2
    highest = ir.Attribute.parse("#stablehlo<precision HIGHEST>")
    said = {PRECISION: ir.ArrayAttr.get([highest, highest])}
    batching = [(d, d) for d in range(many)]
    element = make.element_of(left)
    return product(make, [left, right], batching, [(many + 1, many)], said, element)


def known_finite(operation: ir.Operation) -> tuple[bool, ...]:
    """Per side, whether a part of a sum on the other side that is zero is sure to give zero."""
    return tuple([never_infinite(value) for value in operation.operands])


def _contracted(op: OpInfo) -> int:
    return math.prod(op.operand_shapes[0][d] for d in dot_sides(op.operation)[0][1])


def products_flops(op: OpInfo, products: float) -> float:
    """2 m n k: of a sum of so many products for each element, a multiplication and an addition."""
    is_complex = element_kind(op.result_elements[0])[0] == "complex"
    return (8.0 if is_complex else 2.0) * math.prod(op.result_shapes[0]) * products


DOT_GENERAL = OpDef(
    dot_general_rule,
    flops=lambda op: products_flops(op, _contracted(op)),
    accuracy=summed(_contracted),
    must_divide=True,
    is_product=True,
    padding=padding.IDENTITY,
    known=known_finite,
)
DOT = replace(
    DOT_GENERAL,
    rule=dot_rule,
    flops=lambda op: products_flops(op, op.operand_shapes[0][-1]),
    accuracy=summed(lambda op: op.operand_shapes[0][-1]),
)
