"""dtensor.splice: stretches of values one after another, where each shard fetches what it lacks.

A roll, a shift and a pad that crops are stretches of one value, each moved by some number of
elements. Those that move by the same number, counted round the dimension, are one shift of the
shards round their ring; where several shifts meet, each element is selected by its index.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from dtensor.dialect.axes import AxisRef
from dtensor.dialect.mlir import Value, ir, made_by, users
from dtensor.dialect.names import COUNTS, DIM, SOURCES, STARTS
from dtensor.dialect.names import SPLICE as NAME
from dtensor.passes.expansion.context import ExpansionContext, LocalOp
from dtensor.passes.expansion.indices import index_element
from dtensor.passes.ops.attributes import integer, integers
from dtensor.passes.ops.exchanges import (
    Range,
    ShiftPart,
    parts_of,
    readers_of,
    shifted,
    within_shards,
)
from dtensor.passes.ops.indexing import clamped
from dtensor.passes.ops.longer_cuts import OF_SPLICE
from dtensor.passes.ops.opdef import Algorithm, OpDef, Placed, Traffic, named_dim
from dtensor.passes.ops.rule import FactorKind, OpInfo, OpRule, RuleBuilder, read_once
from dtensor.passes.ops.shape import pass_all
from dtensor.passes.ops.whole_shards import comes_along, moves_before

_NUMBERS = (DIM, SOURCES, STARTS, COUNTS)
_DEEPEST = 3  # dimensions along which a value was moved before


@dataclass(frozen=True, slots=True)
class Stretch:
    """Some elements of the result.

    Attributes:
        source: the operand they come from.
        start: where they begin in the operand.
        count: how many there are.
        place: where they begin in the result.
    """

    source: int
    start: int
    count: int
    place: int

    @property
    def range(self) -> Range:
        """The elements of the result, the last not included."""
        return self.place, self.place + self.count


def stretches_of(operation: ir.Operation) -> list[Stretch]:
    """The stretches of a splice, in order."""
    columns = [integers(operation.attributes[name]) for name in (SOURCES, STARTS, COUNTS)]
    found, place = [], 0
    for source, start, count in zip(*columns, strict=True):
        found.append(Stretch(source, start, count, place))
        place += count
    return found


def splice_rule(op: OpInfo) -> OpRule:
    """`ij,.j->ij`; along the spliced dimension operands as long as the result are split with it.

    Shorter ones and longer ones are whole there.
    """
    dim = named_dim(op)
    builder = RuleBuilder(op)
    for d, size in enumerate(op.result_shapes[0]):
        shapes = [(k, shape) for k, shape in enumerate(op.operand_shapes) if shape]
        alike = [(k, d) for k, shape in shapes if shape[d] == size]
        builder.share((~0, d), *alike, kind=FactorKind.WINDOW if d == dim else None)
        for k, shape in shapes:
            if shape[d] != size:
                builder.whole(k, d, f"gives some of its {shape[d]} elements to {size}")
    pass_all(builder, len(op.operand_shapes))
    return builder.build()


def _is_split(placed: Placed) -> bool:
    """Whether the spliced dimension is split, in the result as in the operands as long as it."""
    op, dim = placed.op, named_dim(placed.op)
    word = placed.results[0].dims[dim]
    return (
        word.split > 1
        and word.is_contiguous
        and all(
            layout.dims[dim] == word
            for layout, shape in zip(placed.operands, op.operand_shapes, strict=True)
            if shape and shape[dim] == op.result_shapes[0][dim]
        )
    )


@dataclass(frozen=True, slots=True)
class _Group:
    """Stretches that come together.

    Attributes:
        source: the operand.
        shift: by how much it is shifted.
        is_split: whether it is split as the result is; else every device has all of it.
    """

    source: int
    shift: int
    is_split: bool


def _groups(
    operation: ir.Operation, shapes: Sequence[Sequence[int]], dim: int, size: int
) -> dict[_Group, list[Stretch]]:
    """The stretches that come together, those that cover the most first."""
    found: dict[_Group, list[Stretch]] = {}
    for stretch in stretches_of(operation):
        shape = shapes[stretch.source]
        is_split = bool(shape) and shape[dim] == size
        shift = stretch.place - stretch.start
        group = _Group(stretch.source, shift % size if is_split else shift, is_split)
        found.setdefault(group, []).append(stretch)
    return dict(sorted(found.items(), key=lambda item: -sum(s.count for s in item[1])))


def _parts(group: _Group, stretches: Sequence[Stretch], size: int, shards: int) -> list[ShiftPart]:
    return parts_of(group.shift, size, shards, [stretch.range for stretch in stretches])


def _moved_before(op: ir.Operation) -> tuple[tuple[int, int], ...]:
    """By how much what a splice moves was moved along other dimensions, where its edges are shared.

    Another splice along this dimension sends the same edges of the value that was moved: those of
    one go along with those of the other, but for the corners that came along the other dimensions.

    Returns:
        The dimensions, and the elements; nothing of what sends its edges itself.
    """
    dim, value, moved = integer(op.attributes[DIM]), op.operands[0], list[tuple[int, int]]()
    while (made := made_by(NAME, value)) is not None and len(moved) < _DEEPEST:
        along = integer(made.attributes[DIM])
        if along == dim:
            break
        most = max(stretches_of(made), key=lambda stretch: stretch.count)
        moved.append((along, abs(most.place - most.start)))
        value = made.operands[0]
    first = next(_alike(op, value, len(moved)), op)
    return () if first == op else tuple(moved)


def _alike(op: ir.Operation, value: Value, depth: int) -> Iterator[ir.Operation]:
    """The splices that move a value as `op` does, or that move it so after others."""
    found = [user for user in users(value) if user.name == NAME and user.operands[0] == value]
    yield from (
        user
        for user in found
        if all(user.attributes[name] == op.attributes[name] for name in _NUMBERS)
    )
    for user in found if depth else ():
        if user.attributes[DIM] != op.attributes[DIM]:
            yield from _alike(op, user.results[0], depth - 1)


@read_once
def _moves(op: OpInfo) -> tuple[dict[_Group, list[Stretch]], tuple[tuple[int, int], ...]]:
    """What comes together, and by how much it was moved before."""
    dim = named_dim(op)
    groups = _groups(op.operation, op.operand_shapes, dim, op.result_shapes[0][dim])
    return groups, _moved_before(op.operation)


def ring_bytes(placed: Placed) -> tuple[Traffic, ...]:
    """What each shard is sent of the others, besides what comes with what others are sent."""
    op, dim = placed.op, named_dim(placed.op)
    size, word = op.result_shapes[0][dim], placed.results[0].dims[dim]
    groups, moved = _moves(op)
    counts = [
        part.count
        for group, stretches in groups.items()
        if group.is_split
        for part in _parts(group, stretches, size, word.split)
        if part.hop
    ]
    is_whole = len(groups) == 1 and counts == [size // word.split]
    if not counts or (is_whole and comes_along(placed)):
        return ()
    wire = sum(counts) * placed.row_bytes(~0, dim)
    if moved:
        local = placed.shard(~0)
        new = sum(
            min(1.0, rows / local[d]) for d, rows in moved if placed.results[0].dims[d].split > 1
        )
        return (Traffic(word.axes, wire * min(1.0, new), 0),)
    return (Traffic(word.axes, wire, len(counts)),)


def expand_ring(op: LocalOp) -> Sequence[Value]:
    """Shards go round their ring, and each element is taken where its stretch has come to."""
    ctx, dim = op.ctx, integer(op.operation.attributes[DIM])
    size, word = op.result_shapes[0][dim], op.result_layouts[0].dims[dim]
    shape = op.local_result_shape()
    groups = _groups(op.operation, op.operand_shapes, dim, size)
    parts = {
        group: _parts(group, stretches, size, word.split)
        for group, stretches in groups.items()
        if group.is_split
    }
    hops = Counter((group.source, part.hop) for group, each in parts.items() for part in each)
    index: Value | None = None
    result: Value | None = None
    for group, stretches in groups.items():
        source = op.operands[group.source]
        if group.is_split:
            ranges, local = [stretch.range for stretch in stretches], size // word.split
            readers = {
                part: readers_of(part, local, word.split, ranges)
                for part in parts[group]
                if hops[group.source, part.hop] > 1  # others need another part of those shards
            }
            value = shifted(ctx, source, word.axes, dim, parts[group], readers)
        elif not ctx.shape_of(source):
            value = ctx.broadcast(source, shape)
        else:
            value = _of_whole(ctx, source, dim, stretches, word.axes, shape)
        if result is None:
            result = value
            continue
        if index is None:
            index = ctx.global_index(op.result_layouts[0], dim, size, index_element(size))
        result = _replaced(ctx, result, value, dim, index, stretches)
    assert result is not None, "a splice of nothing was split"
    return [result]


def _replaced(
    ctx: ExpansionContext,
    result: Value,
    value: Value,
    dim: int,
    index: Value,
    stretches: Sequence[Stretch],
) -> Value:
    """The elements of the stretches from `value`, the others from `result`.

    Elements that no shard has to choose are left out of the choice.
    """
    local = ctx.shape_of(result)[dim]
    rows = [rows for stretch in stretches for rows in within_shards(stretch.range, local)]
    first, end = min(low for low, _ in rows), max(high for _, high in rows)
    places = ctx.cut(index, 0, first, end - first)
    mask = ctx.combined("or", (ctx.within(places, *stretch.range) for stretch in stretches))
    old, new = (ctx.cut(side, dim, first, end - first) for side in (result, value))
    chosen = ctx.select(mask, new, old, [dim])
    return ctx.patched(result, dim, first, chosen)


def _of_whole(
    ctx: ExpansionContext,
    source: Value,
    dim: int,
    stretches: Sequence[Stretch],
    axes: Sequence[AxisRef],
    shape: Sequence[int],
) -> Value:
    """This shard's elements of an operand of which every device has all, at their places.

    A shard that has none of them gets zeros: it slides over the stretch and what lies around it.
    """
    start, end = stretches[0].start, stretches[-1].start + stretches[-1].count
    value = ctx.cut(source, dim, start, end - start)
    if end - start == 1:
        dims = [d for d in range(len(shape)) if d != dim]
        row = ctx.reshape(value, [shape[d] for d in dims])
        return ctx.broadcast(row, shape, dims)
    around = ctx.zeros(ctx.tensor_type(shape, ctx.element_of(source)))
    value = ctx.joined([around, value, around], dim)
    shard = ctx.axis_index(axes)
    at = ctx.binary("add", ctx.times(shard, shape[dim]), shape[dim] - stretches[0].place)
    at = clamped(ctx, at, end - start + shape[dim] + 1)
    return ctx.stretch(value, dim, at, shape[dim])


def expand_splice(op: LocalOp) -> Sequence[Value]:
    """Slices and a concatenation, as they were written."""
    ctx, dim = op.ctx, integer(op.operation.attributes[DIM])
    shape = list(op.local_result_shape())
    pieces = []
    for stretch in stretches_of(op.operation):
        source = op.operands[stretch.source]
        if ctx.shape_of(source):
            pieces.append(ctx.cut(source, dim, stretch.start, stretch.count))
        else:
            shape[dim] = stretch.count
            pieces.append(ctx.broadcast(source, shape))
    return [ctx.joined(pieces, dim)]


SPLICE = OpDef(
    splice_rule,
    (
        Algorithm("ring", expand_ring, _is_split, ring_bytes),
        Algorithm(
            "local",
            expand_splice,
            lambda placed: placed.results[0].dims[named_dim(placed.op)].split == 1,
        ),
    ),
    fuses=True,
    moves_only=True,
    resizes=True,
    padding=OF_SPLICE,
    known=lambda op: (_moved_before(op), moves_before(op)),
)
