"""Windows whose results at the ends are added to those further in: the gradient of a padding.

`jnp.pad(x, 1, mode="reflect")` puts elements of `x` around it. So its gradient adds what it got for
these to what it got for `x`: it slices the results of windows, reverses or sums up the slices, pads
them with zeros and adds them. Here the windows themselves give that sum, and `dtensor.folds` says
how. Where the sum only wraps round, it is that of windows which are padded by wrapping.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dtensor.dialect.ends import WRAP, Ends, Folds
from dtensor.dialect.mlir import Value, ir, made_by, maker_of, operation_of, users
from dtensor.passes.builder import Builder
from dtensor.passes.cuts.modes import ModePadding, padding_of
from dtensor.passes.cuts.pieces import Piece, Reader
from dtensor.passes.cuts.windows import Windows
from dtensor.passes.ops.attributes import integers, shape_of, splat_number, spread_dims
from dtensor.passes.ops.patterns import adds
from dtensor.passes.rewriting.names import (
    ADD,
    BROADCAST,
    CONVOLUTION,
    PAD,
    REDUCE,
    RESHAPE,
    REVERSE,
    SLICE,
    WINDOWED,
)

_DEEPEST = 30  # operations one behind the other
_MOST = 120  # pieces that are added


class Sums(Reader):
    """Reads sums, piece by piece: a place may have several pieces, and one without any is 0."""

    def of_result(self, op: ir.Operation, dim: int) -> Sequence[Piece] | None:
        if op.name == ADD:
            found = [piece for value in op.operands for piece in self.of(value, dim)]
            return found if len(found) <= _MOST else None
        summed = _summed(op, dim)
        if summed is not None:
            return [replace(piece, place=0, stride=0) for piece in self.of(summed, dim)]
        pieces = super().of_result(op, dim)
        if pieces is None:
            return None
        return [p for p in pieces if not p.fills or splat_number(p.source.value) != 0]


def folded(op: ir.Operation, sums: Sums, made: list[ir.Operation]) -> bool:
    """Let windows give a sum of what they give at their ends; whether that was rewritten.

    Where one side is zero, as a sum of no elements is, the other side stands for the sum.
    """
    result: Value = op.results[0]
    for k, side in enumerate(map(maker_of, op.operands)):
        if side is not None and is_nothing(side):
            result.replace_all_uses_with(op.operands[1 - k])
            return True
    for dim, size in enumerate(shape_of(result)):
        pieces = () if _is_cut(result, dim) else sums.of(result, dim)
        windows = _windows(pieces, dim)
        if windows is None:
            continue
        transposed = [piece.transposed for piece in pieces]
        padding = padding_of(transposed, size, pieces[0].source.size, 2 * size)
        value = None if padding is None else _of_windows(windows, dim, padding, op, made)
        if value is not None:
            result.replace_all_uses_with(value)
            return True
    return False


def _is_cut(value: Value, dim: int) -> bool:
    """Whether all readers slice a value along a dimension: then it is part of a longer sum."""
    size = shape_of(value)[dim]
    cuts = [user.name == SLICE and shape_of(user.results[0])[dim] < size for user in users(value)]
    return all(cuts)


def _windows(pieces: Sequence[Piece], dim: int) -> Windows | None:
    """The windows of whose results all pieces are, if they walk along the dimension."""
    source = pieces[0].source if len({piece.source for piece in pieces}) == 1 else None
    op = None if source is None or source.ops else maker_of(source.value)
    if len(pieces) < 2 or op is None or op.name not in WINDOWED:
        return None
    windows = Windows.of(op)
    return windows if windows.walks_over_one and dim in windows.outs else None


def is_nothing(op: ir.Operation) -> bool:
    """Whether an operation adds up no elements, or repeats or pads such sums."""
    for _ in range(_DEEPEST):
        if op.name == REDUCE:
            is_sum = len(op.operands) == 2 and splat_number(op.operands[1]) == 0
            return is_sum and 0 in shape_of(op.operands[0]) and adds(op)
        is_kept = op.name in (BROADCAST, RESHAPE, SLICE, REVERSE)
        if not is_kept and not (op.name == PAD and splat_number(op.operands[1]) == 0):
            return False
        maker = maker_of(op.operands[0])
        if maker is None:
            return False
        op = maker
    return False


def _summed(op: ir.Operation, dim: int) -> Value | None:
    """What an operation adds up along a dimension of which it leaves one element.

    The gradient of `jnp.repeat` does: it takes a dimension apart in two, sums up both, and puts one
    of them back.
    """
    result: Value = op.results[0]
    if op.name not in (BROADCAST, RESHAPE) or shape_of(result)[dim] != 1:
        return None
    reduce = made_by(REDUCE, op.operands[0])
    if reduce is None or len(reduce.operands) != 2 or not adds(reduce):
        return None
    others = [d for d in range(len(shape_of(result))) if d != dim]
    is_back = op.name == RESHAPE or spread_dims(op) == others
    sizes = shape_of(reduce.results[0])
    is_back &= [shape_of(result)[d] for d in others] == sizes
    if splat_number(reduce.operands[1]) != 0 or not is_back:
        return None
    value: Value = reduce.operands[0]
    apart = made_by(RESHAPE, value)
    value = value if apart is None else apart.operands[0]
    shape = shape_of(value)
    if len(shape) != len(others) + 1 or [shape[d] for d in others] != sizes:
        return None
    reduced = integers(reduce.attributes["dimensions"])
    return value if reduced == ([dim] if apart is None else [dim, dim + 1]) else None


def _of_windows(
    windows: Windows, dim: int, padding: ModePadding, before: ir.Operation, made: list[ir.Operation]
) -> Value | None:
    """The windows anew, their results folded; None if they do not add up, or have ends already."""
    op, row = windows.op, windows.outs.index(dim)
    was = windows.each[row]
    if was.ends is not None or was.folds is not None or not _can_fold(windows, row):
        return None
    size, low, high = shape_of(op.operands[0])[windows.ins[row]], padding.low, padding.high
    window = replace(was, low=was.low - low, high=was.high - high)
    if min(window.low, window.high) < 0 or not size or was.size > padding.size:
        return None
    if _goes_round(windows, row, size, padding):
        gap, end = was.base_dilation, padding.size - 1 - window.low + was.reach
        window = replace(window, high=end - (size - 1) * gap - 1, ends=Ends(WRAP))
        if window.high < 0 or max(window.low, window.high) // gap > size:
            return None
    else:
        window = replace(window, folds=Folds(padding.mode, low, high))
    windows.each[row] = window
    value = Builder(before, made).like(op, list(op.operands), dim, padding.size)
    windows.write(operation_of(value))
    return value


def _can_fold(windows: Windows, row: int) -> bool:
    """Whether windows add up, one at each place, and their padding adds nothing."""
    op = windows.op
    is_sum = op.name == CONVOLUTION or (adds(op) and splat_number(op.operands[1]) == 0)
    return is_sum and windows.each[row].stride == 1


def _goes_round(windows: Windows, row: int, size: int, padding: ModePadding) -> bool:
    """Whether the folded results are those of windows that wrap round what they walk over.

    They are if the results repeat at the same distance, and every element of the operand meets
    every element of a window.
    """
    window = windows.each[row]
    gap, low = window.base_dilation, window.low
    return (
        padding.mode == WRAP
        and size * gap == padding.size
        and low >= window.reach - 1
        and (size - 1) * gap + low < shape_of(windows.op.results[0])[windows.outs[row]]
    )
