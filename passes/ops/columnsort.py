"""Columnsort (Leighton 1985): a split dimension is sorted by two exchanges and a merge.

Shards sort their elements, deal them out to all shards one by one, sort, give them back in blocks,
and sort. An element is then in its shard or in a neighbour's half next to it, and each half that
meets one is merged with it. This holds of shards of at least 2 (p-1)^2 elements, and of as many as
p divides: others are made longer by elements that stand behind all others, and cut off again.

Of one operand alone that is in the order of numbers, codes are sorted: integers that say which of
two equal ones stands first. All else comes with places, which decide between equal elements.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from dtensor.dialect.attributes import index_attr
from dtensor.dialect.mlir import Value, ir, ops_of
from dtensor.dialect.names import PLACES, SIZE
from dtensor.passes.cost.model import all_to_all_bytes, permute_bytes
from dtensor.passes.creation import with_sizes
from dtensor.passes.expansion.context import LocalOp
from dtensor.passes.expansion.indices import index_element
from dtensor.passes.ops.attributes import integer, shape_of, true_size
from dtensor.passes.ops.comparators import compare_by, compare_numbers, sorted_by
from dtensor.passes.ops.elements import EXACT, element_kind
from dtensor.passes.ops.exchanges import dealt, exchanged, from_beside
from dtensor.passes.ops.keys import Codes, orders
from dtensor.passes.ops.opdef import Placed, Traffic, placed_of
from dtensor.passes.ops.reduction import Reduction
from dtensor.passes.ops.rule import OpInfo, element_bytes

_DIMENSION = "dimension"


def sorted_dimension(op: OpInfo) -> int:
    """The dimension that a sort sorts."""
    rank = len(op.operand_shapes[0])
    dimension = integer(op.attribute(_DIMENSION)) if op.has(_DIMENSION) else -1
    return dimension % rank if rank else 0


def count_from_front(sort: ir.Operation) -> None:
    """Number the dimension that a sort sorts from the front.

    StableHLO counts from behind too, and does where none is named. XLA takes the number as it is:
    it reads memory before the sizes of the dimensions, and may drop the sort for what stands there.
    """
    rank, given = len(shape_of(sort.operands[0])), sort.attributes
    dim = integer(given[_DIMENSION]) if _DIMENSION in given else -1
    if dim < 0 < rank:
        given[_DIMENSION] = index_attr(rank + dim)


def exchanges(placed: Placed) -> bool:
    """Whether the sorted dimension is split, and its shards are long enough."""
    dim = sorted_dimension(placed.op)
    word, size = placed.operands[0].dims[dim], placed.op.operand_shapes[0][dim]
    p, local = word.split, size // word.split
    is_long = _lengthened(local, p) >= max(2 * (p - 1) ** 2, p * p) and local >= p * (p - 1)
    return p > 1 and word.is_contiguous and is_long


def _lengthened(local: int, shards: int) -> int:
    """The least multiple of the shards that is no less than the elements of one."""
    return -(-local // shards) * shards


def columnsort_bytes(placed: Placed) -> tuple[Traffic, ...]:
    """All elements twice, half of them there and back; and their places, if those decide.

    Where shards were made longer, each gets the last few elements of the one before.
    """
    op, dim = placed.op, sorted_dimension(placed.op)
    word = placed.operands[0].dims[dim]
    size, p = op.operand_shapes[0][dim], word.split
    local = size // p
    more = _lengthened(local, p) - local
    elements = list(op.operand_elements)
    codes, tie = _decided(op.operation, elements, size, bool(more))
    if codes is not None:
        elements = [codes.element]
    elif tie >= 0:
        elements[tie : tie + 1] = [_place_element(size)]
    rows = math.prod(placed.shard(0)) // local
    wire = 0.0
    for element in elements:
        held = rows * (local + more) * element_bytes(element)
        wire += 2 * all_to_all_bytes(held, p) + permute_bytes(held)
    results = elements[: len(op.operand_elements)] if more else ()
    wire += sum(permute_bytes(rows * more * (p - 1) * element_bytes(e)) for e in results)
    return (Traffic(word.axes, wire, 4 * len(elements) + len(results)),)


def _decided(
    sort: ir.Operation, elements: Sequence[str], size: int, has_more: bool
) -> tuple[Codes | None, int]:
    """What decides between equal elements: the codes of one operand, or which operand has places.

    Args:
        sort: the operation.
        elements: element types of its operands.
        size: how many elements it sorts.
        has_more: whether there are elements that stand behind all others.
    """
    tie = _tie(sort, elements, has_more)
    order = orders(sort.regions[0].blocks[0]) if len(elements) == 1 == tie else None
    return (None, tie) if order is None else (Codes(elements[0], size, order == "up"), -1)


def _place_element(size: int) -> str:
    return "ui16" if size < 1 << 16 else "ui32"


def _tie(sort: ir.Operation, elements: Sequence[str], has_more: bool) -> int:
    """Which operand holds the places of the elements, which decide between equal ones.

    Args:
        sort: the operation.
        elements: element types of its operands.
        has_more: whether there are elements that stand behind all others.

    Returns:
        Its number; that of one more where none does, -1 if equal elements are the same.
    """
    if PLACES in sort.attributes:
        return integer(sort.attributes[PLACES])
    body = [op.name for op in ops_of(sort.regions[0].blocks[0])]
    is_plain = body == ["stablehlo.compare", "stablehlo.return"]
    is_one = len(elements) == 1 and element_kind(elements[0])[0] in EXACT
    is_free = is_plain and is_one and not has_more and SIZE not in sort.attributes
    return -1 if is_free else len(elements)


def expand_exchange(op: LocalOp) -> Sequence[Value]:
    """Each step works on all operands, and on the places of their elements.

    Behind the end of rows that are padded stand zeros, as where rows are whole.
    """
    values = _Columns(op).sorted()
    count, given = len(op.result_layouts), op.operation.attributes
    found = [op.ctx.convert(values[k], op.result_element(k)) for k in range(count)]
    if SIZE not in given:
        return found
    ctx, layout, dim = op.ctx, op.result_layouts[0], sorted_dimension(placed_of(op).op)
    size, end = op.result_shapes[0][dim], integer(given[SIZE])
    place = ctx.global_index(layout, dim, size, index_element(size))
    return [ctx.kept_before(value, dim, place, end) for value in found]


class _Columns:
    """One sort; a column is what a shard holds."""

    def __init__(self, op: LocalOp) -> None:
        self.op, self.ctx, self.layout = op, op.ctx, op.operand_layouts[0]
        given, self.dim = op.operation.attributes, sorted_dimension(placed_of(op).op)
        self.word = self.layout.dims[self.dim]
        self.size = op.operand_shapes[0][self.dim]
        self.local = self.size // self.word.split
        self.more = _lengthened(self.local, self.word.split) - self.local
        elements = [op.ctx.element_of(value) for value in op.operands]
        self.codes, self.tie = _decided(op.operation, elements, self.size, bool(self.more))
        self.true = true_size(op.operation, self.size)
        has_end = self.tie >= 0 and (SIZE in given or bool(self.more))
        self.end = self.true if has_end else None

    def sorted(self) -> list[Value]:
        """The columns of the result, of each operand and of what decides between equal ones."""
        values = self.op.operands
        if self.codes is not None:
            values = [self._coded(self.codes, *values)]
        elif self.tie >= 0:
            values[self.tie : self.tie + 1] = [self._places(_place_element(self.size))]
        ctx, d = self.ctx, self.dim
        values = self._each_sorted(self._longer(values))
        values = [dealt(ctx, value, d, self.word.split) for value in values]
        shape = list(self.op.operand_shapes[0])
        shape[d] += self.more * self.word.split
        for _ in range(2):
            values = [exchanged(ctx, value, self.layout, d, shape) for value in values]
            values = self._each_sorted(values)
        values = self._merged(values)[: len(self.op.result_layouts)]
        values = self._cut_off(values) if self.more else values
        return [self.codes.numbers(ctx, value) for value in values] if self.codes else values

    def _coded(self, codes: Codes, value: Value) -> Value:
        """The codes of a column; the largest integer beyond the end."""
        place = self._places(codes.element)
        code = codes.of(self.ctx, value, place)
        if self.true == self.size:
            return code
        is_here = self.ctx.compare("LT", place, self.true)
        return self.ctx.select(is_here, code, self.ctx.identity(Reduction.MIN, code.type))

    def _longer(self, values: Sequence[Value]) -> list[Value]:
        """Columns of as many elements as there are shards for, the last of them beyond the end."""
        if not self.more:
            return list(values)
        ctx, found = self.ctx, []
        for k, value in enumerate(values):
            shape, element = ctx.read_type(value.type)
            type_ = ctx.tensor_type(with_sizes(shape, self.dim, self.more), element)
            behind = ctx.constant(self.size, type_) if k == self.tie else ctx.zeros(type_)
            behind = ctx.identity(Reduction.MIN, type_) if self.codes is not None else behind
            found.append(ctx.joined([value, behind], self.dim))
        return found

    def _cut_off(self, values: Sequence[Value]) -> list[Value]:
        """Columns of their own length: shard k begins `more * k` elements before its long one."""
        ctx, d, p = self.ctx, self.dim, self.word.split
        long, most = self.local + self.more, self.more * (p - 1)
        shard = ctx.axis_index(self.word.axes)
        start = ctx.binary("subtract", most, ctx.times(shard, self.more))
        found = []
        for value in values:
            last = ctx.cut(value, d, long - most, most)
            before = from_beside(ctx, last, self.word.axes, -1)
            found.append(ctx.stretch(ctx.joined([before, value], d), d, start, self.local))
        return found

    def _places(self, element: str) -> Value:
        """Where each element stands in the whole dimension."""
        index = self.ctx.global_index(self.layout, self.dim, self.size, element)
        return self.ctx.broadcast(index, self.ctx.shape_of(self.op.operands[0]), [self.dim])

    def _merged(self, values: Sequence[Value]) -> list[Value]:
        """The upper half of each column merged with the lower half of the next one."""
        ctx, d, p = self.ctx, self.dim, self.word.split
        low = (self.local + self.more) // 2
        high = self.local + self.more - low
        axes = self.word.axes
        first, last = ctx.is_shard(axes, 0), ctx.is_shard(axes, p - 1)
        lower = [ctx.cut(value, d, 0, low) for value in values]
        upper = [ctx.cut(value, d, low, high) for value in values]
        came = [from_beside(ctx, value, axes, -1) for value in upper]
        pairs = zip(came, lower, strict=True)
        both = self._each_sorted([ctx.joined(list(pair), d) for pair in pairs])
        back = [ctx.cut(value, d, 0, high) for value in both]
        back = [from_beside(ctx, value, axes, 1) for value in back]
        kept = [ctx.cut(value, d, high, low) for value in both]
        lower = [ctx.select(first, mine, new) for mine, new in zip(lower, kept, strict=True)]
        upper = [ctx.select(last, mine, new) for mine, new in zip(upper, back, strict=True)]
        return [ctx.joined(list(pair), d) for pair in zip(lower, upper, strict=True)]

    def _each_sorted(self, values: Sequence[Value]) -> list[Value]:
        """Every column by itself; of equal elements the one that stood first comes first."""
        attributes = {
            name: self.op.operation.attributes[name]
            for name in (_DIMENSION, "is_stable")
            if name in self.op.operation.attributes
        }
        given = self.op.operation.regions[0].blocks[0]

        def compare(body: ir.Block) -> None:
            if self.codes is not None:
                compare_numbers(body)
            else:
                compare_by(given, body, self.tie, self.end)

        return sorted_by(self.ctx, values, attributes, compare)
