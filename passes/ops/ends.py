"""Windows padded with elements of their own dimension: what a shard has around its own.

What the first and the last shard have beyond the tensor is made of elements that they hold; of a
tensor that goes round, each has them from the other, by the same shift round the ring that brings
the neighbours' elements. So the ends cost no bytes. A dimension that was made longer ends inside
of a shard, and what is behind that may be anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dtensor.dialect.axes import AxisRef, devices_along
from dtensor.dialect.ends import EDGE, REFLECT, WRAP, Ends
from dtensor.dialect.mlir import Value
from dtensor.passes.expansion.context import ExpansionContext
from dtensor.passes.ops.exchanges import from_beside, permuted
from dtensor.passes.ops.reach import WindowReach
from dtensor.passes.ops.rule import Window


@dataclass(frozen=True, slots=True)
class Around:
    """How many elements each shard of a dimension needs, and where the tensor ends.

    Attributes:
        ends: what stands around the tensor.
        low: elements in front of a shard.
        high: elements behind one.
        last: the shard in which the tensor ends.
        kept: how many elements of the tensor that one has.
        behind: how many elements windows read behind those.
        windowed: the shard that has the last window; only up to the one in which the tensor ends
            do shards have what is around it.
    """

    ends: Ends
    low: int
    high: int
    last: int
    kept: int
    behind: int
    windowed: int

    @classmethod
    def of(
        cls, window: Window, size: int, steps: int, shards: int, found: WindowReach | None = None
    ) -> Around:
        """What shards of `size` elements and `steps` windows in all need, which read as `found`."""
        ends, gap, local = window.ends, window.base_dilation, size // shards
        assert ends is not None, "zeros or init values"
        low, high = max(0, window.low // gap), max(0, window.high // gap)
        if found is not None:
            low, high = found.low, found.high
        (last, kept), behind = end_of(ends.size, size, shards), high
        if ends.size is not None and ends.steps is not None:
            _, more = window.padding(ends.size, ends.steps)
            behind = min(max(0, more // gap), local + high - kept)
        return cls(ends, low, high, last, kept, behind, end_of(ends.steps, steps, shards)[0])

    @property
    def fits(self) -> bool:
        """Whether shards have all that is read around the tensor, from those beside them."""
        need = max(self.low, self.high, self.behind)
        return self.windowed <= self.last and need <= self.kept - (self.ends.mode == REFLECT)

    @property
    def fetched(self) -> int:
        """How many elements come from the next shard, or from the first."""
        return max(self.high, self.behind) if self.ends.mode == WRAP else self.high


def surrounded(
    ctx: ExpansionContext, value: Value, axes: Sequence[AxisRef], dim: int, around: Around
) -> Value:
    """A shard between `around.low` and `around.high` elements, or all between its ends.

    Without axes the value is all of the dimension.
    """
    make = _Maker(ctx, value, axes, dim, around)
    front = make.front()
    if make.is_filled:
        return ctx.joined([*front, value, *make.behind()], dim)
    ended = [*front, make.cut(0, around.kept), *make.end()]
    shape = list(ctx.shape_of(value))
    shape[dim] += around.high - around.kept - around.behind
    if shape[dim]:
        ended.append(ctx.zeros(ctx.tensor_type(shape, ctx.element_of(value))))
    if not axes:
        return ctx.joined(ended, dim)
    whole = ctx.joined([*front, value, *make.behind()], dim)
    return make.on(around.last, ctx.joined(ended, dim), whole)


def zero_behind(
    ctx: ExpansionContext, value: Value, axes: Sequence[AxisRef], around: Around
) -> Value:
    """A shard between its ends, of zeros where it is one behind the end of the tensor."""
    if not axes or around.last == devices_along(axes) - 1:
        return value
    return ctx.select(ctx.compare("LT", ctx.axis_index(axes), around.last + 1), value, 0)


def end_of(true: int | None, size: int, shards: int) -> tuple[int, int]:
    """The shard of `size` elements in which the first `true` end, and how many of them it has."""
    last = ((size if true is None else true) - 1) // (size // shards)
    return last, (size if true is None else true) - last * (size // shards)


class _Maker:
    """Makes what stands around one shard.

    Attributes:
        local: elements of the shard.
    """

    def __init__(
        self, ctx: ExpansionContext, value: Value, axes: Sequence[AxisRef], dim: int, around: Around
    ) -> None:
        self.local = ctx.shape_of(value)[dim]
        self._ctx, self._value, self._axes, self._dim = ctx, value, axes, dim
        self._around, self._mode = around, around.ends.mode

    @property
    def is_filled(self) -> bool:
        """Whether the tensor and what is read around it are all that its last shard has."""
        return self._around.kept == self.local and self._around.behind == self._around.high

    def cut(self, start: int, count: int) -> Value:
        """Elements of the shard."""
        return self._ctx.cut(self._value, self._dim, start, count)

    def front(self) -> list[Value]:
        """What stands in front of the shard; nothing, if nothing is needed."""
        around, count = self._around, self._around.low
        if not count:
            return []
        if self._mode == WRAP:
            sent = self.cut(around.kept - count, count)
            if around.last and around.kept != self.local:
                sent = self.on(around.last, sent, self.cut(self.local - count, count))
            return [self._shifted(sent, -1)]
        own = self._mirrored(int(self._mode == REFLECT), count)
        if not self._axes:
            return [own]
        return [self.on(0, own, self._shifted(self.cut(self.local - count, count), -1))]

    def behind(self) -> list[Value]:
        """What stands behind the shard, if the tensor does not end inside of it."""
        count = self._around.high
        if not count:
            return []
        if self._mode == WRAP:
            return [self._ctx.cut(self._come(), self._dim, 0, count)]
        near = self._shifted(self.cut(0, count), 1) if self._axes else None
        if near is not None and not self.is_filled:
            return [near]
        own = self.end()[0]
        return [own if near is None else self.on(self._around.last, own, near)]

    def end(self) -> list[Value]:
        """What stands behind the tensor, on the shard in which it ends."""
        kept, count = self._around.kept, self._around.behind
        if not count:
            return []
        if self._mode == WRAP:
            return [self._ctx.cut(self._come(), self._dim, 0, count)]
        first = kept - 1 if self._mode == EDGE else kept - count - (self._mode == REFLECT)
        return [self._mirrored(first, count)]

    def on(self, shard: int, here: Value, elsewhere: Value) -> Value:
        """One value on one shard, another on all others."""
        return self._ctx.select(self._ctx.is_shard(self._axes, shard), here, elsewhere)

    def _come(self) -> Value:
        """The first elements of the next shard, on the last one of the first."""
        return self._shifted(self.cut(0, self._around.fetched), 1)

    def _shifted(self, value: Value, hop: int) -> Value:
        """That of the shard `hop` places further on; of a tensor that goes round, round it."""
        if self._mode != WRAP:
            return from_beside(self._ctx, value, self._axes, hop)
        count, shards = self._around.last + 1, devices_along(self._axes)
        sources = [(k + hop) % count if k < count else -1 for k in range(shards)]
        return permuted(self._ctx, value, self._axes, sources)

    def _mirrored(self, start: int, count: int) -> Value:
        """Elements from one on, the last first; of an edge, the one again and again."""
        ctx, dim = self._ctx, self._dim
        if self._mode == EDGE:
            shape = list(ctx.shape_of(self._value))
            shape[dim] = count
            return ctx.broadcast(self.cut(start, 1), shape, range(len(shape)))
        return ctx.reversed(self.cut(start, count), dim)
