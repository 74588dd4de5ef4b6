"""Windows over a dimension that has become longer.

The places that the windows walk over and the results stay in proportion, so each shard has the
elements that its own windows begin at. The windows beyond the true end see padding alone, and their
results are padding themselves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from dtensor.dialect.ends import write_ends, write_folds
from dtensor.passes.creation import matrix_attr
from dtensor.passes.ops.padding import Along, Fill, Grown, TiedDims
from dtensor.passes.ops.reduction import Reduction
from dtensor.passes.ops.rule import Window, WindowDim


def window_tie(count: int, dim: WindowDim, fill: Fill | Reduction) -> TiedDims:
    """The tie of a dimension that windows walk over, and of what has an element for each of them.

    They walk over `count` operands, which hold `fill` beyond the end, if not elements of their
    own; so does what else has an element for each window. There are as many results.
    """
    window, (slot, d) = dim.window, dim.steps
    stride, gap = window.stride, window.base_dilation
    around = fill if window.ends is None else Fill.ANY
    walked = [Along(k, dim.operand, stride, around, stride) for k in range(count)]
    steps = [slot - k for k in range(count)] if slot < 0 else [slot]
    times = 1 if dim.may_spare else gap
    return (*walked, *(Along(k, d, gap, fill, times) for k in steps))


def reads_end(window: Window, size: int, steps: int) -> bool:
    """Whether some window reads the place of an element beyond the end."""
    end = (steps - 1) * window.stride - window.low + window.reach
    return end > size * window.base_dilation


def is_one_to_one(window: Window) -> bool:
    """Whether each window is the element of its own index."""
    is_step = window.size == window.stride == window.base_dilation == 1
    return is_step and window.is_bare and not (window.low or window.high)


def set_padding(op: Grown, windows: Sequence[Window], rows: Mapping[int, tuple[int, int]]) -> None:
    """Write the padding of all windows, some of them anew."""
    if not rows:
        return
    pairs = [rows.get(i, (window.low, window.high)) for i, window in enumerate(windows)]
    op.operation.attributes["padding"] = matrix_attr(pairs)


def set_ends(op: Grown, windows: Sequence[Window], sizes: Mapping[int, tuple[int, int]]) -> None:
    """Say where dimensions end that have become longer.

    `sizes` has, by window, how many elements it walked over, and how many windows there were.
    """
    if not op.has_end:
        return
    ends, folds = ([each.ends for each in windows], [each.folds for each in windows])
    for i, (size, steps) in sizes.items():
        window = windows[i]
        if window.ends is not None:
            ends[i] = replace(window.ends, size=size, steps=steps)
        if window.folds is not None:
            folds[i] = replace(window.folds, size=steps)
    write_ends(op.operation, ends)
    write_folds(op.operation, folds)
