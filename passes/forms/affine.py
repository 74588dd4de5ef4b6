"""Loops whose trips are affine maps of what is carried.

Let a carried value only be added to, multiplied with what depends on no carried value, or selected
by such. Then many trips make `M * carry + offset` of it, element by element. Where several carried
values depend on one another, or elements along a dimension of one do, M is a matrix over these
parts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import product

from dtensor.dialect.mlir import Value, ir, ops_of
from dtensor.passes.builder import Builder
from dtensor.passes.disjoint_sets import DisjointSets
from dtensor.passes.forms.affine_maps import composed
from dtensor.passes.forms.blocked_body import BlockedBody, NotBatched, Values, needed
from dtensor.passes.forms.carries import Carries, kind_of_elements
from dtensor.passes.forms.scalars import scanned
from dtensor.passes.ops.attributes import shape_of, size_bytes
from dtensor.passes.ops.batched import Batched
from dtensor.passes.ops.elements import INEXACT
from dtensor.passes.ops.elementwise import SUMS
from dtensor.passes.ops.linear import CoupledDims, adds_to, kept_dims
from dtensor.passes.ops.loops import counted_loop
from dtensor.passes.program import BARRIER, read_by
from dtensor.passes.rewriting.shards import Shards

_NOTHING: frozenset[int] = frozenset()
_MOST_PARTS = 4  # parts of carries that depend on each other: combining n takes n^3 products

Pair = tuple[int, int]
CarryPart = tuple[int, tuple[int, ...]]  # of a carry: its place along the dimensions that are mixed
Column = tuple[int, CarryPart]


@dataclass
class Affine(Carries):
    """The carried values of a loop that are affine, and those that only add up.

    Attributes:
        sources: on which carried values of `mapped` a value of the body depends; None where it
            is no affine map of their elements.
        pairs: `(k, j)` where carry k may depend on carry j of some trips before; and all `(k, k)`.
        mixed: by number of such a carry, the dimensions along which its elements depend on each
            other.
        groups: those that depend on each other, of one shape but for the dimensions in `mixed`.
    """

    sources: dict[Value, frozenset[int] | None] = field(default_factory=dict)
    pairs: list[Pair] = field(default_factory=list)
    mixed: dict[int, list[int]] = field(default_factory=dict)
    groups: list[list[int]] = field(default_factory=list)

    def maps(self) -> bool:
        """Find what depends on what; whether all is affine."""
        trips, sources = self.trips, self.sources
        if not all(kind_of_elements(trips.body.arguments[k].type) in INEXACT for k in self.mapped):
            return False
        sources.update(dict.fromkeys(trips.body.arguments))  # others may not be read
        known = {*trips.fixed, *trips.counters, *self.own}
        sources |= {trips.body.arguments[k]: _NOTHING for k in known}
        sources |= {trips.body.arguments[k]: frozenset([k]) for k in self.mapped}
        groups, other = CoupledDims(), CoupledDims()
        path = set(needed(trips, [trips.given[k] for k in self.mapped]))
        for op in ops_of(trips.body)[:-1]:
            self._follow(op, groups if op in path else other)
        reached = {k: {k} for k in self.mapped}
        for k in self.mapped * len(self.mapped):
            found = sources.get(trips.given[k], _NOTHING)
            if found is None:
                return False
            reached[k] |= {j for each in found for j in reached[each]}
        self.pairs = [(k, j) for k in self.mapped for j in self.mapped if j in reached[k]]
        connected = DisjointSets[int]()
        for k, j in self.pairs:
            connected.join(k, j)
        self.groups = connected.sets(self.mapped)
        return self._parts(groups)

    def _follow(self, op: ir.Operation, groups: CoupledDims) -> None:
        """Find on which carries the results of an operation depend, and how."""
        if op.name == BARRIER:
            for value, result in zip(op.operands, op.results, strict=True):
                self.sources[result] = self.sources.get(value, _NOTHING)
                if self.sources[result]:
                    groups.join_all(value, result)
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

    def _parts(self, groups: CoupledDims) -> bool:
        """Find along which dimensions elements depend on each other; whether parts are few."""
        arguments, whole = self.trips.body.arguments, dict[int, list[int]]()
        for k in self.mapped:
            shape, given = shape_of(arguments[k]), self.trips.given[k]
            groups.mix(arguments[k], [d for d, size in enumerate(shape) if size == 1])
            if self.sources.get(given):
                groups.join_all(given, arguments[k])
        mixed = groups.mixed()
        for k in self.mapped:
            self.mixed[k] = groups.dims_in(mixed, arguments[k])
            whole[k] = [d for d in range(len(shape_of(arguments[k]))) if d not in self.mixed[k]]
        for first, *others in self.groups:
            for k in others:
                if _sizes(arguments[k], whole[k]) != _sizes(arguments[first], whole[first]):
                    return False
                for one, other in zip(whole[first], whole[k], strict=True):
                    groups.join((arguments[first], one), (arguments[k], other))
        is_apart = all(groups.root(key) in mixed for key in groups.meeting())
        return is_apart and all(len(self.parts(group)) <= _MOST_PARTS for group in self.groups)

    def parts(self, group: Sequence[int]) -> list[CarryPart]:
        """The parts of carried values: each, or each place along its mixed dimensions."""
        found = list[CarryPart]()
        for k in group:
            shape = shape_of(self.trips.body.arguments[k])
            found += [(k, at) for at in product(*(range(shape[d]) for d in self.mixed[k]))]
        return found

    def _bytes(self, group: Sequence[int]) -> float:
        """The size of what says what some trips do to the values of a group."""
        parts = self.parts(group)
        numbers = len(parts) + sum((k, j) in self.pairs for k, _ in parts for j, _ in parts)
        each = sum(size_bytes(self.trips.loop.operands[k]) for k in group) / len(parts)
        return numbers * each

    def pays(self, shards: Shards, read: float, written: float, blocks: int) -> bool:
        """Whether the maps of blocks are smaller than their arrays."""
        sent = sum(map(self._bytes, self.groups)) * (blocks - 1).bit_length()
        if not self.mapped:
            sent = 2 * sum(size_bytes(self.trips.loop.operands[k]) for k in self.sums)
        return sent < (read + written) / blocks

    def tangents(self, to: Batched, given: Mapping[Column, Value]) -> list[Value]:
        """The linear parts of a trip and those before it, of the linear parts of those before it.

        Args:
            to: knows the values of the trip.
            given: by carried value and part of one: what the first becomes for a one in the second.
        """
        trips, after = self.trips, dict[Column, Value]()
        for part in self.parts(self.mapped):
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

    def ends(self, make: Builder, blocked: BlockedBody, own: Values) -> Values:
        """Each block runs its trips from zero, and a `dtensor.scan` combines what they do."""
        linear, offsets = self._maps(make, blocked, own)
        found = Values()
        for group in self.groups:
            found |= self._combined(make, group, linear, offsets)
        return {k: found[k] for k in self.mapped}

    def _maps(
        self, make: Builder, blocked: BlockedBody, own: Values
    ) -> tuple[dict[Column, Value], Values]:
        """What the trips of each block do to a carry: the linear parts, and what they make of 0.

        The first block starts from what the loop starts from, and not from 0.
        """
        zeros = Values()
        for k in self.mapped:
            value = self.trips.loop.operands[k]
            shape = (blocked.blocks, *make.shape_of(value))
            zeros[k] = make.zeros(make.tensor_type(shape, make.element_of(value)))
        offsets = {k: blocked.started(make, k, zero) for k, zero in zeros.items()}
        linear: dict[Column, Value] = {}
        for part in self.parts(self.mapped):
            for k in [k for k, j in self.pairs if j == part[0]]:
                linear[k, part] = self._one(make, zeros[k], part) if k == part[0] else zeros[k]

        def step(inner: Builder, number: Value, carried: Sequence[Value]) -> list[Value]:
            given = dict(zip([*self.mapped, *self.own], carried[len(linear) :], strict=True))
            roots = [self.trips.given[k] for k in given]
            to = blocked.of(inner, number, given, roots)
            after = self.tangents(to, dict(zip(linear, carried, strict=False)))
            return blocked.kept(inner, number, carried, [*after, *map(to.all, roots)])

        begin = [*linear.values(), *offsets.values(), *own.values()]
        found = counted_loop(make, blocked.size, begin, step)
        return (
            dict(zip(linear, found, strict=False)),
            dict(zip(self.mapped, found[len(linear) :], strict=False)),
        )

    def _one(self, make: Builder, zero: Value, part: CarryPart) -> Value:
        """A carried value of all blocks that is one in this part, and zero elsewhere."""
        found = make.constant_like(1, zero)
        for d, place in zip(self.mixed[part[0]], part[1], strict=True):
            index = make.iota(make.shape_of(zero), d + 1, "i32")
            is_here = make.compare("EQ", index, place)
            found = make.select(is_here, found, zero)
        return found

    def _combined(
        self,
        make: Builder,
        group: Sequence[int],
        linear: Mapping[Column, Value],
        offsets: Values,
    ) -> Values:
        """The values of a group at the end of each block, of what the blocks do by themselves."""
        loop, parts = self.trips.loop, self.parts(group)
        maps: dict[tuple[CarryPart, CarryPart], Value] = {}
        for (k, column), value in linear.items():
            for part, each in self._apart(make, k, value).items() if k in group else ():
                maps[part, column] = each
        starts: dict[CarryPart, Value] = {}
        for k in group:
            starts |= self._apart(make, k, offsets[k])

        both = partial(composed, list(maps), parts)
        values = [*maps.values(), *starts.values()]
        found = scanned(loop, values, 0, self.trips.is_reverse, both, make)
        ends = dict(zip(parts, found[len(maps) :], strict=True))
        return {k: self._together(make, k, ends, offsets[k]) for k in group}

    def _apart(self, make: Builder, k: int, value: Value) -> dict[CarryPart, Value]:
        """A carried value of all blocks, taken apart."""
        mixed, shape = self.mixed[k], make.shape_of(value)
        rest = [size for d, size in enumerate(shape) if d - 1 not in mixed]
        found = {}
        for part in self.parts([k]):
            each = value
            for d, place in zip(mixed, part[1], strict=True):
                each = make.cut(each, d + 1, place, 1)
            found[part] = make.reshape(each, rest)
        return found

    def _together(
        self, make: Builder, k: int, parts: Mapping[CarryPart, Value], like: Value
    ) -> Value:
        """A carried value put together of its parts, in the shape of `like`."""
        mixed, shape = self.mixed[k], make.shape_of(like)
        own = [value for part, value in parts.items() if part[0] == k]
        if not mixed:
            return own[0]
        blocks, *rest = make.shape_of(own[0])
        value = make.joined([make.reshape(each, (blocks, 1, *rest)) for each in own], 1)
        others = [d for d in range(len(shape)) if d - 1 not in mixed]
        places = [0, *(d + 1 for d in mixed), *others[1:]]
        value = make.reshape(value, [shape[d] for d in places])
        return make.transpose(value, [places.index(d) for d in range(len(shape))])


def _sizes(value: Value, dims: Sequence[int]) -> list[int | str]:
    """The sizes of some dimensions, and the element type."""
    type_ = ir.RankedTensorType(value.type)
    return [str(type_.element_type), *(type_.shape[d] for d in dims)]


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
