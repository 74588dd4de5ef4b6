"""Reductions over dimensions, whose shards each make a part of the result.

The specification lets an implementation fold an init value in any number of times. XLA does: it
drops one where the local dimension has size 1 and adds one twice where it reduces in two steps. So
only identities are handed to the local op, and every device's program folds the value in once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from dtensor.dialect.mlir import ir
from dtensor.passes.expansion.context import LocalOp
from dtensor.passes.ops.attributes import identity_of, integers
from dtensor.passes.ops.opdef import OpDef, local
from dtensor.passes.ops.reduction import Reduction, reductions_of
from dtensor.passes.ops.rule import OpInfo, OpRule, RuleBuilder


def combiners(region: ir.Region, elements: tuple[str, ...]) -> tuple[Reduction, ...] | None:
    """The reduction by which a combiner body joins each of its pairs of arguments.

    Args:
        region: a body `(a0.. an-1, b0.. bn-1) -> (r0.. rn-1)`.
        elements: element types of the n values, as written.

    Returns:
        One reduction per value, `ri = ai op bi` in either order; None for any other body.
    """
    block = region.blocks[0]
    count = len(elements)
    operations = [view.operation for view in block.operations]
    if len(block.arguments) != 2 * count or len(operations) != count + 1:
        return None
    numbers: dict[ir.Value[Any], int] = {argument: i for i, argument in enumerate(block.arguments)}
    kinds: dict[ir.Value[Any], tuple[str, int]] = {}
    for operation in operations[:-1]:
        sides = sorted(numbers.get(v, -1) for v in operation.operands)
        if len(sides) != 2 or sides[0] + count != sides[1] or sides[0] < 0:
            return None
        kinds[operation.results[0]] = (operation.name, sides[0])
    found = []
    for i, value in enumerate(operations[-1].operands):
        name, pair = kinds.get(value, ("", -1))
        reduction = Reduction.of_op(name, elements[i])
        if pair != i or reduction not in reductions_of(elements[i]):
            return None
        assert reduction is not None
        found.append(reduction)
    return tuple(found)


def combiner(region: ir.Region, elements: tuple[str, ...]) -> Reduction | None:
    """The one reduction by which a combiner body joins all its pairs; None if there is not one."""
    kinds = combiners(region, elements)
    return kinds[0] if kinds and len(set(kinds)) == 1 else None


def reduce_rule(op: OpInfo) -> OpRule:
    """`ij,->i`: kept dimensions are shared, a shard of a reduced one makes a part of the result.

    The init value belongs to one shard only, so it is a part too. Parts of the combiner's own
    reduction pass, for the order of combining is free. With a body that is not one known
    combiner (argmax), a reduced dimension must be whole.
    """
    count = len(op.operand_shapes) // 2
    inits = range(count, 2 * count)
    reduction = combiner(op.operation.regions[0], op.operand_elements[:count])
    reduced = set(integers(op.attribute("dimensions")))
    builder = RuleBuilder(op)
    kept = 0
    for d, size in enumerate(op.operand_shapes[0]):
        if d not in reduced:
            factor = builder.factor(size)
            for k in range(count):
                builder.operand(k, d, factor)
                builder.result(k, kept, factor)
            kept += 1
        elif reduction is not None:
            factor = builder.factor(size, reduction, inits)
            for k in range(count):
                builder.operand(k, d, factor)
        else:
            for k in range(count):
                builder.whole(k, d, "is reduced by a body that is not one known combiner")
    if reduction is not None:
        builder.passes_each([reduction], [True] * (2 * count))
    return builder.build()


def reduce_flops(op: OpInfo) -> float:
    """One per element that is combined."""
    return float(math.prod(op.operand_shapes[0])) * len(op.result_shapes)


def expand_reduce(op: LocalOp) -> Sequence[ir.Value[Any]] | None:
    """Reduce from the identity, then combine with this shard's part of the init value."""
    count = len(op.operands) // 2
    elements = tuple(op.ctx.element_of(value) for value in op.operands[:count])
    kinds = combiners(op.operation.regions[0], elements)
    if kinds is None:
        return None
    late = [k for k, kind in enumerate(kinds) if not _is_identity(op, count + k, kind)]
    if not late:
        return None
    copy = op.ctx.clone(op.operation)
    for k, result in enumerate(copy.results):
        result.set_type(op.ctx.tensor_type(op.local_result_shape(k), op.result_element(k)))
    values: list[ir.Value[Any]] = list(copy.results)
    for k in late:
        init = op.operands[count + k]
        constant = ir.InsertionPoint(copy)
        copy.operands[count + k] = ir.Operation.create(
            "stablehlo.constant",
            results=[init.type],
            attributes={"value": kinds[k].identity_attr(init.type)},
            loc=copy.location,
            ip=constant,
        ).results[0]
        whole = op.ctx.broadcast(init, op.local_result_shape(k), [])
        values[k] = op.ctx.value(kinds[k].op, [values[k], whole], values[k].type)
    return values


def _is_identity(op: LocalOp, index: int, kind: Reduction) -> bool:
    owner = op.operands[index].owner
    if isinstance(owner, ir.Block) or owner.operation.name != "stablehlo.constant":
        return False
    element = op.ctx.element_of(op.operands[index])
    return kind in identity_of(owner.operation, element)


REDUCE = OpDef(reduce_rule, (local(expand_reduce),), flops=reduce_flops, fuses=True)
