"""Fourier transforms: each row by itself, a split row in four steps.

A row that its shards do not divide is padded: `dtensor.fft` says how long it is in truth.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from dtensor.dialect import build
from dtensor.dialect.diagnostics import error
from dtensor.dialect.mlir import Value, ir
from dtensor.passes.creation import Shape
from dtensor.passes.expansion.context import LocalOp
from dtensor.passes.ops import padding
from dtensor.passes.ops.accuracy import ELEMENTARY, Accuracy
from dtensor.passes.ops.attributes import integers
from dtensor.passes.ops.four_steps import (
    LENGTH,
    TRANSFORM,
    TYPE,
    expand_steps,
    step_bytes,
    steps_of,
    transform_attributes,
    transform_kind,
)
from dtensor.passes.ops.linalg import leading
from dtensor.passes.ops.opdef import Algorithm, OpDef, Placed
from dtensor.passes.ops.reduction import Reduction
from dtensor.passes.ops.rule import FactorKind, OpInfo, OpRule
from dtensor.passes.ops.transform_rows import Kind, factors


def fft_rule(op: OpInfo) -> OpRule:
    """`bi->bi`; one `i` may be split, if its length has factors. Parts of a sum pass.

    Raises:
        LocatedError: the lengths are not the operand's, which MLIR does not check.
    """
    shape, lengths = op.operand_shapes[0], integers(op.attribute(LENGTH))
    if op.name == TRANSFORM:  # the dialect checks its own
        _check_lengths(op, shape, lengths)
    is_cut = len(lengths) == 1 and bool(factors(lengths[0]))
    why = "is transformed" if is_cut or len(lengths) > 1 else "is transformed, of a prime length"
    builder = leading(op, len(shape) - len(lengths), why)
    if is_cut:
        builder.share(*builder.everywhere(len(shape) - 1), kind=FactorKind.TRANSFORM)
    builder.passes([Reduction.SUM], [Reduction.SUM])
    return builder.build()


def _check_lengths(op: OpInfo, shape: Shape, lengths: list[int]) -> None:
    read = list(lengths)
    if (
        transform_kind(op.operation) is Kind.IRFFT
    ):  # of length 0 nothing is read; jax gives one element
        read[-1] = read[-1] // 2 + 1 if read[-1] else min(shape[-1], 1)
    if list(shape[len(shape) - len(read) :]) != read:
        error(
            op.operation,
            f"{op.name} of length {lengths} reads {read} elements in the last dimensions, "
            f"found {list(shape)}; pad or slice the operand",
        )


def fft_flops(op: OpInfo) -> float:
    """5 n log2 n of each transform of n points."""
    points = max(math.prod(integers(op.attribute(LENGTH))), 2)
    elements = max(math.prod(op.operand_shapes[0]), math.prod(op.result_shapes[0]))
    return 5.0 * elements * math.log2(points)


def fft_accuracy(op: OpInfo) -> Accuracy:
    """One rounding after another in each of log2 n steps."""
    length = math.prod(integers(op.attribute(LENGTH)))
    return Accuracy(ELEMENTARY * (2 + math.log2(max(length, 1))), of_tensor=True)


def _is_split(placed: Placed) -> bool:
    return steps_of(placed) is not None


def _is_whole(placed: Placed) -> bool:
    count = len(integers(placed.op.attribute(LENGTH)))
    return all(word.split == 1 for word in placed.operands[0].dims[-count:])


def expand_whole(op: LocalOp) -> Sequence[Value]:
    """The true length is transformed; behind it stand zeros."""
    ctx, operation = op.ctx, op.operation
    kind, length = transform_kind(operation), integers(operation.attributes[LENGTH])[0]
    given, made = kind.sizes(length)
    rank = len(op.operand_shapes[0])
    value = ctx.cut(op.operands[0], rank - 1, 0, given)
    type_ = ctx.tensor_type((*ctx.shape_of(value)[:-1], made), op.result_element())
    value = ctx.value(TRANSFORM, [value], type_, transform_attributes(kind, length))
    return [ctx.lengthened(value, rank - 1, 0, op.result_shapes[0][-1])]


def fft_ties(op: OpInfo) -> list[padding.TiedDims]:
    """A row may be longer, and so may its transform."""
    lengths, last = integers(op.attribute(LENGTH)), len(op.operand_shapes[0]) - 1
    if len(lengths) > 1 or not factors(lengths[0]):
        return []
    ends = padding.Along(0, last), padding.Along(~0, last)
    given, made = transform_kind(op.operation).sizes(lengths[0])
    return [ends] if given == made else [(end,) for end in ends]


def fft_alike(op: OpInfo) -> list[padding.TiedDims]:
    """A row of real numbers and the half of its transform are split alike."""
    ties = fft_ties(op)
    return [(*ties[0], *ties[1])] if len(ties) > 1 else []


def fft_moves(op: OpInfo) -> list[padding.Along]:
    """The axes of a row, to a dimension that is not transformed."""
    batch = len(op.operand_shapes[0]) - len(integers(op.attribute(LENGTH)))
    return [padding.Along(0, d) for d in (batch, *range(batch))]


def lengthen_fft(op: padding.Grown) -> None:
    """Say how long the row is in truth."""
    before, last = op.operation, len(op.operands[0]) - 1
    if op.operands[0][last] == op.true_operand(0)[last] and (
        op.results[0][last] == op.true_result(0)[last]
    ):
        return
    made = build.fft(
        before.operands[0],
        before.results[0].type,
        before.attributes[TYPE],
        before.attributes[LENGTH],
        loc=before.location,
        ip=ir.InsertionPoint(before),
    )
    op.made.append(made)
    op.instead[0] = made.results[0]


def _fft(*algorithms: Algorithm) -> OpDef:
    return OpDef(
        fft_rule,
        (Algorithm("four_steps", expand_steps, _is_split, step_bytes), *algorithms),
        flops=fft_flops,
        must_divide=True,
        padding=padding.Padding(
            refit=lengthen_fft, ties=fft_ties, alike=fft_alike, moves=fft_moves
        ),
        accuracy=fft_accuracy,
    )


FFT = _fft(Algorithm("local", applies=_is_whole))
PADDED_FFT = _fft(Algorithm("local", expand_whole, _is_whole))
