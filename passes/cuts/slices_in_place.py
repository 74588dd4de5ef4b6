"""What is computed of slices, computed in the size of what was sliced.

`x[2:] + x[:-2]` has two rows less than `x`, and no axis that divides `x` divides it. A pattern that
puts it into an array as long as `x` asks for it in that size, at its place: then the slices become
rolls of `x`. The other elements may be anything; the pattern that asked selects around them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from dtensor.dialect.build import splice
from dtensor.dialect.mlir import Value, ir, maker_of, operation_of
from dtensor.dialect.names import DIM, SPLICE
from dtensor.passes.builder import Builder, Trail
from dtensor.passes.creation import with_sizes
from dtensor.passes.cuts.pieces import Piece, Pieces, Source, cut, merged, without_dim
from dtensor.passes.cuts.read_along import computed_of, read_along
from dtensor.passes.ops.attributes import CONSTANT, integer, itemsize, shape_of, splat_of
from dtensor.passes.rewriting.shards import At, Shards

_DEEPEST = 100  # operations one behind the other
_NEAREST = 20  # values that are looked at for a slice among them
_FARTHEST = 200  # and for all slices that are read

Fuse = Callable[[ir.Operation, int], Value]


@dataclass(frozen=True, slots=True)
class Wanted:
    """In which size a value is asked for along one dimension.

    Attributes:
        dim: the dimension.
        place: where the value's first element is to be; it may be negative.
        size: elements of the dimension.
        before: what is made stands before this operation.
        scope: number of its block.
    """

    dim: int
    place: int
    size: int
    before: ir.Operation = field(compare=False)
    scope: int


@dataclass(frozen=True, slots=True)
class _Cut:
    """A slice of a value along a dimension, which begins at `start`."""

    start: int
    at: At


class Aligner:
    """Makes operations in one function.

    Attributes:
        pieces: what values consist of.
        shards: tell how much longer values may become.
        made: what was made, in order.
        lengths: the lengths of the dimensions that were cut so far.
        fuse: replaces a cut; gives the value of its result.
    """

    def __init__(
        self, pieces: Pieces, fuse: Fuse, shards: Shards, made: list[ir.Operation]
    ) -> None:
        self.made = made
        self.lengths: set[int] = set()
        self.pieces = pieces
        self.shards = shards
        self.fuse = fuse
        self._values: dict[tuple[Source, int], Value] = {}
        self._aligned: dict[tuple[Value, Wanted], Value | None] = {}
        self._spliced: dict[object, Value] = {}

    def value(self, source: Source, before: ir.Operation, scope: int) -> Value:
        """A source with its operations applied, which are fused along their dimensions in turn."""
        if not source.ops:
            return source.value
        key = (source, scope)
        found = self._values.get(key)
        if found is None:
            inner, last = replace(source, ops=source.ops[:-1]), source.ops[-1]
            value = self.value(inner, before, scope)
            make = Trail(ir.InsertionPoint(before), last.location, self.made)
            op = operation_of(without_dim(make, last, value, source.dim))
            found = self._values[key] = self.fuse(op, scope)
        return found

    def spliced(
        self, pieces: Sequence[Piece], main: Sequence[Source], before: ir.Operation, scope: int
    ) -> Value:
        """One splice of pieces, before an operation; those made before are not made again.

        Of its operands come first the sources in `main`, one at least.
        """
        sources = list(dict.fromkeys([*main, *(piece.source for piece in pieces)]))
        operands = [self.value(source, before, scope) for source in sources]
        rows = [(sources.index(piece.source), piece.start, piece.count) for piece in pieces]
        key = tuple(operands), sources[0].dim, tuple(rows), scope
        if key not in self._spliced:
            ip = ir.InsertionPoint(before)
            value: Value = splice(operands, sources[0].dim, rows, loc=before.location, ip=ip)
            self.made.append(operation_of(value))
            self._spliced[key] = value
        return self._spliced[key]

    def sliced(self, value: Value, dim: int) -> Piece | None:
        """The slice along a dimension that a value was computed of, as a piece; None if of none.

        The nearest one among the first few values that it was computed of.
        """
        seen, waiting = set[At](), [(value, dim)]
        while waiting and len(seen) < _NEAREST:
            at = waiting.pop(0)
            if at in seen:
                continue
            seen.add(at)
            pieces = self.pieces.through(*at)
            if pieces is None:
                waiting += computed_of(at) or ()
            elif len(pieces) == 1 and pieces[0].is_whole:
                waiting.append(pieces[0].source.at)  # cut along other dimensions
            else:
                cuts = [piece for piece in pieces if not piece.fills]
                return max(cuts, key=lambda piece: piece.source.size, default=None)
        return None

    def cheapest_place(self, value: Value, asked: Wanted) -> int:
        """The place of a value's first element for which least is moved: as wanted, or as sliced.

        Of places for which as much is moved, the one is taken for which less is moved of what the
        value is computed of: others may read the same. What was computed at a place before costs
        nothing there.
        """
        wanted, start = asked.place, (value, asked.dim)
        reads = self._reads(start, asked.size)
        if reads is None:
            return wanted

        def rows_moved(place: int) -> tuple[float, float]:
            left = self._left_at(start, replace(asked, place=place), reads)
            read = sum(abs(cut.start - place) * _row_bytes(cut.at) for cut in left)
            return read + abs(place - wanted) * _row_bytes(start), read

        cuts = {read.start for read in reads.values() if isinstance(read, _Cut)}
        return min((wanted, *sorted(cuts)), key=rows_moved)

    def _reads(self, start: At, size: int) -> dict[At, _Cut | list[At]] | None:
        """What a value and all that it is computed of are cut out of, or computed of.

        None where there are too many, or others than cuts of this size.
        """
        found: dict[At, _Cut | list[At]] = {}
        waiting = [start]
        while waiting:
            at = waiting.pop()
            if at in found:
                continue
            if len(found) == _FARTHEST:
                return None
            pieces = self.pieces.through(*at)
            if pieces is not None:
                first = pieces[0] if len(pieces) == 1 else None
                if first is None or first.fills or first.source.size != size:
                    return None
                found[at] = _Cut(first.start, first.source.at)
                continue
            near = computed_of(at)
            if near is None:
                return None
            found[at] = near
            waiting += near
        return found

    def _left_at(
        self, start: At, asked: Wanted, reads: dict[At, _Cut | list[At]]
    ) -> dict[_Cut, None]:
        """What is still to be cut for a value at a place, where others were computed before."""
        left, waiting, seen = dict[_Cut, None](), [start], set[At]()
        while waiting:
            at = waiting.pop()
            is_there = self._aligned.get((at[0], replace(asked, dim=at[1]))) is not None
            if at in seen or is_there:
                continue
            seen.add(at)
            read = reads[at]
            if isinstance(read, _Cut):
                left[read] = None
            else:
                waiting += read
        return left

    def aligned(self, value: Value, wanted: Wanted, depth: int = 0) -> Value | None:
        """A value of another size that has the elements of `value` at a place.

        Returns:
            None if it would have to be made of values of other sizes. Elements beyond those of
            `value` may be anything.
        """
        if (value, wanted) not in self._aligned:
            self._aligned[value, wanted] = self._align(value, wanted, depth)
        return self._aligned[value, wanted]

    def _align(self, value: Value, wanted: Wanted, depth: int) -> Value | None:
        if shape_of(value)[wanted.dim] == wanted.size and wanted.place == 0:
            return value
        pieces = self.pieces.through(value, wanted.dim)
        if pieces is not None:
            return self._of_pieces(pieces, wanted, depth)
        op = maker_of(value)
        if op is None or depth > _DEEPEST:
            return None
        if op.name == CONSTANT:
            return self._constant(op, wanted)
        if op.block != wanted.before.block:
            return None
        if op.name == SPLICE and integer(op.attributes[DIM]) == wanted.dim:
            return None
        read = read_along(op, wanted.dim)
        return None if read is None else self._computed(op, read, wanted, depth)

    def _computed(
        self, op: ir.Operation, read: dict[int, int], wanted: Wanted, depth: int
    ) -> Value | None:
        operands = list(op.operands)
        for k, dim in read.items():
            long = self.aligned(operands[k], replace(wanted, dim=dim), depth + 1)
            if long is None:
                return None
            operands[k] = long
        return Builder(wanted.before, self.made).like(op, operands, wanted.dim, wanted.size)

    def _of_pieces(self, pieces: tuple[Piece, ...], wanted: Wanted, depth: int) -> Value | None:
        """Stretches of values that are as long as is asked for, and short ones between them."""
        place, size = wanted.place, wanted.size
        main = max(pieces, key=lambda p: 0 if p.fills else p.count, default=None)
        if main is None or main.fills:
            return None
        if main.source.size != size:
            return self._cut_elsewhere(main, wanted, depth) if len(pieces) == 1 else None
        stretches = cut(pieces, -place, size)
        if not stretches:
            return None
        # What stands around the others moves with the longest piece.
        shift = place + main.place - main.start
        if abs(shift) > self.shards.reach(size, main.count, main.source.at):
            return None
        end = place + sum(piece.count for piece in pieces)
        front, behind = (0, max(0, place)), (min(end, size), size)
        around = *_ring(main.source, shift, *front), *stretches, *_ring(main.source, shift, *behind)
        rows = merged(around)
        if len(rows) == 1 and rows[0].is_whole:
            return self.value(rows[0].source, wanted.before, wanted.scope)
        return self.spliced(rows, [main.source], wanted.before, wanted.scope)

    def _cut_elsewhere(self, piece: Piece, wanted: Wanted, depth: int) -> Value | None:
        """A cut along other dimensions alone, of a value aligned to the size that is asked for."""
        source = piece.source
        inner = replace(wanted, place=wanted.place - piece.start)
        long = self.aligned(source.value, inner, depth + 1)
        if long is None:
            return None
        return self.value(replace(source, value=long), wanted.before, wanted.scope)

    def _constant(self, op: ir.Operation, wanted: Wanted) -> Value | None:
        make, value = Builder(wanted.before, self.made), op.results[0]
        number = splat_of(value)
        if number is None:
            return None
        shape = with_sizes(shape_of(value), wanted.dim, wanted.size)
        return make.splat(number, make.tensor_type(shape, make.element_of(value)))


def _row_bytes(at: At) -> float:
    """What one element along a dimension is."""
    size = math.prod(n for d, n in enumerate(shape_of(at[0])) if d != at[1])
    return size * itemsize(at[0])


def _ring(source: Source, shift: int, first: int, end: int) -> Iterator[Piece]:
    """What a roll of a source by `shift` has at places `first` to `end`."""
    while first < end:
        start = (first - shift) % source.size
        count = min(end - first, source.size - start)
        yield Piece(source, start, count, first)
        first += count
