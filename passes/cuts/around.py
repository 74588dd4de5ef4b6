"""Windows over what was padded with elements of its own: which of them stand at each place.

`jnp.pad` in the modes wrap, reflect, symmetric and edge slices a value, reverses or repeats the
slices, and puts them around it. What is computed of such a value, element by element, is padded so
with what is computed of the value itself. A convolution that reads `jnp.pad(x, 1, mode="wrap")`
gives as many results as `x` has. Here it reads `x`, and says what pads it; and so do the windows of
its gradient, whose results at the ends are added to others. Either way what is long is as long as
`x`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from dtensor.dialect.ends import MODES, Ends, write_ends
from dtensor.dialect.mlir import Value, ir, maker_of
from dtensor.dialect.names import ENDS
from dtensor.passes.cuts.align import read_along
from dtensor.passes.cuts.folded import ADD, behind, folded, front
from dtensor.passes.cuts.pads import WINDOWED, Rows, reads_one
from dtensor.passes.cuts.parts import Part, Parts, cut_padded
from dtensor.passes.cuts.pieces import (
    BROADCAST,
    CONCATENATE,
    PAD,
    REVERSE,
    SLICE,
    repeated_row,
)
from dtensor.passes.cuts.shards import Shards
from dtensor.passes.ops.attributes import (
    CONSTANT,
    constant_attribute,
    integer,
    integers,
    pad_numbers,
    shape_of,
    slice_numbers,
)
from dtensor.passes.program import Visit

_DEEPEST = 100  # operations one behind the other

At = tuple[Value, int]  # a value and one of its dimensions


@dataclass(frozen=True, slots=True)
class Run:
    """Elements `start`, `start + step`, ... of a value, `count` of them; step 0 repeats one."""

    start: int
    count: int
    step: int

    @property
    def places(self) -> Iterator[int]:
        """Which elements they are."""
        return (self.start + i * self.step for i in range(self.count))


@dataclass(frozen=True, slots=True)
class Runs:
    """The elements of a value along one dimension.

    Attributes:
        source: whose elements they are; itself, if they are no others'.
        size: how many that has.
        runs: which of them, in order.
    """

    source: At
    size: int
    runs: tuple[Run, ...]

    def cut(self, start: int, count: int) -> Runs:
        """Those of a slice."""
        found, place = [], 0
        for run in self.runs:
            first, end = max(start - place, 0), min(start + count - place, run.count)
            if first < end:
                found.append(Run(run.start + first * run.step, end - first, run.step))
            place += run.count
        return self.having(found)

    @property
    def reversed(self) -> Runs:
        """Those of what was reversed."""
        turned = [Run(r.start + (r.count - 1) * r.step, r.count, -r.step) for r in self.runs]
        return self.having(turned[::-1])

    def having(self, runs: Iterable[Run]) -> Runs:
        """Others of the same source, each said in one way only."""
        found = [run if run.count > 1 else Run(run.start, 1, 1) for run in runs if run.count]
        return replace(self, runs=tuple(found))


@dataclass(frozen=True, slots=True)
class Around:
    """A value whose elements from `low` on are all those of another, and around them some of it.

    Attributes:
        mode: which stand around them, as `jnp.pad` names it.
        low: how many in front.
        size: how many elements the other has.
        high: how many behind.
    """

    mode: str
    low: int
    size: int
    high: int


class Reader:
    """Reads each value once."""

    def __init__(self) -> None:
        self._read: dict[At, Runs] = {}

    def around(self, value: Value, dim: int) -> Around | None:
        """With what a value was padded along a dimension; None of one that was not."""
        found, low = self.runs(value, dim), 0
        if len(found.runs) == 1:
            return None
        for i, run in enumerate(found.runs):
            if run == Run(0, found.size, 1):
                ends = found.runs[:i], found.runs[i + 1 :]
                high = sum(each.count for each in ends[1])
                for mode in MODES if max(low, high) <= found.size else ():
                    if _stands_around(mode, found.size, ends, low, high):
                        return Around(mode, low, found.size, high)
            low += run.count
        return None

    def runs(self, value: Value, dim: int, depth: int = 0) -> Runs:
        """The elements of a value."""
        at = value, dim
        if at not in self._read:
            op = maker_of(value)
            found = None if op is None or depth > _DEEPEST else self._through(op, dim, depth + 1)
            size = shape_of(value)[dim]
            self._read[at] = found or Runs(at, size, (Run(0, size, 1),))
        return self._read[at]

    def _through(self, op: ir.Operation, dim: int, depth: int) -> Runs | None:
        if len(op.results) != 1 or not len(op.operands):
            return None
        value: Value = op.operands[0]
        if op.name == CONCATENATE and integer(op.attributes["dimension"]) == dim:
            return _joined([self.runs(each, dim, depth) for each in op.operands])
        if op.name == SLICE:
            starts, _, strides = slice_numbers(op)
            count = shape_of(op.results[0])[dim]
            found = self.runs(value, dim, depth).cut(starts[dim], count)
            if strides[dim] != 1 or _others(value, dim) == _others(op.results[0], dim):
                return found if strides[dim] == 1 else None
            return _alike(op.results[0], dim, [found])
        if op.name == REVERSE and dim in integers(op.attributes["dimensions"]):
            is_alone = len(integers(op.attributes["dimensions"])) == 1
            return self.runs(value, dim, depth).reversed if is_alone else None
        repeated = repeated_row(op, dim)
        if repeated is not None:
            found = self.runs(repeated, dim, depth)
            return found.having([Run(found.runs[0].start, shape_of(op.results[0])[dim], 0)])
        return self._computed(op, dim, depth)

    def _computed(self, op: ir.Operation, dim: int, depth: int) -> Runs | None:
        """The elements of what is computed of values padded alike, each element by itself."""
        if op.name in (CONCATENATE, REVERSE):
            read: dict[int, int] | None = {k: dim for k in range(len(op.operands))}
        elif op.name == PAD:
            is_kept = not any(numbers[dim] for numbers in pad_numbers(op))
            read = {0: dim} if is_kept else None
        else:
            read = read_along(op, dim)
        if not read:
            return None
        places = [(op.operands[k], d) for k, d in read.items()]
        found = [self.runs(*at, depth) for at in places if not _is_even(*at)]
        return _alike(op.results[0], dim, found)


def _others(value: Value, dim: int) -> list[int]:
    shape = shape_of(value)
    return shape[:dim] + shape[dim + 1 :]


def _joined(parts: Sequence[Runs]) -> Runs | None:
    """The elements of values one after another; None if they are not one value's."""
    first = max(parts, key=lambda part: part.size)
    parts = [part for part in parts if part.runs]
    if any(part.source != first.source for part in parts):
        return None
    return first.having([run for part in parts for run in part.runs])


def _alike(value: Value, dim: int, parts: Sequence[Runs]) -> Runs | None:
    """Those of a value of its own that is computed of such values; None if they differ."""
    if not parts:
        return None
    first = parts[0]
    if any((part.size, part.runs) != (first.size, first.runs) for part in parts):
        return None
    return replace(first, source=(value, dim))


def _is_even(value: Value, dim: int) -> bool:
    """Whether all elements along a dimension are known to be equal."""
    op = maker_of(value)
    if op is None or op.name == BROADCAST:
        return op is not None and read_along(op, dim) == {}
    attribute = constant_attribute(op) if op.name == CONSTANT else None
    return attribute is not None and attribute.is_splat


def _stands_around(
    mode: str, size: int, ends: tuple[Sequence[Run], Sequence[Run]], low: int, high: int
) -> bool:
    """Whether these are the elements in front and behind that a mode asks for."""
    wanted = front(mode, size, low), behind(mode, size, high)
    return all(
        list(asked) == [place for run in runs for place in run.places]
        for asked, runs in zip(wanted, ends, strict=True)
    )


def surrounded(ops: Sequence[Visit], shards: Shards) -> list[ir.Operation] | None:
    """Write windows anew that meet what stands around a value; what was made, if anything changed.

    Args:
        ops: of the function.
        shards: tell which dimensions layouts split.
    """
    windowed = [op for op, name, _ in ops if name in WINDOWED and len(op.results) == 1]
    parts, reader = Parts(shards), Reader()
    has_ends = [op for op in windowed if _with_ends(parts, reader, op)]
    adds = [op for op, name, _ in ops if name == ADD] if windowed else []
    has_folds = [op for op in adds if folded(op, parts.made)]
    cut_padded(parts, [op for op, name, _ in ops if name == SLICE])
    parts.share()
    return parts.made if parts.made or has_ends or has_folds else None


def _with_ends(parts: Parts, reader: Reader, op: ir.Operation) -> bool:
    """Let windows read a value alone that was padded with its own elements, and say how."""
    if not reads_one(op) or ENDS in op.attributes:
        return False
    rows = Rows.read(op)
    ends: list[Ends | None] = [None] * len(rows.ins)
    value: Value = op.operands[0]
    if rows.scan(shape_of(value)):
        return False
    for row, dim in enumerate(rows.ins):
        found = reader.around(value, dim)
        low, high = rows.lows[row], rows.highs[row]  # what is cut off of what was put around
        if found is None or max(low, high) > 0 or rows.gaps[row] > 1:
            continue
        low, high = found.low + low, found.high + high
        if min(low, high) >= 0:
            value = parts.of(value, Part(dim, found.low, found.size, found.size))
            rows.lows[row], rows.highs[row], ends[row] = low, high, Ends(found.mode)
    if any(ends):
        op.operands[0] = value
        rows.write(op)
        write_ends(op, ends)
    return any(ends)
