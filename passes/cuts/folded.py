"""Windows whose results at the ends are added to those further in: the gradient of a padding.

`jnp.pad` in the modes wrap, reflect, symmetric and edge puts elements of a value around it, so its
gradient adds what it got for them to what it got for the value: slices of the results of windows,
reversed or summed up, padded with zeros and added. Here the windows give the sum, and say how.
Where they go round what they walk over, so does the sum, and the windows are padded by wrapping.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from dtensor.dialect.ends import (
    EDGE,
    MODES,
    REFLECT,
    WRAP,
    Ends,
    Folds,
    read_ends,
    read_folds,
    write_ends,
    write_folds,
)
from dtensor.dialect.mlir import Value, ir, made_by, maker_of
from dtensor.passes.builder import Builder
from dtensor.passes.cuts.align import REDUCE
from dtensor.passes.cuts.pads import CONVOLUTION, WINDOWED, Rows, reads_one
from dtensor.passes.cuts.pieces import BROADCAST, PAD, RESHAPE, REVERSE, SLICE, operation_of
from dtensor.passes.ops.attributes import (
    integers,
    pad_numbers,
    shape_of,
    slice_numbers,
    splat_number,
)
from dtensor.passes.ops.combiners import combiner
from dtensor.passes.ops.reduction import Reduction

ADD = "stablehlo.add"
_DEEPEST = 30  # operations one behind the other
_MOST = 30  # stretches that are added


@dataclass(frozen=True, slots=True)
class Move:
    """Elements `start`, `start + step`, ... that are added from `place` on.

    Attributes:
        is_sum: whether all of them are added at `place`.
    """

    start: int
    count: int
    step: int
    place: int
    is_sum: bool = False

    @property
    def pairs(self) -> Iterator[tuple[int, int]]:
        """Which element is added to which."""
        for i in range(self.count):
            yield self.start + i * self.step, self.place + (0 if self.is_sum else i)

    def cut(self, start: int, count: int) -> Iterator[Move]:
        """What a slice of the sums is a sum of."""
        length = 1 if self.is_sum else self.count
        first, end = max(self.place, start), min(self.place + length, start + count)
        if first >= end:
            return
        if self.is_sum:
            yield replace(self, place=first - start)
            return
        begin = self.start + (first - self.place) * self.step
        yield Move(begin, end - first, self.step, first - start)

    def reversed(self, size: int) -> Move:
        """The same of `size` sums that are reversed."""
        if self.is_sum:
            return replace(self, place=size - 1 - self.place)
        last = self.start + (self.count - 1) * self.step
        return Move(last, self.count, -self.step, size - self.place - self.count)


@dataclass(frozen=True, slots=True)
class Sums:
    """A value as sums of elements of another along one dimension."""

    source: Value
    moves: tuple[Move, ...]

    def having(self, moves: Iterable[Move]) -> Sums:
        """Other sums of it."""
        return replace(self, moves=tuple(moves))


def folded(op: ir.Operation, made: list[ir.Operation]) -> bool:
    """Let windows give an addition of what they give at their ends; whether it was rewritten.

    An addition of what is zero, for it is a sum of no elements, is what it is added to.
    """
    result: Value = op.results[0]
    for k, side in enumerate(map(maker_of, op.operands)):
        if side is not None and _is_nothing(side):
            result.replace_all_uses_with(op.operands[1 - k])
            return True
    for dim in range(len(shape_of(result))):
        sums = None if _is_cut(result, dim) else _sums(result, dim, 0)
        if sums is None or len(sums.moves) < 2:
            continue
        windows = operation_of(sums.source)
        fold = _fold(sums.moves, shape_of(sums.source)[dim], shape_of(result)[dim])
        value = None if fold is None else _of_windows(windows, dim, fold, op, made)
        if value is not None:
            result.replace_all_uses_with(value)
            return True
    return False


def _is_cut(value: Value, dim: int) -> bool:
    """Whether all that reads a value slices it along a dimension: more is added then."""
    users = [use.owner.operation for use in value.uses]
    size = shape_of(value)[dim]
    return all(user.name == SLICE and shape_of(user.results[0])[dim] < size for user in users)


def _sums(value: Value, dim: int, depth: int) -> Sums | None:
    """What windows give, of which a value is a sum; None of anything else."""
    op = maker_of(value)
    if op is None or depth > _DEEPEST or len(op.results) != 1:
        return None
    if op.name in WINDOWED:
        is_walked = reads_one(op) and dim in Rows.read(op).outs
        return Sums(value, (Move(0, shape_of(value)[dim], 1, 0),)) if is_walked else None
    if op.name == ADD:
        return _added(op, dim, depth)
    if op.name == SLICE:
        return _sliced(op, dim, depth)
    if op.name == PAD:
        return _padded(op, dim, depth)
    if op.name == REVERSE and integers(op.attributes["dimensions"]) == [dim]:
        found = _sums(op.operands[0], dim, depth + 1)
        size = shape_of(value)[dim]
        return None if found is None else found.having(m.reversed(size) for m in found.moves)
    summed = _summed(op, dim)
    found = None if summed is None else _sums(summed, dim, depth + 1)
    if found is None or any(move.is_sum for move in found.moves):
        return None
    return found.having(replace(move, place=0, is_sum=True) for move in found.moves)


def _added(op: ir.Operation, dim: int, depth: int) -> Sums | None:
    found: Sums | None = None
    for operand in op.operands:
        side = _sums(operand, dim, depth + 1)
        if side is None or (found is not None and found.source != side.source):
            return None
        found = side if found is None else found.having((*found.moves, *side.moves))
        if len(found.moves) > _MOST:
            return None
    return found


def _is_nothing(op: ir.Operation) -> bool:
    """Whether an operation adds up no elements, or repeats or pads such sums."""
    for _ in range(_DEEPEST):
        if op.name == REDUCE:
            is_sum = len(op.operands) == 2 and splat_number(op.operands[1]) == 0
            return is_sum and 0 in shape_of(op.operands[0]) and _adds(op)
        is_kept = op.name in (BROADCAST, RESHAPE, SLICE, REVERSE)
        if not is_kept and not (op.name == PAD and splat_number(op.operands[1]) == 0):
            return False
        maker = maker_of(op.operands[0])
        if maker is None:
            return False
        op = maker
    return False


def _adds(op: ir.Operation) -> bool:
    element = str(ir.RankedTensorType(op.results[0].type).element_type)
    return combiner(op.regions[0], (element,)) is Reduction.SUM


def _sliced(op: ir.Operation, dim: int, depth: int) -> Sums | None:
    value, result = op.operands[0], op.results[0]
    starts, _, strides = slice_numbers(op)
    cut = [d for d, n in enumerate(shape_of(value)) if n != shape_of(result)[d]]
    found = _sums(value, dim, depth + 1) if set(cut) <= {dim} and set(strides) <= {1} else None
    if found is None:
        return None
    count = shape_of(result)[dim]
    return found.having(m for move in found.moves for m in move.cut(starts[dim], count))


def _padded(op: ir.Operation, dim: int, depth: int) -> Sums | None:
    lows, highs, gaps = pad_numbers(op)
    others = [lows[d] or highs[d] for d in range(len(lows)) if d != dim]
    is_plain = not any((*others, *gaps)) and min(lows[dim], highs[dim]) >= 0
    found = None
    if is_plain and splat_number(op.operands[1]) == 0:
        found = _sums(op.operands[0], dim, depth + 1)
    if found is None:
        return None
    return found.having(replace(move, place=move.place + lows[dim]) for move in found.moves)


def _summed(op: ir.Operation, dim: int) -> Value | None:
    """What an operation adds up along a dimension of which it leaves one element.

    As the gradient of `jnp.repeat`: taken apart into two dimensions, both summed, one put back.
    """
    result: Value = op.results[0]
    if op.name not in (BROADCAST, RESHAPE) or shape_of(result)[dim] != 1:
        return None
    reduce = made_by(REDUCE, op.operands[0])
    if reduce is None or len(reduce.operands) != 2 or not _adds(reduce):
        return None
    others = [d for d in range(len(shape_of(result))) if d != dim]
    is_back = op.name == RESHAPE or integers(op.attributes["broadcast_dimensions"]) == others
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


def _fold(moves: Sequence[Move], size: int, count: int) -> Folds | None:
    """How `count` sums are made of `size` elements; None if no mode does it so."""
    main = [move for move in moves if move.count == count and move.step == 1 and not move.place]
    for move in main:
        low, high = move.start, size - count - move.start
        if move.is_sum or min(low, high) < 0 or low + high > 2 * count:
            continue
        others = sorted(pair for other in moves if other is not move for pair in other.pairs)
        for mode in MODES if low or high else ():
            ends = [*enumerate(front(mode, count, low))]
            ends += [(low + count + i, place) for i, place in enumerate(behind(mode, count, high))]
            if others == sorted(ends):
                return Folds(mode, low, high)
    return None


def _of_windows(
    op: ir.Operation, dim: int, fold: Folds, before: ir.Operation, made: list[ir.Operation]
) -> Value | None:
    """The windows anew, their results folded; None if they do not add up, or have ends already."""
    rows = Rows.read(op)
    row = rows.outs.index(dim)
    ends, folds = read_ends(op, len(rows.ins)), read_folds(op, len(rows.ins))
    if ends[row] is not None or folds[row] is not None or not _can_fold(op, rows, row):
        return None
    size, count = shape_of(op.operands[0])[rows.ins[row]], shape_of(before.results[0])[dim]
    low, high = rows.lows[row] - fold.front, rows.highs[row] - fold.behind
    if min(low, high) < 0 or not size or rows.counts[row] > count:
        return None
    if _goes_round(op, rows, row, size, count, fold):
        end = count - 1 - low + rows.reach(row)  # behind the last place that is read
        ends[row], high = Ends(WRAP), end - (size - 1) * rows.gaps[row] - 1
        if high < 0 or max(low, high) // rows.gaps[row] > size:
            return None
    else:
        folds[row] = fold
    rows.lows[row], rows.highs[row] = low, high
    make = Builder(before, made)
    value = make.like(op, list(op.operands), dim, count)
    windows = operation_of(value)
    rows.write(windows)
    write_ends(windows, ends)
    write_folds(windows, folds)
    return value


def _can_fold(op: ir.Operation, rows: Rows, row: int) -> bool:
    """Whether windows add up, one at each place, and their padding adds nothing."""
    is_sum = op.name == CONVOLUTION or (_adds(op) and splat_number(op.operands[1]) == 0)
    return is_sum and rows.strides[row] == 1


def _goes_round(op: ir.Operation, rows: Rows, row: int, size: int, count: int, fold: Folds) -> bool:
    """Whether folded results are those of windows round what they walk over.

    So they are if the results repeat with it, and every element meets every one of a window.
    """
    gap, low, reach = rows.gaps[row], rows.lows[row], rows.reach(row)
    return (
        fold.mode == WRAP
        and size * gap == count
        and low >= reach - 1
        and (size - 1) * gap + low < shape_of(op.results[0])[rows.outs[row]]
    )


def front(mode: str, size: int, count: int) -> Iterator[int]:
    """Which of `size` elements stand in front of them."""
    for i in range(-count, 0):
        if mode == WRAP:
            yield size + i
        elif mode == EDGE:
            yield 0
        else:
            yield -i - (mode != REFLECT)


def behind(mode: str, size: int, count: int) -> Iterator[int]:
    """Which of `size` elements stand behind them."""
    for i in range(count):
        if mode == WRAP:
            yield i
        elif mode == EDGE:
            yield size - 1
        else:
            yield size - 1 - i - (mode == REFLECT)
