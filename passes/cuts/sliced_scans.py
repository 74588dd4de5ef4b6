"""Slices of scans, written as scans of slices: gradients of scans of padded values.

`jnp.cumsum(x)[2:]` is `jnp.cumsum(x[2:])` plus the sum of the first two elements. Written so, the
scan is as long as what is kept of it, where layouts divide that and not the longer value.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from dtensor.dialect.mlir import Value, ir, maker_of, reader_of
from dtensor.passes.builder import Builder
from dtensor.passes.cuts.cumulative_windows import CumulativeWindow
from dtensor.passes.cuts.early_slices import DimPart, Parts
from dtensor.passes.cuts.pieces import kept_of
from dtensor.passes.ops.attributes import shape_of
from dtensor.passes.ops.padding import PART
from dtensor.passes.rewriting.names import PAD, SLICE
from dtensor.passes.rewriting.rewriting import Rewriting

KeptRanges = list[tuple[int, int]]  # by dimension, the first element that is kept and the end


def scan_what_is_kept(function: Rewriting) -> None:
    """Scan what is kept where little is cut off along a dimension that is split once it is cut."""
    for op in function.named(SLICE, PAD):
        kept, scan = kept_of(op), CumulativeWindow.of(maker_of(op.operands[0]))
        if kept is None or scan is None or reader_of(scan.op.results[0]) is None:
            continue
        split = _split(op, kept, function)
        if split:
            least = {d: shape_of(op.results[0])[d] for d in split}
            parts = Parts(function.shards, function.made)
            write = _Kept(Builder(op, function.made), parts, least)
            function.replace(op, write.scanned(scan, kept))


def _split(op: ir.Operation, kept: KeptRanges, function: Rewriting) -> list[int]:
    """The dimensions that little is cut off, where what is left is split and the whole is not."""
    value, splits = op.operands[0], function.shards.splits
    rows = enumerate(zip(kept, shape_of(value), strict=True))
    cut = [d for d, ((first, end), size) in rows if 0 < PART * (size - end + first) <= size]
    return [d for d in cut if splits((op.results[0], d)) and not splits((value, d))]


@dataclass
class _Kept:
    """Writes scans of what is kept.

    Attributes:
        make: creates operations in the place of what keeps it.
        parts: make few elements of what is computed of values that are padded.
        split: the dimensions that are split, and how many elements of them are kept.
    """

    make: Builder
    parts: Parts
    split: Mapping[int, int]

    def scanned(self, scan: CumulativeWindow, kept: KeptRanges) -> Value:
        """What is kept of a scan."""
        make, dim, value = self.make, scan.dim, scan.op.operands[0]
        (first, end), size = kept[dim], shape_of(value)[dim]
        if dim not in self.split:
            whole = scan.over(make, self._cut(value, _with(kept, dim, (0, size))))
            return make.cut(whole, dim, first, end - first)
        found = scan.over(make, self._cut(value, kept))
        before = (end, size) if scan.is_reverse else (0, first)
        if before[0] == before[1]:
            return found
        rows = self._cut(value, _with(kept, dim, before))
        total = make.reduced(rows, dim, scan.kind)
        shape = [1 if d == dim else n for d, n in enumerate(shape_of(found))]
        return scan.combined(make, make.reshape(total, shape), found)

    def _cut(self, value: Value, kept: KeptRanges) -> Value:
        """What is kept of a value."""
        maker = maker_of(value)
        within, scan = kept_of(maker), CumulativeWindow.of(maker)
        if maker is not None and within is not None:
            moved = zip(within, kept, strict=True)
            return self._cut(
                maker.operands[0], [(a + first, a + end) for (a, _), (first, end) in moved]
            )
        if scan is not None and reader_of(scan.op.results[0]) is not None:
            return self.scanned(scan, kept)
        for d, least in self.split.items():
            first, end = kept[d]
            if end - first < least:  # few, that were cut off
                value = self.parts.of(value, DimPart(d, first, end - first, least))
                kept = _with(kept, d, (0, end - first))
        if kept == [(0, size) for size in shape_of(value)]:
            return value
        return self.make.slice(value, *zip(*kept, strict=True))


def _with(kept: KeptRanges, dim: int, rows: tuple[int, int]) -> KeptRanges:
    return [rows if d == dim else both for d, both in enumerate(kept)]
