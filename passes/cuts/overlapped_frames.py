"""Sums of overlapping frames, as TensorFlow and JAX write them: sums of parts moved by rows.

`jax.scipy.signal.istft` moves part j of all frames by j rows. For that it pads the parts with
zeros, lays them one after another, cuts some zeros off the end and reads what is left as parts of
fewer rows: so each part begins a row later than the one before. Here each part is moved by itself.
It fetches few rows of other shards, and the parts are nowhere laid one after another.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from dtensor.dialect.mlir import Value, ir, made_by
from dtensor.passes.builder import Builder
from dtensor.passes.creation import with_sizes
from dtensor.passes.cuts.pieces import kept_of
from dtensor.passes.ops.attributes import integers, is_identity, pad_numbers, shape_of
from dtensor.passes.ops.patterns import adds, is_zero
from dtensor.passes.ops.reduction import Reduction
from dtensor.passes.rewriting.names import PAD, REDUCE, RESHAPE, SLICE
from dtensor.passes.rewriting.rewriting import Rewriting

_MOST_PARTS = 16  # parts that are moved one by one


def move_parts(function: Rewriting) -> None:
    """Write sums of parts that begin one after another as sums of moved parts."""
    for op in function.named(SLICE):
        found = _Overlap.of(op)
        if found is not None:
            function.replace(op, found.written(Builder(op, function.made)))


@dataclass(frozen=True)
class _Overlap:
    """A sum of parts of which each is moved by as many rows more than the one before.

    Attributes:
        parts: the values `[..., part, row, ...]`.
        dim: the dimension of the parts; the rows follow.
        moved: by how many rows.
        rows: how many of the sum are kept.
        shape: of the sum.
    """

    parts: Value
    dim: int
    moved: int
    rows: int
    shape: Sequence[int]

    @staticmethod
    def of(op: ir.Operation) -> _Overlap | None:
        """What a slice keeps of such a sum; None if it is of something else."""
        total = made_by(REDUCE, op.operands[0])
        if (
            total is None
            or len(total.operands) != 2
            or len(integers(total.attributes["dimensions"])) != 1
        ):
            return None
        value, start = total.operands
        is_sum = adds(total)
        (dim,), shape = integers(total.attributes["dimensions"]), shape_of(value)
        fewer = made_by(RESHAPE, value)
        cut = None if fewer is None else made_by(SLICE, fewer.operands[0])
        flat = None if cut is None else made_by(RESHAPE, cut.operands[0])
        pad = None if flat is None else made_by(PAD, flat.operands[0])
        if cut is None or flat is None or pad is None or dim != len(shape) - 2:
            return None
        if not is_sum or not is_identity(start, Reduction.SUM):
            return None
        return _Overlap._of_rows(op, cut, pad, dim, shape)

    @staticmethod
    def _of_rows(
        op: ir.Operation, cut: ir.Operation, pad: ir.Operation, dim: int, shape: Sequence[int]
    ) -> _Overlap | None:
        """As `of`, where the sum is along `dim` of `shape`, of parts one after another."""
        parts, fill = pad.operands
        sizes, (lows, highs, gaps) = shape_of(parts), pad_numbers(pad)
        count, more = shape[dim], highs[dim + 1] if dim + 1 < len(sizes) else 0
        others = [n for d, n in enumerate(highs) if d != dim + 1]
        block = math.prod(sizes[dim + 2 :])
        if any((*lows, *gaps, *others)) or not block or sizes[: dim + 1] != list(shape[: dim + 1]):
            return None
        long = (sizes[dim + 1] + more) * block
        moved, rest = divmod(long - shape[-1], block)
        kept = shape_of(op.results[0])[-1]
        is_right = (
            not rest
            and moved > 0
            and 1 < count <= _MOST_PARTS
            and more >= moved * (count - 1)
            and kept % block == 0
            and is_zero(fill)
            and _keeps_first(cut, count * shape[-1])
            and _keeps_first(op, kept)
        )
        return (
            _Overlap(parts, dim, moved, kept // block, shape_of(op.results[0]))
            if is_right
            else None
        )

    def written(self, make: Builder) -> Value:
        """The sum of the parts, each padded to its place."""
        sizes, dim = shape_of(self.parts), self.dim
        zero = make.zero_of(self.parts)
        found = make.broadcast(zero, with_sizes(sizes, dim, self.rows, count=2))
        for j in range(sizes[dim]):
            part = make.regrouped(make.cut(self.parts, dim, j, 1), dim)
            part = make.lengthened(part, dim, j * self.moved, self.rows, zero)
            found = make.binary("add", found, part)
        return make.reshape(found, self.shape)


def _keeps_first(op: ir.Operation, count: int) -> bool:
    """Whether a slice keeps the first `count` elements of the last dimension, and all of others."""
    sizes = shape_of(op.operands[0])
    return kept_of(op) == [(0, size) for size in (*sizes[:-1], count)]
