"""Loops along a split dimension whose carries are affine: each shard runs trips of its own.

The trips are cut into as many blocks as there are shards, which stand side by side. Each runs its
trips from a carry of zero, and finds what they do to any other one. Of that a `dtensor.scan` makes
the carries that come in, and each block runs its trips from there, as the program has them.

What overflows cannot be found so, nor what a program stops by selecting something else. Where
anything on the way is not finite, the blocks run one after another, each from what that before it
gives.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from dtensor.dialect import build
from dtensor.dialect.attributes import index_attr
from dtensor.dialect.mlir import Value, ir, operation_of
from dtensor.dialect.names import TRIPS
from dtensor.passes.builder import Builder, Trail
from dtensor.passes.cuts.shards import Shards
from dtensor.passes.forms.carries import Carries, Pair
from dtensor.passes.forms.trips import Trips
from dtensor.passes.forms.turns import NotBatched, Turns, Values
from dtensor.passes.ops.attributes import shape_of
from dtensor.passes.ops.loops import counted_loop
from dtensor.passes.ops.rule import element_bytes

_LEAST = 2  # trips of a block


def replaced_loops(loops: Sequence[ir.Operation], shards: Shards) -> list[ir.Operation]:
    """What stands for those loops that are cut into blocks, which are erased."""
    found = [each for loop in loops if (each := _Chunked.of(loop, shards)) is not None]
    return [op for each in found for op in each.replaced()]


@dataclass
class _Chunked:
    """A loop in blocks.

    Attributes:
        carries: what the loop carries.
        turns: write its trips.
        made: what is created.
    """

    carries: Carries
    turns: Turns
    made: list[ir.Operation] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.trips, self.loop = self.turns.trips, self.turns.trips.loop
        self.given = {k: self.trips.given[k] for k in self.carries.affine}

    @staticmethod
    def of(loop: ir.Operation, shards: Shards) -> _Chunked | None:
        """The loop, if it walks along a split dimension and sends less so; None of any other."""
        trips = Trips.of(loop)
        carries = None if trips is None else Carries.of(trips)
        if trips is None or carries is None:
            return None
        places = [(trips.array(site), site.dim) for site in trips.reads.values()]
        places += [(loop.results[k], site.dim) for k, site in trips.writes.items()]
        split = {place: n for place in places if (n := shards.count(place)) > 1}
        blocks = max(split.values(), default=1)
        if blocks < 2 or trips.count < _LEAST * blocks:
            return None
        moved = sum(_bytes(array) for array, _ in split) / blocks
        each = _bytes(loop.operands[carries.affine[0]]) * (blocks - 1).bit_length()
        if (len(carries.pairs) + len(carries.affine)) * each >= moved:
            return None
        return _Chunked(carries, Turns(trips, blocks, -(-trips.count // blocks)))

    def replaced(self) -> list[ir.Operation]:
        """What stands for the loop, which is erased; nothing where it stays."""
        loop, make = self.loop, Builder(self.loop, self.made)
        try:
            found = self._written(make)
        except NotBatched:
            for op in reversed(self.made):
                if op.block == loop.block:
                    op.erase()
            return []
        for k, value in found.items():
            loop.results[k].replace_all_uses_with(value)
        loop.erase()
        return self.made

    def _written(self, make: Builder) -> Values:
        """What stands for the results of the loop that anybody reads."""
        self.turns.cut(make)
        ahead = self._ahead(make, self._ends(self._maps(make)))
        is_finite = [_is_finite(make, value) for value in ahead.values()]
        ahead = self._one_by_one(make, ahead, make.combined("and", is_finite))
        return self._results(make, ahead)

    def _maps(self, make: Builder) -> list[Value]:
        """What the trips of each block do to a carry: the linear parts, and what they give of 0.

        The first block starts with what the loop does.
        """
        carries, blocks = self.carries, self.turns.blocks
        starts = [self.loop.operands[k] for k in carries.affine]
        shape = (blocks, *make.shape_of(starts[0]))
        dims = range(1, len(shape))
        starts = [make.broadcast(value, shape, dims) for value in starts]
        zero = make.zeros(starts[0].type)
        one = _one(make, zero)
        index = make.iota((blocks,), 0, "i32")
        first = make.constant_like(blocks - 1 if self.trips.is_reverse else 0, index)
        is_first = make.broadcast(make.compare("EQ", index, first), shape, [0])
        linear = [one if k == j else zero for k, j in carries.pairs]
        offsets = [make.select(is_first, value, zero) for value in starts]

        def step(inner: Builder, number: Value, carried: Sequence[Value]) -> list[Value]:
            given = dict(zip(carries.affine, carried[len(linear) :], strict=True))
            to = self.turns.of(inner, number, given, list(self.given.values()))
            known = dict(zip(carries.pairs, carried, strict=False))
            after = carries.tangents(to, known)
            after += map(to.all, self.given.values())
            return self.turns.kept(inner, number, carried, after)

        return counted_loop(make, self.turns.size, [*linear, *offsets], step)

    def _ends(self, maps: Sequence[Value]) -> Values:
        """What each block passes on."""
        carries, count = self.carries, len(self.carries.pairs)
        scan = build.scan(
            maps,
            0,
            self.trips.is_reverse,
            loc=self.loop.location,
            ip=ir.InsertionPoint(self.loop),
        )
        self.made.append(scan)
        block = scan.regions[0].blocks[0]
        inner = Trail(ir.InsertionPoint(block), scan.location)
        values = list(block.arguments)
        earlier, later = values[: len(maps)], values[len(maps) :]
        before, after = (dict(zip(carries.pairs, s, strict=False)) for s in (earlier, later))
        starts = dict(zip(carries.affine, earlier[count:], strict=True))

        def mapped(k: int, column: Mapping[int, Value]) -> list[Value]:
            found = [(after[k, i], value) for i, value in column.items() if (k, i) in after]
            return [inner.binary("multiply", *pair) for pair in found]

        def linear(pair: Pair) -> Value:
            column = {i: value for (i, j), value in before.items() if j == pair[1]}
            return inner.combined("add", mapped(pair[0], column))

        found = [linear(pair) for pair in carries.pairs]
        for k, value in zip(carries.affine, later[count:], strict=True):
            found.append(inner.combined("add", [*mapped(k, starts), value]))
        inner.create("stablehlo.return", found, [])
        return dict(zip(carries.affine, list(scan.results)[count:], strict=True))

    def _ahead(self, make: Builder, ends: Values) -> Values:
        """What comes into each block: what that before it passes on."""
        found, is_reverse = {}, self.trips.is_reverse
        for k, value in ends.items():
            start = self.loop.operands[k]
            first = make.reshape(start, (1, *make.shape_of(start)))
            others = make.cut(value, 0, int(is_reverse), self.turns.blocks - 1)
            found[k] = make.joined([others, first] if is_reverse else [first, others], 0)
        return found

    def _one_by_one(self, make: Builder, ahead: Values, is_finite: Value) -> Values:
        """What comes into each block, of blocks run one after another unless all is finite."""
        scalar = make.tensor_type((), "i32")
        most = make.constant(self.turns.blocks - 1, scalar)
        rounds = make.select(is_finite, make.zeros(scalar), most)

        def step(inner: Builder, number: Value, carried: Sequence[Value]) -> list[Value]:
            given = dict(zip(ahead, carried, strict=True))
            to = self.turns.of(inner, number, given, list(self.given.values()))
            after = [*map(to.all, self.given.values())]
            return self.turns.kept(inner, number, carried, after)

        def again(inner: Builder, _: Value, carried: Sequence[Value]) -> list[Value]:
            ends = counted_loop(inner, self.turns.size, carried, step)
            return list(self._ahead(inner, dict(zip(ahead, ends, strict=True))).values())

        found = counted_loop(make, rounds, list(ahead.values()), again)
        operation_of(found[0]).attributes[TRIPS] = index_attr(1)  # it seldom runs at all
        return dict(zip(ahead, found, strict=True))

    def _results(self, make: Builder, ahead: Values) -> Values:
        """The results of the loop that anybody reads, of the trips of all blocks."""
        trips, turns, loop = self.trips, self.turns, self.loop
        read = [k for k, result in enumerate(loop.results) if any(True for _ in result.uses)]
        summed = {k: trips.given[k] for k in self.carries.sums if k in read}
        written = {k: site for k, site in trips.writes.items() if k in read}
        changed = self.given | summed
        roots = [*changed.values(), *(site.value for site in written.values())]
        begin = list(ahead.values())
        for k in summed:
            shape = (turns.blocks, *make.shape_of(loop.operands[k]))
            begin.append(make.zeros(make.tensor_type(shape, make.element_of(loop.operands[k]))))
        for k, site in written.items():
            shape = turns.shape(make, loop.operands[k], site.dim)
            begin.append(make.zeros(make.tensor_type(shape, make.element_of(loop.operands[k]))))

        def step(inner: Builder, number: Value, carried: Sequence[Value]) -> list[Value]:
            before, arrays = carried[: len(changed)], carried[len(changed) :]
            to = turns.of(inner, number, dict(zip(changed, before, strict=True)), roots)
            after = turns.kept(inner, number, before, [*map(to.all, changed.values())])
            for site, array in zip(written.values(), arrays, strict=True):
                dim, shape = site.dim + 1, inner.shape_of(array)
                row = inner.reshape(to.all(site.value), (*shape[:dim], 1, *shape[dim + 1 :]))
                places = inner.starts_along(array, dim, turns.place(inner, number))
                after.append(inner.updated(array, row, places))
            return after

        ends = counted_loop(make, turns.size, begin, step)
        after = dict(zip([*changed, *written], ends, strict=True))
        found: Values = {}
        for k in read:
            given, result = loop.operands[k], loop.results[k]
            if k in written:
                found[k] = turns.joined(make, after[k], written[k].dim)
            elif k in summed:
                found[k] = make.binary("add", given, make.reduced(after[k], 0, "sum"))
            elif k in self.given:
                last = make.cut(after[k], 0, 0 if trips.is_reverse else turns.blocks - 1, 1)
                found[k] = make.reshape(last, shape_of(result))
            elif k in trips.counters:
                start, size = trips.counters[k]
                found[k] = make.constant(start + size * trips.count, result.type)
            else:
                found[k] = given
        return found


def _one(make: Builder, zero: Value) -> Value:
    """Ones, of the type of zeros."""
    if not make.element_of(zero).startswith("complex<"):
        return make.constant_like(1, zero)
    real, imaginary = make.parts(zero)
    return make.complex(make.constant_like(1, real), imaginary)


def _is_finite(make: Builder, value: Value) -> Value:
    """Whether all elements are finite: a scalar."""
    shape, element = make.read_type(value.type)
    parts = make.parts(value) if element.startswith("complex<") else [value]
    type_ = make.tensor_type(shape, "i1")
    found = make.combined("and", [make.value("stablehlo.is_finite", [p], type_) for p in parts])
    for _ in shape:
        found = make.reduced(found, 0, "and")
    return found


def _bytes(value: Value) -> float:
    type_ = ir.RankedTensorType(value.type)
    return math.prod(type_.shape) * element_bytes(str(type_.element_type))
