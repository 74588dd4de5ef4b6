"""Chains of slices, pads and concatenations that give back the size they began with.

A roll is two slices put together the other way round, a stencil slices what it padded. The values
in between have awkward sizes, which no mesh axis divides; the whole chain is one `dtensor.splice`
of values that it divides.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dtensor.dialect.build import splice
from dtensor.dialect.mlir import Value, ir, maker_of, operation_of
from dtensor.passes.base import PassState
from dtensor.passes.cuts.align import MOVES, REDUCE, Aligner, Wanted
from dtensor.passes.cuts.around import surrounded
from dtensor.passes.cuts.bands import DOT
from dtensor.passes.cuts.bands import written_in_blocks as in_blocks
from dtensor.passes.cuts.joined_pads import ADD, join_pads
from dtensor.passes.cuts.pads import (
    SELECT_AND_SCATTER,
    WINDOWED,
    does_nothing,
    fuse_padding,
    fuse_window_padding,
)
from dtensor.passes.cuts.pieces import (
    BROADCAST,
    CUTS,
    PAD,
    REVERSE,
    SLICE,
    Piece,
    Pieces,
    Source,
)
from dtensor.passes.cuts.positions import INDEXED, written_as_cuts
from dtensor.passes.cuts.shards import Shards
from dtensor.passes.cuts.strides import StrideSplitter
from dtensor.passes.cuts.units import reduced_units
from dtensor.passes.cuts.uses import USES, replaced_use
from dtensor.passes.functions import main_function
from dtensor.passes.ops.attributes import pad_numbers, shape_of, slice_numbers
from dtensor.passes.ops.table import opdef
from dtensor.passes.program import Visit


def fuse_chains(module: ir.Module, ops: list[Visit], state: PassState) -> None:
    """Rewrite `@main`, whose operations these are, in place."""
    ops = _prepared(module, _in_blocks(module, ops, state), state)
    if not any(name in CUTS for _, name, _ in ops):
        return
    fuser = _Fuser(Shards(main_function(module), state.meshes))
    for op, name, scope in ops:
        if name in CUTS:
            fuser.fuse(op, scope.number)
        elif name in USES:
            replaced_use(fuser.aligner, op, scope.number)
    if not fuser.has_fused and not fuser.aligner.made:
        state.graph = fuser.shards.graph
        return
    old = [op for op, name, _ in ops if name in USES or _is_cut_through(op, name)]
    _replaced(module, old, fuser.aligner.made, state)


def _prepared(module: ir.Module, ops: list[Visit], state: PassState) -> list[Visit]:
    """Write anew what hides cuts: known positions, gradients of pooling, strides; what is then."""
    made: list[ir.Operation] = []
    indexed = [op for op, name, _ in ops if name in INDEXED]
    known = [op for op in indexed if written_as_cuts(op, op.name, made)]
    if known:
        ops = _replaced(module, known, made, state)
    idle = [op for op, name, _ in ops if name in CUTS and does_nothing(op)]
    if idle:
        for op in idle:
            op.results[0].replace_all_uses_with(op.operands[0])
        ops = _replaced(module, idle, [], state)
    pools = [op for op, name, _ in ops if name == SELECT_AND_SCATTER and fuse_padding(op, state)]
    windowed = [op for op, name, _ in ops if name in WINDOWED and fuse_window_padding(op)]
    if windowed:
        ops = _replaced(module, [op for op, name, _ in ops if name in CUTS], [], state)
    ops = _joined(module, _kept(module, _parted(module, ops, state), state), state)
    cuts = [(op, name) for op, name, _ in ops if name in CUTS]
    splitter = StrideSplitter(state)
    strided = [op for op, name in cuts if splitter.split(op, name)]
    if not pools and not strided:
        return ops
    old = [op for op, name, _ in ops if name in CUTS or name == SELECT_AND_SCATTER]
    return _replaced(module, old, [], state)


def _in_blocks(module: ir.Module, ops: list[Visit], state: PassState) -> list[Visit]:
    """Write products with known matrices of a few diagonals anew; what is then."""
    while True:
        shards, made = Shards(main_function(module), state.meshes), list[ir.Operation]()
        found = next(
            (op for op, name, _ in ops if name == DOT and in_blocks(op, shards, made)), None
        )
        if found is None:
            return ops
        # What is split behind one is known when the next is looked at.
        ops = _replaced(module, [found], made, state)


def _joined(module: ir.Module, ops: list[Visit], state: PassState) -> list[Visit]:
    """Put together what stands side by side among zeros; what is then."""
    made: list[ir.Operation] = []
    if not any([join_pads(op, made) for op, name, _ in ops if name == ADD]):
        return ops
    old = [op for op, name, _ in ops if name in (ADD, PAD)]
    return _replaced(module, old, made, state)


def _kept(module: ir.Module, ops: list[Visit], state: PassState) -> list[Visit]:
    """Let rows of one element, of no windows, keep the dimension that is summed; what is then."""
    made: list[ir.Operation] = []
    old = reduced_units(ops, made)
    return _replaced(module, old, made, state) if old else ops


def _parted(module: ir.Module, ops: list[Visit], state: PassState) -> list[Visit]:
    """Let windows that meet what was put around a value read the value alone; what is then."""
    made = surrounded(ops, Shards(main_function(module), state.meshes))
    if made is None:
        return ops
    old = [op for op, name, _ in ops if _is_cut_through(op, name)]
    return _replaced(module, old, made, state)


def _replaced(
    module: ir.Module, old: Sequence[ir.Operation], made: Sequence[ir.Operation], state: PassState
) -> list[Visit]:
    """Drop what nobody reads any more, and record what was made; what is then."""
    is_gone = _erase_unused([*old, *made])[len(old) :]
    for op, gone in zip(made, is_gone, strict=True):
        if not gone:
            state.ledger.add_op(op)
    state.forget_ir()
    return state.operations(main_function(module))


def _is_cut_through(op: ir.Operation, name: str) -> bool:
    """Whether parts of an operation's result are computed by themselves."""
    return (
        name in CUTS | WINDOWED | MOVES
        or name in (REVERSE, BROADCAST, REDUCE)
        or (opdef(name).resizes)
    )


def _erase_unused(ops: Sequence[ir.Operation]) -> list[bool]:
    """Erase the operations that nobody reads, until all are read; which of them are gone."""
    gone = [False] * len(ops)
    has_changed = True
    while has_changed:
        has_changed = False
        for i in reversed(range(len(ops))):
            if gone[i] or any(True for result in ops[i].results for _ in result.uses):
                continue
            ops[i].erase()
            gone[i] = has_changed = True
    return gone


class _Fuser:
    """Rewrites one function.

    Attributes:
        aligner: computes what lies between cuts in the size of what was cut.
        shards: tell how much longer values may become.
        has_fused: whether any operation was replaced.
    """

    def __init__(self, shards: Shards) -> None:
        self.pieces = Pieces()
        self.shards = shards
        self.has_fused = False
        self.aligner = Aligner(self.pieces, self.fuse, shards)
        self._splices: dict[object, Value] = {}

    def fuse(self, op: ir.Operation, scope: int) -> Value:
        """Replace an operation along every dimension that it cuts; the value of its result."""
        result: Value = op.results[0]
        for dim in self.pieces.cut_dims(op):
            pieces = self.pieces.of(result, dim)
            value = self._fused(op, pieces, dim, scope)
            if value is not None:
                result.replace_all_uses_with(value)
                self.has_fused = True
                return value
        return result

    def _fused(
        self, op: ir.Operation, pieces: Sequence[Piece], dim: int, scope: int
    ) -> Value | None:
        """The value put together from pieces; None if the operation is better left alone."""
        size = shape_of(op.results[0])[dim]
        if any(p.source.value == op.results[0] for p in pieces):
            return None
        pieces = [self._of_longer(piece, dim, size) for piece in pieces]
        pieces = self._aligned(op, pieces, dim, scope)
        same = [p for p in pieces if not p.fills and shape_of(p.source.value)[dim] == size]
        others = [p for p in pieces if p not in same]
        if not same or (others and not self._fits(op, pieces, same, dim)):
            return None
        if len(pieces) == 1:
            return self.aligner.value(pieces[0].source, dim, op, scope)
        pads = _pads_elsewhere(pieces)
        if pads:
            pieces, same = (
                [p if p.fills else replace(p, source=replace(p.source, cuts=())) for p in some]
                for some in (pieces, same)
            )
        sources = list(dict.fromkeys([p.source for p in (*same, *pieces)]))
        operands = [self.aligner.value(source, dim, op, scope) for source in sources]
        rows = [(sources.index(p.source), 0 if p.fills else p.start, p.count) for p in pieces]
        key = (tuple(operands), dim, tuple(rows), scope)
        value = self._splices.get(key)
        if value is None:
            value = splice(operands, dim, rows, loc=op.location, ip=ir.InsertionPoint(op))
            self._splices[key] = value
            self.aligner.made.append(operation_of(value))
        return self.aligner.value(Source(value, pads), dim, op, scope)

    def _of_longer(self, piece: Piece, dim: int, size: int) -> Piece:
        """One element of a slice with a stride as that of what was sliced, if it is so long."""
        made = None if piece.fills else maker_of(piece.source.value)
        if piece.count != 1 or made is None or made.name != SLICE:
            return piece
        start, _, stride = [numbers[dim] for numbers in slice_numbers(made)]
        source: Value = made.operands[0]
        if stride == 1 or shape_of(source)[dim] != size or self.pieces.cut_dims(made) != (dim,):
            return piece
        return Piece(Source(source, piece.source.cuts), start + stride * piece.start, 1)

    def _fits(
        self, op: ir.Operation, pieces: Sequence[Piece], same: Sequence[Piece], dim: int
    ) -> bool:
        """Whether enough of a result comes from values as long as it, or from where it stands."""
        result: Value = op.results[0]
        size, count, place = shape_of(result)[dim], sum(p.count for p in same), 0
        values = [(value, dim) for value in (result, *(p.source.value for p in same))]
        if _keeps(pieces) and self.shards.splits(*values):
            return True
        if not self.shards.fits(size, count, *values):
            return False
        reach = self.shards.reach(size, count, *values)
        for piece in pieces:
            if piece in same and abs(place - piece.start) > reach:
                return False
            place += piece.count
        return True

    def _aligned(
        self, op: ir.Operation, pieces: Sequence[Piece], dim: int, scope: int
    ) -> list[Piece]:
        """The pieces, the long ones from values as long as the result where that can be."""
        result: Value = op.results[0]
        size = shape_of(result)[dim]
        found, place = [], 0
        for piece in pieces:
            source, first = piece.source, place - piece.start
            cut = None if piece.fills else self.aligner.sliced(source.value, dim)
            long = None
            if cut is not None and shape_of(source.value)[dim] != size:
                # An edge stays where it is, and reads what the rows beside it read.
                is_near = abs(first - cut.start) <= 1 and self.shards.splits(
                    (result, dim), cut.place
                )
                if is_near or self.shards.fits(size, piece.count, (result, dim), cut.place):
                    wanted = Wanted(dim, first, size, op, scope)
                    if size < 2 * piece.count:
                        first = self.aligner.cheapest_place(source.value, wanted)
                    value = self.aligner.value(source, dim, op, scope)
                    long = self.aligner.aligned(value, replace(wanted, place=first))
            if cut is not None and long is not None:
                self.shards.know(long, dim, cut.place)
                piece = Piece(Source(long), first + piece.start, piece.count)
            found.append(piece)
            place += piece.count
        return found


def _pads_elsewhere(pieces: Sequence[Piece]) -> tuple[ir.Operation, ...]:
    """What pads one value along other dimensions alone, where it may be padded afterwards.

    Then shards send fewer elements, and others that read the value unpadded read the same.
    """
    found = {p.source for p in pieces if not p.fills}
    cuts = next(iter(found)).cuts if len(found) == 1 else ()
    fills = {p.source.value for p in pieces if p.fills} | {cut.operands[-1] for cut in cuts}
    is_padded = all(cut.name == PAD and min(map(min, pad_numbers(cut))) >= 0 for cut in cuts)
    return cuts if is_padded and len(fills) <= 1 else ()


def _keeps(pieces: Sequence[Piece]) -> bool:
    """Whether pieces of one value stay where they are, and numbers stand for the rest of it."""
    place, kept = 0, set[Source]()
    for piece in pieces:
        if not piece.fills:
            if piece.start != place:
                return False
            kept.add(piece.source)
        place += piece.count
    return len(kept) == 1
