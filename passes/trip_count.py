"""How often a counted loop runs, and what it does not change."""

from __future__ import annotations

from dtensor.dialect.mlir import Value, ir, made_by, maker_of, terminator
from dtensor.passes.ops.attributes import CONSTANT


def trip_count(loop: ir.Operation) -> int | None:
    """Number of iterations of a `stablehlo.while` that counts up by a constant; None if unknown.

    The form recognised is the one JAX emits for `scan` and `fori_loop`: the condition compares a
    carried integer with a constant by LT, the body adds a constant to it, and its initial value is
    a constant.
    """
    condition, body = loop.regions[0].blocks[0], loop.regions[1].blocks[0]
    compare = made_by("stablehlo.compare", terminator(condition).operands[0])
    if compare is None:
        return None
    direction = str(compare.attributes["comparison_direction"])
    slot = _argument_number(compare.operands[0], condition)
    limit = _integer(compare.operands[1], loop, condition)
    if "LT" not in direction or slot is None or limit is None:
        return None
    start = _integer(loop.operands[slot], loop, None)
    step = _step(body, slot, loop)
    if start is None or not step:
        return None
    return max(0, -(-(limit - start) // step))


def never_changed(value: Value) -> Value | None:
    """What a loop carries in and never changes, if this value is that inside; else None."""
    block = value.owner
    if not isinstance(block, ir.Block) or block.owner.name != "stablehlo.while":
        return None
    loop: ir.Operation = block.owner.operation
    slot = int(ir.BlockArgument(value).arg_number)
    return loop.operands[slot] if _is_invariant(loop, slot) else None


def _step(body: ir.Block, slot: int, loop: ir.Operation) -> int | None:
    add = made_by("stablehlo.add", terminator(body).operands[slot])
    if add is None:
        return None
    for one, other in ((0, 1), (1, 0)):
        if _argument_number(add.operands[one], body) == slot:
            step = _integer(add.operands[other], loop, body)
            return step if step is not None and step > 0 else None
    return None


def _argument_number(value: Value, block: ir.Block) -> int | None:
    if isinstance(value.owner, ir.Block) and value.owner == block:
        return int(ir.BlockArgument(value).arg_number)
    return None


def _integer(value: Value, loop: ir.Operation, block: ir.Block | None) -> int | None:
    """The integer a value holds, if it is a constant or a carried value that never changes."""
    producer = maker_of(value)
    if producer is None:
        outside = never_changed(value) if block is not None and value.owner == block else None
        return None if outside is None else _integer(outside, loop, None)
    if producer.name != CONSTANT:
        return None
    attribute = producer.attributes["value"]
    if not isinstance(attribute, ir.DenseIntElementsAttr) or len(attribute) != 1:
        return None
    return int(attribute[0])


def _is_invariant(loop: ir.Operation, slot: int) -> bool:
    body = loop.regions[1].blocks[0]
    return _argument_number(terminator(body).operands[slot], body) == slot
