"""What the body of a reduction does with each pair of its arguments."""

from __future__ import annotations

from dtensor.dialect.mlir import Value, ir
from dtensor.passes.ops.reduction import Reduction, reductions_of


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
    numbers: dict[Value, int] = {argument: i for i, argument in enumerate(block.arguments)}
    kinds: dict[Value, tuple[str, int]] = {}
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
