"""Reductions of what was reversed: `jnp.max(x[::-1])`, and the last place where something is.

In which order elements are combined does not matter where a body commutes. An argmax of what was
reversed, `n - 1 - jnp.argmax(is_true[::-1])`, is one of the array itself, whose places are counted
from the other end.
"""

from __future__ import annotations

from dtensor.dialect.mlir import Value, ir, is_read, maker_of
from dtensor.passes.builder import Builder
from dtensor.passes.forms.reversed_windows import without_reversals
from dtensor.passes.ops.attributes import element_of, integers, shape_of
from dtensor.passes.ops.combiners import combiner, commutes
from dtensor.passes.ops.elements import element_kind
from dtensor.passes.ops.elementwise import is_scalar_work
from dtensor.passes.ops.extremes import compared, extreme, reduced_extreme
from dtensor.passes.ops.patterns import counts_along, is_zero
from dtensor.passes.rewriting.names import REVERSE
from dtensor.passes.rewriting.rewriting import Rewriting

_MOST_WORKS = 16  # operations between the reversal and the reduction


def replace_reduction(op: ir.Operation, function: Rewriting) -> None:
    """Reduce what was not reversed, where the order of elements does not matter."""
    if REVERSE not in function.ops.names:
        return
    body, dims = op.regions[0], _reversed_dims(op.operands[0])
    reduced = integers(op.attributes["dimensions"])
    if not dims or not set(dims) <= set(reduced):
        return
    if len(op.results) == 1 and (combiner(body) is not None or commutes(body, 1)):
        value = without_reversals(op, dims, function)
        if value is not None:
            function.replace(op, *Builder(op, function.made).again(op, [value]).results)
    elif len(reduced) == 1 and (name := extreme(body)) is not None:
        _replace_extreme(op, name, reduced[0], function)


def _replace_extreme(op: ir.Operation, name: str, dim: int, function: Rewriting) -> None:
    """The place of an extreme; of NaNs the first is chosen, so that floats become integers."""
    value, places = op.operands[:2]
    is_float = element_kind(element_of(value))[0] == "float"
    is_counted = counts_along(places) == (dim, 0)
    if not is_counted or not is_zero(op.operands[3]) or (is_float and is_read(op.results[0])):
        return
    straight = without_reversals(op, [dim], function)
    if straight is None:
        return
    make = Builder(op, function.made)
    from_end = make.binary("subtract", shape_of(value)[dim] - 1, places)
    keys = compared(make, straight, name) if is_float else straight
    best, place = reduced_extreme(make, keys, from_end, dim, name)
    function.replace(op, op.results[0] if is_float else best, place)


def _reversed_dims(value: Value) -> list[int]:
    """The dimensions that the first reversal reverses of those that a value is computed of."""
    queue = [value]
    for each in queue:
        maker = maker_of(each)
        if maker is None or len(queue) > _MOST_WORKS:
            continue
        if maker.name == REVERSE:
            return integers(maker.attributes["dimensions"])
        if is_scalar_work(maker):
            queue += maker.operands
    return []
