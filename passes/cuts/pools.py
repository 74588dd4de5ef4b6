"""The gradient of max-pooling as JAX writes it: padded, then sliced to the size before.

The padded size is one that no mesh axis divides. Here the padding goes into the operation, with the
value that it holds: unlike the padding that select_and_scatter knows, it may be selected.
"""

from __future__ import annotations

from collections.abc import Sequence

from dtensor.dialect.mlir import Value, ir, made_by
from dtensor.dialect.names import FILL
from dtensor.passes.base import PassState
from dtensor.passes.builder import matrix_attr
from dtensor.passes.cuts.pieces import PAD, SLICE
from dtensor.passes.ops.attributes import CONSTANT, pad_numbers, shape_of, slice_numbers

SELECT_AND_SCATTER = "stablehlo.select_and_scatter"


def fuse_padding(op: ir.Operation, state: PassState) -> bool:
    """Give a select_and_scatter the padding of its operand; whether it was rewritten."""
    pad = made_by(PAD, op.operands[0])
    if pad is None or _is_padded(op):
        return False
    low, high, gaps = pad_numbers(pad)
    fill = made_by(CONSTANT, pad.operands[1])
    is_plain = min([0, *low, *high]) == 0 == max([0, *gaps])
    if fill is None or not is_plain:
        return False
    given: Value = pad.operands[0]
    slices = [use.owner for use in op.results[0].uses]
    if not slices or not all(_takes_back(user, low, shape_of(given)) for user in slices):
        return False
    made: ir.Operation = op.clone(ip=ir.InsertionPoint(op))
    made.operands[0] = given
    made.results[0].set_type(given.type)
    made.attributes["padding"] = matrix_attr(list(zip(low, high, strict=True)))
    made.attributes[FILL] = fill.attributes["value"]
    for user in slices:
        user.results[0].replace_all_uses_with(made.results[0])
    state.ledger.add_op(made)
    return True


def _is_padded(op: ir.Operation) -> bool:
    if "padding" not in op.attributes:
        return False
    padding = ir.DenseIntElementsAttr(op.attributes["padding"])
    return any(padding[i] for i in range(len(padding)))


def _takes_back(user: ir.Operation, low: Sequence[int], shape: Sequence[int]) -> bool:
    """Whether an operation slices off exactly what was padded."""
    if user.name != SLICE:
        return False
    starts, limits, strides = slice_numbers(user)
    ends = [start + size for start, size in zip(low, shape, strict=True)]
    return starts == list(low) and limits == ends and set(strides) == {1}
