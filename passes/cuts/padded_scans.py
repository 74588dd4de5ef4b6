"""Scans of padded values, as what is put around a scan: integral images, sums of windows.

`jnp.cumsum(jnp.pad(x, 1))` is `jnp.cumsum(x)` between a zero and its last element. So a scan stays
as long as what was padded, which layouts divide, and what is cut out of it comes from where it
stands: rows need not move to longer shards and back. A scan along another dimension is one of each
part of what was joined.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dtensor.dialect.mlir import Value, ir, made_by, operation_of
from dtensor.passes.builder import Builder
from dtensor.passes.cuts.names import BROADCAST, CONCATENATE, PAD, REDUCE_WINDOW, SLICE
from dtensor.passes.cuts.pieces import repeated_row
from dtensor.passes.cuts.rewriting import Rewriting
from dtensor.passes.cuts.scans import Scan
from dtensor.passes.cuts.shards import Shards
from dtensor.passes.cuts.windows import fill_number
from dtensor.passes.ops.attributes import integer, pad_numbers, shape_of, slice_numbers

_PART = 8  # of a dimension is little


def scan_within(function: Rewriting) -> list[ir.Operation]:
    """Scan what was padded or joined to little along a split dimension, and then put it there."""
    is_changed = False
    for op in function.named(REDUCE_WINDOW):
        scan = Scan.of(op)
        if scan is None:
            continue
        value = _Within(scan, Builder(op, function.made), function.shards).of(op.operands[0])
        if value is not None:
            op.results[0].replace_all_uses_with(value)
            is_changed = True
    return function.named(PAD, CONCATENATE, REDUCE_WINDOW) if is_changed else []


@dataclass
class _Within:
    """Writes scans of what is inside of pads and joins.

    Attributes:
        scan: the scan.
        make: creates operations in its place.
        shards: tell which dimensions are split.
    """

    scan: Scan
    make: Builder
    shards: Shards

    def of(self, value: Value) -> Value | None:
        """The scan of a value; None if it is best left as it is."""
        pad, join = made_by(PAD, value), made_by(CONCATENATE, value)
        if pad is not None:
            return self._padded(pad)
        if join is None:
            return None
        dim, parts = integer(join.attributes["dimension"]), list(join.operands)
        sizes = [shape_of(part)[dim] for part in parts]
        longest = max(range(len(parts)), key=lambda k: sizes[k])
        few = sum(sizes) - sizes[longest]
        if _PART * few > sizes[longest] or not self.shards.splits((parts[longest], dim)):
            return None
        found = self._joined(parts) if dim == self.scan.dim else self._side_by_side(parts, longest)
        joined = self.make.joined(found, dim)
        self.shards.know(joined, dim, (parts[longest], dim))
        return joined

    def _scanned(self, value: Value) -> Value:
        found = self.of(value)
        return self.scan.over(self.make, value) if found is None else found

    def _padded(self, pad: ir.Operation) -> Value | None:
        """Of what was padded with the identity."""
        inner, fill = pad.operands
        (lows, highs, gaps), scan, make = pad_numbers(pad), self.scan, self.make
        pads = list(zip(lows, highs, strict=True))
        split = [d for d, n in enumerate(pads) if any(n) and self.shards.splits((inner, d))]
        is_plain = min(*lows, *highs) >= 0 and not any(gaps) and shape_of(inner)[scan.dim] > 0
        if not split or not is_plain or fill_number(fill) != scan.number:
            return None
        inside = [(0, 0) if d in split else n for d, n in enumerate(pads)]
        if any(map(any, inside)):
            value = make.pad(inner, fill, *zip(*inside, strict=True))
            for d in split:
                self.shards.know(value, d, (inner, d))
            inner = value
        found = self._scanned(inner)
        for d in split:
            self.shards.know(found, d, (inner, d))
        if scan.dim in split:
            front, behind = self._around(found, *pads[scan.dim])
            value = make.joined([*front, found, *behind], scan.dim)
            for d in split:
                self.shards.know(value, d, (found, d))
            found = value
        outside = [n if d in split and d != scan.dim else (0, 0) for d, n in enumerate(pads)]
        if any(map(any, outside)):
            found = make.pad(found, scan.start, *zip(*outside, strict=True))
        return found

    def _around(self, found: Value, low: int, high: int) -> tuple[list[Value], list[Value]]:
        """What stands in front of what was scanned and behind it."""
        scan, make = self.scan, self.make
        total = scan.last(make, found)

        def rows(count: int, is_before: bool) -> list[Value]:
            shape = list(make.shape_of(found))
            shape[scan.dim] = count
            row, dims = (scan.start, range(0)) if is_before else (total, range(len(shape)))
            return [make.broadcast(row, shape, dims)] if count else []

        return rows(low, not scan.is_reverse), rows(high, scan.is_reverse)

    def _joined(self, parts: Sequence[Value]) -> list[Value]:
        """Each part behind what those before it combine to."""
        scan, make, found = self.scan, self.make, list[Value]()
        for part in reversed(parts) if scan.is_reverse else parts:
            value = self._scanned(part)
            found.append(scan.combined(make, scan.last(make, found[-1]), value) if found else value)
        return found[::-1] if scan.is_reverse else found

    def _side_by_side(self, parts: Sequence[Value], longest: int) -> list[Value]:
        """Parts beside one another, those of the longest as parts of what that becomes."""
        whole = parts[longest], self._scanned(parts[longest])
        return [self._beside(part, *whole) for part in parts]

    def _beside(self, part: Value, before: Value, after: Value) -> Value:
        """The scan of what is a part of `before`, whose scan is `after`, or of anything else."""
        if part == before:
            return after
        if fill_number(part) == self.scan.number:
            return part
        shape = shape_of(part)
        made = made_by(SLICE, part)
        if made is not None and made.operands[0] == before and _keeps(made, self.scan.dim):
            return self.make.slice(after, *slice_numbers(made))
        spread = made_by(BROADCAST, part)
        for d in range(len(shape)) if spread is not None else ():
            row = repeated_row(operation_of(part), d) if d != self.scan.dim else None
            if row is not None:
                row = self._beside(row, before, after)
                return self.make.broadcast(row, shape, range(len(shape)))
        return self._scanned(part)


def _keeps(cut: ir.Operation, dim: int) -> bool:
    """Whether a slice has all of a dimension."""
    return shape_of(cut.operands[0])[dim] == shape_of(cut.results[0])[dim]
