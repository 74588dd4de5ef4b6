"""Sums of most of a split dimension, moved by little, and of few of its rows, moved elsewhere.

The gradient of `jnp.pad(x, 1, mode="reflect")` adds the row that it got for what was put in front
of `x` to the second row of `x`, and `jnp.gradient` has sums of its own at both ends. JAX writes
them as pads of single rows, in sizes that no axis divides, and as slices of such sums. Here each
term is read of a value as long as the sum, and those that stand in different places are one splice:
shards send their neighbours the rows that these lack, and move rows of their own as they like.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from dtensor.dialect.mlir import Value, ir, maker_of, reader_of, users
from dtensor.passes.builder import Builder
from dtensor.passes.cuts.padding_gradients import Sums, is_nothing
from dtensor.passes.cuts.pieces import Piece, Pieces, Source
from dtensor.passes.cuts.slices_in_place import Aligner, Wanted
from dtensor.passes.ops.attributes import element_of, integers, pad_numbers, shape_of
from dtensor.passes.ops.elementwise import is_scalar_work
from dtensor.passes.ops.patterns import is_negative_zero, is_zero
from dtensor.passes.rewriting.names import ADD, CONCATENATE, PAD, REVERSE
from dtensor.passes.rewriting.rewriting import Rewriting

_NEAR_WORKS = 3  # operations between padded rows and a term
_TIMES_FEW_ROWS = 8  # times as long is a sum as terms of few of its rows


class MovedSums(Sums):
    """Reads sums, but for those of which no term is moved: these are values as any other."""

    def of_result(self, op: ir.Operation, dim: int) -> Sequence[Piece] | None:
        if op.name == CONCATENATE or is_nothing(op):
            return None  # the one has no zeros where the others stand, the other has all
        if op.name == REVERSE and dim not in integers(op.attributes["dimensions"]):
            return [piece.after(op) for piece in self.of(op.operands[0], dim)]
        found = super().of_result(op, dim)
        if op.name != ADD or found is None:
            return found
        zeros = sorted(filter(_is_zero, found), key=_is_negative)[:1]
        terms = [piece for piece in found if not _is_zero(piece)]
        return None if terms and all(map(_stays, found)) else [*terms, *zeros]


def _is_zero(piece: Piece) -> bool:
    """Whether a piece is known to be zero."""
    value = piece.source.value
    op = maker_of(value)
    return is_zero(value) or (op is not None and is_nothing(op))


def _is_negative(piece: Piece) -> bool:
    """Whether a piece is -0.0; of zeros of both signs the sum is 0."""
    return is_negative_zero(piece.source.value)


def _stays(piece: Piece) -> bool:
    return piece.is_whole and piece.place == 0 and piece.step == 1 == piece.stride


@dataclass
class Row:
    """Terms of a sum that stand in different places.

    Attributes:
        size: elements of the dimension.
        terms: what stands where, one element after another.
        shifts: from which sources they come, and by how much these are moved round the dimension.
    """

    size: int
    terms: list[list[Piece]] = field(default_factory=list)
    shifts: set[tuple[Source, int]] = field(default_factory=set)

    @property
    def pieces(self) -> list[Piece]:
        """All of the terms, in the order of their places."""
        return sorted([p for term in self.terms for p in term], key=lambda piece: piece.place)

    def has_room(self, term: Sequence[Piece]) -> bool:
        """Whether nothing stands yet where the pieces of a term do."""
        pairs = ((piece, other) for piece in term for other in self.pieces)
        return all(one.end <= other.place or other.end <= one.place for one, other in pairs)

    def goes_along(self, term: Sequence[Piece]) -> bool:
        """Whether all pieces of a term are moved as one that is there."""
        return all(self.shift(piece) in self.shifts for piece in term)

    def shift(self, piece: Piece) -> tuple[Source, int]:
        """The source of a piece, and by how much it is moved."""
        return piece.source, (piece.place - piece.start) % self.size

    def add(self, term: list[Piece]) -> None:
        """Let a term stand in its place too."""
        self.terms.append(term)
        self.shifts.update(map(self.shift, term))


def move_terms(function: Rewriting) -> None:
    """Write sums of moved rows along split dimensions as sums of splices of their length."""
    padded = _padded_sums(function.named(PAD))
    if not padded:
        return
    mover = Mover(function)
    for op, name, scope in function.ops.visits:
        if name == ADD and op.results[0] in padded and not _is_term(op):
            function.replace(op, mover.moved(op, padded[op.results[0]], scope.number))


def _padded_sums(pads: Iterable[ir.Operation]) -> dict[Value, set[int]]:
    """Sums of padded terms, or of what is made of one alone in a few operations; along what dims.

    Where these operations may move dimensions it is all of them.
    """
    found = dict[Value, set[int]]()
    waiting = [(pad.results[0], _NEAR_WORKS, frozenset(_long_dims(pad))) for pad in pads]
    seen = set[tuple[Value, int, frozenset[int]]]()
    while waiting:
        reached = waiting.pop()
        value, left, dims = reached
        if reached in seen or not dims:
            continue
        seen.add(reached)
        for op in users(value):
            if op.name == ADD:
                found.setdefault(op.results[0], set()).update(dims)
                waiting.append((op.results[0], left, dims))
            elif left and len(op.operands) == 1 == len(op.results) and not len(op.regions):
                result = op.results[0]
                rank = len(shape_of(result))
                moved = dims if is_scalar_work(op) else frozenset(range(rank))
                waiting.append((result, left - 1, moved))
    return found


def _long_dims(pad: ir.Operation) -> Iterator[int]:
    """The dimensions of many elements that a pad makes longer, or cuts."""
    lows, highs, gaps = pad_numbers(pad)
    for dim, size in enumerate(shape_of(pad.results[0])):
        if size >= _TIMES_FEW_ROWS and (lows[dim] or highs[dim] or gaps[dim]):
            yield dim


def _is_term(op: ir.Operation) -> bool:
    """Whether another sum of the same block alone reads this one, as it is."""
    reader = reader_of(op.results[0])
    return reader is not None and reader.name == ADD and reader.parent == op.parent


class Mover:
    """Rewrites sums of one function."""

    def __init__(self, function: Rewriting) -> None:
        self._sums, self._shards, self._made = MovedSums(), function.shards, function.made
        self._aligner = Aligner(Pieces(), lambda op, _: op.results[0], self._shards, self._made)
        self._totals: dict[tuple[tuple[Source, ...], int], Source] = {}

    def moved(self, op: ir.Operation, dims: Iterable[int], scope: int) -> Value | None:
        """A sum anew; None if no rows are moved by themselves along one of these dimensions."""
        for dim in sorted(dims):
            size = shape_of(op.results[0])[dim]
            pieces = self._sums.of(op.results[0], dim)
            terms = [piece for piece in pieces if not _is_zero(piece)]
            zeros = [piece for piece in pieces if _is_zero(piece)]
            is_negative = bool(zeros) and all(map(_is_negative, zeros))
            places = [(op.results[0], dim), *(term.source.at for term in terms)]
            if not _has_few(terms, size) or self._shards.nearly(*places) < 2:
                continue
            long = [self._as_long(term, Wanted(dim, 0, size, op, scope)) for term in terms]
            found = [term for term in long if term is not None]
            if len(found) == len(terms):
                rows = self._rows(op, self._added(op, found, scope), size)
                make, values = (
                    Builder(op, self._made),
                    [self._spliced(op, r, scope, is_negative) for r in rows],
                )
                total = make.combined("add", values)
                is_whole = is_negative or not zeros
                return total if is_whole else make.plus_zero(total)
        return None

    def _as_long(self, term: Piece, wanted: Wanted) -> Piece | None:
        """A term of a value as long as the sum; None if none is known."""
        source = term.source
        if source.size == wanted.size:
            return term
        sliced = self._aligner.sliced(*source.at)
        if sliced is None or sliced.source.size != wanted.size or source.ops:
            return None
        start = sliced.start - sliced.place
        if any(not 0 <= start + element < wanted.size for element, _ in term.pairs):
            return None
        value = self._aligner.aligned(source.value, replace(wanted, place=start))
        if value is None:
            return None
        self._shards.split_like(value, wanted.dim, sliced.source.at)
        return replace(term, source=Source(value, source.dim), start=term.start + start)

    def _added(self, op: ir.Operation, terms: Sequence[Piece], scope: int) -> list[Piece]:
        """The terms, of which those that are moved alike are added up first."""
        alike: dict[Piece, list[Source]] = {}
        for term in terms:
            alike.setdefault(replace(term, source=terms[0].source), []).append(term.source)
        return [
            replace(moved, source=self._total(op, sources, scope))
            for moved, sources in alike.items()
        ]

    def _total(self, op: ir.Operation, sources: Sequence[Source], scope: int) -> Source:
        """The sum of values."""
        key = tuple(sources), scope
        if len(sources) > 1 and key not in self._totals:
            values = [self._aligner.value(source, op, scope) for source in sources]
            total = Builder(op, self._made).combined("add", values)
            self._totals[key] = Source(total, sources[0].dim)
        return self._totals.get(key, sources[0])

    def _rows(self, op: ir.Operation, terms: Sequence[Piece], size: int) -> list[Row]:
        """The terms, those side by side that can be: with what is moved alike, if with anything."""
        is_complex = element_of(op.results[0]).startswith("complex")  # two signs of zero each
        rows = list[Row]()
        for term in terms:
            pieces = [*term.rows]
            free = [row for row in rows if not is_complex and row.has_room(pieces)]
            row = next((row for row in free if row.goes_along(pieces)), free[0] if free else None)
            if row is None:
                row = Row(size)
                rows.append(row)
            row.add(pieces)
        return rows

    def _spliced(self, op: ir.Operation, row: Row, scope: int, is_negative: bool) -> Value:
        """The terms of a row side by side, with zeros between; a sum of zeros of two signs is 0.

        With negative zeros if all that are added are.
        """
        pieces, make = row.pieces, Builder(op, self._made)
        if len(pieces) == 1 and _stays(pieces[0]):
            return self._aligner.value(pieces[0].source, op, scope)
        main = [piece.source for piece in sorted(pieces, key=lambda piece: -piece.count)]
        zero = make.nothing_of(op.results[0], is_negative)
        stretches = [*_between(pieces, row.size, Source(zero))]
        value = self._aligner.spliced(stretches, main, op, scope)
        return value if is_negative or len(row.terms) == 1 else make.plus_zero(value)


def _between(pieces: Sequence[Piece], size: int, zero: Source) -> Iterator[Piece]:
    """Pieces in the order of their places, with zeros where there are none."""
    place = 0
    for piece in pieces:
        if piece.place > place:
            yield Piece(zero, 0, piece.place - place, place, step=0)
        yield piece
        place = piece.end
    if place < size:
        yield Piece(zero, 0, size - place, place, step=0)


def _has_few(terms: Sequence[Piece], size: int) -> bool:
    """Whether each term has its places, some of few rows, and others of most rows."""
    counts = [term.count for term in terms]
    if any(term.fills or (term.stride == 0 and term.count > 1) for term in terms):
        return False
    return any(_TIMES_FEW_ROWS * count <= size for count in counts) and max(counts) * 2 > size
