"""Slices, pads, concatenations and reversals along a dimension that has become longer.

Operand and result are of one length then, so that no element leaves its place by more than the
operation says; what stands beyond the true end may be anything. Where elements move, a
`dtensor.splice` of stretches moves them.
"""

from __future__ import annotations

from collections.abc import Sequence

from dtensor.dialect.build import splice
from dtensor.dialect.mlir import Value, ir, is_read, operation_of
from dtensor.dialect.names import COUNTS, DIM, SOURCES, STARTS
from dtensor.passes.builder import Builder
from dtensor.passes.ops.attributes import (
    PAD_NUMBERS,
    SLICE_NUMBERS,
    integer,
    integers,
    pad_numbers,
    slice_numbers,
)
from dtensor.passes.ops.cut_dims import cuts_of
from dtensor.passes.ops.padding import Along, Fill, Grown, Padding, TiedDims, indexing, little_apart
from dtensor.passes.ops.rule import OpInfo

# Of a splice: an operand, where a stretch begins in it, and how many elements it has.
SplicePart = tuple[int, int, int]


def slice_ties(op: OpInfo) -> list[TiedDims]:
    """What is kept is as long as what it is kept of, or a share of it."""
    ties: list[TiedDims] = []
    for d, cut in enumerate(cuts_of(op)):
        if cut.before != cut.after and (cut.step == 1 or -cut.low < cut.step):
            ties.append((Along(0, d, cut.step), Along(~0, d)))
    return ties


def slice_reads(op: OpInfo) -> list[Along]:
    """What is most of a dimension is fetched in halos, and ends where that does in truth."""
    return [tie[0] for tie in _slice_alike(op)]


_slice_alike = little_apart(slice_ties, plain=True)


def lengthen_slice(op: Grown) -> None:
    """The first elements are kept at their places; others move there, if they do not fit."""
    starts, limits, strides = slice_numbers(op.operation)
    moved = {}
    for d, size in enumerate(op.results[0]):
        if size == op.true_result(0)[d] and op.operands[0][d] != size:
            continue
        if op.true_operand(0)[d] == op.true_result(0)[d]:
            strides[d] = 1  # of one element the stride does not matter
        gone = min(starts[d], max(op.operands[0][d] - size, 0))  # so many fewer there may be
        if strides[d] == 1 and starts[d] != gone:
            moved[d] = [(0, starts[d] - gone, op.true_result(0)[d])]
            starts[d] = gone
        limits[d] = starts[d] + (size - 1) * strides[d] + 1 if size else starts[d]
    for name, numbers in zip(SLICE_NUMBERS, (starts, limits, strides), strict=True):
        op.set_integers(name, numbers)
    lacking = [max(limit - size, 0) for limit, size in zip(limits, op.operands[0], strict=True)]
    op.operation.operands[0] = _longer(op, op.operation.operands[0], lacking)
    _move(op, moved)


def _longer(op: Grown, value: Value, more: Sequence[int]) -> Value:
    """A value with as many zeros behind the elements of each dimension, where any are asked for."""
    make = Builder(op.operation, op.made)
    fill = make.zero_of(value)
    return make.pad(value, fill, [0] * len(more), more) if any(more) else value


def pad_ties(op: OpInfo) -> list[TiedDims]:
    """What is padded is as long as the result, or a share of it."""
    ties: list[TiedDims] = []
    for d, cut in enumerate(cuts_of(op)):
        low, has_gaps = cut.low, cut.step > 1
        does_nothing = cut.before == cut.after and not low and not has_gaps
        if does_nothing or (has_gaps and not 0 <= low < cut.step):
            continue
        end = low + cut.before * cut.step  # where the first element beyond the end would stand
        is_seen = cut.after > end and (has_gaps or not low)
        fill = Fill.INIT if is_seen else Fill.ANY
        ties.append((Along(0, d, 1, fill), Along(~0, d, cut.step)))
    return ties


def pad_alike(op: OpInfo) -> list[TiedDims]:
    """What little is added to or cropped is split as what it becomes, fetched in halos."""
    lows, highs, _ = pad_numbers(op.operation)
    return [tie for tie in _pad_alike(op) if lows[tie[0].dim] * highs[tie[0].dim] >= 0]


_pad_alike = little_apart(pad_ties, plain=True)


def lengthen_pad(op: Grown) -> None:
    """The padding stands in the place of what is beyond the end, and moves with the elements.

    Around what has nothing beyond its end there is more of it behind.
    """
    lows, highs, gaps = pad_numbers(op.operation)
    moved = {}
    for d, padded in enumerate(op.results[0]):
        size = op.operands[0][d]
        if padded == op.true_result(0)[d] and size == op.true_operand(0)[d]:
            continue
        gone = min(max(-lows[d], 0), max(size - padded, 0))  # so many fewer there may be
        if not gaps[d] and lows[d] != -gone and op.grows(0, d):
            first, end = max(-lows[d], 0), op.true_operand(0)[d] - max(-highs[d], 0)
            kept = (0, first - gone, end - first)
            moved[d] = [(1, 0, max(lows[d], 0)), kept, (1, 0, max(highs[d], 0))]
            if first >= end:  # nothing is left but padding
                moved[d] = [(1, 0, op.true_result(0)[d])]
            lows[d] = -gone
        if size == padded:
            gaps[d] = 0  # there were none in one element
        spread = (size - 1) * (gaps[d] + 1) + 1 if size else 0
        highs[d] = padded - lows[d] - spread
    for name, numbers in zip(PAD_NUMBERS, (lows, highs, gaps), strict=True):
        op.set_integers(name, numbers)
    _move(op, moved, op.operation.operands[1])


def concatenate_ties(op: OpInfo) -> list[TiedDims]:
    """An operand that has most of the result is as long as it."""
    dim = integer(op.attribute("dimension"))
    sizes = [shape[dim] for shape in op.operand_shapes]
    longest = max(range(len(sizes)), key=lambda k: sizes[k])
    is_most = len(sizes) > 1 and 2 * sizes[longest] > sum(sizes)
    return [(Along(longest, dim), Along(~0, dim))] if is_most else []


def lengthen_concatenate(op: Grown) -> None:
    """Stretches of the operands, those that are longer included; the longest is padded to fit."""
    dim = integer(op.operation.attributes["dimension"])
    values = list(op.operation.operands)
    is_longer = any(op.grows(k, dim) for k in range(len(values)))
    if not is_longer and op.results[0][dim] == op.true_result(0)[dim]:
        return
    rows = [(k, 0, op.true_operand(k)[dim]) for k in range(len(values))]
    longest, size = max(rows, key=lambda row: row[2])[0], op.results[0][dim]
    if op.operands[longest][dim] != size:
        before = sum(count for _, _, count in rows[:longest])
        make = Builder(op.operation, op.made)
        values[longest] = make.lengthened(values[longest], dim, before, size)
        rows[longest] = (longest, before, rows[longest][2])
    point = ir.InsertionPoint(op.operation)
    op.instead[0] = _spliced(op, values, dim, rows, size, point)


def reverse_ties(op: OpInfo) -> list[TiedDims]:
    """Both sides are of one length."""
    dims = integers(op.attribute("dimensions"))
    return [(Along(0, d), Along(~0, d)) for d in dims if op.operand_shapes[0][d] > 1]


def lengthen_reverse(op: Grown) -> None:
    """What is beyond the end comes first, and is moved behind the elements."""
    moved, dims = {}, []
    for d in integers(op.operation.attributes["dimensions"]):
        size, true = op.results[0][d], op.true_result(0)[d]
        if size != true == 1:
            continue  # one element stays where it is
        dims.append(d)
        if size != true:
            moved[d] = [(0, size - true, true)]
    op.set_integers("dimensions", dims)
    _move(op, moved)


def lengthen_backward(op: Grown, dim: int) -> None:
    """What is beyond the end stands ahead of all elements meanwhile, where nothing reads it."""
    operation, true, size = op.operation, op.true_operand(0)[dim], op.operands[0][dim]
    point = ir.InsertionPoint(operation)
    for k, value in enumerate(operation.operands):
        rows = [(0, true, size - true), (0, 0, true)]
        operation.operands[k] = _spliced(op, [value], dim, rows, size, point)
    point = ir.InsertionPoint.after(operation)
    for k, result in enumerate(operation.results):
        if is_read(result):
            rows = [(0, size - true, true), (0, 0, size - true)]
            op.instead[k] = _spliced(op, [result], dim, rows, size, point)


def splice_ties(op: OpInfo) -> list[TiedDims]:
    """The operands that are as long as the result are so still."""
    dim = integer(op.attribute(DIM))
    size = op.result_shapes[0][dim]
    long = [k for k, shape in enumerate(op.operand_shapes) if shape and shape[dim] == size]
    return [(Along(~0, dim), *(Along(k, dim) for k in long))] if long else []


def splice_reads(op: OpInfo) -> list[Along]:
    """Of an operand of another length a splice reads elements before the true end."""
    dim = integer(op.attribute(DIM))
    size = op.result_shapes[0][dim]
    shapes = enumerate(op.operand_shapes)
    return [Along(k, dim) for k, shape in shapes if shape and shape[dim] != size]


def lengthen_splice(op: Grown) -> None:
    """The same stretches, and one more of anything."""
    dim = integer(op.operation.attributes[DIM])
    if op.results[0][dim] == op.true_result(0)[dim]:
        return  # what it reads, stands where it stood
    columns = [integers(op.operation.attributes[name]) for name in (SOURCES, STARTS, COUNTS)]
    rows: list[SplicePart] = list(zip(*columns, strict=True))
    sizes = [shape[dim] if shape else None for shape in op.operands]
    rows = _completed(rows, sizes, op.results[0][dim])
    for name, column in zip((SOURCES, STARTS, COUNTS), zip(*rows, strict=True), strict=True):
        op.set_integers(name, column)


def _move(op: Grown, moved: dict[int, list[SplicePart]], fill: Value | None = None) -> None:
    """Move elements of the result along some dimensions; source 0 is the result, 1 the fill."""
    value: Value = op.operation.results[0]
    for d, rows in moved.items():
        operands = [value] if fill is None else [value, fill]
        point = ir.InsertionPoint.after(operation_of(value))
        value = op.instead[0] = _spliced(op, operands, d, rows, op.results[0][d], point)


def _spliced(
    op: Grown,
    values: Sequence[Value],
    dim: int,
    rows: Sequence[SplicePart],
    size: int,
    point: ir.InsertionPoint,
) -> Value:
    rows = [row for row in rows if row[2]]
    shapes = [list(ir.RankedTensorType(value.type).shape) for value in values]
    rows = _completed(rows, [shape[dim] if shape else None for shape in shapes], size)
    used = sorted({source for source, _, _ in rows} | {0})
    rows = [(used.index(source), start, count) for source, start, count in rows]
    made: Value = splice([values[k] for k in used], dim, rows, loc=op.operation.location, ip=point)
    op.made.append(operation_of(made))
    return made


def _completed(
    rows: Sequence[SplicePart], sizes: Sequence[int | None], size: int
) -> list[SplicePart]:
    """Stretches with one more of anything behind them, so that they are `size` elements.

    It moves with the longest that comes from an operand as long as the result, so that it costs
    nothing to fetch.
    """
    place, shift, main = 0, 0, (sizes.index(size), 0, 0)
    for row in rows:
        if sizes[row[0]] == size and row[2] > main[2]:
            main, shift = row, place - row[1]
        place += row[2]
    first = (place - shift) % size
    taken = min(size - place, size - first)
    rest = [(main[0], first, taken), (main[0], 0, size - place - taken)]
    return [row for row in (*rows, *rest) if row[2]]


OF_SLICE = Padding(indexing, lengthen_slice, slice_ties, _slice_alike, reads=slice_reads)
OF_PAD = Padding(refit=lengthen_pad, ties=pad_ties, alike=pad_alike)
OF_CONCATENATE = Padding(
    refit=lengthen_concatenate, ties=concatenate_ties, alike=little_apart(concatenate_ties)
)
OF_REVERSE = Padding(refit=lengthen_reverse, ties=reverse_ties)
OF_SPLICE = Padding(refit=lengthen_splice, ties=splice_ties, reads=splice_reads)
