"""The gradient of max-pooling as JAX writes it: padded, then sliced to the size before.

The padded size is one that no mesh axis divides. Here the padding goes into the operation, with the
value that it holds: unlike the padding that select_and_scatter knows, it may be selected.
"""

from __future__ import annotations

from dtensor.dialect.mlir import Value, ir, made_by
from dtensor.dialect.names import FILL
from dtensor.passes.base import PassState
from dtensor.passes.builder import matrix_attr
from dtensor.passes.cuts.pads import CONVERT, cut_off
from dtensor.passes.cuts.pieces import PAD
from dtensor.passes.ops.attributes import CONSTANT, pad_numbers

SELECT_AND_SCATTER = "stablehlo.select_and_scatter"


def fuse_padding(op: ir.Operation, state: PassState) -> bool:
    """Give a select_and_scatter the padding of its operand; whether it was rewritten."""
    pad = made_by(PAD, op.operands[0])
    if pad is None or _is_padded(op):
        return False
    low, high, gaps = pad_numbers(pad)
    number = pad.operands[1]
    while (convert := made_by(CONVERT, number)) and convert.operands[0].type == number.type:
        number = convert.operands[0]
    fill = made_by(CONSTANT, number)
    is_plain = min([0, *low, *high]) == 0 == max([0, *gaps])
    if fill is None or not is_plain:
        return False
    given: Value = pad.operands[0]
    slices = [use.owner for use in op.results[0].uses]
    if not slices or any(cut_off(user) != (low, high) for user in slices):
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
