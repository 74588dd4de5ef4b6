"""Chains of slices, pads and concatenations that give back the size they began with.

`jnp.roll` is two slices put together the other way round, a stencil slices what `jnp.pad` made. The
values in between have awkward sizes, which no mesh axis divides; the whole chain is one
`dtensor.splice` of values that it divides.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dtensor.dialect.mlir import Value, ir, made_by
from dtensor.passes.cuts.pieces import Piece, Pieces, Source
from dtensor.passes.cuts.slices_in_place import Aligner, Wanted
from dtensor.passes.cuts.uses import USES, replaced_use
from dtensor.passes.ops.attributes import pad_numbers, shape_of, slice_numbers
from dtensor.passes.rewriting.names import CUTS, PAD, SLICE
from dtensor.passes.rewriting.rewriting import Rewriting
from dtensor.passes.rewriting.shards import At

_TIMES_THERE = 8  # times as many elements are there already


def fuse_chains(function: Rewriting) -> None:
    """Put chains together, and what is computed between them in the size of what was cut."""
    fuser = Fuser(function)
    for op, name, scope in function.ops.visits:
        if name in CUTS:
            fuser.fuse(op, scope.number)
        elif name in USES:
            replaced_use(fuser.aligner, op, scope.number)
    function.has_changed |= bool(function.made)


class Fuser:
    """Rewrites one function."""

    def __init__(self, function: Rewriting) -> None:
        self.pieces = Pieces()
        self.function, self.shards = function, function.shards
        self.aligner = Aligner(self.pieces, self.fuse, self.shards, function.made)

    def fuse(self, op: ir.Operation, scope: int) -> Value:
        """Replace an operation along every dimension that it cuts; the value of its result."""
        result: Value = op.results[0]
        dims, sizes = self.pieces.cut_dims(op), shape_of(op.operands[0])
        self.aligner.lengths.update([sizes[dim] for dim in dims])
        for dim in dims:
            pieces = self.pieces.of(result, dim)
            value = self._fused(op, pieces, dim, scope)
            if value is not None:
                self.function.replace(op, value)
                return value
        return result

    def _fused(
        self, op: ir.Operation, pieces: Sequence[Piece], dim: int, scope: int
    ) -> Value | None:
        """The value put together from pieces; None if the operation is better left alone."""
        size = shape_of(op.results[0])[dim]
        if any(piece.source.value == op.results[0] for piece in pieces):
            return None
        pieces = [self._of_longer(piece, size) for piece in pieces]
        pieces = self._all_aligned(op, pieces, dim, scope)
        same = [piece for piece in pieces if not piece.fills and piece.source.size == size]
        if not same or (len(same) < len(pieces) and not self._fits(op, pieces, same, dim)):
            return None
        if len(pieces) == 1:
            return self.aligner.value(pieces[0].source, op, scope)
        pads = _pads_elsewhere(pieces)
        if pads:
            pieces, same = (
                [p if p.fills else replace(p, source=replace(p.source, ops=())) for p in some]
                for some in (pieces, same)
            )
        value = self.aligner.spliced(pieces, [piece.source for piece in same], op, scope)
        return self.aligner.value(Source(value, dim, pads), op, scope)

    def _of_longer(self, piece: Piece, size: int) -> Piece:
        """A single element of a slice as that of the value sliced, if that has this size."""
        source, dim = piece.source, piece.source.dim
        made = None if piece.fills or piece.count != 1 else made_by(SLICE, source.value)
        if made is None:
            return piece
        start, _, stride = [numbers[dim] for numbers in slice_numbers(made)]
        longer = replace(source, value=made.operands[0])
        if stride == 1 or longer.size != size or self.pieces.cut_dims(made) != (dim,):
            return piece
        return Piece(longer, start + stride * piece.start, 1, piece.place)

    def _fits(
        self, op: ir.Operation, pieces: Sequence[Piece], same: Sequence[Piece], dim: int
    ) -> bool:
        """Whether enough of a result comes from values of its length, and from near its place."""
        result: Value = op.results[0]
        size, count = shape_of(result)[dim], sum(piece.count for piece in same)
        places = [(result, dim), *(piece.source.at for piece in same)]
        if _keeps(pieces) and self.shards.splits(*places):
            return True
        if not self.shards.fits(size, count, *places):
            return False
        reach = self.shards.reach(size, count, *places)
        return all(abs(piece.place - piece.start) <= reach for piece in same)

    def _all_aligned(
        self, op: ir.Operation, pieces: Sequence[Piece], dim: int, scope: int
    ) -> list[Piece]:
        """The pieces, where that can be of values as long as the result.

        A few elements more of a value of which most is there already, such as ghost rows, are read
        of that: what they are computed of need not reach further.
        """
        found: dict[int, Piece] = {}
        most: dict[Source, int] = {}
        for k in sorted(range(len(pieces)), key=lambda k: -pieces[k].count):
            piece = pieces[k]
            main = most.setdefault(piece.source, k)
            given, long = pieces[main], found.get(main, piece)
            is_few = main != k and not piece.fills and _TIMES_THERE * piece.count <= given.count
            if is_few and long.source != given.source:
                start = long.start - given.start + piece.start
                found[k] = replace(piece, source=long.source, start=start)
            else:
                found[k] = self._aligned(op, piece, dim, scope)
        return [found[k] for k in range(len(pieces))]

    def _aligned(self, op: ir.Operation, piece: Piece, dim: int, scope: int) -> Piece:
        """A piece; where that can be, of a value as long as the result."""
        at: At = (op.results[0], dim)
        size, source, first = shape_of(at[0])[dim], piece.source, piece.place - piece.start
        if piece.fills or source.size == size:
            return piece
        sliced = self.aligner.sliced(*source.at)
        if sliced is None:
            return piece
        # An edge stays where it is, and reads what the rows beside it read.
        given = sliced.source.at
        is_near = abs(first - sliced.start) <= 1 and self.shards.splits(at, given)
        if not is_near and not self.shards.fits(size, piece.count, at, given):
            return piece
        if self.shards.others_take_all(*source.at) and _is_read_in_part(*source.at):
            return piece
        wanted = Wanted(dim, first, size, op, scope)
        if size < 2 * piece.count:
            first = self.aligner.cheapest_place(source.value, wanted)
        value = self.aligner.value(source, op, scope)
        long = self.aligner.aligned(value, replace(wanted, place=first))
        if long is None:
            return piece
        self.shards.split_like(long, dim, given)
        return Piece(Source(long, dim), first + piece.start, piece.count, piece.place)


def _is_read_in_part(value: Value, dim: int) -> bool:
    """Whether a slice takes less than half of a dimension: then the value is computed anyway."""
    slices = [op for use in value.uses if (op := use.owner.operation).name == SLICE]
    return any(2 * shape_of(op.results[0])[dim] < shape_of(value)[dim] for op in slices)


def _pads_elsewhere(pieces: Sequence[Piece]) -> tuple[ir.Operation, ...]:
    """Pads of the one source along other dimensions, if it may as well be padded afterwards.

    Then shards send fewer elements, and others that read the value unpadded read the same.
    """
    found = {piece.source for piece in pieces if not piece.fills}
    ops = next(iter(found)).ops if len(found) == 1 else ()
    fills = {p.source.value for p in pieces if p.fills} | {op.operands[-1] for op in ops}
    is_padded = all(op.name == PAD and min(map(min, pad_numbers(op))) >= 0 for op in ops)
    return ops if is_padded and len(fills) <= 1 else ()


def _keeps(pieces: Sequence[Piece]) -> bool:
    """Whether all pieces are of one value and stay in their places, with fills for the rest."""
    kept = [piece for piece in pieces if not piece.fills]
    is_in_place = all(piece.start == piece.place for piece in kept)
    return is_in_place and len({piece.source for piece in kept}) == 1
