"""Loops along a split dimension: shards run their own trips.

The trips are cut into blocks, one for each shard. If they map what is carried simply, blocks run
side by side. First each block finds what its trips do to any carried value: it starts them from
zero, and keeps the linear part. A `dtensor.scan` combines these maps and so finds the carried
values that come into each block. Then each block runs its trips from there, as the program has
them.

This goes wrong where a value overflows on the way, and where a program keeps it from doing so by
selecting something else. Where anything on the way is not finite, the blocks run one after another
instead, each from what the block before it gives. So they do if trips do anything else.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from dtensor.dialect.mlir import Value, ir, is_read
from dtensor.passes.builder import Builder
from dtensor.passes.creation import with_sizes
from dtensor.passes.forms.affine import Affine
from dtensor.passes.forms.blocked_body import BlockedBody, NotBatched, Values
from dtensor.passes.forms.carried_rows import carry_read_rows
from dtensor.passes.forms.carries import Carries, ways
from dtensor.passes.forms.clamps import Clamps
from dtensor.passes.forms.row_forms import with_whole_rows
from dtensor.passes.forms.serial import Serial
from dtensor.passes.forms.staged import Staged
from dtensor.passes.forms.trips import RowAccess, Trips
from dtensor.passes.ops.attributes import size_bytes
from dtensor.passes.ops.loops import counted_loop, plan_trips
from dtensor.passes.rewriting.rewriting import Rewriting
from dtensor.passes.rewriting.shards import Shards

_LEAST_TRIPS = 2  # trips of a block, if it passes anything on


def replace_loop(loop: ir.Operation, function: Rewriting) -> None:
    """Put loops over blocks of its trips in the place of a loop, if they send less."""
    if not any(map(is_read, loop.results)):
        return
    rows = with_whole_rows(loop, function)
    if rows is not None:
        left = _replace(rows, function)
        if left is None:
            function.drop(loop)
            return
        for result, value in zip(loop.results, left.results, strict=False):
            function.replace_value(value, result)
    _replace(loop, function)


def _replace(loop: ir.Operation, function: Rewriting) -> ir.Operation | None:
    """Put loops over blocks in the place of one; the loop that stands for it if there are none."""
    loop = carry_read_rows(loop, function)
    if not any(map(is_read, loop.results)):
        return None  # the numbers that it writes are said
    found = _Chunked.of(loop, function.shards, function.made)
    if found is not None:
        with suppress(NotBatched):
            found.replace(function)
            return None
    return loop


@dataclass
class _Chunked:
    """A loop in blocks."""

    carries: Carries
    blocked: BlockedBody
    made: list[ir.Operation]
    own: Values = field(default_factory=dict)  # what comes into the blocks, of Carries.own
    last: Values = field(default_factory=dict)  # and what comes out of the loop

    def __post_init__(self) -> None:
        self.trips, self.loop = self.blocked.trips, self.blocked.trips.loop
        self.read = [k for k, result in enumerate(self.loop.results) if is_read(result)]
        self.summed = {k: self.trips.given[k] for k in self.carries.sums if k in self.read}
        self.written = {k: site for k, site in self.trips.writes.items() if k in self.read}
        self.given = {k: self.trips.given[k] for k in (*self.carries.mapped, *self.carries.own)}

    @staticmethod
    def of(loop: ir.Operation, shards: Shards, made: list[ir.Operation]) -> _Chunked | None:
        """The loop, if it walks along a split dimension and sends less so; None of any other.

        Args:
            loop: the loop.
            shards: into how many shards dimensions are known to be split.
            made: takes what is created.
        """
        trips = Trips.of(loop)
        if trips is None:
            return None
        read = [(trips.array(site), site.dim) for site in trips.reads.values()]
        written = [(loop.results[k], site.dim) for k, site in trips.writes.items()]
        counts = {place: shards.nearly(place) for place in (*read, *written)}
        blocks = max(counts.values(), default=1)
        read_bytes, written_bytes = (
            sum([size_bytes(array) for array, dim in {*places} if counts[array, dim] > 1])
            for places in (read, written)
        )
        for carries in ways(trips, (Affine, Clamps, Staged, Serial)) if blocks > 1 else ():
            is_long = trips.count >= (_LEAST_TRIPS if carries.mapped else 1) * blocks
            if is_long and carries.pays(shards, read_bytes, written_bytes, blocks):
                return _Chunked(
                    carries, BlockedBody(trips, blocks, -(-trips.count // blocks)), made
                )
        return None

    def replace(self, function: Rewriting) -> None:
        """Let loops over blocks stand for the loop.

        Raises:
            NotBatched: they cannot be written.
        """
        for k, value in self._written(Builder(self.loop, self.made)).items():
            if k in self.written:
                function.shards.will_split(
                    self.loop.results[k], self.written[k].dim, self.blocked.blocks
                )
            function.shards.stands_for(value, self.loop.results[k])
            function.replace_value(self.loop.results[k], value)
        function.drop(self.loop)

    def _written(self, make: Builder) -> Values:
        """What stands for the results of the loop that anybody reads."""
        self.blocked.cut(make)
        self.own, self.last = self._alone(make)
        if not self.carries.mapped:
            return self._results(make, {})
        ends = self.carries.ends(make, self.blocked, self.own)
        if ends is None:
            ahead = {k: self.blocked.everywhere(make, k) for k in self.carries.mapped}
            return self._results(make, self._one_by_one(make, ahead))
        is_finite = make.combined("and", [make.is_finite(value) for value in ends.values()])
        if not self.summed and not self.written:
            return self._last(make, self._one_by_one(make, ends, is_finite, is_ends=True))
        return self._results(make, self.blocked.ahead(make, ends), is_finite)

    def _alone(self, make: Builder) -> tuple[Values, Values]:
        """Values that depend on themselves alone: those into each block, and the last ones."""
        own, trips, begin = self.carries.own, self.trips, list[Value]()
        for count in (1, self.blocked.blocks):
            for value in (self.loop.operands[k] for k in own):
                shape = make.shape_of(value)
                begin.append(make.broadcast(value, (count, *shape), range(1, len(shape) + 1)))
        every = BlockedBody(trips, 1, trips.count)

        def step(inner: Builder, number: Value, carried: Sequence[Value]) -> list[Value]:
            given = dict(zip(own, carried, strict=False))
            to = every.of(inner, number, given, [trips.given[k] for k in own])
            after = [to.all(trips.given[k]) for k in own]
            block = inner.over(every.place(inner, number), self.blocked.size)
            for value, array in zip([*after], carried[len(own) :], strict=True):
                after.append(inner.updated(array, value, inner.starts_along(array, 0, block)))
            return after

        found = counted_loop(make, trips.count, begin, step) if own else []
        ends = dict(zip(own, found[len(own) :], strict=True))
        return self.blocked.ahead(make, ends), dict(zip(own, found, strict=False))

    def _one_by_one(
        self, make: Builder, values: Values, is_known: Value | None = None, is_ends: bool = False
    ) -> Values:
        """What comes into each block, by running one block after another; unless it is known.

        Or, with `is_ends`, what is carried at the end of each block.
        """
        rounds = self._rounds(make, self.blocked.blocks - (0 if is_ends else 1), 0, is_known)

        def step(inner: Builder, number: Value, carried: Sequence[Value]) -> list[Value]:
            given = dict(zip(self.given, carried, strict=True))
            to = self.blocked.of(inner, number, given, list(self.given.values()))
            after = [*map(to.all, self.given.values())]
            return self.blocked.kept(inner, number, carried, after)

        def again(inner: Builder, _: Value, carried: Sequence[Value]) -> list[Value]:
            given = dict(zip(values, carried, strict=True))
            ahead = self.blocked.ahead(inner, given) if is_ends else given
            begin = [*ahead.values(), *self.own.values()]
            found = counted_loop(inner, self.blocked.size, begin, step)
            ends = dict(zip(values, found, strict=False))
            return list((ends if is_ends else self.blocked.ahead(inner, ends)).values())

        found = counted_loop(make, rounds, list(values.values()), again)
        if is_known is not None:
            plan_trips(found, 1)  # it seldom runs at all
        return dict(zip(values, found, strict=True))

    def _rounds(self, make: Builder, most: int, least: int, is_known: Value | None) -> int | Value:
        """How often all blocks run: `most` times, or `least` where all is known."""
        if is_known is None:
            return most
        scalar = make.tensor_type((), "i32")
        return make.select(is_known, make.constant(least, scalar), make.constant(most, scalar))

    def _results(self, make: Builder, ahead: Values, is_known: Value | None = None) -> Values:
        """The results of the loop that anybody reads, of the trips of all blocks.

        With `is_known` it is found while running whether `ahead` is what comes into each block. If
        it is not, all blocks run again and again, each from what the block before it gave, until
        the last one has begun with what is right; the last time they all have.
        """
        blocked, loop, written = self.blocked, self.loop, self.written
        changed = self.given | self.summed
        roots = [*changed.values(), *(site.value for site in written.values())]
        arrays = []
        for k, site in written.items():
            shape = blocked.shape(make, loop.operands[k], site)
            arrays.append(make.zeros(make.tensor_type(shape, make.element_of(loop.operands[k]))))

        sums = []
        for k in self.summed:
            shape = (blocked.blocks, *make.shape_of(loop.operands[k]))
            sums.append(make.zeros(make.tensor_type(shape, make.element_of(loop.operands[k]))))

        def run(inner: Builder, ahead: Sequence[Value], arrays: Sequence[Value]) -> list[Value]:
            begin = [*ahead, *self.own.values(), *sums, *arrays]
            found = counted_loop(inner, blocked.size, begin, step)
            return [*found[: len(ahead)], *found[len(ahead) + len(self.own) :]]

        def again(inner: Builder, number: Value, carried: Sequence[Value]) -> list[Value]:
            shifts = inner.binary("minimum", number, 1)
            come = counted_loop(inner, shifts, carried[: len(ahead)], shifted)
            plan_trips(come, 0)
            return run(inner, come, carried[len(ahead) + len(sums) :])

        def shifted(inner: Builder, _: Value, ends: Sequence[Value]) -> list[Value]:
            return list(blocked.ahead(inner, dict(zip(ahead, ends, strict=True))).values())

        def step(inner: Builder, number: Value, carried: Sequence[Value]) -> list[Value]:
            before, arrays = carried[: len(changed)], carried[len(changed) :]
            to = blocked.of(inner, number, dict(zip(changed, before, strict=True)), roots)
            after = blocked.kept(inner, number, before, [*map(to.all, changed.values())])
            for site, array in zip(written.values(), arrays, strict=True):
                dim = site.dim + 1
                shape = with_sizes(inner.shape_of(array), dim, site.rows)
                places = inner.starts_along(array, dim, blocked.place(inner, number, site.rows))
                after.append(inner.updated(array, inner.reshape(to.all(site.value), shape), places))
            return after

        if is_known is None:
            ends = run(make, [*ahead.values()], arrays)
        else:
            rounds = self._rounds(make, blocked.blocks, 1, is_known)
            ends = counted_loop(make, rounds, [*ahead.values(), *sums, *arrays], again)
            plan_trips(ends, 1)
        return self._last(make, dict(zip([*ahead, *self.summed, *written], ends, strict=True)))

    def _last(self, make: Builder, ends: Values) -> Values:
        """The results of the loop that anybody reads, of what its blocks end with."""
        return {k: self._result(make, k, ends.get(k)) for k in self.read}

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
            return self._rows(make, given, after, trips.writes[k])
        if k in self.carries.sums:
            return make.binary("add", given, make.reduced(after, 0, "sum"))
        last = make.cut(after, 0, 0 if trips.is_reverse else self.blocked.blocks - 1, 1)
        return make.reshape(last, make.read_type(type_)[0])

    def _rows(self, make: Builder, given: Value, blocks: Value, site: RowAccess) -> Value:
        """An array whose rows the trips wrote; the others are as they were given."""
        written, shape = self.blocked.joined(make, blocks, site), make.shape_of(given)
        count = site.rows * self.trips.count
        if count == shape[site.dim]:
            return written
        written = make.lengthened(written, site.dim, site.first, shape[site.dim])
        index = make.iota(shape, site.dim, "i32")
        is_written = make.within(index, site.first, site.first + count)
        return make.select(is_written, written, given)
