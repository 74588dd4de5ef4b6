"""dtensor.search: a table is bisected for many queries, a split one by the shard of each place.

Which elements of a table the first steps read is known beforehand, as long as the interval may lie
in several shards: in a table of 2^a elements on 2^b shards they are the first of each shard. Every
device gets those, so that it knows in which shard each search ends; that shard goes on alone. A
table that is not sorted gives what it gives on one device.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

from dtensor.dialect.layout import Layout
from dtensor.dialect.mlir import Value
from dtensor.dialect.names import COUNT
from dtensor.passes.builder import Builder
from dtensor.passes.cost.model import all_gather_bytes
from dtensor.passes.expansion.context import LocalOp
from dtensor.passes.ops import padding
from dtensor.passes.ops.attributes import integer
from dtensor.passes.ops.comparators import on_tensors
from dtensor.passes.ops.loops import counted_loop, looked_up, numbered, take
from dtensor.passes.ops.opdef import Algorithm, OpDef, Placed, Traffic, is_cut, is_whole
from dtensor.passes.ops.reduction import Reduction
from dtensor.passes.ops.rule import OpInfo, OpRule, RuleBuilder, element_bytes


@dataclass(frozen=True)
class Start:
    """The first steps of every search, as a tree; its leaves are intervals of one shard.

    Nodes are numbered, the root 0, the leaves behind all others.

    Attributes:
        reads: which element each inner node reads.
        down: the node behind each inner node if the upper end moves.
        up: the node behind it if the lower end moves.
        leaves: the intervals that are left.
        depth: steps from the root to the last leaf.
    """

    reads: tuple[int, ...]
    down: tuple[int, ...]
    up: tuple[int, ...]
    leaves: tuple[tuple[int, int], ...]
    depth: int


@cache
def start_of(count: int, local: int) -> Start:
    """The first steps in a table of `count` elements, of which each shard has `local`."""
    inner: list[tuple[int, int]] = []
    leaves: list[tuple[int, int]] = []
    ends: list[tuple[tuple[int, int], tuple[int, int]]] = []
    waiting, depth = [(0, count)], 0
    while waiting:
        behind: list[tuple[int, int]] = []
        for low, high in waiting:
            if high <= low or low // local == (high - 1) // local:
                leaves.append((low, high))
                continue
            middle = low + (high - low) // 2
            inner.append((low, high))
            ends.append(((low, middle), (middle, high)))
            behind += ends[-1]
        depth += bool(behind)
        waiting = behind
    number = {each: i for i, each in enumerate([*inner, *leaves])}
    return Start(
        tuple(low + (high - low) // 2 for low, high in inner),
        tuple(number[down] for down, _ in ends),
        tuple(number[up] for _, up in ends),
        tuple(leaves),
        depth,
    )


def search_rule(op: OpInfo) -> OpRule:
    """`a,ij->ij` reduce `a`: the shard in which a search ends says where, the others zero."""
    builder = RuleBuilder(op)
    for d in range(len(op.result_shapes[0])):
        builder.share((~0, d), *((k, d) for k in range(1, len(op.operand_shapes))))
    builder.share((0, 0), reduction=Reduction.SUM)
    return builder.build()


def search_flops(op: OpInfo) -> float:
    """One for each step of each query."""
    steps = integer(op.attribute(COUNT)).bit_length()
    return float(math.prod(op.result_shapes[0]) * steps)


def _most_read(start: Start, local: int) -> int:
    """How many elements of one shard the first steps may read."""
    shards = [place // local for place in start.reads]
    return max(map(shards.count, set(shards)), default=0)


def owner_bytes(placed: Placed) -> tuple[Traffic, ...]:
    """What the first steps may read, to every device."""
    op, word = placed.op, placed.operands[0].dims[0]
    local = op.operand_shapes[0][0] // word.split
    start = start_of(integer(op.attribute(COUNT)), local)
    held = _most_read(start, local) * word.split * element_bytes(op.operand_elements[0])
    return (Traffic(word.axes, all_gather_bytes(held, word.split), 1),) if held else ()


def expand_whole(op: LocalOp) -> Sequence[Value]:
    """The loop that the op stands for."""
    count = integer(op.operation.attributes[COUNT])
    low, high = (_all(op, number) for number in (0, count))
    return [_bisected(op, low, high, count)]


def expand_by_owner(op: LocalOp) -> Sequence[Value]:
    """The first steps on every device, the others in the shard where they read."""
    ctx, word = op.ctx, op.operand_layouts[0].dims[0]
    local = op.operand_shapes[0][0] // word.split
    start = start_of(integer(op.operation.attributes[COUNT]), local)
    leaf = _leaf(op, start, local)
    owners = [low // local for low, _ in start.leaves]
    lows = [low % local for low, _ in start.leaves]
    highs = [high - low // local * local for low, high in start.leaves]
    owner, low, high = (looked_up(ctx, leaf, numbers) for numbers in (owners, lows, highs))
    longest = max(high - low for low, high in start.leaves)
    found = ctx.binary("add", _bisected(op, low, high, longest), ctx.times(owner, local))
    shard = ctx.convert(ctx.axis_index(word.axes), ctx.element_of(owner))
    mine = ctx.compare("EQ", owner, shard)
    return [ctx.select(mine, found, 0)]


def _leaf(op: LocalOp, start: Start, local: int) -> Value:
    """The leaf at which each query's first steps end: its number among the leaves."""
    ctx, inner = op.ctx, len(start.reads)
    node = _all(op, 0)
    if not inner:
        return node
    elements, slots = _read_first(op, start, local)
    ends = range(inner, inner + len(start.leaves))

    def step(make: Builder, _: Value, carried: Sequence[Value]) -> list[Value]:
        (node,) = carried
        slot = looked_up(make, node, [*slots, *[0] * len(ends)])
        is_down = _goes_down(op, make, take(make, elements, slot, 0))
        down, up = (looked_up(make, node, [*side, *ends]) for side in (start.down, start.up))
        return [make.select(is_down, down, up)]

    (node,) = counted_loop(ctx, start.depth, [node], step)
    return ctx.binary("subtract", node, inner)


def _read_first(op: LocalOp, start: Start, local: int) -> tuple[Value, list[int]]:
    """The elements that the first steps may read, on every device, and where each node's is."""
    ctx, layout = op.ctx, op.operand_layouts[0]
    shards, most = layout.dims[0].split, _most_read(start, local)
    places: list[list[int]] = [[] for _ in range(shards)]
    slots = []
    for place in start.reads:
        shard, own = divmod(place, local)
        slots.append(shard * most + len(places[shard]))
        places[shard].append(own)
    flat = [place for own in places for place in [*own, *[0] * (most - len(own))]]
    whole, shape = Layout.replicated(layout.mesh, 1), (len(flat),)
    index = ctx.relayout(numbered(ctx, flat, "i32"), whole, layout, shape)
    return ctx.relayout(take(ctx, op.operands[0], index, 0), layout, whole, shape), slots


def _bisected(op: LocalOp, low: Value, high: Value, longest: int) -> Value:
    """The upper ends of intervals of at most `longest` elements of the shard, halved to the end."""

    def step(make: Builder, _: Value, carried: Sequence[Value]) -> list[Value]:
        low, high = carried
        middle = make.binary("add", low, make.over(make.binary("subtract", high, low), 2))
        is_down = _goes_down(op, make, take(make, op.operands[0], middle, 0))
        return [make.select(is_down, low, middle), make.select(is_down, middle, high)]

    return counted_loop(op.ctx, longest.bit_length(), [low, high], step)[1]


def _goes_down(op: LocalOp, make: Builder, elements: Value) -> Value:
    """What the region says of the queries and elements of the table."""
    body = op.operation.regions[0].blocks[0]
    (found,) = on_tensors(make, body, [*op.operands[1:], elements])
    return found


def _all(op: LocalOp, number: int) -> Value:
    """A number for each query."""
    return op.ctx.constant(number, op.local_result_type())


SEARCH = OpDef(
    search_rule,
    (
        Algorithm("by_owner", expand_by_owner, is_cut(lambda op: 0), owner_bytes),
        Algorithm("local", expand_whole, is_whole(lambda op: 0)),
    ),
    flops=search_flops,
    padding=padding.Padding(padding.indexing),
)
