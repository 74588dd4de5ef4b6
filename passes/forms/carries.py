"""What the trips of a loop do to the values that it carries: affine maps, or sums.

Let a carried value only be added to, multiplied with what depends on no carried value, or selected
by such. Then many trips make `M * carry + offset` of it, element by element. Where several carried
values depend on one another, or elements along a dimension of one do, M is a matrix over these
parts. Other carried values, of any kind, may depend on themselves alone, as the variance of a
Kalman filter does: what they are in each trip is known without the arrays.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product

from dtensor.dialect.mlir import Value, ir, reader_of
from dtensor.passes.cuts.shards import Shards
from dtensor.passes.forms.trips import Trips
from dtensor.passes.forms.turns import NotBatched, needed
from dtensor.passes.ops.attributes import shape_of, size_bytes
from dtensor.passes.ops.batched import Batched
from dtensor.passes.ops.custom_calls import widened_call
from dtensor.passes.ops.elements import element_kind
from dtensor.passes.ops.elementwise import SUMS
from dtensor.passes.ops.linear import Groups, adds_to, kept_dims
from dtensor.passes.ops.table import opdef
from dtensor.passes.program import BARRIER, CALLS, CUSTOM_CALL, RETURNS, read_by, walk

_NOTHING: frozenset[int] = frozenset()
_MOST = 4  # parts of carries that depend on each other: combining n takes n^3 products
_INEXACT = ("float", "complex")

Pair = tuple[int, int]
Part = tuple[int, tuple[int, ...]]  # of a carry: its place along the dimensions that are mixed
Column = tuple[int, Part]


@dataclass
class Carries:
    """The carried values of a loop that are affine, and those that only add up.

    Attributes:
        trips: the loop.
        affine: numbers of the carried values that each trip maps.
        sums: numbers of those that each trip adds something to, and reads for nothing else.
        own: numbers of those that depend on each other alone, and on no array that is walked.
        sources: on which carried values of `affine` a value of the body depends; None where it
            is no affine map of their elements.
        pairs: `(k, j)` where carry k may depend on carry j of some trips before; and all `(k, k)`.
        mixed: by number of such a carry, the dimensions along which its elements depend on each
            other.
    """

    trips: Trips
    affine: list[int] = field(default_factory=list)
    sums: list[int] = field(default_factory=list)
    own: list[int] = field(default_factory=list)
    sources: dict[Value, frozenset[int] | None] = field(default_factory=dict)
    pairs: list[Pair] = field(default_factory=list)
    mixed: dict[int, list[int]] = field(default_factory=dict)

    def maps(self) -> bool:
        """Find what depends on what; whether all is affine, of elements of one type."""
        trips, sources = self.trips, self.sources
        types = [trips.body.arguments[k].type for k in self.affine]
        if not all(kind_of(type_) in _INEXACT for type_ in types):
            return False
        if len({str(ir.RankedTensorType(type_).element_type) for type_ in types}) > 1:
            return False
        sources.update(dict.fromkeys(trips.body.arguments))  # others may not be read
        known = {*trips.fixed, *trips.counters, *self.own}
        sources |= {trips.body.arguments[k]: _NOTHING for k in known}
        sources |= {trips.body.arguments[k]: frozenset([k]) for k in self.affine}
        groups, other = Groups(), Groups()
        path = set(needed(trips, [trips.given[k] for k in self.affine]))
        for view in list(trips.body.operations)[:-1]:
            self._follow(view.operation, groups if view.operation in path else other)
        reached = {k: {k} for k in self.affine}
        for k in self.affine * len(self.affine):
            found = sources.get(trips.given[k], _NOTHING)
            if found is None:
                return False
            reached[k] |= {j for each in found for j in reached[each]}
        self.pairs = [(k, j) for k in self.affine for j in self.affine if j in reached[k]]
        return not self.affine or self._parts(groups)

    def _follow(self, op: ir.Operation, groups: Groups) -> None:
        """Find on which carries the results of an operation depend, and how."""
        if op.name == BARRIER:
            for value, result in zip(op.operands, op.results, strict=True):
                self.sources[result] = self.sources.get(value, _NOTHING)
                if self.sources[result]:
                    for d in range(len(shape_of(value))):
                        groups.tie((value, d), (result, d))
            return
        given = [self.sources.get(value, _NOTHING) for value in read_by(op)]
        found: frozenset[int] | None = None
        if None not in given:
            found = frozenset().union(*[each for each in given if each is not None])
        sides = [k for k, v in enumerate(op.operands) if self.sources.get(v, _NOTHING)]
        if found:
            kept = kept_dims(op, sides) if sides else None
            if kept is None:
                found = None
            else:
                groups.note(op, sides, kept)
        self.sources.update(dict.fromkeys(op.results, found))

    def _parts(self, groups: Groups) -> bool:
        """Find along which dimensions elements depend on each other; whether parts are few."""
        arguments, whole = self.trips.body.arguments, dict[int, list[int]]()
        for k in self.affine:
            shape, given = shape_of(arguments[k]), self.trips.given[k]
            groups.mix(arguments[k], [d for d, size in enumerate(shape) if size == 1])
            if self.sources.get(given):
                for d in range(len(shape)):
                    groups.tie((given, d), (arguments[k], d))
        mixed = groups.mixed()
        for k in self.affine:
            dims = range(len(shape_of(arguments[k])))
            self.mixed[k] = [d for d in dims if groups.root((arguments[k], d)) in mixed]
            whole[k] = [d for d in dims if d not in self.mixed[k]]
        first = self.affine[0]
        for k in self.affine:
            shapes = [[shape_of(arguments[i])[d] for d in whole[i]] for i in (first, k)]
            if shapes[0] != shapes[1]:
                return False
            for one, other in zip(whole[first], whole[k], strict=True):
                groups.tie((arguments[first], one), (arguments[k], other))
        is_apart = all(groups.root(key) in mixed for key in groups.meeting())
        return is_apart and len(self.parts()) <= _MOST

    def parts(self) -> list[Part]:
        """The parts of all carried values: each, or each place along its mixed dimensions."""
        found = list[Part]()
        for k in self.affine:
            shape = shape_of(self.trips.body.arguments[k])
            found += [(k, at) for at in product(*(range(shape[d]) for d in self.mixed[k]))]
        return found

    @property
    def numbers(self) -> int:
        """How many arrays, each of the size of one part, say what some trips do."""
        parts = self.parts()
        return len(parts) + sum((k, j) in self.pairs for k, _ in parts for j, _ in parts)

    def pays(self, shards: Shards, read: float, written: float, blocks: int) -> bool:
        """Whether blocks send less than the arrays that are read and written would.

        Args:
            shards: into how many shards dimensions are known to be split.
            read: bytes of the split arrays that the trips read.
            written: bytes of those that they write.
            blocks: how many blocks there would be.
        """
        parts = self.parts()
        each = sum(size_bytes(self.trips.loop.operands[k]) for k in self.affine)
        each /= max(len(parts), 1)
        return self.numbers * each * (blocks - 1).bit_length() < (read + written) / blocks

    def tangents(self, to: Batched, given: Mapping[Column, Value]) -> list[Value]:
        """The linear parts of a trip and those before it, of the linear parts of those before it.

        Args:
            to: knows the values of the trip.
            given: by carried value and part of one: what the first becomes for a one in the second.
        """
        trips, after = self.trips, dict[Column, Value]()
        for part in self.parts():
            rows = [k for k, column in given if column == part]
            found = {trips.body.arguments[k]: given[k, part] for k in rows}
            for op in needed(trips, [trips.given[k] for k in rows]):
                if op.name == BARRIER:
                    pairs = zip(op.operands, op.results, strict=True)
                    found |= {result: found[value] for value, result in pairs if value in found}
                elif self.sources[op.results[0]]:
                    value = _tangent(to, op, found)
                    found |= {} if value is None else {op.results[0]: value}
            for k in rows:
                value = found.get(trips.given[k])
                after[k, part] = to.make.zeros(given[k, part].type) if value is None else value
        return [after[column] for column in given]


def ways(trips: Trips, kinds: Sequence[type[Carries]]) -> Iterator[Carries]:
    """The ways to understand what the trips of a loop do, the best first.

    A loop that only adds up the parts of a batch is written so to hold less memory: there each
    trip is divided among the devices, and not the trips.

    Args:
        trips: the loop.
        kinds: what a trip may do to the carried values.
    """
    inside = [op for view in trips.body.operations for op in _with_inner(view.operation)]
    if any(map(_does_more, inside)):
        return
    own = _own(trips)
    for kind in kinds:
        for apart in ([], own) if own else ([],):
            sums = [k for k in trips.carried if k not in apart and _adds_up(trips, k)]
            mapped = [k for k in trips.carried if k not in apart and k not in sums]
            if not mapped and (sums or not trips.writes):
                continue
            found = kind(trips, mapped, sums, apart)
            if found.maps():
                yield found


def _adds_up(trips: Trips, k: int) -> bool:
    """Whether the body only adds to a carried value, and returns the last sum."""
    value: Value = trips.body.arguments[k]
    last = trips.given[k]
    if kind_of(value.type) not in (*_INEXACT, "signed", "unsigned"):
        return False
    while True:
        op = reader_of(value)
        if op is None:
            return False
        if value == last:
            return True
        is_first = op.operands[0] == value or op.name == SUMS[0]
        if op.block != trips.body or op.name not in SUMS or not is_first:
            return False
        value = op.results[0]


def _own(trips: Trips) -> list[int]:
    """The carried values that depend on nothing but each other, counters and what never changes."""
    arguments = trips.body.arguments
    found = list(trips.carried)
    while True:
        known = {arguments[k] for k in (*found, *trips.fixed, *trips.counters)}
        kept = [k for k in found if _reads_only(trips, trips.given[k], known)]
        if len(kept) == len(found):
            return kept
        found = kept


def _reads_only(trips: Trips, value: Value, known: set[Value]) -> bool:
    """Whether a value of the body depends on these arguments of it alone, and reads no array."""
    ops = needed(trips, [value])
    read = [value, *(each for op in ops for each in read_by(op))]
    return not any(op in trips.reads for op in ops) and all(
        each in known for each in read if each in trips.body.arguments
    )


def kind_of(type_: ir.Type) -> str:
    """The kind of the elements of a tensor; nothing of anything else."""
    is_tensor = isinstance(type_, ir.RankedTensorType)
    return element_kind(str(ir.RankedTensorType(type_).element_type))[0] if is_tensor else ""


def _with_inner(op: ir.Operation) -> list[ir.Operation]:
    return [op, *(inner for inner, _, _ in walk(op, combiners=True))]


def _does_more(op: ir.Operation) -> bool:
    """Whether an operation may do something besides giving its results."""
    is_call = op.name in CALLS or (op.name == CUSTOM_CALL and widened_call(op) is None)
    return is_call or bool(opdef(op.name).varies) or not (len(op.results) or op.name in RETURNS)


def _tangent(to: Batched, op: ir.Operation, known: dict[Value, Value]) -> Value | None:
    """What an operation maps tangents to; None if that is zero."""
    given = [known.get(value) for value in op.operands]
    if all(value is None for value in given):
        return None
    if op.name in SUMS:
        left, right = given
        if right is None:
            return left
        if left is None:
            left = to.make.zeros(right.type)
        return to.make.binary(op.name.removeprefix("stablehlo."), left, right)
    other = Batched(to.make, to.count, {value: to.one(value) for value in op.operands})
    for k, (value, tangent) in enumerate(zip(op.operands, given, strict=True)):
        if tangent is not None:
            other.say([value], [tangent])
        elif adds_to(op, k):
            other.known[value] = to.make.zeros(value.type)
        elif value in to.many:
            other.many.add(value)
    if not other.write(op):
        raise NotBatched
    return other.one(op.results[0])
