"""Padding that a window op reads, and what is cut off its results, said by the window op itself.

`jnp.pad(x, 1)` before a convolution makes a size that no mesh axis divides. So does the gradient of
average pooling, which spreads what it got with gaps. Windows can have padding and gaps themselves;
then input and result keep the sizes that they began with.

JAX writes the gradient of max-pooling on a padded value, and slices the result to the size before.
Here the padding goes into the operation, with the value that it holds: unlike the padding that
select_and_scatter has by itself, it may be selected.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from dtensor.dialect.ends import read_padding
from dtensor.dialect.mlir import Value, ir, made_by, maker_of, reader_of, users
from dtensor.dialect.names import ENDS, FILL
from dtensor.passes.builder import Builder
from dtensor.passes.creation import matrix_attr
from dtensor.passes.cuts.pieces import kept_of
from dtensor.passes.cuts.windows import Windows
from dtensor.passes.ops.attributes import (
    CONSTANT,
    fill_number,
    pad_numbers,
    shape_of,
    slice_numbers,
)
from dtensor.passes.ops.patterns import without_ones
from dtensor.passes.rewriting.names import (
    CONVERT,
    CONVOLUTION,
    CUTS,
    PAD,
    SELECT_AND_SCATTER,
    SLICE,
    WINDOWED,
)
from dtensor.passes.rewriting.rewriting import Rewriting

_EXACT = 2**53  # no two integers up to it are the same as floats


def drop_idle(function: Rewriting) -> None:
    """Leave out cuts that cut nothing off and add nothing, and pads of nothing."""
    for op in function.named(*CUTS):
        if op.name == PAD and 0 in shape_of(op.operands[0]):
            make = Builder(op, function.made)
            function.replace(op, make.broadcast(op.operands[1], shape_of(op.results[0])))
        else:
            function.replace(op, op.operands[0] if _does_nothing(op) else None)


def cut_beside_windows(function: Rewriting) -> None:
    """Pad and slice right at windows, where dimensions of one element come or go in between.

    So it is in `jnp.convolve`, which may read what was padded, and of which a part may be read.
    """
    for op in function.named(*WINDOWED):
        padded = _padded_behind_ones(op, function.made)
        if padded is not None:
            op.operands[0] = padded
            function.has_changed = True
    for op in function.named(SLICE) if function.named(*WINDOWED) else ():
        function.replace(op, _cut_before_ones(op, function.made))


def fuse_padding(function: Rewriting) -> None:
    """Let window ops and select_and_scatter say what is padded before and cut off behind them."""
    for op in function.named(SELECT_AND_SCATTER):
        function.has_changed |= _fuse_selected(op, function.made)
    for op in function.named(*WINDOWED):
        function.has_changed |= _fuse_window_padding(op)


def _fuse_window_padding(op: ir.Operation) -> bool:
    """Take what is padded before and cut off behind into a window op; whether it was rewritten."""
    has_changed = False
    while (pad := made_by(PAD, op.operands[0])) is not None and _take_padding(op, pad):
        has_changed = True
    return _take_cut(op) or has_changed


def _take_padding(op: ir.Operation, pad: ir.Operation) -> bool:
    lows, highs, gaps = pad_numbers(pad)
    windows, shape = Windows.of(op), shape_of(pad.operands[0])
    is_alike = ENDS not in op.attributes and _pads_alike(op, pad)
    if not is_alike or min([0, *lows, *highs]) < 0 or 0 in shape:
        return False
    if windows.scan(shape_of(pad.results[0])):
        return False
    # Where elements have gaps, so do those of the padding.
    apart = [window.base_dilation for window in windows.each]
    has_gaps = {d for d, step in zip(windows.ins, apart, strict=True) if step > 1}
    others = {*range(len(shape))} - {*windows.ins}
    if any(gaps[d] for d in has_gaps | others):
        return False
    if not windows.pad(windows.ins, lows, highs, apart):
        return False
    windows.each = [
        replace(window, base_dilation=window.base_dilation * (gaps[d] + 1))
        for d, window in zip(windows.ins, windows.each, strict=True)
    ]
    windows.write(op)
    op.operands[0] = pad.operands[0]
    return True


def _pads_alike(op: ir.Operation, pad: ir.Operation) -> bool:
    """Whether a pad holds what the window op takes its own padding for."""
    held = fill_number(pad.operands[1])
    if op.name == CONVOLUTION:
        return held == 0
    if len(op.operands) != 2:
        return False
    start = fill_number(op.operands[1])
    if pad.operands[1] == op.operands[1]:
        return True
    if held is None or start is None or _EXACT < abs(held) < math.inf:
        return False
    return start == held and math.copysign(1, start) == math.copysign(1, held)


def _take_cut(op: ir.Operation) -> bool:
    """Leave out the windows whose results the only reader cuts off."""
    cut, windows = reader_of(op.results[0]) if len(op.results) == 1 else None, Windows.of(op)
    numbers = None if cut is None else _cut_off(cut)
    if cut is None or numbers is None or windows.scan(shape_of(op.operands[0])):
        return False
    back = [-window.stride for window in windows.each]
    if not windows.pad(windows.outs, *numbers, back):
        return False
    if any(min(window.low, window.high) < 0 for window in windows.each):
        return False
    windows.write(op)
    op.results[0].set_type(cut.results[0].type)
    cut.results[0].replace_all_uses_with(op.results[0])
    return True


def _cut_before_ones(cut: ir.Operation, made: list[ir.Operation]) -> Value | None:
    """A slice of what windows give, with what comes or goes behind it; None of other slices."""
    value, between = without_ones(cut.operands[0])
    op = maker_of(value)
    if op is None or not between or op.name not in WINDOWED:
        return None
    if any(reader_of(each.results[0]) is None for each in (op, *between)):
        return None
    numbers = _placed(cut.operands[0], value, slice_numbers(cut), (0, 1, 1))
    make = Builder(cut, made)
    return make.reshape(make.slice(value, *numbers), shape_of(cut.results[0]))


def _padded_behind_ones(op: ir.Operation, made: list[ir.Operation]) -> Value | None:
    """What windows read, padded behind the dimensions of one element; None of what is not."""
    read = op.operands[0]
    value, between = without_ones(read)
    pad = made_by(PAD, value)
    if pad is None or not between or 1 in shape_of(pad.results[0]):
        return None
    inner = iter(shape_of(pad.operands[0]))
    shape = [next(inner) if size != 1 else 1 for size in shape_of(read)]
    make = Builder(op, made)
    numbers = _placed(value, read, pad_numbers(pad), (0, 0, 0))
    return make.pad(make.reshape(pad.operands[0], shape), pad.operands[1], *numbers)


def _placed(
    value: Value, other: Value, numbers: Sequence[Sequence[int]], of_one: Sequence[int]
) -> list[list[int]]:
    """Numbers of each dimension, for a value that differs in dimensions of one element alone."""
    rows = zip(shape_of(value), zip(*numbers, strict=True), strict=True)
    left = iter([row for size, row in rows if size != 1])
    found = [next(left) if size != 1 else of_one for size in shape_of(other)]
    return [list(each) for each in zip(*found, strict=True)]


def _does_nothing(cut: ir.Operation) -> bool:
    """Whether an operation cuts nothing off and adds nothing."""
    is_as_long = bool(cut.results[0].type == cut.operands[0].type)
    if cut.name == PAD:  # there are no gaps in between if there is one element
        return is_as_long and not any([*pad_numbers(cut)[0], *pad_numbers(cut)[1]])
    return len(cut.operands) == 1 and is_as_long


def _cut_off(cut: ir.Operation) -> tuple[list[int], list[int]] | None:
    """How many elements an operation only cuts off of each dimension, in front and behind."""
    kept = kept_of(cut)
    if kept is None:
        return None
    rows = zip(kept, shape_of(cut.operands[0]), strict=True)
    return [first for first, _ in kept], [size - end for (_, end), size in rows]


def _fuse_selected(op: ir.Operation, new: list[ir.Operation]) -> bool:
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
    slices = users(op.results[0])
    if not slices or any(_cut_off(user) != (low, high) for user in slices):
        return False
    made: ir.Operation = op.clone(ip=ir.InsertionPoint(op))
    made.operands[0] = given
    made.results[0].set_type(given.type)
    made.attributes["padding"] = matrix_attr(list(zip(low, high, strict=True)))
    made.attributes[FILL] = fill.attributes["value"]
    for user in slices:
        user.results[0].replace_all_uses_with(made.results[0])
    new.append(made)
    return True
