"""What the trips of a loop do to what it carries: affine maps of each element, or sums.

A carry that passes through additions, products with what does not depend on any carry, and
selections by that, comes out of many trips as `M * carry + offset`, element by element. Where
several carries depend on one another, M is a matrix of them for each element.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from dtensor.dialect.mlir import Value, ir
from dtensor.passes.forms.batched import Batched
from dtensor.passes.forms.trips import Trips
from dtensor.passes.forms.turns import needed
from dtensor.passes.ops.attributes import integers, shape_of
from dtensor.passes.ops.elements import element_kind
from dtensor.passes.ops.table import opdef
from dtensor.passes.program import BARRIER, CALLS, CUSTOM_CALL, RETURNS, read_by

_SUMS = ("stablehlo.add", "stablehlo.subtract")
_NOTHING: frozenset[int] = frozenset()
_INEXACT = ("float", "complex")

Pair = tuple[int, int]


@dataclass
class Carries:
    """The carried values of a loop that are affine, and those that only add up.

    Attributes:
        trips: the loop.
        affine: numbers of the carried values that each trip maps.
        sums: numbers of those that each trip adds something to, and reads for nothing else.
        sources: on which carried values of `affine` a value of the body depends; None where that
            is no affine map of their elements.
        pairs: `(k, j)` where carry k may depend on carry j of some trips before; and all `(k, k)`.
    """

    trips: Trips
    affine: list[int] = field(default_factory=list)
    sums: list[int] = field(default_factory=list)
    sources: dict[Value, frozenset[int] | None] = field(default_factory=dict)
    pairs: list[Pair] = field(default_factory=list)

    @staticmethod
    def of(trips: Trips) -> Carries | None:
        """Those of a loop; None if some carried value is neither, or nothing is affine."""
        found = Carries(trips)
        if any(_does_more(view.operation) for view in trips.body.operations):
            return None
        for k in trips.carried:
            (found.sums if found._adds_up(k) else found.affine).append(k)
        return found if found.affine and found._maps() else None

    def _adds_up(self, k: int) -> bool:
        """Whether nothing but sums of a carried value is made of it, and the last is returned."""
        value: Value = self.trips.body.arguments[k]
        last = self.trips.given[k]
        if _kind(value.type) not in (*_INEXACT, "signed", "unsigned"):
            return False
        while True:
            uses = list(value.uses)
            if len(uses) != 1:
                return False
            op = uses[0].owner.operation
            if value == last:
                return True
            is_first = uses[0].operand_number == 0 or op.name == _SUMS[0]
            if op.block != self.trips.body or op.name not in _SUMS or not is_first:
                return False
            value = op.results[0]

    def _maps(self) -> bool:
        """Find what depends on what; whether all is affine, of elements of one shape and type."""
        trips, sources = self.trips, self.sources
        types = {trips.body.arguments[k].type for k in self.affine}
        if len(types) != 1 or _kind(types.pop()) not in _INEXACT:
            return False
        sources.update(dict.fromkeys(trips.body.arguments))  # others may not be read
        known = {*trips.fixed, *trips.counters}
        sources |= {trips.body.arguments[k]: _NOTHING for k in known}
        sources |= {trips.body.arguments[k]: frozenset([k]) for k in self.affine}
        for view in trips.body.operations:
            op = view.operation
            if op.name == BARRIER:
                for value, result in zip(op.operands, op.results, strict=True):
                    sources[result] = sources.get(value, _NOTHING)
            else:
                sources.update(dict.fromkeys(op.results, self._of(op)))
        reached = {k: {k} for k in self.affine}
        for k in self.affine * len(self.affine):
            found = sources.get(trips.given[k], _NOTHING)
            if found is None:
                return False
            reached[k] |= {j for each in found for j in reached[each]}
        self.pairs = [(k, j) for k in self.affine for j in self.affine if j in reached[k]]
        return True

    def _of(self, op: ir.Operation) -> frozenset[int] | None:
        """On which carries the results of an operation depend."""
        given = [self.sources.get(value, _NOTHING) for value in read_by(op)]
        if any(found is None for found in given):
            return None
        found = frozenset().union(*[each for each in given if each is not None])
        return found if not found or self._is_affine(op) else None

    def _is_affine(self, op: ir.Operation) -> bool:
        """Whether an operation maps elements of what depends on carries, by what does not."""
        depends = [bool(self.sources.get(value, _NOTHING)) for value in op.operands]
        match op.name:
            case "stablehlo.add" | "stablehlo.subtract" | "stablehlo.negate" | "stablehlo.reshape":
                return True
            case "stablehlo.multiply":
                return depends.count(True) == 1
            case "stablehlo.divide":
                return not depends[1]
            case "stablehlo.select":
                return not depends[0]
            case "stablehlo.broadcast_in_dim":
                sizes = [math.prod(shape_of(value)) for value in (op.operands[0], op.results[0])]
                dims = integers(op.attributes["broadcast_dimensions"])
                return sizes[0] == sizes[1] and dims == sorted(dims)
            case _:
                return False

    def tangents(self, to: Batched, given: Mapping[Pair, Value]) -> list[Value]:
        """What a trip maps the linear parts of the trips before it to, in the order of `pairs`.

        Args:
            to: knows the values of the trip.
            given: those linear parts.
        """
        trips, after = self.trips, dict[Pair, Value]()
        for j in self.affine:
            rows = [k for k, column in self.pairs if column == j]
            found = {trips.body.arguments[k]: given[k, j] for k in rows}
            for op in needed(trips, [trips.given[k] for k in rows]):
                if op.name == BARRIER:
                    pairs = zip(op.operands, op.results, strict=True)
                    found |= {result: found[value] for value, result in pairs if value in found}
                elif self.sources[op.results[0]]:
                    value = _tangent(to, op, found)
                    found |= {} if value is None else {op.results[0]: value}
            for k in rows:
                value = found.get(trips.given[k])
                after[k, j] = to.make.zeros(given[k, j].type) if value is None else value
        return [after[pair] for pair in self.pairs]


def _kind(type_: ir.Type) -> str:
    is_tensor = isinstance(type_, ir.RankedTensorType)
    return element_kind(str(ir.RankedTensorType(type_).element_type))[0] if is_tensor else ""


def _does_more(op: ir.Operation) -> bool:
    """Whether an operation may do something besides giving its results."""
    is_call = op.name in CALLS or op.name == CUSTOM_CALL
    return is_call or bool(opdef(op.name).varies) or not (len(op.results) or op.name in RETURNS)


def _tangent(to: Batched, op: ir.Operation, known: dict[Value, Value]) -> Value | None:
    """What an operation maps tangents to; None if that is zero."""
    given = [known.get(value) for value in op.operands]
    if all(value is None for value in given):
        return None
    if op.name in _SUMS:
        left, right = given
        if right is None:
            return left
        if left is None:
            left = to.make.zeros(right.type)
        return to.make.binary(op.name.removeprefix("stablehlo."), left, right)
    if op.name == "stablehlo.select":
        some = next(value for value in given if value is not None)
        yes, no = (to.make.zeros(some.type) if value is None else value for value in given[1:])
        shape = to.make.shape_of(op.results[0])
        return to.make.select(to.all(op.operands[0], shape), yes, no)
    other = Batched(to.make, to.count, {value: to.one(value) for value in op.operands})
    for value, tangent in zip(op.operands, given, strict=True):
        if tangent is not None:
            other.say([value], [tangent])
        elif value in to.many:
            other.many.add(value)
    return other.one(op.results[0]) if other.write(op) else None
