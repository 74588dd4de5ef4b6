"""Loops along a split dimension that map their carried values simply: shards run their own trips.

The trips are cut into blocks, one for each shard, which run side by side. First each block finds
what its trips do to any carried value: it starts them from zero, and keeps the linear part. A
`dtensor.scan` combines these maps and so finds the carried values that come into each block. Then
each block runs its trips from there, as the program has them.

This goes wrong where a value overflows on the way, and where a program keeps it from doing so by
selecting something else. Where anything on the way is not finite, the blocks run one after another
instead, each from what the block before it gives.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from dtensor.dialect.attributes import index_attr
from dtensor.dialect.mlir import Value, every, ir, is_read, operation_of
from dtensor.dialect.names import TRIPS
from dtensor.passes.builder import Builder
from dtensor.passes.cuts.shards import Shards
from dtensor.passes.forms.carries import Carries, Column, Part, carries_of
from dtensor.passes.forms.clamps import Clamps, clamped_ends
from dtensor.passes.forms.scalars import scanned
from dtensor.passes.forms.trips import Trips
from dtensor.passes.forms.turns import NotBatched, Turns, Values
from dtensor.passes.ops.attributes import size_bytes
from dtensor.passes.ops.loops import counted_loop

_LEAST = 2  # trips of a block, if it passes anything on


def replaced_loops(loops: Sequence[ir.Operation], shards: Shards) -> list[ir.Operation]:
    """What stands for those loops that are cut into blocks, which are erased.

    Args:
        loops: the loops, in program order.
        shards: into how many shards dimensions are known to be split.
    """
    found: list[_Chunked] = []
    for loop in loops:
        each = _Chunked.of(loop, shards)
        if each is not None:
            found.append(each)
            for k, site in each.trips.writes.items():
                shards.split(loop.results[k], site.dim, each.turns.blocks)
    made: list[ir.Operation] = []
    while found:
        each, *found = found
        within = set(every(each.loop))
        outside = [other for other in found if other.loop not in within]
        new = each.replaced()
        found = outside if new else found
        made += new
    return made


@dataclass
class _Chunked:
    """A loop in blocks."""

    carries: Carries
    turns: Turns
    made: list[ir.Operation] = field(default_factory=list)
    own: Values = field(default_factory=dict)  # what comes into the blocks, of Carries.own
    last: Values = field(default_factory=dict)  # and what comes out of the loop

    def __post_init__(self) -> None:
        self.trips, self.loop = self.turns.trips, self.turns.trips.loop
        self.given = {k: self.trips.given[k] for k in (*self.carries.affine, *self.carries.own)}

    @staticmethod
    def of(loop: ir.Operation, shards: Shards) -> _Chunked | None:
        """The loop, if it walks along a split dimension and sends less so; None of any other.

        Args:
            loop: the loop.
            shards: into how many shards dimensions are known to be split.
        """
        trips = Trips.of(loop)
        carries = None if trips is None else carries_of(trips, (Carries, Clamps))
        if trips is None or carries is None:
            return None
        places = [(trips.array(site), site.dim) for site in trips.reads.values()]
        places += [(loop.results[k], site.dim) for k, site in trips.writes.items()]
        counts = {place: shards.count(place) for place in places}
        split = {place: n for place, n in counts.items() if n > 1}
        blocks = max(split.values(), default=1)
        if blocks < 2 or trips.count < (_LEAST if carries.affine else 1) * blocks:
            return None
        moved = sum(size_bytes(array) for array, _ in split) / blocks
        parts = carries.parts()
        each = sum(size_bytes(loop.operands[k]) for k in carries.affine) / max(len(parts), 1)
        if carries.numbers * each * (blocks - 1).bit_length() >= moved:
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
        self.own, self.last = self._alone(make)
        if not self.carries.affine:
            return self._results(make, {})
        if isinstance(self.carries, Clamps):
            ends = clamped_ends(make, self.carries, self.turns, self.own, self.made)
        else:
            ends = self._ends(make, *self._maps(make))
        ahead = self._ahead(make, ends)
        is_finite = [_is_finite(make, value) for value in ahead.values()]
        ahead = self._one_by_one(make, ahead, make.combined("and", is_finite))
        return self._results(make, ahead)

    def _alone(self, make: Builder) -> tuple[Values, Values]:
        """Values that depend on themselves alone: those into each block, and the last ones."""
        own, trips, begin = self.carries.own, self.trips, list[Value]()
        for count in (1, self.turns.blocks):
            for value in (self.loop.operands[k] for k in own):
                shape = make.shape_of(value)
                begin.append(make.broadcast(value, (count, *shape), range(1, len(shape) + 1)))
        every = Turns(trips, 1, trips.count)

        def step(inner: Builder, number: Value, carried: Sequence[Value]) -> list[Value]:
            given = dict(zip(own, carried, strict=False))
            to = every.of(inner, number, given, [trips.given[k] for k in own])
            after = [to.all(trips.given[k]) for k in own]
            block = inner.over(every.place(inner, number), self.turns.size)
            for value, array in zip([*after], carried[len(own) :], strict=True):
                after.append(inner.updated(array, value, inner.starts_along(array, 0, block)))
            return after

        found = counted_loop(make, trips.count, begin, step, self.made) if own else []
        ends = dict(zip(own, found[len(own) :], strict=True))
        return self._ahead(make, ends), dict(zip(own, found, strict=False))

    def _maps(self, make: Builder) -> tuple[dict[Column, Value], Values]:
        """What the trips of each block do to a carry: the linear parts, and what they make of 0.

        The first block starts from what the loop starts from, and not from 0.
        """
        carries, zeros = self.carries, Values()
        for k in carries.affine:
            value = self.loop.operands[k]
            shape = (self.turns.blocks, *make.shape_of(value))
            zeros[k] = make.zeros(make.tensor_type(shape, make.element_of(value)))
        offsets = {k: self._started(make, k, zero) for k, zero in zeros.items()}
        linear: dict[Column, Value] = {}
        for part in carries.parts():
            for k in [k for k, j in carries.pairs if j == part[0]]:
                linear[k, part] = self._one(make, zeros[k], part) if k == part[0] else zeros[k]

        def step(inner: Builder, number: Value, carried: Sequence[Value]) -> list[Value]:
            given = dict(zip(self.given, carried[len(linear) :], strict=True))
            to = self.turns.of(inner, number, given, list(self.given.values()))
            after = carries.tangents(to, dict(zip(linear, carried, strict=False)))
            after += map(to.all, self.given.values())
            return self.turns.kept(inner, number, carried, after)

        begin = [*linear.values(), *offsets.values(), *self.own.values()]
        found = counted_loop(make, self.turns.size, begin, step, self.made)
        return (
            dict(zip(linear, found, strict=False)),
            dict(zip(carries.affine, found[len(linear) :], strict=False)),
        )

    def _one(self, make: Builder, zero: Value, part: Part) -> Value:
        """A carried value of all blocks that is one in this part, and zero elsewhere."""
        found = make.constant_like(1, zero)
        for d, place in zip(self.carries.mixed[part[0]], part[1], strict=True):
            index = make.iota(make.shape_of(zero), d + 1, "i32")
            is_here = make.compare("EQ", index, make.constant_like(place, index))
            found = make.select(is_here, found, zero)
        return found

    def _ends(self, make: Builder, linear: Mapping[Column, Value], offsets: Values) -> Values:
        """The carried values at the end of each block."""
        carries, parts = self.carries, self.carries.parts()
        maps: dict[tuple[Part, Part], Value] = {}
        for (k, column), value in linear.items():
            for part, each in self._apart(make, k, value).items():
                maps[part, column] = each
        starts: dict[Part, Value] = {}
        for k in carries.affine:
            starts |= self._apart(make, k, offsets[k])

        def both(inner: Builder, *sides: Sequence[Value]) -> list[Value]:
            before, after = (dict(zip(maps, side, strict=False)) for side in sides)
            given, added = (dict(zip(parts, side[len(maps) :], strict=True)) for side in sides)

            def mapped(row: Part, column: Mapping[Part, Value]) -> list[Value]:
                found = [(after[row, i], value) for i, value in column.items() if (row, i) in after]
                return [inner.binary("multiply", *pair) for pair in found]

            columns = {c: {i: v for (i, d), v in before.items() if d == c} for _, c in maps}
            found = [inner.combined("add", mapped(row, columns[c])) for row, c in maps]
            return found + [inner.combined("add", [*mapped(r, given), added[r]]) for r in parts]

        values = [*maps.values(), *starts.values()]
        found = scanned(self.loop, values, 0, self.trips.is_reverse, both, self.made)
        ends = dict(zip(parts, found[len(maps) :], strict=True))
        return {k: self._together(make, k, ends, offsets[k]) for k in carries.affine}

    def _apart(self, make: Builder, k: int, value: Value) -> dict[Part, Value]:
        """A carried value of all blocks, taken apart."""
        mixed, shape = self.carries.mixed[k], make.shape_of(value)
        rest = [size for d, size in enumerate(shape) if d - 1 not in mixed]
        found = {}
        for part in [part for part in self.carries.parts() if part[0] == k]:
            each = value
            for d, place in zip(mixed, part[1], strict=True):
                each = make.cut(each, d + 1, place, 1)
            found[part] = make.reshape(each, rest)
        return found

    def _together(self, make: Builder, k: int, parts: Mapping[Part, Value], like: Value) -> Value:
        """A carried value put together of its parts, in the shape of `like`."""
        mixed, shape = self.carries.mixed[k], make.shape_of(like)
        own = [value for part, value in parts.items() if part[0] == k]
        if not mixed:
            return own[0]
        blocks, *rest = make.shape_of(own[0])
        value = make.joined([make.reshape(each, (blocks, 1, *rest)) for each in own], 1)
        others = [d for d in range(len(shape)) if d - 1 not in mixed]
        places = [0, *(d + 1 for d in mixed), *others[1:]]
        value = make.reshape(value, [shape[d] for d in places])
        return make.transpose(value, [places.index(d) for d in range(len(shape))])

    def _ahead(self, make: Builder, ends: Values) -> Values:
        """The carried values that come into each block: those at the end of the block before."""
        found, is_reverse, last = {}, self.trips.is_reverse, self.turns.blocks - 1
        for k, value in ends.items():
            others = make.cut(value, 0, int(is_reverse), last)
            own = make.cut(value, 0, last if is_reverse else 0, 1)
            moved = make.joined([others, own] if is_reverse else [own, others], 0)
            found[k] = self._started(make, k, moved)
        return found

    def _started(self, make: Builder, k: int, others: Value) -> Value:
        """A carried value of all blocks: `others`, but in the first what the loop starts from."""
        blocks, shape = self.turns.blocks, make.shape_of(others)
        start = make.broadcast(self.loop.operands[k], shape, range(1, len(shape)))
        index = make.iota((blocks,), 0, "i32")
        first = make.constant_like(blocks - 1 if self.trips.is_reverse else 0, index)
        is_first = make.broadcast(make.compare("EQ", index, first), shape, [0])
        return make.select(is_first, start, others)

    def _one_by_one(self, make: Builder, ahead: Values, is_finite: Value) -> Values:
        """What comes into each block; unless all is finite, by running one block after another."""
        scalar = make.tensor_type((), "i32")
        most = make.constant(self.turns.blocks - 1, scalar)
        rounds = make.select(is_finite, make.zeros(scalar), most)

        def step(inner: Builder, number: Value, carried: Sequence[Value]) -> list[Value]:
            given = dict(zip(self.given, carried, strict=True))
            to = self.turns.of(inner, number, given, list(self.given.values()))
            after = [*map(to.all, self.given.values())]
            return self.turns.kept(inner, number, carried, after)

        def again(inner: Builder, _: Value, carried: Sequence[Value]) -> list[Value]:
            begin = [*carried, *self.own.values()]
            ends = counted_loop(inner, self.turns.size, begin, step, self.made)
            return list(self._ahead(inner, dict(zip(ahead, ends, strict=False))).values())

        found = counted_loop(make, rounds, list(ahead.values()), again, self.made)
        operation_of(found[0]).attributes[TRIPS] = index_attr(1)  # it seldom runs at all
        return dict(zip(ahead, found, strict=True))

    def _results(self, make: Builder, ahead: Values) -> Values:
        """The results of the loop that anybody reads, of the trips of all blocks."""
        trips, turns, loop = self.trips, self.turns, self.loop
        read = [k for k, result in enumerate(loop.results) if is_read(result)]
        summed = {k: trips.given[k] for k in self.carries.sums if k in read}
        written = {k: site for k, site in trips.writes.items() if k in read}
        changed = self.given | summed
        roots = [*changed.values(), *(site.value for site in written.values())]
        begin = [*ahead.values(), *self.own.values()]
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

        ends = counted_loop(make, turns.size, begin, step, self.made)
        after = dict(zip([*changed, *written], ends, strict=True))
        return {k: self._result(make, k, after.get(k)) for k in read}

    def _result(self, make: Builder, k: int, after: Value | None) -> Value:
        """A result of the loop, of what the trips of all blocks give."""
        trips, type_ = self.trips, self.loop.results[k].type
        given: Value = self.loop.operands[k]
        if k in self.last:
            return make.reshape(self.last[k], make.read_type(type_)[0])
        if after is None:
            if k not in trips.counters:
                return given
            start, size = trips.counters[k]
            return make.constant(start + size * trips.count, type_)
        if k in trips.writes:
            return self.turns.joined(make, after, trips.writes[k].dim)
        if k in self.carries.sums:
            return make.binary("add", given, make.reduced(after, 0, "sum"))
        last = make.cut(after, 0, 0 if trips.is_reverse else self.turns.blocks - 1, 1)
        return make.reshape(last, make.read_type(type_)[0])


def _is_finite(make: Builder, value: Value) -> Value:
    """Whether all elements are finite: a scalar."""
    shape, element = make.read_type(value.type)
    parts = make.parts(value) if element.startswith("complex<") else [value]
    type_ = make.tensor_type(shape, "i1")
    found = make.combined("and", [make.value("stablehlo.is_finite", [p], type_) for p in parts])
    for _ in shape:
        found = make.reduced(found, 0, "and")
    return found
