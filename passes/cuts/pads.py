"""Padding that a window op reads, and what is cut off its results, said by the window op itself.

`jnp.pad` before a convolution makes a size that no mesh axis divides, and so does the gradient of
an average: it spreads what it got with gaps. Windows know padding and gaps; then input and result
have the sizes that they began with.

JAX writes the gradient of max-pooling padded, then sliced to the size before. The padding goes into
the operation, with the value that it holds: unlike the padding that select_and_scatter knows, it
may be selected.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from dtensor.dialect.ends import read_padding, read_steps
from dtensor.dialect.mlir import Value, ir, made_by, stablehlo
from dtensor.dialect.names import ENDS, FILL
from dtensor.passes.base import PassState
from dtensor.passes.builder import matrix_attr
from dtensor.passes.cuts.pieces import PAD, SLICE
from dtensor.passes.ops.attributes import (
    CONSTANT,
    integers,
    pad_numbers,
    shape_of,
    slice_numbers,
    splat_number,
)
from dtensor.passes.ops.rule import Window
from dtensor.passes.ops.scans import scans

CONVERT = "stablehlo.convert"
CONVOLUTION, REDUCE_WINDOW = "stablehlo.convolution", "stablehlo.reduce_window"
_EXACT = 2**53  # no two integers up to it are the same as floats
SELECT_AND_SCATTER = "stablehlo.select_and_scatter"
WINDOWED = frozenset((CONVOLUTION, REDUCE_WINDOW))


@dataclass
class Rows:
    """What a window op says of the dimensions that its windows walk over.

    Attributes:
        ins: those dimensions of the operand.
        outs: the same of the result.
        lows: places before the first element.
        highs: places behind the last one.
        gaps: places from one element to the next.
        strides: places from one window to the next.
        steps: places from one element of a window to the next.
        counts: elements of a window.
        gaps_name: the attribute that says `gaps`.
    """

    ins: list[int]
    outs: list[int]
    lows: list[int]
    highs: list[int]
    gaps: list[int]
    strides: list[int]
    steps: list[int]
    counts: list[int]
    gaps_name: str

    @classmethod
    def read(cls, op: ir.Operation) -> Rows:
        if op.name == CONVOLUTION:
            numbers = stablehlo.ConvDimensionNumbers(op.attributes["dimension_numbers"])
            ins = list(numbers.input_spatial_dimensions)
            outs, name = list(numbers.output_spatial_dimensions), "lhs_dilation"
            steps_name, sizes = "rhs_dilation", shape_of(op.operands[1])
            counts = [sizes[d] for d in numbers.kernel_spatial_dimensions]
        else:
            ins = outs = list(range(len(shape_of(op.operands[0]))))
            name, steps_name = "base_dilations", "window_dilations"
            counts = integers(op.attributes["window_dimensions"])
        pairs, names = read_padding(op, len(ins)), (name, "window_strides", steps_name)
        lows, highs = ([pair[k] for pair in pairs] for k in (0, 1))
        gaps, strides, steps = (read_steps(op, key, len(ins)) for key in names)
        return cls(ins, outs, lows, highs, gaps, strides, steps, counts, name)

    def scan(self, sizes: list[int]) -> bool:
        """Whether windows over one of the dimensions hold all elements up to one, or from one on.

        Shards pass the totals of those on: windows that are longer, or as many as have ends in
        other dimensions, would not.
        """
        columns = self.counts, self.strides, self.lows, self.highs, self.gaps, self.steps
        windows = [Window(*numbers) for numbers in zip(*columns, strict=True)]
        return any(scans(w, sizes[d]) for d, w in zip(self.ins, windows, strict=True))

    def reach(self, row: int) -> int:
        """Places from the first element of a window to behind its last one."""
        return (self.counts[row] - 1) * self.steps[row] + 1

    def write(self, op: ir.Operation) -> None:
        op.attributes["padding"] = matrix_attr(list(zip(self.lows, self.highs, strict=True)))
        if max(self.gaps, default=1) > 1:
            op.attributes[self.gaps_name] = ir.DenseI64ArrayAttr.get(self.gaps)


def reads_one(op: ir.Operation) -> bool:
    """Whether windows walk over operand 0 alone, and give one result."""
    return op.name != REDUCE_WINDOW or len(op.operands) == 2


def fuse_window_padding(op: ir.Operation) -> bool:
    """Take what is padded before and cut off behind into a window op; whether it was rewritten."""
    has_changed = False
    while (pad := made_by(PAD, op.operands[0])) is not None and _take_padding(op, pad):
        has_changed = True
    return _take_cut(op) or has_changed


def _take_padding(op: ir.Operation, pad: ir.Operation) -> bool:
    lows, highs, gaps = pad_numbers(pad)
    rows = Rows.read(op)
    shape = shape_of(pad.operands[0])
    is_alike = ENDS not in op.attributes and _pads_alike(op, pad)
    if not is_alike or min([0, *lows, *highs]) < 0 or 0 in shape:
        return False
    if rows.scan(shape_of(pad.results[0])):
        return False
    for d in range(len(shape)):
        row = rows.ins.index(d) if d in rows.ins else None
        if row is None:
            if lows[d] or highs[d] or gaps[d]:
                return False
            continue
        if gaps[d] and rows.gaps[row] > 1:
            return False
        # Where elements have gaps, so do those of the padding.
        rows.lows[row] += lows[d] * rows.gaps[row]
        rows.highs[row] += highs[d] * rows.gaps[row]
        rows.gaps[row] *= gaps[d] + 1
    rows.write(op)
    op.operands[0] = pad.operands[0]
    return True


def _pads_alike(op: ir.Operation, pad: ir.Operation) -> bool:
    """Whether a pad holds what the window op takes its own padding for."""
    held = _number(pad.operands[1])
    if op.name == CONVOLUTION:
        return held == 0
    if len(op.operands) != 2:
        return False
    start = _number(op.operands[1])
    if pad.operands[1] == op.operands[1]:
        return True
    if held is None or start is None or _EXACT < abs(held) < math.inf:
        return False
    return start == held and math.copysign(1, start) == math.copysign(1, held)


def _number(value: Value) -> float | None:
    """The number that a value repeats, if it is known; `jnp.pad` converts an integer zero."""
    convert = made_by(CONVERT, value)
    if convert is None:
        return splat_number(value)
    number = splat_number(convert.operands[0])
    is_exact = number is not None and (number == 0 or math.isinf(number))
    return number if is_exact else None  # others may be rounded


def _take_cut(op: ir.Operation) -> bool:
    """Leave out the windows whose results the only reader cuts off."""
    uses = list(op.results[0].uses) if len(op.results) == 1 else []
    if len(uses) != 1:
        return False
    cut = uses[0].owner
    numbers = cut_off(cut)
    rows = Rows.read(op)
    if numbers is None or rows.scan(shape_of(op.operands[0])):
        return False
    for d, (first, last) in enumerate(zip(*numbers, strict=True)):
        if d not in rows.outs:
            if first or last:
                return False
            continue
        row = rows.outs.index(d)
        rows.lows[row] -= first * rows.strides[row]
        rows.highs[row] -= last * rows.strides[row]
    if min([0, *rows.lows, *rows.highs]) < 0:
        return False
    rows.write(op)
    op.results[0].set_type(cut.results[0].type)
    cut.results[0].replace_all_uses_with(op.results[0])
    return True


def does_nothing(cut: ir.Operation) -> bool:
    """Whether an operation cuts nothing off and adds nothing."""
    if cut.name == PAD:
        return not any([any(numbers) for numbers in pad_numbers(cut)])
    return len(cut.operands) == 1 and bool(cut.results[0].type == cut.operands[0].type)


def cut_off(cut: ir.Operation) -> tuple[list[int], list[int]] | None:
    """How many elements an operation only cuts off of each dimension, in front and behind."""
    if cut.name == SLICE:
        starts, limits, strides = slice_numbers(cut)
        sizes = shape_of(cut.operands[0])
        ends = [size - limit for size, limit in zip(sizes, limits, strict=True)]
        return (starts, ends) if set(strides) <= {1} else None
    if cut.name != PAD:
        return None
    lows, highs, gaps = pad_numbers(cut)
    if max([0, *lows, *highs, *gaps]) > 0:
        return None
    return [-low for low in lows], [-high for high in highs]


def fuse_padding(op: ir.Operation, state: PassState) -> bool:
    """Give a select_and_scatter the padding of its operand; whether it was rewritten."""
    pad = made_by(PAD, op.operands[0])
    rank = len(shape_of(op.operands[0]))
    if pad is None or any(map(any, read_padding(op, rank))):
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
