"""What shards of a dimension send one another: whole shards, blocks, what a shift brings.

Element i of a shifted dimension is element `i - shift` of the tensor, or `i - shift + size` where
that is negative. With m elements per shard and `shift = q m + t`, the first t elements of a shard
are the last t of the shard q + 1 places before it, the others the first of the shard q places
before.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from dtensor.dialect.axes import AxisRef, devices_along
from dtensor.dialect.dim import WHOLE, Dim
from dtensor.dialect.layout import Layout
from dtensor.dialect.mlir import Value
from dtensor.dialect.names import AXES, READERS, SHARD_PERMUTE, SOURCES
from dtensor.passes.creation import integers_attr, with_sizes
from dtensor.passes.expansion.context import ExpansionContext
from dtensor.passes.ops.loops import looked_up
from dtensor.passes.ops.rounds import PermuteRound


def exchanged(
    ctx: ExpansionContext, value: Value, layout: Layout, dim: int, shape: Sequence[int]
) -> Value:
    """A shard cut into as many blocks as there are shards, of which each shard gets one.

    It is contiguous along `dim`, and divides by the number of shards; `shape` is the global one.

    Returns:
        The blocks that came, in the order of the shards that had them: of the type of `value`.
    """
    word, local = layout.dims[dim], ctx.shape_of(value)
    shards = word.split
    block = local[dim] // shards
    whole = with_sizes(shape, dim, shards, shards, block)

    def around(*middle: Dim) -> Layout:
        dims = (*layout.dims[:dim], *middle, WHOLE, *layout.dims[dim + 1 :])
        return Layout.of(dims, layout.mesh)

    blocks = ctx.regrouped(value, dim, 1, shards, block)
    return ctx.reshape(ctx.relayout(blocks, around(word, WHOLE), around(WHOLE, word), whole), local)


def dealt(ctx: ExpansionContext, value: Value, dim: int, hands: int) -> Value:
    """Elements along a dimension put in `hands` blocks: element i stands in block `i % hands`."""
    shape = ctx.shape_of(value)
    value = ctx.regrouped(value, dim, shape[dim] // hands, hands)
    return ctx.reshape(ctx.moved(value, dim, dim + 1), shape)


Range = tuple[int, int]


@dataclass(frozen=True, slots=True)
class ShiftPart:
    """Some elements of each shard, and where they come from.

    Attributes:
        hop: how many places before it on the ring the shard is that has them; 0 for itself.
        first: where they begin in the result.
        origin: where they begin in that shard.
        count: how many there are.
    """

    hop: int
    first: int
    origin: int
    count: int


def parts_of(shift: int, size: int, shards: int, wanted: Sequence[Range]) -> list[ShiftPart]:
    """What shards need of a dimension of `size` elements that is shifted, for some ranges of it.

    `wanted` are ranges of the result.
    """
    local = size // shards
    hop, rest = divmod(shift % size, local)
    found = []
    for start, end, origin, before in (
        (0, rest, local - rest, hop + 1),
        (rest, local, 0, hop),
    ):
        inside = [
            (max(low, start), min(high, end))
            for range_ in wanted
            for low, high in within_shards(range_, local)
        ]
        inside = [(low, high) for low, high in inside if low < high]
        if inside:
            first, last = min(low for low, _ in inside), max(high for _, high in inside)
            found.append(ShiftPart(before % shards, first, origin + first - start, last - first))
    return found


def readers_of(part: ShiftPart, local: int, shards: int, wanted: Sequence[Range]) -> list[int]:
    """The shards, of `local` elements each, that need any of a part for ranges of the result."""
    first, end = part.first, part.first + part.count
    return [
        shard
        for shard in range(shards)
        if any(low < shard * local + end and shard * local + first < high for low, high in wanted)
    ]


def within_shards(wanted: Range, local: int) -> Iterator[Range]:
    """Which elements of shards of `local` elements a range of the whole dimension takes."""
    start, end = wanted
    if end - start >= local:
        yield 0, local
    elif start < end:
        low, high = start % local, (end - 1) % local + 1
        yield from [(low, high)] if low < high else [(low, local), (0, high)]


def permuted(
    ctx: ExpansionContext,
    value: Value,
    axes: Sequence[AxisRef],
    sources: Sequence[int],
    readers: Sequence[int] | None = None,
) -> Value:
    """`value` of device `sources[k]` on device k along the axes; zeros where that is -1.

    Only `readers` need it, if some are given: others get anything.
    """
    if list(sources) == list(range(len(sources))):
        return value
    attributes = {AXES: ctx.axes(axes), SOURCES: integers_attr(sources)}
    if readers is not None:
        attributes[READERS] = integers_attr(readers)
    return ctx.value(SHARD_PERMUTE, [value], value.type, attributes)


def from_beside(ctx: ExpansionContext, value: Value, axes: Sequence[AxisRef], hop: int) -> Value:
    """`value` of the shard `hop` places further on along the axes; zeros where there is none."""
    shards = devices_along(axes)
    sources = [k + hop if 0 <= k + hop < shards else -1 for k in range(shards)]
    return permuted(ctx, value, axes, sources)


def added(
    ctx: ExpansionContext,
    value: Value,
    place: int,
    dim: int,
    rows: Value,
    where: Value | None = None,
) -> Value:
    """`value` with rows added from a place along `dim` on, if `where` holds."""
    own = ctx.cut(value, dim, place, ctx.shape_of(rows)[dim])
    total = ctx.binary("add", own, rows)
    total = total if where is None else ctx.select(where, total, own)
    return ctx.patched(value, dim, place, total)


def sent_beside(
    ctx: ExpansionContext, value: Value, axes: Sequence[AxisRef], dim: int, front: int, behind: int
) -> Value:
    """A shard with what the shards beside it have of it added, without what it has of theirs.

    Its first `front` elements along `dim` are those of the shard before it, the last `behind` ones
    of the shard after it.
    """
    size = ctx.shape_of(value)[dim] - front - behind
    own = ctx.cut(value, dim, front, size)
    for count, first, hop in ((front, 0, 1), (behind, front + size, -1)):
        if count:
            come = from_beside(ctx, ctx.cut(value, dim, first, count), axes, hop)
            own = added(ctx, own, size - count if hop == 1 else 0, dim, come)
    return own


def shifted(
    ctx: ExpansionContext,
    value: Value,
    axes: Sequence[AxisRef],
    dim: int,
    parts: Sequence[ShiftPart],
    readers: Mapping[ShiftPart, Sequence[int]],
) -> Value:
    """The shard after a shift; elements that no part brings are those of any shard.

    Of some parts, `readers` has the shards that need them; others need not get them.
    """
    shards = devices_along(axes)
    local = ctx.shape_of(value)[dim]
    pieces: list[Value] = []
    end = 0
    for part in sorted(parts, key=lambda part: part.first):
        if part.first > end:
            pieces.append(ctx.cut(value, dim, 0, part.first - end))
        piece = ctx.cut(value, dim, part.origin, part.count)
        sources = [(k - part.hop) % shards for k in range(shards)]
        pieces.append(permuted(ctx, piece, axes, sources, readers.get(part)))
        end = part.first + part.count
    if end < local:
        pieces.append(ctx.cut(value, dim, 0, local - end))
    return ctx.joined(pieces, dim)


def in_rounds(
    ctx: ExpansionContext,
    value: Value,
    result: Value,
    dim: int,
    axes: Sequence[AxisRef],
    rounds: Sequence[PermuteRound],
    size: int = 1,
) -> Value:
    """`result`, with what the rounds bring of what the shards have in `value`.

    The rounds count pieces of `size` elements.
    """
    shard = ctx.axis_index(axes)
    for each in rounds:
        count = each.count * size
        piece = ctx.stretch(value, dim, _numbers(ctx, shard, each.starts, size), count)
        if each.is_sent:
            piece = permuted(ctx, piece, axes, each.sources)
        place = _numbers(ctx, shard, each.places, size)
        if -1 in each.sources:
            old = ctx.stretch(result, dim, place, count)
            gets = looked_up(ctx, shard, [int(source != -1) for source in each.sources])
            gets = ctx.compare("NE", gets, 0)
            piece = ctx.select(gets, piece, old)
        result = ctx.updated(result, piece, ctx.starts_along(result, dim, place))
    return result


def _numbers(ctx: ExpansionContext, shard: Value, numbers: Sequence[int], size: int) -> Value:
    """Each shard's number, so many times."""
    if len(set(numbers)) == 1:
        return ctx.constant_like(numbers[0] * size, shard)
    return looked_up(ctx, shard, [number * size for number in numbers])
