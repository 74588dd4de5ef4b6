"""reduce_window, and windows that an op slides over some dimensions.

Where windows neither overlap nor leave gaps, each shard holds whole windows: one element is common,
two by two pooling another such window. Where they do, a shard fetches a halo.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from dtensor.dialect.ends import read_ends, read_folds, read_padding, read_steps, walked
from dtensor.dialect.mlir import Value, ir
from dtensor.passes.expansion.context import LocalOp
from dtensor.passes.ops import longer_windows, padding
from dtensor.passes.ops.accuracy import summed
from dtensor.passes.ops.attributes import convolution_numbers, integers, shape_of
from dtensor.passes.ops.combiners import combiner
from dtensor.passes.ops.halo import (
    fetch_all,
    halo,
    is_inside,
    own_results,
    spared_shape,
    split_windows,
    window_results,
    without_halo,
)
from dtensor.passes.ops.narrow import sent_as
from dtensor.passes.ops.opdef import Algorithm, OpDef, Placed, Traffic, placed_of
from dtensor.passes.ops.reduced_apart import started_apart
from dtensor.passes.ops.reduction import Reduction
from dtensor.passes.ops.rule import (
    FactorKind,
    OpInfo,
    OpRule,
    RuleBuilder,
    Window,
    WindowDim,
    read_once,
)
from dtensor.passes.ops.scans import (
    expand_scan,
    is_associative,
    scan_bytes,
    scans,
    starts_from_identity,
)
from dtensor.passes.ops.totals import flagged, leave_out_ends

STARTS = "is padded, and its windows start from a value that may be met once only"
OVERLAP = "has windows that overlap, are padded or leave gaps, so a shard would need the next one"
_LONG = (
    128  # elements: XLA makes windows of a scan that are longer from such, and from their totals
)


@read_once
def windows_of(op: OpInfo) -> tuple[Window, ...]:
    """How windows walk, one for each dimension."""
    return tuple(windows_over(op, None))


def windows_over(op: OpInfo, kernel: Sequence[int] | None) -> list[Window]:
    """The same; those of a convolution have the size of this kernel, its own if it is None."""
    operation = op.operation
    dims, _, base, dilation = walked(operation)
    count, sizes = len(dims), [1] * len(dims)
    if op.has("window_dimensions"):
        sizes = integers(op.attribute("window_dimensions"))
    elif op.has("dimension_numbers"):
        numbers = convolution_numbers(op.operation)
        kernel = kernel or op.operand_shapes[1]
        sizes = [kernel[d] for d in numbers.kernel_spatial_dimensions]
    padding = read_padding(operation, count)
    columns = (
        sizes,
        read_steps(operation, "window_strides", count),
        [low for low, _ in padding],
        [high for _, high in padding],
        read_steps(operation, base, count),
        read_steps(operation, dilation, count),
        read_ends(operation, count),
        read_folds(operation, count),
    )
    return [Window(*values) for values in zip(*columns, strict=True)]


def reduce_window_rule(op: OpInfo) -> OpRule:
    """`ij,->ij`; a dimension is split if its windows tile it, with a halo, or if it is scanned.

    The body is applied to elements and to the init value alike, so parts of its own reduction pass
    if both are parts. A shard of a scan meets the init values again, and so may not where they
    change something (`dtensor-find-forms` sets apart the values that other sums start from).
    """
    count = len(op.result_shapes)
    builder, windows = RuleBuilder(op), windows_of(op)
    may_pad = starts_from_identity(op.operation)
    for d, (window, size) in enumerate(zip(windows, op.operand_shapes[0], strict=True)):
        is_scan = _is_scan(op, windows, d)
        if is_scan and not may_pad:
            for k in range(count):
                builder.whole(k, d, STARTS)
            continue
        places = [(slot, d) for k in range(count) for slot in (~k, k)]
        if is_scan:
            builder.share(*places, size=size, kind=FactorKind.SCAN)
        else:
            share_windows(builder, window, size, *places)
        for k in range(0 if window.tiles(size) else count):
            builder.whole(k, d, OVERLAP)
    reduction = combiner(op.operation.regions[0])
    is_sum = reduction is Reduction.SUM or all(window.folds is None for window in windows)
    if reduction is not None and is_sum and op.operand_elements[:count] == op.result_elements:
        builder.passes_each([reduction], [True] * (2 * count))
    return builder.build()


def said_of_start(operation: ir.Operation) -> tuple[object, ...]:
    """Whether windows may meet their init values again, which operands say; what pads them.

    And as what their elements are sent.
    """
    rank = len(shape_of(operation.operands[0]))
    return (
        *sent_as(operation),
        starts_from_identity(operation),
        *read_ends(operation, rank),
        *read_folds(operation, rank),
    )


def _is_scan(op: OpInfo, windows: Sequence[Window], dim: int) -> bool:
    """Whether a dimension, and no other, is scanned by a body that may be applied to totals."""
    pairs = zip(windows, op.operand_shapes[0], strict=True)
    others = [pair for d, pair in enumerate(pairs) if d != dim]
    return (
        windows[dim].ends is None
        and windows[dim].folds is None
        and scans(windows[dim], op.operand_shapes[0][dim])
        and all(w.size == 1 and w.tiles(n) for w, n in others)
        and is_associative(op.operation.regions[0])
        and op.operand_elements[: len(op.result_shapes)] == op.result_elements
    )


def _scanned(placed: Placed) -> tuple[int, Window] | None:
    """The split dimension that is scanned, and its window; None if there is none."""
    op = placed.op
    if not starts_from_identity(op.operation):
        return None  # a shard would meet its init values once more
    windows = windows_of(op)
    for d, window in enumerate(windows):
        word = placed.operands[0].dims[d]
        if word.split > 1 and word.is_contiguous and _is_scan(op, windows, d):
            return d, window
    return None


def _scan_bytes(placed: Placed) -> tuple[Traffic, ...]:
    found = _scanned(placed)
    assert found is not None, "priced where it does not apply"
    return scan_bytes(placed, found[0])


def expand_scanned(op: LocalOp) -> Sequence[Value]:
    """Each shard scans its elements behind what the shards before it combine to."""
    found = _scanned(placed_of(op))
    assert found is not None, "a scan that was checked"
    return expand_scan(op, *found)


def share_windows(
    builder: RuleBuilder, window: Window, size: int, *places: tuple[int, int]
) -> None:
    """A factor of windows, of which the first place has one each, over `size` elements."""
    tiles = window.tiles(size)
    slot, dim = places[0]
    builder.share(
        *places,
        size=builder.op.shape(slot)[dim],
        kind=None if tiles else FactorKind.WINDOW,
        window=None if tiles else window,
    )


@read_once
def _overlapping(op: OpInfo) -> list[WindowDim]:
    return [
        WindowDim(d, (~0, d), d, window)
        for d, window in enumerate(windows_of(op))
        if not window.tiles(op.operand_shapes[0][d])
    ]


def expand_reduce_window(op: LocalOp) -> Sequence[Value] | None:
    """Each shard reduces its windows, with what they read of its neighbours."""
    placed, count, rank = placed_of(op), len(op.result_layouts), len(op.operand_shapes[0])
    dims = _overlapping(placed.op)
    fetch_all(op, placed, dims, rank, op.operands[count:])
    if not starts_from_identity(op.operation):
        shape = op.ctx.shape_of(op.operands[0])
        masks = [is_inside(op.ctx, placed, dim, shape) for dim in split_windows(placed, dims)]
        if valid := [mask for mask in masks if mask is not None]:
            made = spared_shape(placed, dims, range(rank))
            types = [op.ctx.tensor_type(made, op.result_element(k)) for k in range(count)]
            all_valid = op.ctx.combined("and", valid)
            results = flagged(op.ctx, op.operation, types, all_valid, True)
            return own_results(op.ctx, results, placed, dims, range(rank))
    return window_results(op, placed, dims, range(rank))


def reduce_window_flops(op: OpInfo) -> float:
    """One per element of each window; XLA takes long windows of a scan apart."""
    windows = windows_of(op)
    sizes = list(integers(op.attribute("window_dimensions")))
    for d, size in enumerate(sizes):
        if size > _LONG and _is_scan(op, windows, d):
            sizes[d] = _LONG
    return float(math.prod(op.result_shapes[0]) * len(op.result_shapes) * math.prod(sizes))


def _terms(op: OpInfo) -> int:
    return math.prod(integers(op.attribute("window_dimensions")))


def window_fill(rule: OpRule, factor: int) -> padding.Fill | None:
    """Windows of one element; of a single one the op may say that it is dilated."""
    return padding.passing(rule, factor) if rule.factors[factor].size > 1 else None


def reduce_window_ties(op: OpInfo) -> list[padding.TiedDims]:
    """Windows read the init value beyond the end, or leave it out; sums from the end read it."""
    windows = windows_of(op)
    count = len(op.result_shapes)
    may_pad = starts_from_identity(op.operation)
    ties: list[padding.TiedDims] = []
    for d, window in enumerate(windows):
        if longer_windows.is_one_to_one(window):
            continue
        if _is_scan(op, windows, d):
            if not may_pad:
                continue
            is_read, window = window.low == 0, Window(1, 1, 0, 0, 1, 1)
        else:
            is_read = longer_windows.reads_end(
                window, op.operand_shapes[0][d], op.result_shapes[0][d]
            )
        is_filled = (is_read and may_pad) or window.folds is not None
        fill = padding.Fill.INIT if is_filled else padding.Fill.ANY
        ties.append(longer_windows.window_tie(count, WindowDim(d, (~0, d), d, window), fill))
    return ties


def lengthen_windows(op: padding.Grown) -> None:
    """As many windows as the results have elements; one as long as a dimension is so still."""
    info = op.info
    sizes, windows = integers(info.attribute("window_dimensions")), windows_of(info)
    rows = {}
    for d, window in enumerate(windows):
        size, steps = op.operands[0][d], op.results[0][d]
        if longer_windows.is_one_to_one(window) or (size, steps) == (
            info.operand_shapes[0][d],
            info.result_shapes[0][d],
        ):
            continue
        if _is_scan(info, windows, d):
            sizes[d] = size
            rows[d] = (size - 1, 0) if window.low else (0, size - 1)
        else:
            rows[d] = window.padding(size, steps)
    op.set_integers("window_dimensions", sizes)
    longer_windows.set_padding(op, windows, rows)
    longer_windows.set_ends(
        op, windows, {d: (info.operand_shapes[0][d], info.result_shapes[0][d]) for d in rows}
    )
    if not starts_from_identity(op.operation):
        leave_out_ends(op, list(rows))


def _anew(op: ir.Operation, made: list[ir.Operation]) -> list[Value]:
    """Its starts apart, unless windows hold all elements up to one, or all from one on."""
    info = OpInfo.of(op)
    if info is not None:
        if any(map(scans, windows_of(info), info.operand_shapes[0])):
            return []
    return started_apart(op, made)


REDUCE_WINDOW = OpDef(
    reduce_window_rule,
    (
        Algorithm("scan", expand_scanned, lambda placed: _scanned(placed) is not None, _scan_bytes),
        halo(expand_reduce_window, _overlapping),
        Algorithm("local", expand_reduce_window, without_halo(_overlapping)),
    ),
    flops=reduce_window_flops,
    known=said_of_start,
    anew=_anew,
    accuracy=summed(_terms, rounds_each=True),
    padding=padding.Padding(
        window_fill,
        lengthen_windows,
        reduce_window_ties,
        padding.in_reach(reduce_window_ties),
    ),
)
