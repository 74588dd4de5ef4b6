"""Reductions that leave elements out, whatever their body: each element comes with a flag.

What is combined has a flag too, whether there is anything yet; so nothing need be known that the
body does not notice.
"""

from __future__ import annotations

from collections.abc import Sequence

from dtensor.dialect.mlir import Value, forget, ir, terminator
from dtensor.dialect.names import ALGORITHM, OPERANDS, RESULTS
from dtensor.passes.builder import Builder
from dtensor.passes.expansion.indices import index_element
from dtensor.passes.ops.padding import Grown


def flagged(
    make: Builder, op: ir.Operation, types: Sequence[ir.Type], valid: Value, start: bool
) -> Sequence[Value]:
    """The results of a reduce or of windows, of those elements alone that a flag marks.

    Args:
        make: where to create operations.
        op: the operation.
        types: of its results.
        valid: which elements count.
        start: whether the init values do.
    """
    count, flag = len(types), make.tensor_type((), "i1")
    flags = make.tensor_type(make.read_type(types[0])[0], "i1")
    inits = [*op.operands[count:], make.constant(start, flag)]
    attributes = {name: op.attributes[name] for name in op.attributes}
    new = make.create(
        op.name, [*op.operands[:count], valid, *inits], [*types, flags], attributes, regions=1
    )
    forget(new, ALGORITHM, OPERANDS, RESULTS)
    copy = op.clone(ip=ir.InsertionPoint(new)).operation  # nested regions may read the arguments
    copy.regions[0].blocks[0].append_to(new.regions[0])
    copy.erase()
    block = new.regions[0].blocks[0]
    earlier, later = list(block.arguments)[:count], list(block.arguments)[count:]
    has_earlier = block.add_argument(flag, op.location)
    moved = [block.add_argument(value.type, op.location) for value in later]
    has_later = block.add_argument(flag, op.location)
    for value, other in zip(later, moved, strict=True):
        value.replace_all_uses_with(other)
        block.erase_argument(count)
    end = terminator(block)
    inside = Builder(end)
    both = [
        inside.select(has_earlier, inside.select(has_later, value, one), other)
        for value, one, other in zip(end.operands, earlier, moved, strict=True)
    ]
    inside.create(end.name, [*both, inside.binary("or", has_earlier, has_later)], [])
    end.erase()
    return list(new.results)[:count]


def leave_out_ends(op: Grown, dims: Sequence[int]) -> None:
    """What stands beyond the true ends of these dimensions of the operands does not count."""
    make, shape, valid = Builder(op.operation, op.made), op.operands[0], list[Value]()
    for d in dims:
        if op.has_end and op.grows(0, d):
            place = make.iota((shape[d],), 0, index_element(shape[d]))
            is_inside = make.compare(
                "LT", place, make.constant_like(op.operands_before(0)[d], place)
            )
            valid.append(make.broadcast(is_inside, shape, [d]))
    if valid:
        types = [result.type for result in op.operation.results]
        found = flagged(make, op.operation, types, make.combined("and", valid), True)
        op.instead |= enumerate(found)
