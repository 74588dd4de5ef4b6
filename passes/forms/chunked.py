"""Loops along a split dimension, of which what is carried is affine: each shard runs its own trips.

The trips are cut into as many blocks as there are shards, which stand side by side. Each runs its
trips from a carry of zero, and finds what they do to any other one. Of that a `dtensor.scan` makes
the carries that come in, and each block runs its trips from there: the body, as the program has it.

What overflows on the way is found in no such way, nor what a program stops by a selection: where
anything is not finite, the blocks run one after another, each from the carry of that before it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from dtensor.dialect import build
from dtensor.dialect.mlir import Value, ir
from dtensor.passes.builder import Builder, Trail
from dtensor.passes.cuts.shards import Shards
from dtensor.passes.forms.batched import Batched
from dtensor.passes.forms.carries import Carries
from dtensor.passes.forms.trips import Site, Trips
from dtensor.passes.ops.attributes import shape_of
from dtensor.passes.ops.loops import counted_loop
from dtensor.passes.ops.rule import element_bytes

Values = dict[int, Value]  # by number of what the loop carries

_LEAST = 2  # trips of a block


def replaced_loops(loops: Sequence[ir.Operation], shards: Shards) -> list[ir.Operation]:
    """What stands for those loops that are cut into blocks, which are erased."""
    found = [each for loop in loops if (each := _Chunked.of(loop, shards)) is not None]
    return [op for each in found for op in each.replaced()]


@dataclass
class _Chunked:
    """A loop in blocks.

    Attributes:
        trips: the loop.
        carries: what it carries.
        blocks: how many blocks.
        size: how many trips each has.
        made: what is created.
    """

    trips: Trips
    carries: Carries
    blocks: int
    size: int
    made: list[ir.Operation] = field(default_factory=list)
    _arrays: dict[tuple[Value, int], Value] = field(default_factory=dict)

    @staticmethod
    def of(loop: ir.Operation, shards: Shards) -> _Chunked | None:
        """The loop, if it walks along a split dimension and sends less so; None of any other."""
        trips = Trips.of(loop)
        carries = None if trips is None else Carries.of(trips)
        if trips is None or carries is None:
            return None
        places = [(trips.array(site), site.dim) for site in trips.reads.values()]
        places += [(loop.results[k], site.dim) for k, site in trips.writes.items()]
        split = dict.fromkeys(place for place in places if shards.splits(place))
        blocks = max((shards.count(place) for place in split), default=1)
        if blocks < 2 or trips.count < _LEAST * blocks:
            return None
        moved = sum(_bytes(array) for array, _ in split) / blocks
        each = _bytes(loop.operands[carries.affine[0]])
        sent = (len(carries.pairs) + len(carries.affine)) * each * (blocks - 1).bit_length()
        if sent > moved:
            return None
        return _Chunked(trips, carries, blocks, -(-trips.count // blocks))

    def replaced(self) -> list[ir.Operation]:
        """What stands for the loop, which is erased; nothing if its body cannot be put so."""
        loop = self.trips.loop
        make = Builder(loop, self.made)
        found = self._written(make)
        if found is None:
            for op in reversed(self.made):
                if op.block == loop.block:
                    op.erase()
            return []
        for k, value in found.items():
            loop.results[k].replace_all_uses_with(value)
        loop.erase()
        return self.made

    def _written(self, make: Builder) -> Values | None:
        """What stands for the results of the loop that anybody reads."""
        carries, loop = self.carries, self.trips.loop
        starts = {k: loop.operands[k] for k in carries.affine}
        maps = self._mapped(make, starts)
        if maps is None:
            return None
        ends, is_finite = self._ends(make, maps)
        ahead = self._ahead(make, starts, ends)
        is_finite = [*is_finite, *(_is_finite(make, value) for value in ahead.values())]
        ahead = self._one_by_one(make, starts, ahead, make.combined("and", is_finite))
        if not ahead:
            return None
        return self._results(make, ahead)

    # What the blocks do.

    def _run(
        self,
        make: Builder,
        number: Value,
        given: Values,
        roots: Sequence[Value],
    ) -> Batched | None:
        """A trip of all blocks: the values of the body that `roots` are computed by.

        Args:
            make: where to write it.
            number: of the trip in its block.
            given: what is carried.
            roots: what is wanted.
        """
        trips, to = self.trips, Batched(make, self.blocks)
        for k, argument in enumerate(trips.body.arguments):
            if k in given:
                to.say([argument], [given[k]])
            elif k in trips.fixed:
                to.known[argument] = trips.loop.operands[k]
            elif k in trips.counters and any(True for _ in argument.uses):
                to.say([argument], [self._counted(make, number, k)])
        for op in self.carries.needed(list(roots)):
            site = trips.reads.get(op)
            if site is not None:
                array = self._arrays[trips.array(site), site.dim]
                to.say(op.results, [make.stretch(array, site.dim + 1, self._place(make, number), 1)])
            elif not to.write(op):
                return None
        return to

    def _place(self, make: Builder, number: Value) -> Value:
        """Where a trip reads and writes in its block."""
        if not self.trips.is_reverse:
            return number
        return make.binary("subtract", make.constant_like(self.size - 1, number), number)

    def _places(self, make: Builder, number: Value) -> Value:
        """Where it does in the whole array, of each block."""
        first = make.times(make.iota((self.blocks,), 0, "i32"), self.size)
        return make.binary("add", first, make.broadcast(self._place(make, number), (self.blocks,)))

    def _counted(self, make: Builder, number: Value, k: int) -> Value:
        """What a counter of the loop says in a trip of each block."""
        start, step = self.trips.counters[k]
        index = self._places(make, number)
        if self.trips.is_reverse:
            last = make.constant_like(self.trips.count - 1, index)
            index = make.binary("subtract", last, index)
        index = make.times(make.convert(index, make.element_of(self.trips.body.arguments[k])), step)
        return make.binary("add", index, make.constant_like(start, index))

    def _kept(
        self, make: Builder, number: Value, before: Sequence[Value], after: Sequence[Value]
    ) -> list[Value]:
        """What is carried on: trips beyond the last one change nothing."""
        if self.size * self.blocks == self.trips.count:
            return list(after)
        index = self._places(make, number)
        is_one = make.compare("LT", index, make.constant_like(self.trips.count, index))
        return [
            make.select(make.broadcast(is_one, make.shape_of(new), [0]), new, old)
            for old, new in zip(before, after, strict=True)
        ]

    def _mapped(self, make: Builder, starts: Values) -> list[Value] | None:
        """What the trips of each block do to a carry: the linear parts, and what they add."""
        carries, has_failed = self.carries, False
        for site in self.trips.reads.values():
            self._cut(make, self.trips.array(site), site.dim)
        one = self._spread(make, starts[carries.affine[0]])
        linear = [self._number(make, int(k == j), one) for k, j in carries.pairs]
        first = self._is_block(make, 0 if not self.trips.is_reverse else self.blocks - 1, one)
        zero = make.zeros(one.type)
        offsets = [make.select(first, self._spread(make, v), zero) for v in starts.values()]
        count = len(linear)

        def step(inner: Builder, number: Value, carried: Sequence[Value]) -> list[Value]:
            nonlocal has_failed
            given = dict(zip(carries.affine, carried[count:], strict=True))
            to = self._run(inner, number, given, [self.trips.given[k] for k in carries.affine])
            if to is None:
                has_failed = True
                return list(carried)
            known = dict(zip(carries.pairs, carried, strict=False))
            maps: dict[tuple[int, int], Value] = {}
            for j in carries.affine:
                column = {k: value for (k, i), value in known.items() if i == j}
                found = carries.tangents(to, j, column)
                maps |= {(k, j): value for k, value in found.items()}
            after = [maps[pair] for pair in carries.pairs]
            after += [to.all(self.trips.given[k]) for k in carries.affine]
            return self._kept(inner, number, carried, after)

        found = counted_loop(make, self.size, [*linear, *offsets], step)
        return None if has_failed else found

    def _ends(self, make: Builder, maps: list[Value]) -> tuple[Values, list[Value]]:
        """What each block passes on, and what has to be finite for that to be right."""
        carries, count = self.carries, len(self.carries.pairs)
        scan = build.scan(
            maps,
            0,
            self.trips.is_reverse,
            loc=self.trips.loop.location,
            ip=ir.InsertionPoint(self.trips.loop),
        )
        self.made.append(scan)
        block = scan.regions[0].blocks[0]
        inner = Trail(ir.InsertionPoint(block), scan.location)
        sides = [list(block.arguments)[: len(maps)], list(block.arguments)[len(maps) :]]
        (before, start), (after, added) = (
            (dict(zip(carries.pairs, side, strict=False)), side[count:]) for side in sides
        )
        starts = dict(zip(carries.affine, start, strict=True))

        def of(k: int, column: Mapping[int, Value]) -> list[Value]:
            terms = [(after[k, i], value) for i, value in column.items() if (k, i) in after]
            return [inner.binary("multiply", *term) for term in terms]

        found = [
            inner.combined("add", of(k, {i: v for (i, c), v in before.items() if c == j}))
            for k, j in carries.pairs
        ]
        found += [
            inner.combined("add", [*of(k, starts), value])
            for k, value in zip(carries.affine, added, strict=True)
        ]
        inner.create("stablehlo.return", found, [])
        ends = dict(zip(carries.affine, list(scan.results)[count:], strict=True))
        return ends, [_is_finite(make, value) for value in maps]

    def _ahead(self, make: Builder, starts: Values, ends: Values) -> Values:
        """What comes into each block: what that before it passes on."""
        found = {}
        for k, value in starts.items():
            first = make.reshape(value, (1, *make.shape_of(value)))
            is_reverse = self.trips.is_reverse
            others = make.cut(ends[k], 0, int(is_reverse), self.blocks - 1)
            found[k] = make.joined([others, first] if is_reverse else [first, others], 0)
        return found

    def _one_by_one(
        self, make: Builder, starts: Values, ahead: Values, is_finite: Value
    ) -> Values:
        """What comes into each block, of blocks run one after another unless all is finite."""
        carries, has_failed = self.carries, False
        scalar = make.tensor_type((), "i32")
        none, all_ = make.constant(0, scalar), make.constant(self.blocks - 1, scalar)
        rounds = make.select(is_finite, none, all_)

        def step(inner: Builder, number: Value, carried: Sequence[Value]) -> list[Value]:
            nonlocal has_failed
            to = self._run(
                inner,
                number,
                dict(zip(carries.affine, carried, strict=True)),
                [self.trips.given[k] for k in carries.affine],
            )
            has_failed |= to is None
            if to is None:
                return list(carried)
            after = [to.all(self.trips.given[k]) for k in carries.affine]
            return self._kept(inner, number, carried, after)

        def again(inner: Builder, _: Value, carried: Sequence[Value]) -> list[Value]:
            ends = counted_loop(inner, self.size, carried, step)
            return list(self._ahead(inner, starts, dict(zip(starts, ends, strict=True))).values())

        found = counted_loop(make, rounds, list(ahead.values()), again)
        return {} if has_failed else dict(zip(ahead, found, strict=True))

    def _results(self, make: Builder, ahead: Values) -> Values | None:
        """The results of the loop that anybody reads, of the trips of all blocks."""
        trips, carries, loop = self.trips, self.carries, self.trips.loop
        read = [k for k, result in enumerate(loop.results) if any(True for _ in result.uses)]
        sums = [k for k in carries.sums if k in read]
        writes = {k: trips.writes[k] for k in trips.writes if k in read}
        carried = dict(ahead)
        for k in sums:
            carried[k] = make.zeros(self._type(make, loop.operands[k]))
        for k, site in writes.items():
            carried[k] = make.zeros(self._cut_type(make, loop.operands[k], site.dim))
        numbers, has_failed = list(carried), False

        def step(inner: Builder, number: Value, values: Sequence[Value]) -> list[Value]:
            nonlocal has_failed
            given = dict(zip(numbers, values, strict=True))
            changed = [*carries.affine, *sums]
            roots = [trips.given[k] for k in changed] + [_put(site) for site in writes.values()]
            arguments = {k: given[k] for k in changed}
            to = self._run(inner, number, arguments, roots)
            if to is None:
                has_failed = True
                return list(values)
            kept = self._kept(
                inner,
                number,
                [given[k] for k in changed],
                [to.all(trips.given[k]) for k in changed],
            )
            for k, site in writes.items():
                place = self._place(inner, number)
                shape = list(inner.shape_of(given[k]))
                shape[site.dim + 1] = 1
                row = inner.reshape(to.all(_put(site)), shape)
                starts = inner.starts_along(given[k], site.dim + 1, place)
                kept.append(inner.updated(given[k], row, starts))
            return kept

        values = counted_loop(make, self.size, list(carried.values()), step)
        if has_failed:
            return None
        after = dict(zip(numbers, values, strict=True))
        last = 0 if trips.is_reverse else self.blocks - 1
        found: Values = {}
        for k in read:
            given, result = loop.operands[k], loop.results[k]
            if k in writes:
                found[k] = self._joined(make, after[k], writes[k].dim)
            elif k in sums:
                found[k] = make.binary("add", given, make.reduced(after[k], 0, "sum"))
            elif k in carries.affine:
                found[k] = make.reshape(make.cut(after[k], 0, last, 1), shape_of(result))
            elif k in trips.counters:
                start, step_ = trips.counters[k]
                found[k] = make.constant(start + step_ * trips.count, result.type)
            else:
                found[k] = given
        return found

    # Arrays in blocks.

    def _cut(self, make: Builder, array: Value, dim: int) -> None:
        """The blocks of an array, side by side."""
        if (array, dim) in self._arrays:
            return
        shape = make.shape_of(array)
        value = make.lengthened(array, dim, 0, self.blocks * self.size)
        value = make.reshape(value, (*shape[:dim], self.blocks, self.size, *shape[dim + 1 :]))
        others = [d for d in range(len(shape) + 1) if d != dim]
        self._arrays[array, dim] = make.transpose(value, [dim, *others])

    def _joined(self, make: Builder, value: Value, dim: int) -> Value:
        """The array of which these are the blocks."""
        _, *shape = make.shape_of(value)
        order = [*range(1, len(shape) + 1)]
        order.insert(dim, 0)
        value = make.transpose(value, order)
        value = make.reshape(value, (*shape[:dim], self.blocks * self.size, *shape[dim + 1 :]))
        return make.cut(value, dim, 0, self.trips.count)

    def _cut_type(self, make: Builder, array: Value, dim: int) -> ir.Type:
        shape = make.shape_of(array)
        sizes = (self.blocks, *shape[:dim], self.size, *shape[dim + 1 :])
        return make.tensor_type(sizes, make.element_of(array))

    def _type(self, make: Builder, value: Value) -> ir.Type:
        return make.tensor_type((self.blocks, *make.shape_of(value)), make.element_of(value))

    def _spread(self, make: Builder, value: Value) -> Value:
        shape = make.shape_of(value)
        return make.broadcast(value, (self.blocks, *shape), [d + 1 for d in range(len(shape))])

    def _number(self, make: Builder, number: int, like: Value) -> Value:
        """Zeros or ones."""
        zero = make.zeros(like.type)
        if not number:
            return zero
        if not make.element_of(like).startswith("complex<"):
            return make.constant_like(1, like)
        real, imaginary = make.parts(zero)
        return make.complex(make.constant_like(1, real), imaginary)

    def _is_block(self, make: Builder, block: int, like: Value) -> Value:
        """Whether elements are those of a block."""
        index = make.iota((self.blocks,), 0, "i32")
        is_one = make.compare("EQ", index, make.constant_like(block, index))
        return make.broadcast(is_one, make.shape_of(like), [0])


def _put(site: Site) -> Value:
    """What is written in a trip."""
    value: Value = site.op.operands[2 if site.op.name == "stablehlo.scatter" else 1]
    return value


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
