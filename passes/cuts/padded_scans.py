"""Scans of padded values, written as padded scans: integral images, sums of windows.

`jnp.cumsum(jnp.pad(x, 1))` is `jnp.cumsum(x)` between a zero and its last element. Written so, the
scan is as long as `x`, which layouts divide, and what is cut out of it is in its place: rows need
not move to longer shards and back. Where values are joined along another dimension than that of the
scan, each is scanned by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dtensor.dialect.mlir import Value, ir, made_by, maker_of, users
from dtensor.passes.builder import Builder
from dtensor.passes.cuts.cumulative_windows import CumulativeWindow
from dtensor.passes.cuts.pieces import repeated_row
from dtensor.passes.ops.attributes import fill_number, integer, pad_numbers, shape_of, slice_numbers
from dtensor.passes.ops.padding import PART
from dtensor.passes.program import RETURNS
from dtensor.passes.rewriting.names import CONCATENATE, PAD, REDUCE_WINDOW, SLICE
from dtensor.passes.rewriting.rewriting import Rewriting
from dtensor.passes.rewriting.shards import Shards


def scan_within(function: Rewriting) -> None:
    """Scan what was padded or joined to little along a split dimension, and then put it there."""
    for op in function.named(REDUCE_WINDOW):
        scan = CumulativeWindow.of(op)
        if scan is not None and not _is_given_back(op):
            within = _Within(scan, Builder(op, function.made), function.shards)
            function.replace(op, within.of(op.operands[0]))


def _is_given_back(op: ir.Operation) -> bool:
    """Whether the program returns it: then it must be as long, and moves there only once."""
    return any(user.name in RETURNS for user in users(op.results[0]))


@dataclass
class _Within:
    """Writes scans of what is inside of pads and joins."""

    scan: CumulativeWindow
    make: Builder
    shards: Shards

    def of(self, value: Value) -> Value | None:
        """The scan of a value; None if it is best left as it is."""
        pad, join = made_by(PAD, value), made_by(CONCATENATE, value)
        if pad is not None:
            return self._padded(pad)
        if join is None:
            return None
        dim, parts = _parts(join)
        sizes = [shape_of(part)[dim] for part in parts]
        longest = max(range(len(parts)), key=lambda k: sizes[k])
        few, most = sum(sizes) - sizes[longest], parts[longest]
        if not self.shards.splits((most, dim)):
            if dim == self.scan.dim:
                return self._of_joined(parts, most)
            inner = self.of(most)
            return None if inner is None else self._side_by_side(parts, most, inner, dim)
        if PART * few > sizes[longest]:
            return None
        if dim == self.scan.dim:
            joined = self.make.joined(self._joined(parts), dim)
        else:
            joined = self._side_by_side(parts, most, self._scanned(most), dim)
        self.shards.split_like(joined, dim, (most, dim))
        return joined

    def _of_joined(self, parts: Sequence[Value], most: Value) -> Value | None:
        """The scan of parts of one value, `most`, that was itself joined along a split dimension.

        Then the parts of each joined value are put side by side first, and scanned.
        """
        join = made_by(CONCATENATE, most)
        if join is None:
            return None
        dim, inner = _parts(join)
        long = max(inner, key=lambda value: shape_of(value)[dim])
        if dim == self.scan.dim or not self.shards.splits((most, dim), (long, dim)):
            return None
        found = list[Value]()
        for value in inner:
            beside = [part_of(self.make, part, most, value, dim) for part in parts]
            known = [each for each in beside if each is not None]
            if len(known) < len(beside):
                return None
            found.append(self._scanned(self.make.joined(known, self.scan.dim)))
        joined = self.make.joined(found, dim)
        self.shards.split_like(joined, dim, (long, dim))
        return joined

    def _scanned(self, value: Value) -> Value:
        found = self.of(value)
        return self.scan.over(self.make, value) if found is None else found

    def _padded(self, pad: ir.Operation) -> Value | None:
        """The scan of what was padded with the identity."""
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
                self.shards.split_like(value, d, (inner, d))
            inner = value
        found = self._scanned(inner)
        for d in split:
            self.shards.split_like(found, d, (inner, d))
        if scan.dim in split:
            front, behind = self._around(found, *pads[scan.dim])
            value = make.joined([*front, found, *behind], scan.dim)
            for d in split:
                self.shards.split_like(value, d, (found, d))
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

    def _side_by_side(self, parts: Sequence[Value], before: Value, after: Value, dim: int) -> Value:
        """Scanned parts side by side; those that are slices of `before` as such of `after`."""
        found = list[Value]()
        for part in parts:
            if fill_number(part) == self.scan.number:
                found.append(self.make.broadcast(self.scan.start, shape_of(part)))
                continue
            known = part_of(self.make, part, before, after, self.scan.dim)
            found.append(self._scanned(part) if known is None else known)
        return self.make.joined(found, dim)


def _parts(join: ir.Operation) -> tuple[int, list[Value]]:
    """The dimension along which values are joined, and those that have elements there."""
    dim = integer(join.attributes["dimension"])
    parts = [value for value in join.operands if shape_of(value)[dim]]
    return dim, parts or list(join.operands[:1])


def part_of(make: Builder, part: Value, before: Value, after: Value, dim: int) -> Value | None:
    """The part of `after` that `part` is of `before`; the two may differ in size along `dim`.

    None if it is neither a slice of `before` nor repeats one, or if it cuts this dimension.
    """
    if part == before:
        return after
    op = maker_of(part)
    if op is not None and op.name == SLICE and op.operands[0] == before:
        starts, limits, strides = slice_numbers(op)
        if shape_of(part)[dim] != shape_of(before)[dim]:
            return None
        limits[dim] = shape_of(after)[dim]
        return make.slice(after, starts, limits, strides)
    shape = shape_of(part)
    for d in range(len(shape)):
        row = repeated_row(op, d) if op is not None and d != dim else None
        row = None if row is None else part_of(make, row, before, after, dim)
        if row is not None:
            shape[dim] = shape_of(row)[dim]
            return make.broadcast(row, shape, range(len(shape)))
    return None
