"""Chains of slices, pads and concatenations that give back the size they began with.

A roll is two slices put together the other way round, a stencil slices what it padded. The values
in between have awkward sizes, which no mesh axis divides; the whole chain is one `dtensor.splice`
of values that it divides.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from dtensor.dialect.build import splice
from dtensor.dialect.mlir import ir
from dtensor.passes.base import Pass, PassState
from dtensor.passes.cuts.align import Aligner, Wanted
from dtensor.passes.cuts.pieces import CUTS, Piece, Pieces, Source, Value, operation_of
from dtensor.passes.cuts.pools import SELECT_AND_SCATTER, fuse_padding
from dtensor.passes.cuts.positions import GATHER, SCATTER, written_as_cuts
from dtensor.passes.cuts.strides import StrideSplitter
from dtensor.passes.cuts.uses import USES, replaced_use, slice_of
from dtensor.passes.functions import main_function
from dtensor.passes.ops.attributes import shape_of
from dtensor.passes.ops.table import opdef
from dtensor.passes.program import Visit


@dataclass(frozen=True)
class FuseCutsPass(Pass):
    """Writes chains of slices, pads and concatenations as one `dtensor.splice`.

    Along one dimension such a chain puts stretches of some values together. It becomes one
    operation if more than half of the result comes from values that are as long as the result; a
    chain that changes nothing is dropped. What is computed of slices in between, element by
    element, is computed in the size of what was sliced.

    A gather of rows at positions that the program computes of constants (`jax.image.resize`, a
    table at `jnp.arange`) becomes slices, reversals and repetitions first, and its gradient sums.
    """

    name: ClassVar[str] = "dtensor-fuse-cuts"

    def run(self, module: ir.Module, state: PassState) -> None:
        """Rewrite `@main` in place."""
        ops = state.operations(main_function(module))
        ops = _prepared(module, ops, state)
        if not any(name in CUTS for _, name, _ in ops):
            return
        fuser = _Fuser()
        for op, name, scope in ops:
            if name in CUTS:
                fuser.fuse(op, scope.number)
            elif name == GATHER:
                cut = slice_of(op)
                if cut is not None:
                    fuser.aligner.made.append(cut)
                    fuser.fuse(cut, scope.number)
            elif name in USES:
                replaced_use(fuser.aligner, op, scope.number)
        if not fuser.has_fused and not fuser.aligner.made:
            return
        old = [op for op, name, _ in ops if name in CUTS | USES or opdef(name).resizes]
        made = fuser.aligner.made
        is_erased = _erase_unused([*old, *made])
        for op, is_gone in zip(made, is_erased[len(old) :], strict=True):
            if not is_gone:
                state.ledger.add_op(op)
        state.forget_ir()


def _prepared(module: ir.Module, ops: list[Visit], state: PassState) -> list[Visit]:
    """Write anew what hides cuts: known positions, gradients of pooling, strides; what is then."""
    made: list[ir.Operation] = []
    indexed = [op for op, name, _ in ops if name in (GATHER, SCATTER)]
    known = [op for op in indexed if written_as_cuts(op, op.name, made)]
    if known:
        for op in known:
            op.erase()
        for op in made:
            state.ledger.add_op(op)
        state.forget_ir()
        ops = state.operations(main_function(module))
    pools = [op for op, name, _ in ops if name == SELECT_AND_SCATTER and fuse_padding(op, state)]
    cuts = [(op, name) for op, name, _ in ops if name in CUTS]
    splitter = StrideSplitter(state)
    strided = [op for op, name in cuts if splitter.split(op, name)]
    if not pools and not strided:
        return ops
    _erase_unused([op for op, name, _ in ops if name in CUTS or name == SELECT_AND_SCATTER])
    state.forget_ir()
    return state.operations(main_function(module))


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
        has_fused: whether any operation was replaced.
    """

    def __init__(self) -> None:
        self.pieces = Pieces()
        self.has_fused = False
        self.aligner = Aligner(self.pieces, self.fuse)

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
        pieces = self._aligned(op, pieces, dim, scope)
        same = [p for p in pieces if not p.fills and shape_of(p.source.value)[dim] == size]
        others = [p for p in pieces if p not in same]
        if not same or (others and 2 * sum(p.count for p in same) <= size):
            return None
        if len(pieces) == 1:
            return self.aligner.value(pieces[0].source, dim, op, scope)
        sources = list(dict.fromkeys([p.source for p in (*same, *pieces)]))
        operands = [self.aligner.value(source, dim, op, scope) for source in sources]
        rows = [(sources.index(p.source), 0 if p.fills else p.start, p.count) for p in pieces]
        value = splice(operands, dim, rows, loc=op.location, ip=ir.InsertionPoint(op))
        self.aligner.made.append(operation_of(value))
        return value

    def _aligned(
        self, op: ir.Operation, pieces: Sequence[Piece], dim: int, scope: int
    ) -> list[Piece]:
        """The pieces, the long ones from values as long as the result where that can be."""
        size = shape_of(op.results[0])[dim]
        found, place = [], 0
        for piece in pieces:
            if not piece.fills and 2 * piece.count > size != shape_of(piece.source.value)[dim]:
                value = self.aligner.value(piece.source, dim, op, scope)
                long = self.aligner.aligned(
                    value, Wanted(dim, place - piece.start, size, op, scope)
                )
                if long is not None:
                    piece = Piece(Source(long), place, piece.count)
            found.append(piece)
            place += piece.count
        return found
