"""Elements at some places of an order, found in a split dimension by counting.

The key of the element at a place is found digit by digit: how many keys of all shards are below
each of 15 numbers says which 4 bits are next. Of two places one behind the other, as of a median,
the second has the same key or the next. Of elements with that key, the one in the right shard is
the one that stood there first.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from dtensor.dialect.dim import WHOLE, Dim, canonical_digits
from dtensor.dialect.layout import Layout
from dtensor.dialect.mlir import Value, is_read
from dtensor.passes.builder import Builder
from dtensor.passes.expansion.context import LocalOp
from dtensor.passes.expansion.indices import index_element
from dtensor.passes.ops.elements import element_kind
from dtensor.passes.ops.indexing import clamped
from dtensor.passes.ops.keys import bits_of, inverted, keys_of
from dtensor.passes.ops.loops import counted_loop, numbered
from dtensor.passes.ops.numbers import known_integers
from dtensor.passes.ops.reduction import Reduction


def packed(counts: int, size: int) -> int:
    """Words of 32 bits for so many counts of up to `size` elements."""
    return -(-counts // max(1, 32 // size.bit_length()))


def known_places(value: Value, true: int) -> list[int] | None:
    """Places among `true` elements, where the program says which they are."""
    found = known_integers(value)
    return None if found is None else [min(max(int(n), 0), true - 1) for n in found.ravel()]


def searched(places: Sequence[int] | None, count: int) -> list[int]:
    """For each of `count` places that of them which is searched for: itself, or the one before it.

    `places` is None if nobody knows them.
    """
    found = list(range(count))
    if places is None:
        return found
    at: dict[int, int] = {}
    for place, k in sorted(zip(places, found, strict=True)):
        before = at.get(place - 1)
        if before is not None and found[before] == before:
            found[k] = before
        at[place] = k
    return found


class Counting:
    """One op. Tensors of what is wanted have its places in front of the other dimensions."""

    def __init__(self, op: LocalOp, dim: int, true: int, digit: int, is_up: bool) -> None:
        """Of an op on a dimension of `true` elements, so many bits at a time, up or down."""
        self.op, self.ctx, self.digit, self.dim = op, op.ctx, digit, dim
        self.word = op.operand_layouts[0].dims[dim]
        self.size, self.true = op.operand_shapes[0][dim], true
        shape = op.ctx.shape_of(op.operands[0])
        self.given = op.ctx.moved(op.operands[0], self.dim, len(shape) - 1)
        self.keys = keys_of(op.ctx, self.given, is_up)
        self.local = shape[self.dim]
        if true < self.size:
            self.keys = self._last_beyond(true)
        self.places = op.ctx.convert(clamped(op.ctx, op.operands[1], true), "i32")
        self.wanted = (op.ctx.shape_of(self.places)[0], *op.ctx.shape_of(self.given)[:-1])

    def _last_beyond(self, true: int) -> Value:
        """The keys, the largest there is beyond the end: of equal ones those stand last."""
        ctx, layout = self.ctx, self.op.operand_layouts[0]
        shape = ctx.shape_of(self.keys)
        index = ctx.global_index(layout, self.dim, self.size, index_element(self.size))
        largest = inverted(ctx, ctx.zeros(self.keys.type))
        return ctx.kept_before(self.keys, len(shape) - 1, index, true, largest)

    def found(self) -> list[Value]:
        """What stands at the places; and where that is, if it is a result."""
        ctx, rank = self.ctx, len(self.wanted)
        ranks = self.places
        if len(ctx.shape_of(ranks)) < rank:  # the same of all rows
            ranks = ctx.broadcast(ranks, self.wanted, [0])
        key, below = self._keys(ranks)
        equal = self._counted("EQ", key)
        number = ctx.binary("subtract", ranks, ctx.binary("add", below, self._before(equal)))
        place, _ = self._lowest(
            index_element(self.local), number, lambda edges: self._counted("EQ", key, edges)
        )
        is_there = ctx.compare("GE", number, 0)
        is_there = ctx.binary("and", is_there, ctx.compare("LT", number, equal))
        own = [self._bits_at(place)]
        if len(self.op.result_shapes) > 1:
            own.append(self._global(place))
        for k, result in enumerate(self.op.operation.results):
            if is_read(result):
                own[k] = self._all(ctx.select(is_there, own[k], 0))
        own[0] = ctx.bitcast(own[0], ctx.element_of(self.given))
        return [ctx.moved(each, 0, self.dim) for each in own]

    def _global(self, place: Value) -> Value:
        """Where elements at places of the shard stand in the dimension."""
        ctx = self.ctx
        element = self.op.result_element(1)
        shard = ctx.convert(ctx.axis_index(self.word.axes), element)
        return ctx.binary("add", ctx.convert(place, element), ctx.times(shard, self.local))

    def _keys(self, ranks: Value) -> tuple[Value, Value]:
        """The keys at some places, and how many keys are below each."""
        ctx, element = self.ctx, self.ctx.element_of(self.keys)
        is_of_all = len(ctx.shape_of(self.places)) == 1
        places = known_places(self.op.operands[1], self.true) if is_of_all else None
        first = searched(places, self.wanted[0])
        rows = sorted(set(first))
        ranks = self._rows(ranks, rows)
        key, below = self._lowest(
            element, ranks, lambda edges: self._total(self._counted("LT", edges))
        )
        if len(rows) == len(first):
            return key, below
        # The key one place on is the same one, or the next that there is.
        through = self._total(self._counted("LE", key))
        behind = ctx.binary("add", ranks, 1)
        is_same = ctx.compare("LT", behind, through)
        keys = ctx.joined([key, ctx.select(is_same, key, self._next(key))], 0)
        belows = ctx.joined([below, ctx.select(is_same, below, through)], 0)
        order = [rows.index(at) + (at != k) * len(rows) for k, at in enumerate(first)]
        return self._rows(keys, order), self._rows(belows, order)

    def _rows(self, value: Value, rows: Sequence[int]) -> Value:
        """Some places of a tensor of what is wanted."""
        if list(rows) == list(range(self.ctx.shape_of(value)[0])):
            return value
        return self.ctx.joined([self.ctx.cut(value, 0, row, 1) for row in rows], 0)

    def _next(self, key: Value) -> Value:
        """The least key of all shards that is larger; the largest there is where none is."""
        ctx, shape = self.ctx, (*self.ctx.shape_of(key), self.local)
        keys = self._own(self.keys, shape)
        none = ctx.identity(Reduction.MIN, keys.type)
        larger = ctx.select(ctx.compare("GT", keys, self._each(key, shape)), keys, none)
        return self._all(ctx.reduced(larger, len(shape) - 1, Reduction.MIN), Reduction.MIN)

    def _lowest(
        self, element: str, ranks: Value, count: Callable[[Value], Value]
    ) -> tuple[Value, Value]:
        """The largest numbers of which no more than `ranks` are below, and how many are.

        Args:
            element: unsigned integers, or indices in a shard.
            ranks: one for each of what is wanted.
            count: how many are below each of `[edges, *wanted]` numbers.
        """
        ctx, edges, wanted = self.ctx, (1 << self.digit) - 1, self.ctx.shape_of(ranks)
        bits = element_kind(element)[1]
        if element == index_element(self.local):
            bits = -(-self.local.bit_length() // self.digit) * self.digit
        shape, inner = (edges, *wanted), list(range(1, len(wanted) + 1))
        numbers = numbered(ctx, range(1, edges + 1), element)

        def step(make: Builder, turn: Value, carried: Sequence[Value]) -> list[Value]:
            key, below = carried
            with ctx.in_place_of(make):
                done = ctx.times(ctx.convert(turn, element), self.digit)
                shift = ctx.binary("subtract", bits - self.digit, done)
                steps = ctx.broadcast(ctx.binary("shift_left", numbers, shift), shape, [0])
                above = ctx.broadcast(key, shape, inner)
                counts = count(ctx.binary("or", above, steps))
                is_passed = ctx.compare("LE", counts, ctx.broadcast(ranks, shape, inner))
                digit = ctx.reduced(ctx.convert(is_passed, element), 0, Reduction.SUM)
                passed = ctx.select(is_passed, counts, 0)
                below = ctx.binary("maximum", below, ctx.reduced(passed, 0, Reduction.MAX))
                digit = ctx.binary("shift_left", digit, shift)
                return [ctx.binary("or", key, digit), below]

        begin = [ctx.zeros(ctx.tensor_type(wanted, element)), ctx.zeros(ranks.type)]
        key, below = counted_loop(ctx, bits // self.digit, begin, step)
        return key, below

    def _counted(self, direction: str, keys: Value, before: Value | None = None) -> Value:
        """How many keys of the shard compare so with each one given.

        Args:
            direction: LT or EQ.
            keys: of the shape of what is wanted.
            before: places, of a dimension more in front; only keys ahead of them count.
        """
        ctx = self.ctx
        shape = (*ctx.shape_of(keys if before is None else before), self.local)
        holds = ctx.compare(direction, self._own(self.keys, shape), self._each(keys, shape))
        if before is not None:
            place = ctx.iota(shape, len(shape) - 1, ctx.element_of(before))
            is_before = ctx.compare("LT", place, self._each(before, shape))
            holds = ctx.binary("and", holds, is_before)
        return ctx.reduced(ctx.convert(holds, "i32"), len(shape) - 1, Reduction.SUM)

    def _own(self, value: Value, shape: Sequence[int]) -> Value:
        """The elements of the shard against whatever is in front of them."""
        rank = len(self.ctx.shape_of(value))
        return self.ctx.broadcast(value, shape, list(range(len(shape) - rank, len(shape))))

    def _each(self, value: Value, shape: Sequence[int]) -> Value:
        """What is given against all elements of the shard, which come last."""
        rank = len(self.ctx.shape_of(value))
        return self.ctx.broadcast(value, shape, list(range(len(shape) - 1 - rank, len(shape) - 1)))

    def _bits_at(self, place: Value) -> Value:
        """The bits of the elements of the shard at places of it."""
        ctx, shape = self.ctx, (*self.wanted, self.local)
        is_it = ctx.compare(
            "EQ", ctx.iota(shape, len(shape) - 1, ctx.element_of(place)), self._each(place, shape)
        )
        bits = self._own(bits_of(ctx, self.given), shape)
        return ctx.reduced(ctx.select(is_it, bits, 0), len(shape) - 1, Reduction.SUM)

    def _all(self, value: Value, reduction: Reduction = Reduction.SUM) -> Value:
        """The sum over the shards, or another reduction."""
        return self.ctx.all_reduced(value, self.word.axes, reduction)

    def _total(self, counts: Value) -> Value:
        """The sums of counts over the shards."""
        return self._unpacked(self._all(self._packed(counts)), self.ctx.shape_of(counts))

    def _before(self, counts: Value) -> Value:
        """The sums over the shards before this one."""
        ctx, mesh = self.ctx, self.op.operand_layouts[0].mesh
        words = self._packed(counts)
        shape = (self.word.split, ctx.shape_of(words)[0])
        before = Layout.of((Dim(canonical_digits(self.word.axes)), WHOLE), mesh)
        after = Layout.replicated(mesh, 2)
        rows = ctx.relayout(ctx.reshape(words, (1, shape[1])), before, after, shape)
        shard = ctx.axis_index(self.word.axes)
        is_before = ctx.compare("LT", ctx.iota(shape, 0, "i32"), shard)
        total = ctx.reduced(ctx.select(is_before, rows, 0), 0, Reduction.SUM)
        return self._unpacked(total, ctx.shape_of(counts))

    def _packed(self, counts: Value) -> Value:
        """Counts in words of 32 bits, as many in each as their sums leave room for."""
        ctx, count = self.ctx, math.prod(self.ctx.shape_of(counts))
        words, bits = packed(count, self.size), self.size.bit_length()
        flat = ctx.convert(ctx.reshape(counts, (count,)), "ui32")
        parts = -(-count // max(words, 1))
        flat = ctx.lengthened(flat, 0, 0, parts * words)
        total = ctx.cut(flat, 0, 0, words)
        for k in range(1, parts):
            part = ctx.cut(flat, 0, k * words, words)
            total = ctx.binary("or", total, ctx.times(part, 1 << k * bits))
        return total

    def _unpacked(self, words: Value, shape: Sequence[int]) -> Value:
        """The counts in words."""
        ctx, count, bits = self.ctx, math.prod(shape), self.size.bit_length()
        parts = [words]
        for _ in range(1, -(-count // max(packed(count, self.size), 1))):
            parts.append(ctx.over(parts[-1], 1 << bits))
        if len(parts) > 1:
            parts = [ctx.modulo(part, 1 << bits) for part in parts]
        flat = ctx.cut(ctx.joined(parts, 0), 0, 0, count)
        return ctx.reshape(ctx.convert(flat, "i32"), shape)
