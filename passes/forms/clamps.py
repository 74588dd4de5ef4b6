"""Loops whose carries each trip multiplies, adds to and keeps between bounds.

`jnp.maximum(x, 0.99 * level)`, `jnp.clip(sum + x, low, high)` and the waiting time in a queue,
`jnp.maximum(0, wait + work - gap)`, are `min(max(factor * c + offset, low), high)` of the carried
value c. So is what many trips make of c: four numbers for each element say it all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from dtensor.dialect.mlir import Value, ir
from dtensor.passes.builder import Builder
from dtensor.passes.forms.blocked_body import BlockedBody, Values, needed
from dtensor.passes.forms.carries import Carries, kind_of_elements
from dtensor.passes.forms.scalars import scanned
from dtensor.passes.ops.attributes import size_bytes
from dtensor.passes.ops.batched import Batched
from dtensor.passes.ops.loops import counted_loop
from dtensor.passes.program import read_by
from dtensor.passes.rewriting.shards import Shards

# Which operands may depend on what is carried, and how many of them at once.
_SIDES = {
    "add": ((0, 1), 1),
    "subtract": ((0, 1), 1),
    "multiply": ((0, 1), 1),
    "divide": ((0,), 1),
    "negate": ((0,), 1),
    "convert": ((0,), 1),  # jax writes some that change nothing
    "maximum": ((0, 1), 1),
    "minimum": ((0, 1), 1),
    "clamp": ((1,), 1),
    "select": ((1, 2), 2),
}


class Map(NamedTuple):
    """What becomes of c: `min(max(factor * c + offset, low), high)`, element by element."""

    factor: Value
    offset: Value
    low: Value
    high: Value


@dataclass
class Clamps(Carries):
    """The carried values of a loop that are mapped so, and those that only add up.

    Attributes:
        sources: which of `mapped` a value of the body is a map of.
    """

    sources: dict[Value, int] = field(default_factory=dict)

    def maps(self) -> bool:
        """Whether every trip maps each of `mapped` so, by itself."""
        arguments = self.trips.body.arguments
        if not self.mapped or any(
            kind_of_elements(arguments[k].type) != "float" for k in self.mapped
        ):
            return False
        self.sources = {arguments[k]: k for k in self.mapped}
        for op in self._path():
            if not self._follow_one(op):
                return False
        return all(self.sources.get(self.trips.given[k], k) == k for k in self.mapped)

    def _path(self) -> list[ir.Operation]:
        return needed(self.trips, [self.trips.given[k] for k in self.mapped])

    def _follow_one(self, op: ir.Operation) -> bool:
        """Find on which carried value an operation depends; whether it is one that maps it."""
        sides = [k for k, value in enumerate(op.operands) if value in self.sources]
        if not sides:
            return not any(value in self.sources for value in read_by(op))
        found = {self.sources[op.operands[k]] for k in sides}
        allowed, most = _SIDES.get(op.name.removeprefix("stablehlo."), ((), 0))
        if len(sides) > most or not {*sides} <= {*allowed} or len(found) > 1:
            return False
        if any(op.operands[k].type != op.results[0].type for k in sides):
            return False
        self.sources[op.results[0]] = found.pop()
        return True

    def pays(self, shards: Shards, read: float, written: float, blocks: int) -> bool:
        """Whether four numbers of each carried value are fewer than the arrays of blocks."""
        sent = len(Map._fields) * sum(size_bytes(self.trips.loop.operands[k]) for k in self.mapped)
        return sent * (blocks - 1).bit_length() < (read + written) / blocks

    def roots(self) -> list[Value]:
        """What a trip reads that does not depend on what it maps."""
        path = [op for op in self._path() if op.results[0] in self.sources]
        read = [value for op in path for value in op.operands if value not in self.sources]
        last = [self.trips.given[k] for k in self.mapped]
        return [*read, *(value for value in last if value not in self.sources)]

    def trip(self, to: Batched, before: Mapping[int, Map]) -> dict[int, Map]:
        """What the trips up to this one do together.

        Args:
            to: knows the values of the trip.
            before: what the trips before this one do to each of `mapped`.
        """
        known = {self.trips.body.arguments[k]: each for k, each in before.items()}
        for op in self._path():
            if op.results[0] in self.sources:
                known[op.results[0]] = _mapped(to, op, known)
        after = {}
        for k in before:
            last = self.trips.given[k]
            after[k] = known[last] if last in known else _constant(to.make, to.all(last))
        return after

    def ends(self, make: Builder, blocked: BlockedBody, own: Values) -> Values:
        """Each block finds what its trips do, and a `dtensor.scan` combines that."""
        loop, count = self.trips.loop, len(Map._fields)
        given = {k: self.trips.given[k] for k in self.own}
        roots = [*self.roots(), *given.values()]
        begin: list[Value] = []
        for k in self.mapped:
            shape = (blocked.blocks, *make.shape_of(loop.operands[k]))
            begin += _nothing(make, make.tensor_type(shape, make.element_of(loop.operands[k])))

        def each(values: Sequence[Value]) -> dict[int, Map]:
            return {k: Map(*values[i * count : (i + 1) * count]) for i, k in enumerate(self.mapped)}

        def step(inner: Builder, number: Value, carried: Sequence[Value]) -> list[Value]:
            last = dict(zip(given, carried[len(begin) :], strict=True))
            to = blocked.of(inner, number, last, roots)
            after = [value for each in self.trip(to, each(carried)).values() for value in each]
            return blocked.kept(inner, number, carried, [*after, *map(to.all, given.values())])

        def both(inner: Builder, first: Sequence[Value], second: Sequence[Value]) -> list[Value]:
            return list(_composed(inner, Map(*first), Map(*second)))

        found = counted_loop(make, blocked.size, [*begin, *own.values()], step)
        ends = Values()
        for k, maps in each(found[: len(begin)]).items():
            total = Map(*scanned(loop, maps, 0, self.trips.is_reverse, both, make))
            ends[k] = _applied(make, total, blocked.everywhere(make, k))
        return ends


def _applied(make: Builder, total: Map, start: Value) -> Value:
    """What trips make of what they start from.

    Factors of many trips may overflow where the carry does not, and bounds would hide it: then it
    is infinite or NaN. Where the start is infinite, as of a maximum, so is what stands for it.
    """
    free = make.binary("add", make.binary("multiply", total.factor, start), total.offset)
    value = make.binary("maximum", free, total.low)
    value = make.binary("minimum", value, total.high)
    type_ = make.tensor_type(make.shape_of(free), "i1")

    def finite(value: Value) -> Value:
        return make.value("stablehlo.is_finite", [value], type_)

    is_number = make.compare("EQ", free, free)
    is_open = make.value("stablehlo.not", [finite(start)], type_)
    from_start = [finite(total.factor), finite(total.offset), is_open, is_number]
    is_known = make.binary("or", finite(free), make.combined("and", from_start))
    return make.select(is_known, value, free)


def _mapped(to: Batched, op: ir.Operation, known: Mapping[Value, Map]) -> Map:
    """The map up to the result of an operation, of the maps up to its operands."""
    make, shape, name = to.make, to.make.shape_of(op.results[0]), op.name[len("stablehlo.") :]
    maps = [known.get(value) for value in op.operands]
    pairs = zip(op.operands, maps, strict=True)
    given = [to.all(value, shape) if each is None else each.factor for value, each in pairs]
    if name == "select":
        choices = zip(maps[1:], given[1:], strict=True)
        rows = [_constant(make, value) if each is None else each for each, value in choices]
        return Map(*(make.select(given[0], *pair) for pair in zip(*rows, strict=True)))
    side = next(k for k, each in enumerate(maps) if each is not None)
    value = next(each for each in maps if each is not None)
    if name == "convert":
        return value
    if name == "clamp":
        return _kept(make, value, given[0], given[2])
    if name == "negate":
        return _negated(make, value)
    if name == "subtract" and side == 1:
        value, name = _negated(make, value), "add"
    other = given[1 - side]
    if name in ("multiply", "divide"):
        return _scaled(make, value, other, name)
    if name in ("add", "subtract"):
        return _moved(make, value, other, name)
    bounds = _constant(make, other)
    return _kept(make, value, *((other, bounds.high) if name == "maximum" else (bounds.low, other)))


def _constant(make: Builder, value: Value) -> Map:
    """The map that gives this value, whatever is carried."""
    type_ = value.type
    bounds = make.identity("max", type_), make.identity("min", type_)
    return Map(make.zeros(type_), value, *bounds)


def _nothing(make: Builder, type_: ir.Type) -> Map:
    """The map that leaves c as it is."""
    return _constant(make, make.zeros(type_))._replace(factor=make.constant(1, type_))


def _composed(make: Builder, first: Map, second: Map) -> Map:
    """The map that does what two do, one after the other."""
    value = _moved(make, _scaled(make, first, second.factor, "multiply"), second.offset, "add")
    return _kept(make, value, second.low, second.high)


def _moved(make: Builder, value: Map, by: Value, name: str) -> Map:
    """A map whose result something is added to, or subtracted from."""
    offset, low, high = (make.binary(name, each, by) for each in value[1:])
    return Map(value.factor, offset, low, high)


def _negated(make: Builder, value: Map) -> Map:
    """A map whose result has the other sign."""
    factor, offset, high, low = (make.unary("negate", each) for each in value)
    return Map(factor, offset, low, high)


def _scaled(make: Builder, value: Map, by: Value, name: str) -> Map:
    """A map whose result is multiplied or divided; a negative factor swaps the bounds.

    Where there is no bound there is none of a product with zero.
    """
    factor, offset, *ends = (make.binary(name, each, by) for each in value)
    if name == "multiply":
        is_zero = make.compare("EQ", by, 0)
        none = _constant(make, offset)[2:]
        for k, (old, bound) in enumerate(zip(value[2:], none, strict=True)):
            is_none = make.binary("and", is_zero, make.compare("EQ", old, bound))
            ends[k] = make.select(is_none, bound, ends[k])
    return Map(factor, offset, *(make.binary(side, *ends) for side in ("minimum", "maximum")))


def _kept(make: Builder, value: Map, low: Value, high: Value) -> Map:
    """A map whose result is no less than one number, and then no more than another."""
    bounds = [make.binary("minimum", make.binary("maximum", each, low), high) for each in value[2:]]
    return Map(value.factor, value.offset, *bounds)
