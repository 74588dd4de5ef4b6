"""Windows over what was padded with elements of its own: the padding is said, and not made.

A convolution that reads `jnp.pad(x, 1, mode="wrap")` gives as many results as `x` has elements.
Here it reads `x` itself, and `dtensor.ends` says what pads it. The windows of its gradient, whose
results at the ends are added to others, say that too. So nothing is longer than `x`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dtensor.dialect.ends import Ends
from dtensor.dialect.mlir import ir, made_by
from dtensor.dialect.names import ENDS
from dtensor.passes.cuts.early_slices import DimPart, Parts, cut_padded
from dtensor.passes.cuts.modes import padding_of
from dtensor.passes.cuts.padding_gradients import Sums, folded
from dtensor.passes.cuts.pieces import Piece, Reader
from dtensor.passes.cuts.read_along import read_along
from dtensor.passes.cuts.windows import Windows
from dtensor.passes.ops.attributes import integers, shape_of, splat_of
from dtensor.passes.rewriting.names import ADD, BROADCAST, CONCATENATE, REVERSE, SLICE, WINDOWED
from dtensor.passes.rewriting.rewriting import Rewriting
from dtensor.passes.rewriting.shards import At


class CopyReader(Reader):
    """Reads values that have elements of one value only, also through element-wise operations.

    Such operations are listed in `Source.ops`, as if the elements were copied after them.
    """

    def of_result(self, op: ir.Operation, dim: int) -> Sequence[Piece] | None:
        if len(op.results) != 1 or not len(op.operands):
            return None
        found = super().of_result(op, dim)
        if found is None:
            return self._computed(op, dim)
        sources = {piece.source for piece in found if piece.count}
        is_one = len(sources) == 1 and shape_of(sources.pop().value)
        return [piece for piece in found if not piece.fills] if is_one else None

    def _computed(self, op: ir.Operation, dim: int) -> Sequence[Piece] | None:
        """The pieces of what is computed of values padded alike, as if it was padded afterwards."""
        read: dict[int, int] | None
        if op.name in (CONCATENATE, REVERSE):
            is_kept = op.name == CONCATENATE or dim not in integers(op.attributes["dimensions"])
            read = {k: dim for k in range(len(op.operands))} if is_kept else None
        else:
            read = read_along(op, dim)
        places = [(op.operands[k], d) for k, d in (read or {}).items()]
        parts = [self.of(*at) for at in places if not _is_even(at)]
        if not parts or not parts[0]:
            return None
        source = parts[0][0].source
        placed = [[replace(piece, source=source) for piece in part] for part in parts]
        sizes = {piece.source.size for part in parts for piece in part}
        if len(sizes) > 1 or any(part != placed[0] for part in placed):
            return None
        source = replace(source, ops=(*source.ops, op))
        return [replace(piece, source=source) for piece in placed[0]]


def _is_even(at: At) -> bool:
    """Whether all elements along a dimension are known to be equal."""
    spread = made_by(BROADCAST, at[0])
    is_spread = spread is not None and read_along(spread, at[1]) == {}
    return is_spread or splat_of(at[0]) is not None


def say_padding(function: Rewriting) -> None:
    """Let windows, and their gradients, say with which elements of its own a value is padded."""
    windowed = [op for op in function.named(*WINDOWED) if len(op.results) == 1]
    parts, copies, sums = Parts(function.shards, function.made), CopyReader(), Sums()
    has_ends = [op for op in windowed if _with_ends(parts, copies, op)]
    adds = function.named(ADD) if windowed else []
    has_folds = [op for op in adds if folded(op, sums, parts.made)]
    cut_padded(parts, function.named(SLICE))
    parts.share()
    function.has_changed = bool(parts.made or has_ends or has_folds)


def _with_ends(parts: Parts, copies: CopyReader, op: ir.Operation) -> bool:
    """Let windows read a value alone that was padded with its own elements, and say how."""
    windows, value = Windows.of(op), op.operands[0]
    if not windows.walks_over_one or ENDS in op.attributes or windows.scan(shape_of(value)):
        return False
    for row, dim in enumerate(windows.ins):
        pieces, window = copies.of(value, dim), windows.each[row]
        size = pieces[0].source.size if pieces else 0
        found = padding_of(pieces, size, shape_of(value)[dim], size)
        if found is None:
            continue
        # Negative padding of the windows cuts off some of what was put around the value.
        low, high = found.low + window.low, found.high + window.high
        if max(window.low, window.high) <= 0 <= min(low, high) and window.base_dilation == 1:
            value = parts.of(value, DimPart(dim, found.low, found.size, found.size))
            windows.each[row] = replace(window, low=low, high=high, ends=Ends(found.mode))
    if value == op.operands[0]:
        return False
    op.operands[0] = value
    windows.write(op)
    return True
