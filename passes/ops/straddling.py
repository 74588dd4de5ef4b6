"""Convolutions of one shard's elements with a kernel that may be infinite.

In the place of other shards' elements stand zeros, which must not be multiplied with infinity. So
if the kernel is not finite, each result of which the window reads beyond the shard is computed
once more, with zeros in the kernel too wherever it would meet what others have. In front of the
first shard, and behind the last one, is the padding of the tensor: one device multiplies it too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dtensor.dialect.axes import AxisRef, devices_along
from dtensor.dialect.mlir import Value
from dtensor.passes.builder import Builder, new_block
from dtensor.passes.expansion.context import ExpansionContext
from dtensor.passes.ops.elements import EXACT, element_kind
from dtensor.passes.ops.loops import counted_loop, plan_trips


@dataclass(frozen=True, slots=True)
class Walk:
    """How a convolution of a shard's elements walks along one of its dimensions.

    Result o multiplies element k of the kernel with the place `o stride + k dilation`, of which the
    shard has those from `low` to `high`.

    Attributes:
        kernel: the dimension of the kernel, and how many elements it has.
        result: the dimension of the result, and how many elements it has.
        stride: places from one result to the next.
        dilation: places from one element of the kernel to the next.
        apart: places from one element of the shard to the next.
        low: the first place of the shard.
        high: the first place behind it.
        is_reversed: whether the kernel is walked from its end.
        axes: what splits the dimension.
    """

    kernel: tuple[int, int]
    result: tuple[int, int]
    stride: int
    dilation: int
    apart: int
    low: int
    high: int
    is_reversed: bool
    axes: tuple[AxisRef, ...]

    @property
    def inside(self) -> range:
        """The results whose windows read places of the shard alone."""
        (_, size), (_, count) = self.kernel, self.result
        last = self.high - 1 - (size - 1) * self.dilation
        found = range(max(0, -(-self.low // self.stride)), min(count, last // self.stride + 1))
        return found if found else range(count, count)

    @property
    def cases(self) -> int:
        """The results of which each is computed by itself; and all others together."""
        return self.result[1] - len(self.inside) + 1

    def results_of(self, ctx: ExpansionContext, case: Value) -> tuple[Value, Value]:
        """A result of a case, and which results are of it."""
        count, inside = self.result[1], self.inside
        beyond = ctx.binary("add", case, len(inside))
        o = ctx.select(ctx.compare("LT", case, inside.start), case, beyond)
        index = ctx.iota((count,), 0, "i32")
        is_inside = ctx.within(index, inside.start, inside.stop)
        is_last = ctx.compare("EQ", case, self.cases - 1)
        return o, ctx.select(is_last, is_inside, ctx.compare("EQ", index, o))

    def meets_own(self, ctx: ExpansionContext, case: Value, o: Value) -> Value:
        """Which elements of the kernel meet no element of others, for a result of a case."""
        size, shards = self.kernel[1], devices_along(self.axes)
        k = ctx.iota((size,), 0, "i32")
        if self.is_reversed:
            k = ctx.binary("subtract", size - 1, k)
        place = ctx.binary("add", ctx.times(k, self.dilation), ctx.times(o, self.stride))
        is_last = ctx.compare("EQ", case, self.cases - 1)
        from_low, below_high = (
            ctx.compare("GE", place, self.low),
            ctx.compare("LT", place, self.high),
        )
        at_ends = ctx.is_shard(self.axes, 0), ctx.is_shard(self.axes, shards - 1)
        is_behind = ctx.binary("or", from_low, at_ends[0])
        is_before = ctx.binary("or", below_high, at_ends[1])
        is_own = ctx.binary("or", ctx.binary("and", is_behind, is_before), is_last)
        if self.apart == 1:
            return is_own
        between = ctx.modulo(ctx.binary("subtract", place, self.low), self.apart)
        return ctx.binary("or", is_own, ctx.compare("NE", between, 0))


def unless_infinite(
    ctx: ExpansionContext,
    kernel: Value,
    walks: Sequence[Walk],
    result: Value,
    convolved: Callable[[Value, Value], Value],
) -> Value:
    """The convolution of a shard's elements with a kernel: `result`, if the kernel is finite.

    Args:
        ctx: where to create it.
        kernel: the kernel, which may be infinite.
        walks: how it walks along the dimensions in which others have what it reads.
        result: what the kernel gives, with zeros in the place of what others have.
        convolved: what another kernel gives likewise, and whether this one is finite: it is not.
    """
    if element_kind(ctx.element_of(kernel))[0] in EXACT:
        return result
    is_finite = ctx.is_finite(kernel)
    # Of a branch nothing says that it is seldom taken; of a loop that it seldom runs.
    cases, scalar = math.prod(walk.cases for walk in walks), ctx.tensor_type((), "i32")
    rounds = ctx.select(is_finite, ctx.constant(0, scalar), ctx.constant(cases, scalar))
    branch = ctx.create("stablehlo.if", [is_finite], [result.type], regions=2)
    usual, other = [new_block(region) for region in branch.regions]
    ctx.inside(usual).end([result])

    def step(inner: Builder, number: Value, carried: Sequence[Value]) -> list[Value]:
        with ctx.in_place_of(inner):
            kept, is_of_case = _case(ctx, kernel, walks, number, result)
            return [ctx.select(is_of_case, convolved(kept, is_finite), carried[0])]

    with ctx.in_place_of(ctx.inside(other)):
        found = counted_loop(ctx, rounds, [result], step)
    plan_trips(found, 0)
    ctx.inside(other).end(found)
    whole: Value = branch.results[0]
    return whole


def _case(
    ctx: ExpansionContext, kernel: Value, walks: Sequence[Walk], number: Value, like: Value
) -> tuple[Value, Value]:
    """The kernel for the results of one case, a number, and which of all those are."""
    of_case = []
    for walk in walks:
        case, number = ctx.modulo(number, walk.cases), ctx.over(number, walk.cases)
        o, is_of_case = walk.results_of(ctx, case)
        kernel = ctx.select(walk.meets_own(ctx, case, o), kernel, 0, [walk.kernel[0]])
        of_case.append(ctx.broadcast(is_of_case, ctx.shape_of(like), [walk.result[0]]))
    return kernel, ctx.combined("and", of_case)
