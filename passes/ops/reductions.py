"""Reductions over dimensions, whose shards each make a part of the result.

The specification lets an implementation fold an init value in any number of times. XLA does: it
drops one where the local dimension has size 1 and adds one twice where it reduces in two steps. So
only identities are handed to the local op, and every device's program folds the value in once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from dtensor.dialect.axes import AxisRef
from dtensor.dialect.dim import WHOLE, Dim, canonical_digits
from dtensor.dialect.layout import Layout
from dtensor.dialect.mlir import Value, ir
from dtensor.passes.builder import Builder
from dtensor.passes.cost.model import all_gather_bytes
from dtensor.passes.expansion.context import LocalOp
from dtensor.passes.ops import padding
from dtensor.passes.ops.accuracy import summed
from dtensor.passes.ops.attributes import integers, is_identity
from dtensor.passes.ops.combiners import combiner, combiners, is_choice
from dtensor.passes.ops.extremes import extreme, extreme_bytes, joined_extremes
from dtensor.passes.ops.opdef import Algorithm, OpDef, Placed, Traffic
from dtensor.passes.ops.reduced_apart import reduced_apart
from dtensor.passes.ops.rule import FactorKind, OpInfo, OpRule, RuleBuilder, element_bytes


def reduce_rule(op: OpInfo) -> OpRule:
    """`ij,->i`: kept dimensions are shared, a shard of a reduced one makes a part of the result.

    The init value belongs to one shard only, so it is a part too. Parts of the combiner's own
    reduction pass, for the order of combining is free. With a body that chooses one of its tuples
    (argmax) the shards' choices are gathered, and one of them is chosen; with any other body a
    reduced dimension must be whole.
    """
    count = len(op.operand_shapes) // 2
    inits = range(count, 2 * count)
    reduction = combiner(op.operation.regions[0], op.operand_elements[:count])
    chooses = reduction is None and is_choice(op.operation.regions[0], count)
    reduced = set(integers(op.attribute("dimensions")))
    builder = RuleBuilder(op)
    kept = 0
    for d in range(len(op.operand_shapes[0])):
        read = [(k, d) for k in range(count)]
        if d not in reduced:
            builder.share(*read, *((~k, kept) for k in range(count)))
            kept += 1
        elif reduction is not None:
            builder.share(*read, reduction=reduction, partial_operands=inits)
        elif chooses:
            builder.share(*read, kind=FactorKind.ORDER)
        else:
            for k in range(count):
                builder.whole(k, d, "is reduced by a body that is not one known combiner")
    if reduction is not None:
        builder.passes_each([reduction], [True] * (2 * count))
    return builder.build()


def reduce_flops(op: OpInfo) -> float:
    """One per element that is combined."""
    return float(math.prod(op.operand_shapes[0])) * len(op.result_shapes)


def _terms(op: OpInfo) -> int:
    return math.prod(op.operand_shapes[0]) // max(1, math.prod(op.result_shapes[0]))


def expand_reduce(op: LocalOp) -> Sequence[Value] | None:
    """Reduce from the identity, then combine with this shard's part of the init value."""
    count = len(op.operands) // 2
    elements = tuple(op.ctx.element_of(value) for value in op.operands[:count])
    kinds = combiners(op.operation.regions[0], elements)
    if kinds is None:
        return None
    late = [
        k
        for k, kind in enumerate(kinds)
        if not is_identity(op.operands[count + k], kind, elements[k])
    ]
    if not late:
        return None
    copy = op.again()
    values: list[Value] = list(copy.results)
    for k in late:
        init = op.operands[count + k]
        copy.operands[count + k] = Builder(copy).identity(kinds[k], init.type)
        whole = op.ctx.broadcast(init, op.local_result_shape(k), [])
        values[k] = op.ctx.value(kinds[k].op, [values[k], whole], values[k].type)
    return values


def _splits_choice(placed: Placed) -> bool:
    """Whether a dimension is split along which a body chooses."""
    op, count = placed.op, len(placed.results)
    if not _axes_of_choice(op, placed.operands[0]):
        return False
    known = combiner(op.operation.regions[0], op.operand_elements[:count])
    return known is None and is_choice(op.operation.regions[0], count)


def _is_local(placed: Placed) -> bool:
    """Whether the shards' results are parts, or no reduced dimension is split."""
    op, count = placed.op, len(placed.results)
    if not _axes_of_choice(op, placed.operands[0]):
        return True
    return combiner(op.operation.regions[0], op.operand_elements[:count]) is not None


def _axes_of_choice(op: OpInfo | LocalOp, layout: Layout) -> tuple[AxisRef, ...]:
    """The axes that split the reduced dimensions, the first major."""
    dims = integers(op.operation.attributes["dimensions"])
    return tuple(axis for d in sorted(dims) for axis in layout.dims[d].axes)


def _splits_extreme(placed: Placed) -> bool:
    """Whether a dimension is split along which a body chooses the largest or smallest."""
    return bool(_axes_of_choice(placed.op, placed.operands[0])) and (
        extreme(placed.op.operation.regions[0], placed.op.operand_elements[: len(placed.results)])
        is not None
    )


def _extreme_bytes(placed: Placed) -> tuple[Traffic, ...]:
    return extreme_bytes(placed, _axes_of_choice(placed.op, placed.operands[0]))


def expand_extreme(op: LocalOp) -> Sequence[Value]:
    """Each shard chooses; the best value of all is found, then the first place that has it."""
    elements = [op.result_element(k) for k in range(2)]
    name = extreme(op.operation.regions[0], elements)
    assert name is not None, "a body that was checked"
    return joined_extremes(op, _chosen(op), _axes_of_choice(op, op.operand_layouts[0]), name)


def _choice_bytes(placed: Placed) -> tuple[Traffic, ...]:
    """Every shard's choice, on every device."""
    axes = _axes_of_choice(placed.op, placed.operands[0])
    devices = math.prod(axis.size for axis in axes)
    chosen = [
        math.prod(layout.local_shape(shape)) * element_bytes(element)
        for layout, shape, element in zip(
            placed.results, placed.op.result_shapes, placed.op.result_elements, strict=True
        )
    ]
    wire = sum(all_gather_bytes(devices * size, devices) for size in chosen)
    return (Traffic(axes, wire, len(chosen)),)


def expand_choice(op: LocalOp) -> Sequence[Value]:
    """Each shard chooses, the choices are gathered in order, and one of them is chosen.

    Of equal ones and of NaNs the body decides as it does on one device, where they stand in the
    same order.
    """
    ctx, axes = op.ctx, _axes_of_choice(op, op.operand_layouts[0])
    devices = math.prod(axis.size for axis in axes)
    rows = []
    for k, value in enumerate(_chosen(op)):
        layout = op.result_layouts[k]
        before = Layout.of((Dim(canonical_digits(axes, ctx.mesh)), *layout.dims), layout.mesh)
        after = Layout.of((WHOLE, *layout.dims), layout.mesh)
        row = ctx.reshape(value, (1, *ctx.shape_of(value)))
        rows.append(ctx.relayout(row, before, after, (devices, *op.result_shapes[k])))
    return _reduced(op, rows, ir.DenseI64ArrayAttr.get([0]))


def _chosen(op: LocalOp) -> list[Value]:
    """What the shard chooses."""
    count = len(op.result_layouts)
    return _reduced(op, op.operands[:count], op.operation.attributes["dimensions"])


def _reduced(op: LocalOp, values: Sequence[Value], dims: ir.Attribute) -> list[Value]:
    """The op on other operands, from the same init values."""
    copy = op.again(values)
    copy.attributes["dimensions"] = dims
    return list(copy.results)


def reduce_fill(rule: OpRule, factor: int) -> padding.Fill | None:
    """A body that chooses does so among init values as well, which change nothing."""
    is_choice = rule.factors[factor].kind is FactorKind.ORDER
    return padding.Fill.INIT if is_choice else padding.reducing(rule, factor)


REDUCE = OpDef(
    reduce_rule,
    (
        Algorithm("extremes", expand_extreme, _splits_extreme, _extreme_bytes),
        Algorithm("gather_choices", expand_choice, _splits_choice, _choice_bytes),
        Algorithm("local", expand_reduce, _is_local),
    ),
    flops=reduce_flops,
    accuracy=summed(_terms),
    padding=padding.Padding(reduce_fill),
    fuses=True,
    anew=reduced_apart,
)
