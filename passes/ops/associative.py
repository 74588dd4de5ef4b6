"""dtensor.scan: what elements combine to, up to each one, whatever combines them.

Pairs are combined, and pairs of pairs, until one element is left; on the way back each element is
combined with all before it. Shards do so by themselves. In between they tell each other, in log2(p)
steps, what all shards before combine to, and the first of each shard begins with that.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from dtensor.dialect.mlir import Value
from dtensor.dialect.names import DIM, REVERSE
from dtensor.passes.expansion.context import LocalOp
from dtensor.passes.ops import padding
from dtensor.passes.ops.accuracy import chained
from dtensor.passes.ops.attributes import integer, shape_of
from dtensor.passes.ops.comparators import on_tensors
from dtensor.passes.ops.longer_cuts import lengthen_backward
from dtensor.passes.ops.opdef import Algorithm, OpDef, is_cut, is_whole, named_dim
from dtensor.passes.ops.rows import BodyTies, combines_scalars, rows_flops
from dtensor.passes.ops.rule import FactorKind, OpInfo, OpRule, RuleBuilder
from dtensor.passes.ops.scans import scan_bytes, totals_before

Values = list[Value]
_FEW_ROWS = 16  # rows, of which it costs little to combine each pair of distance 1, 2, 4 ...


def scan_rule(op: OpInfo) -> OpRule:
    """`ij,ij->ij,ij`; of a split `i`, which is scanned, the shards send totals.

    Where rows are combined, not elements, `j` is a dimension that the body treats by itself.
    """
    builder, dim = RuleBuilder(op), named_dim(op)
    body = op.operation.regions[0].blocks[0]
    ties = None if combines_scalars(body) else BodyTies(body)
    factors: dict[object, int] = {}
    for k, shape in enumerate(op.operand_shapes):
        for d, size in enumerate(shape):
            group = d if ties is None or d == dim else ties.group(body.arguments[k], d)
            if group is None:
                builder.whole(k, d, "is combined as a whole")
                continue
            if group not in factors:
                factors[group] = builder.factor(size, kind=FactorKind.SCAN if d == dim else None)
            builder.carry(k, d, factors[group])
            builder.carry(~k, d, factors[group])
    return builder.build()


def scan_flops(op: OpInfo) -> float:
    """Each element is combined twice."""
    body, dim = op.operation.regions[0].blocks[0], named_dim(op)
    if combines_scalars(body):
        return 2.0 * math.prod(op.operand_shapes[0]) * (len(body.operations) - 1)
    written, given = shape_of(body.arguments[0]), op.operand_shapes[0]
    share = math.prod(given) / max(1, math.prod(written)) if written[dim] else 0.0
    return 2.0 * share * rows_flops(body)


def expand_tree(op: LocalOp) -> Sequence[Value]:
    """The tree over the elements of the shard, begun with what the shards before combine to."""
    return _Tree(op).scanned()


class _Tree:
    """One op; a row is what has one element along the dimension."""

    def __init__(self, op: LocalOp) -> None:
        self.op, self.ctx = op, op.ctx
        self.dim = integer(op.operation.attributes[DIM])
        self.is_reverse = bool(integer(op.operation.attributes[REVERSE]))
        self.axes = op.operand_layouts[0].dims[self.dim].axes
        self.body = op.operation.regions[0].blocks[0]
        self.ties = None if combines_scalars(self.body) else BodyTies(self.body)
        self.before: Values | None = None
        self.has_any: Value | None = None

    def scanned(self) -> Values:
        """The scan of the shard."""
        levels = [self._turned(self.op.operands)]
        if not self.axes and self._size(levels[0]) <= _FEW_ROWS:
            return self._turned(self._doubled(levels[0]))
        while (size := self._size(levels[-1])) > 1:
            pairs = [self._cut(levels[-1], start, size // 2, 2) for start in (0, 1)]
            levels.append(self._combined(*pairs))
        if self.axes:
            self._tell(levels)
        found = self._behind(levels.pop())
        while levels:
            found = self._level(levels.pop(), found)
        return self._turned(found)

    def _doubled(self, values: Values) -> Values:
        """The scan of few rows: each is combined with that before it, that 2 before it, and so on.

        The tree combines fewer, in twice as many steps of twice as many sizes; each is a kernel.
        """
        step, size = 1, self._size(values)
        while step < size:
            later = self._combined(
                self._cut(values, 0, size - step), self._cut(values, step, size - step)
            )
            first = self._cut(values, 0, step)
            pairs = zip(first, later, strict=True)
            values, step = [self.ctx.joined(list(pair), self.dim) for pair in pairs], 2 * step
        return values

    def _turned(self, values: Values) -> Values:
        """From the last element on, if that is the first to be combined."""
        if not self.is_reverse:
            return values
        return [self.ctx.reversed(value, self.dim) for value in values]

    def _tell(self, levels: list[Values]) -> None:
        """Learn what all shards before this one combine to."""
        total = levels[-1]
        for level in reversed(levels[:-1]):
            size = self._size(level)
            if size % 2:
                total = self._combined(total, self._cut(level, size - 1, 1))
        self.before, self.has_any = totals_before(
            self.ctx, self.axes, total, self._combined, self.is_reverse
        )

    def _behind(self, rows: Values) -> Values:
        """The first row of the shard combined with all before the shard."""
        if self.before is None or self.has_any is None:
            return rows
        both = self._combined(self.before, rows)
        return [
            self.ctx.select(self.has_any, one, row) for one, row in zip(both, rows, strict=True)
        ]

    def _level(self, values: Values, odd: Values) -> Values:
        """The scan of a level, of the scan of its pairs: those end at its odd places."""
        ctx, dim, size = self.ctx, self.dim, self._size(values)
        even = self._behind(self._cut(values, 0, 1))
        others = (size - 1) // 2
        if others:
            later = self._combined(self._cut(odd, 0, others), self._cut(values, 2, others, 2))
            even = [ctx.joined(list(pair), dim) for pair in zip(even, later, strict=True)]
        return [self._woven(*pair, size) for pair in zip(even, odd, strict=True)]

    def _woven(self, even: Value, odd: Value, size: int) -> Value:
        """One element of each after the other, `size` together."""
        ctx = self.ctx
        zero = ctx.zero_of(even)
        one = [int(d == self.dim) for d in range(len(ctx.shape_of(even)))]
        none = [0] * len(one)
        gaps = [
            ctx.pad(even, zero, none, none if size % 2 else one, one),
            ctx.pad(odd, zero, one, one if size % 2 else none, one),
        ]
        return ctx.binary("or" if ctx.element_of(even) == "i1" else "add", *gaps)

    def _size(self, values: Values) -> int:
        return self.ctx.shape_of(values[0])[self.dim]

    def _cut(self, values: Values, start: int, count: int, stride: int = 1) -> Values:
        return [self.ctx.cut(value, self.dim, start, count, stride) for value in values]

    def _combined(self, earlier: Sequence[Value], later: Sequence[Value]) -> Values:
        if self.ties is not None:
            return self.ties.applied(self.ctx, [*earlier, *later])
        return on_tensors(self.ctx, self.body, [*earlier, *later])


def scan_ties(op: OpInfo) -> list[padding.TiedDims]:
    """What follows the end is read by nothing before it, if it is scanned last."""
    dim, count = named_dim(op), len(op.operand_shapes)
    return [tuple(padding.Along(slot, dim) for k in range(count) for slot in (k, ~k))]


def lengthen_scan(op: padding.Grown) -> None:
    """Of a scan from the last element on, what follows the end is moved to where it is last."""
    dim = integer(op.operation.attributes[DIM])
    if integer(op.operation.attributes[REVERSE]) and op.grows(0, dim):
        lengthen_backward(op, dim)


SCAN = OpDef(
    scan_rule,
    (
        Algorithm(
            "totals",
            expand_tree,
            is_cut(named_dim),
            lambda placed: scan_bytes(placed, named_dim(placed.op)),
        ),
        Algorithm("local", expand_tree, is_whole(named_dim)),
    ),
    flops=scan_flops,
    accuracy=chained,
    padding=padding.Padding(refit=lengthen_scan, ties=scan_ties),
)
