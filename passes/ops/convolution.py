"""Convolutions: einsums over batch and features, and windows over the spatial dimensions."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from dtensor.dialect.attributes import index_attr
from dtensor.dialect.ends import read_ends, read_folds
from dtensor.dialect.mlir import Value, ir, stablehlo
from dtensor.dialect.names import STEPS
from dtensor.passes.expansion.context import LocalOp
from dtensor.passes.ops import longer_windows, padding
from dtensor.passes.ops.accuracy import all_of, summed
from dtensor.passes.ops.attributes import convolution_numbers, integer
from dtensor.passes.ops.contraction import known_finite, products_flops
from dtensor.passes.ops.elements import keeps_sums
from dtensor.passes.ops.halo import (
    fetch_all,
    halo,
    own_results,
    spared_shape,
    window_results,
    without_halo,
)
from dtensor.passes.ops.kernel_ends import ended_results, say_steps
from dtensor.passes.ops.narrow import sent_as
from dtensor.passes.ops.opdef import Algorithm, OpDef, Placed, placed_of
from dtensor.passes.ops.own_elements import (
    expand_own_elements,
    multiplies_own,
    own_bytes,
    spare_share,
)
from dtensor.passes.ops.reduction import Reduction, reductions_of
from dtensor.passes.ops.rule import FactorKind, OpInfo, OpRule, RuleBuilder, WindowDim, read_once
from dtensor.passes.ops.windows import OVERLAP, share_windows, windows_of, windows_over
from dtensor.passes.ops.xla_convolutions import REVERSED, make_safe


def convolution_flops(op: OpInfo) -> float:
    """2 per element of the result, of its window, and of the features of its group."""
    numbers = convolution_numbers(op.operation)
    kernel = op.operand_shapes[1]
    outputs = max(kernel[numbers.kernel_output_feature_dimension], 1)
    return products_flops(op, math.prod(kernel) / outputs)


def group_count(operation: ir.Operation, name: str) -> int:
    """`feature_group_count` or `batch_group_count` of a convolution."""
    return integer(operation.attributes[name])


def convolution_rule(op: OpInfo) -> OpRule:
    """`bic,cio->bio` reduce `c`, where `i` are spatial dimensions whose windows tile them.

    With groups, `c` and `o` fall into one block per group, and the groups can be split.
    It is linear in each side, if the other is finite.
    """
    numbers = convolution_numbers(op.operation)
    by_feature = group_count(op.operation, "feature_group_count")
    by_batch = group_count(op.operation, "batch_group_count")
    builder = RuleBuilder(op)
    kernel, result = numbers.kernel_output_feature_dimension, numbers.output_feature_dimension
    if by_batch == 1:
        builder.share((~0, numbers.output_batch_dimension), (0, numbers.input_batch_dimension))
    if by_feature == 1 and Reduction.SUM in reductions_of(op.result_elements[0]):
        sides = numbers.input_feature_dimension, numbers.kernel_input_feature_dimension
        builder.share(*enumerate(sides), reduction=Reduction.SUM)
    if by_feature == by_batch == 1:
        builder.share((~0, result), (1, kernel))
    else:
        _groups(builder, numbers, max(by_feature, by_batch), by_batch > 1)
    _spatial(builder, numbers)
    if all(keeps_sums(element, op.result_elements[0]) for element in op.operand_elements):
        finite = known_finite(op.operation)
        for k in range(2):
            if finite[1 - k]:
                builder.passes_each([Reduction.SUM], [k == 0, k == 1])
    return builder.build()


def _groups(
    builder: RuleBuilder, numbers: stablehlo.ConvDimensionNumbers, groups: int, is_batch: bool
) -> None:
    """The group index is the major digit of the grouped dimensions."""
    lhs = numbers.input_batch_dimension if is_batch else numbers.input_feature_dimension
    rhs, result = numbers.kernel_output_feature_dimension, numbers.output_feature_dimension
    builder.share((0, lhs), (1, rhs), (~0, result), size=groups)


def _spatial(builder: RuleBuilder, numbers: stablehlo.ConvDimensionNumbers) -> None:
    op = builder.op
    for lhs, (slot, dim), row, window in _windows(op, numbers):
        size = op.operand_shapes[0][lhs]
        if not window.tiles(size):
            builder.whole(0, lhs, OVERLAP)
        places = (slot, dim), (0, lhs)
        if slot < 0:
            share_windows(builder, window, size, *places)
            builder.whole(1, numbers.kernel_spatial_dimensions[row], "is a dimension of the window")
        else:
            kind = FactorKind.REDUCTION if window.tiles(size) else FactorKind.WINDOW
            steps = op.shape(slot)[dim]
            builder.share(*places, size=steps, reduction=Reduction.SUM, kind=kind, window=window)
            builder.whole(~0, numbers.output_spatial_dimensions[row], "is a place of the window")


def _windows(op: OpInfo, numbers: stablehlo.ConvDimensionNumbers) -> list[WindowDim]:
    """The spatial dimensions of the input, each with what can be split together with it.

    Result o is the sum over k of input[o stride + k dilation] kernel[k]. So for each o a window as
    long as the kernel walks over the input, and for each k one as long as the result, where the
    shards' results are parts of the sum. The windows that overlap less are taken: those of the
    results in a layer, also of patches; those of the kernel in its gradient. But a kernel shorter
    than the result is seldom split, as in a layer whose few elements lie far apart, unless its
    windows are pieces of the input. Nor where it is reversed: its first shard would need the last
    part of the input.
    """
    is_reversed = list(ir.DenseBoolArrayAttr(op.attribute(REVERSED))) if op.has(REVERSED) else []
    found = []
    for row, window in enumerate(windows_of(op)):
        lhs, result = (
            numbers.input_spatial_dimensions[row],
            numbers.output_spatial_dimensions[row],
        )
        steps, count = (~0, result), op.result_shapes[0][result]
        sums = Reduction.SUM in reductions_of(op.result_elements[0])
        is_plain = not any(is_reversed[row : row + 1])
        if count > 0 and is_plain and sums and window.folds is None:
            other = replace(window, size=count, stride=window.dilation, dilation=window.stride)
            is_apart = other.overlap == 0 and max(window.low, window.high) <= 0
            if other.overlap < window.overlap and (window.size >= count or is_apart):
                steps, window = (1, numbers.kernel_spatial_dimensions[row]), other
        found.append(WindowDim(lhs, steps, row, window))
    return found


@read_once
def _overlapping(op: OpInfo) -> list[WindowDim]:
    numbers = convolution_numbers(op.operation)
    shape = op.operand_shapes[0]
    return [dim for dim in _windows(op, numbers) if not dim.window.tiles(shape[dim.operand])]


def expand_convolution(op: LocalOp) -> Sequence[Value] | None:
    """Each shard's windows, with what they read of its neighbours, and local numbers of groups."""
    placed = placed_of(op)
    dims = _overlapping(placed.op)
    fetch_all(op, placed, dims, len(op.operand_shapes[0]) - 2, [None])
    _own_groups(op)
    numbers = convolution_numbers(op.operation)
    spatial = numbers.output_spatial_dimensions
    whole = ended_results(op, placed, dims, spared_shape(placed, dims, spatial))
    if whole is not None:
        return own_results(op.ctx, [whole], placed, dims, spatial)
    make_safe(op.ctx, op.operation)
    return window_results(op, placed, dims, spatial)


def expand_own(op: LocalOp) -> Sequence[Value]:
    """What each shard's elements add to results, which go to the neighbours that have them."""
    placed = placed_of(op)
    dims = _overlapping(placed.op)
    _own_groups(op)
    return expand_own_elements(op, placed, dims)


def _own_groups(op: LocalOp) -> None:
    """Write the local numbers of groups."""
    for name, grouped in _grouped(op.operation):
        split = op.operand_layouts[0].dims[grouped].split
        _scale_groups(op.operation, name, 1, split)


def _grouped(operation: ir.Operation) -> Iterator[tuple[str, int]]:
    """The attributes that count groups, and the dimension of operand 0 that falls into them."""
    numbers = convolution_numbers(operation)
    yield "feature_group_count", numbers.input_feature_dimension
    yield "batch_group_count", numbers.input_batch_dimension


def _scale_groups(operation: ir.Operation, name: str, times: int, over: int) -> None:
    """Write a number of groups in proportion to the dimension that falls into them."""
    groups = group_count(operation, name)
    if groups > 1 and times != over:
        operation.attributes[name] = index_attr(groups * times // over)


def _window_ties(op: OpInfo) -> list[padding.TiedDims]:
    """Windows read zeros beyond the end; so do both sides where windows walk over the kernel."""
    numbers = convolution_numbers(op.operation)
    ties: list[padding.TiedDims] = []
    for dim in _windows(op, numbers):
        if longer_windows.is_one_to_one(dim.window):
            continue
        slot, d = dim.steps
        steps = op.operand_shapes[1][d] if slot >= 0 else op.result_shapes[0][d]
        is_read = slot >= 0 or longer_windows.reads_end(
            dim.window, op.operand_shapes[0][dim.operand], steps
        )
        is_filled = is_read or dim.window.folds is not None
        fill = Reduction.SUM if is_filled else padding.Fill.ANY
        ties.append(longer_windows.window_tie(1, dim, fill))
    return ties


def convolution_ties(op: OpInfo) -> list[padding.TiedDims]:
    """Those of windows; and a group more makes each side longer by the features that it has of it.

    No side can have groups that the others lack.
    """
    ties, numbers = _window_ties(op), convolution_numbers(op.operation)
    for name, lhs in _grouped(op.operation):
        groups = group_count(op.operation, name)
        kernel, result = (
            numbers.kernel_output_feature_dimension,
            numbers.output_feature_dimension,
        )
        sizes = (
            op.operand_shapes[0][lhs],
            op.operand_shapes[1][kernel],
            op.result_shapes[0][result],
        )
        if groups > 1 and {groups} != set(sizes):
            places = ((0, lhs), (1, kernel), (~0, result))
            pairs = zip(places, sizes, strict=True)
            # XLA multiplies what is of other groups by zero: it must be finite.
            tie = [
                padding.Along(*place, size // groups, Reduction.SUM, together=True)
                for place, size in pairs
            ]
            ties.append(tuple(tie))
    return ties


def lengthen_convolution(op: padding.Grown) -> None:
    """As many windows as the result has elements, and as many groups as features or batches."""
    info = op.info
    numbers = convolution_numbers(info.operation)
    true, now = ([info.operand_shapes[1], info.result_shapes[0]], [op.operands[1], op.results[0]])
    windows, longer = windows_of(info), windows_over(info, op.operands[1])
    rows, sizes, kernels = {}, {}, {}
    for lhs, (slot, steps), row, _ in _windows(info, numbers):
        k, d = numbers.kernel_spatial_dimensions[row], numbers.output_spatial_dimensions[row]
        before = (info.operand_shapes[0][lhs], true[0][k], true[1][d])
        after = (op.operands[0][lhs], now[0][k], now[1][d])
        if before != after:
            rows[row] = longer[row].padding(after[0], after[2])
            sizes[row] = before[0], info.shape(slot)[steps]
        if before[1] != after[1]:
            kernels[row] = before[0], before[2]
    longer_windows.set_padding(op, windows, rows)
    longer_windows.set_ends(op, windows, sizes)
    say_steps(op, windows, kernels)
    for name, dim in _grouped(op.operation):
        _scale_groups(op.operation, name, op.operands[0][dim], info.operand_shapes[0][dim])


def _known(operation: ir.Operation) -> tuple[object, ...]:
    """Whether its sides are finite, what pads its windows, and as what their elements are sent."""
    rank = ir.RankedTensorType(operation.operands[0].type).rank
    said = *read_ends(operation, rank - 2), *read_folds(operation, rank - 2)
    is_ended = STEPS in operation.attributes
    return *known_finite(operation), *said, is_ended, *sent_as(operation, 2)


def _own_flops(placed: Placed) -> float:
    """What shards compute besides their own windows if they multiply their own elements."""
    shapes = [tuple([placed.shard(slot) for slot in slots]) for slots in ((0, 1), (~0,))]
    shard = replace(placed.op, operand_shapes=shapes[0], result_shapes=shapes[1])
    return convolution_flops(shard) * spare_share(placed, _overlapping(placed.op))


CONVOLUTION = OpDef(
    convolution_rule,
    (
        halo(expand_convolution, _overlapping),
        Algorithm(
            "own_elements",
            expand_own,
            lambda placed: multiplies_own(placed, _overlapping(placed.op)),
            lambda placed: tuple(own_bytes(placed, _overlapping(placed.op))),
            _own_flops,
            # A U-Net, whose levels double their channels, would send a tenth less, in more
            # collectives, and take half as long again to compile.
            weight=3.0,
        ),
        Algorithm("local", expand_convolution, without_halo(_overlapping)),
    ),
    flops=convolution_flops,
    accuracy=summed(all_of(1)),
    must_divide=True,
    is_product=True,
    padding=padding.Padding(
        padding.reducing,
        lengthen_convolution,
        convolution_ties,
        padding.in_reach(_window_ties),
    ),
    known=_known,
)
