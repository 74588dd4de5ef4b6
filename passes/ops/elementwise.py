"""Element-wise ops: each dimension is a factor of all tensors, and a table says what passes parts.

The tables hold the combinations that are exact, rounding aside. What is missing there is missing
for a reason: of a compare, an absolute value, a float made an integer, or two parts multiplied,
the parts do not add up to the result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from dtensor.dialect.mlir import Value, ir, maker_of
from dtensor.passes.expansion.context import LocalOp
from dtensor.passes.ops import padding
from dtensor.passes.ops.accuracy import Accuracy, cancelling, rounded, series, summed
from dtensor.passes.ops.attributes import splat_of
from dtensor.passes.ops.elements import (
    INEXACT,
    element_kind,
    keeps_bits,
    keeps_order,
    keeps_products,
    keeps_sums,
)
from dtensor.passes.ops.known import never_infinite, never_zero
from dtensor.passes.ops.opdef import OpDef, local
from dtensor.passes.ops.reduction import Reduction, reductions_of
from dtensor.passes.ops.rule import OpInfo, OpRule, RuleBuilder
from dtensor.passes.ops.table import opdef

# Per reduction and op, which operands are parts (P) and which are complete (c). The result is a
# part of the same reduction.
PARTIAL_PASSES: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "sum": {
        "negate": ("P",),  # -(a + b) = -a + -b
        "real": ("P",),  # linear
        "imag": ("P",),  # linear
        "conj": ("P",),  # linear over sums
        "complex": ("PP",),  # (a + b) + i (c + d) = (a + i c) + (b + i d)
        "add": ("PP",),  # (a + b) + (c + d) = (a + c) + (b + d); with c complete it would be 2 c
        "subtract": ("PP",),  # as add
        # (a + b) c = a c + b c, unless c is infinite; P times P would need a d + b c too.
        "multiply": ("Pc", "cP"),
        # (a + b) / c = a / c + b / c, unless c is zero; integer division truncates: floats only.
        "divide": ("Pc",),
        "select": ("cPP",),  # each element is taken from one side, on every shard the same
    },
    "prod": {
        "multiply": ("PP",),  # (a b) (c d) = (a c) (b d)
        "power": ("Pc",),  # (a b)^n = a^n b^n; exact only for whole n >= 0: unsigned only
        "select": ("cPP",),
    },
    "max": {
        "maximum": ("PP", "Pc", "cP"),  # max(max(a, b), c) = max(max(a, c), max(b, c))
        "select": ("cPP",),
    },
    "min": {
        "minimum": ("PP", "Pc", "cP"),  # as max
        "select": ("cPP",),
    },
    "and": {
        "and": ("PP", "Pc", "cP"),  # a & b & c = (a & c) & (b & c)
        "select": ("cPP",),
    },
    "or": {
        "or": ("PP", "Pc", "cP"),  # a | b | c = (a | c) | (b | c)
        "select": ("cPP",),
    },
}

# Ops that turn parts of one reduction into parts of another.
SWAPS: Mapping[str, Mapping[str, str]] = {
    # -max(a, b) = min(-a, -b). Floats only: among integers -lowest is lowest itself, and a shard
    # that has no part holds the lowest.
    "negate": {"max": "min", "min": "max"},
    "not": {"and": "or", "or": "and"},  # ~(a & b) = ~a | ~b
}

# Lines of the tables above that hold for these kinds of elements alone.
ONLY_KINDS: Mapping[tuple[str, str], tuple[str, ...]] = {
    ("sum", "divide"): INEXACT,
    ("prod", "power"): ("unsigned",),
    ("max", "negate"): ("float",),
    ("min", "negate"): ("float",),
}

# What a complete operand must be known as, for a part that is zero to stay zero.
_SCALES: Mapping[str, Callable[[Value], bool]] = {
    "stablehlo.multiply": never_infinite,
    "stablehlo.divide": never_zero,
}

# Sums of their operands, for how exact they are.
SUMS = ("stablehlo.add", "stablehlo.subtract")

CONVERSIONS: Mapping[str, Callable[[str, str], bool]] = {
    "sum": keeps_sums,
    "prod": keeps_products,
    "max": keeps_order,
    "min": keeps_order,
    "and": keeps_bits,
    "or": keeps_bits,
}


def elementwise_rule(op: OpInfo) -> OpRule:
    """Dimension i of every tensor is factor i, `ij,ij->ij`; scalars are whole, `,ij->ij`."""
    builder = _same_dims(op)
    element = op.operand_elements[-1] if op.operand_elements else op.result_elements[0]
    combined = Reduction.of_op(op.name, element)  # what an "add" of truth values is, for one
    name = (combined.op if combined is not None else op.name).partition(".")[2]
    kind = element_kind(element)[0]
    for reduction in reductions_of(element):
        if kind not in ONLY_KINDS.get((reduction, name), (kind,)):
            continue
        for parts in PARTIAL_PASSES[reduction].get(name, ()):
            if reduction != "sum" or _is_exact(op.operation, parts):
                builder.passes_each([reduction], [part == "P" for part in parts])
        swapped = SWAPS.get(name, {}).get(reduction)
        if swapped is not None:
            builder.passes([reduction], [Reduction.named(swapped)])
    return builder.build()


def convert_rule(op: OpInfo) -> OpRule:
    """As element-wise; parts pass where converting them changes nothing, see `elements`."""
    builder = _same_dims(op)
    before, after = op.operand_elements[0], op.result_elements[0]
    for reduction in reductions_of(before):
        if reduction in reductions_of(after) and CONVERSIONS[reduction](before, after):
            builder.passes([reduction], [reduction])
    return builder.build()


def is_scalar_work(op: ir.Operation) -> bool:
    """Whether an op computes each element by itself, of the elements at the same place."""
    return opdef(op.name).rule in (elementwise_rule, convert_rule) and not len(op.regions)


def cone(
    value: Value,
    is_leaf: Callable[[Value], bool],
    depth: int,
    is_work: Callable[[ir.Operation], bool] = is_scalar_work,
) -> list[ir.Operation] | None:
    """The operations by which a value is computed of leaves and of numbers that are repeated.

    Args:
        value: the value.
        is_leaf: whether a value is given, and need not be computed; it may be asked again.
        depth: how many operations may stand one after another.
        is_work: which operations compute; those that do so element by element.

    Returns:
        Each once, behind what it reads; None if the value is not computed so.
    """
    found: dict[ir.Operation, None] = {}

    def leads(value: Value, depth: int) -> bool:
        op = maker_of(value)
        if op in found or splat_of(value) is not None or is_leaf(value):
            return True
        if op is None or not depth or not is_work(op):
            return False
        if not all(leads(operand, depth - 1) for operand in op.operands):
            return False
        found[op] = None
        return True

    return list(found) if leads(value, depth) else None


def bitcast_convert_rule(op: OpInfo) -> OpRule:
    """As element-wise; the dimension that the bytes of one element turn into is whole.

    No parts pass: the bits of a sum are not the sum of the bits.
    """
    operand, result = op.operand_shapes[0], op.result_shapes[0]
    builder = RuleBuilder(op)
    for d in range(min(len(operand), len(result))):
        builder.share((0, d), (~0, d))
    reason = "holds the bytes of one element of the other type"
    if len(operand) > len(result):
        builder.whole(0, len(operand) - 1, reason)
    elif len(result) > len(operand):
        builder.whole(~0, len(result) - 1, reason)
    return builder.build()


def optimization_barrier_rule(op: OpInfo) -> OpRule:
    """Result i is operand i, whatever it is; the operands have nothing to do with each other."""
    builder = RuleBuilder(op)
    count = len(op.operand_shapes)
    for k, shape in enumerate(op.operand_shapes):
        for d in range(len(shape)):
            builder.share((k, d), (~k, d))
        for reduction in reductions_of(op.operand_elements[k]):
            kinds = [reduction if k == other else None for other in range(count)]
            builder.passes(kinds, kinds)
    return builder.build()


def alike_rule(op: OpInfo) -> OpRule:
    """Every result is its operand, and all are laid out alike; no parts pass."""
    return _same_dims(op).build()


def plus_zero_rule(op: OpInfo) -> OpRule:
    """As element-wise. Parts of a sum pass: it is a negative zero where every part is one."""
    builder = _same_dims(op)
    builder.passes_each([Reduction.named("sum")], [True])
    return builder.build()


def expand_plus_zero(op: LocalOp) -> Sequence[Value]:
    """What equals 0 is 0."""
    ctx, value = op.ctx, op.operands[0]
    return [ctx.select(ctx.compare("EQ", value, 0), 0, value)]


def known_scales(operation: ir.Operation) -> tuple[bool, ...]:
    """Per operand, whether parts of a sum may be scaled by it; of no interest but in a few ops."""
    is_scale = _SCALES.get(operation.name)
    return () if is_scale is None else tuple([is_scale(value) for value in operation.operands])


_of_two_terms = summed(lambda op: 2)


def elementwise_accuracy(op: OpInfo) -> Accuracy:
    """CHLO's functions are long series; all others round once, or a little more."""
    if op.name.startswith("chlo."):
        return series(op)
    return _of_two_terms(op) if op.name in SUMS else rounded(op)


def _is_exact(operation: ir.Operation, parts: str) -> bool:
    """Whether what is complete does not make NaN of a part that is zero."""
    pairs = zip(parts, known_scales(operation), strict=False)
    return all([known or part == "P" for part, known in pairs])


def _same_dims(op: OpInfo) -> RuleBuilder:
    shape = op.result_shapes[0]
    builder = RuleBuilder(op)
    read = [k for k, operand in enumerate(op.operand_shapes) if operand == shape]
    for d in range(len(shape)):
        made = ((~k, d) for k in range(len(op.result_shapes)))
        builder.share(*made, *((k, d) for k in read))
    return builder


ELEMENTWISE = OpDef(
    elementwise_rule,
    fuses=True,
    resizes=True,
    padding=padding.ANY,
    accuracy=elementwise_accuracy,
)
COSTLY = replace(ELEMENTWISE, costly=True)
MULTIPLY = replace(ELEMENTWISE, known=known_scales)
DIVIDE = replace(COSTLY, known=known_scales)
GAMMA = replace(COSTLY, accuracy=cancelling)  # zero at 1 and 2, and between
CONVERT = OpDef(convert_rule, fuses=True, resizes=True, padding=padding.ANY)
BITCAST_CONVERT = OpDef(bitcast_convert_rule, fuses=True, padding=padding.ANY)
OPTIMIZATION_BARRIER = OpDef(optimization_barrier_rule, moves_only=True)
PLUS_ZERO = replace(ELEMENTWISE, rule=plus_zero_rule, algorithms=(local(expand_plus_zero),))
ALIKE = OpDef(alike_rule, (local(lambda op: op.operands),), moves_only=True, padding=padding.ANY)
