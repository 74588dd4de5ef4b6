"""Windows over a long value with short ones around it, and windows whose results are so long.

`jnp.pad(x, 1, mode="wrap")` puts elements of `x` around `x`, and a convolution that reads them
gives as many results as `x` has. Here the convolution reads `x`, with nothing around it, and the
few results whose windows would have met the others are computed apart. Its gradient gives as many
results as the padded value had: those at the ends are added to the elements that stood there, and
each stretch of them becomes windows of its own. Either way what is long is as long as `x`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dtensor.dialect.build import splice
from dtensor.dialect.mlir import Value, ir, maker_of, stablehlo
from dtensor.passes.builder import Builder
from dtensor.passes.cuts.align import read_along
from dtensor.passes.cuts.padded import cut_dims, cut_padded, cut_slice
from dtensor.passes.cuts.pads import CONVOLUTION, WINDOWED, Rows
from dtensor.passes.cuts.parts import REVERSE, Part, Parts
from dtensor.passes.cuts.pieces import CONCATENATE, PAD, SLICE, operation_of
from dtensor.passes.cuts.shards import Shards
from dtensor.passes.ops.attributes import (
    integer,
    integers,
    pad_numbers,
    shape_of,
    slice_numbers,
)
from dtensor.passes.program import Visit

_DEEPEST = 100  # operations one behind the other

At = tuple[Value, int]  # a value and one of its dimensions


def surrounded(ops: Sequence[Visit], shards: Shards) -> list[ir.Operation]:
    """Write windows anew that meet what stands around a long value; the operations made.

    Args:
        ops: of the function.
        shards: tell which dimensions layouts split.
    """
    windowed = [op for op, name, _ in ops if name in WINDOWED and len(op.results) == 1]
    slices = [op for op, name, _ in ops if name == SLICE]
    parts = Parts(shards)
    joined = [op for op in windowed if any(map(_meets_join, _walked(op)))]
    while joined:
        joined += _apart(parts, joined.pop())
    if windowed:
        _cut_windows(parts, slices)
    cut_padded(parts, slices)
    parts.share()
    return parts.made


def _walked(op: ir.Operation) -> list[At]:
    return [(op.operands[0], d) for d in Rows.read(op).ins]


def _meets_join(at: At) -> bool:
    """Whether a value was put together along a dimension, and computed of it."""
    for _ in range(_DEEPEST):
        op = maker_of(at[0])
        if op is None:
            return False
        if op.name == CONCATENATE and _joined(op) == at[1]:
            return len(op.operands) > 1
        found = _longest(op, at[1])
        if found is None:
            return False
        at = found[:2]
    return False


def _joined(op: ir.Operation) -> int:
    """The dimension along which a concatenation puts values together."""
    return integer(op.attributes["dimension"])


def _longest(op: ir.Operation, dim: int) -> tuple[Value, int, int] | None:
    """What an operation computes most of its elements of along a dimension, each by itself.

    Returns:
        The value, its dimension, and the place of its first element in the result.
    """
    if op.name == CONCATENATE:
        joined = _joined(op)
        sizes = [shape_of(value)[joined] for value in op.operands]
        k = sizes.index(max(sizes))
        return op.operands[k], dim, sum(sizes[:k]) if joined == dim else 0
    if op.name == SLICE:
        starts, _, strides = slice_numbers(op)
        return (op.operands[0], dim, -starts[dim]) if strides[dim] == 1 else None
    if op.name == PAD:
        lows, _, gaps = pad_numbers(op)
        return (op.operands[0], dim, lows[dim]) if not gaps[dim] else None
    if op.name == REVERSE:
        is_kept = dim not in integers(op.attributes["dimensions"])
        return (op.operands[0], dim, 0) if is_kept else None
    read = read_along(op, dim) if len(op.results) == 1 else None
    for k, d in (read or {}).items():
        return op.operands[k], d, 0
    return None


def _main(shards: Shards, value: Value, dim: int) -> tuple[int, int] | None:
    """Where in a value the longest stretch of elements begins that shards hold, and how many."""
    at, place, size = (value, dim), 0, shape_of(value)[dim]
    for _ in range(_DEEPEST):
        count = shape_of(at[0])[at[1]]
        if shards.splits(at):
            return (place, count) if 0 <= place <= size - count else None
        op = maker_of(at[0])
        found = None if op is None else _longest(op, at[1])
        if found is None:
            return None
        at, place = found[:2], place + found[2]
    return None


def _apart(parts: Parts, op: ir.Operation) -> list[ir.Operation]:
    """Replace windows that meet what stands around a long value; the windowed operations made."""
    rows = Rows.read(op)
    for row, dim in enumerate(rows.ins):
        found = _main(parts.shards, op.operands[0], dim)
        if found is None or found[1] == shape_of(op.operands[0])[dim] or rows.gaps[row] > 1:
            continue
        main = Part(dim, *found, least=found[1])
        if 2 * rows.reach(row) < main.count:
            made = _of_results(parts, op, row, main)
        else:
            made = _of_terms(parts, op, row, main) if op.name == CONVOLUTION else []
        if made:
            return made
    return []


def _of_results(parts: Parts, op: ir.Operation, row: int, main: Part) -> list[ir.Operation]:
    """The results whose windows meet anything but `main` from windows of their own."""
    rows, result = Rows.read(op), op.results[0]
    out, low, stride = rows.outs[row], rows.lows[row], rows.strides[row]
    size, count = shape_of(op.operands[0])[main.dim], shape_of(result)[out]
    end = main.start + main.count
    first = -(-(main.start + low) // stride) if main.start else 0
    last = (end + low - rows.reach(row)) // stride + 1 if end < size else count
    last = min(last, count)
    if -(-main.count // stride) != count or count > 2 * (last - first):
        return []
    found, stretches = list[Value](), [(0, first, last - first)]
    for at, length in ((0, first), (last, count - last)):
        value = parts.of_windows(op, Part(out, at, length, main.least)) if length else None
        if value is not None:
            found.append(value)
            stretches.insert(2 * (at > 0), (len(found), 0, length))
        elif length:
            return []
    rows.lows[row] += main.start
    rows.highs[row] += size - end
    operands = [parts.of(op.operands[0], main), *list(op.operands)[1:]]
    found.insert(0, parts.windows(op, rows, operands, out, count))
    whole = splice(found, out, stretches, loc=op.location, ip=ir.InsertionPoint(op))
    parts.made.append(operation_of(whole))
    result.replace_all_uses_with(whole)
    return [operation_of(value) for value in found]


def _of_terms(parts: Parts, op: ir.Operation, row: int, main: Part) -> list[ir.Operation]:
    """Windows almost as long as what they walk over: the sum of what each stretch of it gives."""
    rows, result = Rows.read(op), op.results[0]
    kernel = stablehlo.ConvDimensionNumbers(
        op.attributes["dimension_numbers"]
    ).kernel_spatial_dimensions[row]
    size, length = shape_of(op.operands[0])[main.dim], shape_of(op.operands[1])[kernel]
    end = main.start + main.count
    if _is_reversed(op):
        return []
    terms = []
    for start, count in ((main.start, main.count), (0, main.start), (end, size - end)):
        part = Part(main.dim, start, count, main.least)
        term = _term(rows, row, shape_of(result)[rows.outs[row]], part) if count else None
        if term is not None:
            terms.append((part, *term))
    if (
        not terms
        or terms[0][1].count < length
        or any(min(low, high) < 0 for *_, low, high in terms)
    ):
        return []
    values = []
    for part, taps, low, high in terms:
        rows.lows[row], rows.highs[row] = low, high
        taps = replace(taps, dim=kernel)
        operands = [parts.of(op.operands[0], part), parts.of(op.operands[1], taps)]
        out = rows.outs[row]
        values.append(parts.windows(op, rows, operands, out, shape_of(result)[out]))
    result.replace_all_uses_with(Builder(op, parts.made).combined("add", values))
    return [operation_of(value) for value in values]


def _term(rows: Rows, row: int, count: int, part: Part) -> tuple[Part, int, int] | None:
    """What of windows meets a stretch of what they walk over, one place after another.

    Args:
        rows: of the windows.
        row: which dimension.
        count: of the windows.
        part: the stretch.

    Returns:
        The elements of each window, and the padding of the stretch, in front and behind, with which
        as many windows of these elements alone walk over it; None if there are none.
    """
    low, step, walk = rows.lows[row], rows.steps[row], (count - 1) * rows.strides[row]
    first = max(0, -(-(part.start + low - walk) // step))
    last = min(rows.counts[row] - 1, (part.start + part.count - 1 + low) // step)
    if first > last:
        return None
    begin = first * step - low  # where the first window begins
    end = begin + walk + (last - first) * step + 1  # behind the last element of the last one
    taps = Part(0, first, last - first + 1, rows.counts[row])
    return taps, part.start - begin, end - part.start - part.count


def _is_reversed(op: ir.Operation) -> bool:
    """Whether windows are read from their ends."""
    name = "window_reversal"
    return name in op.attributes and any(ir.DenseBoolArrayAttr(op.attributes[name]))


def _cut_windows(parts: Parts, slices: Sequence[ir.Operation]) -> None:
    """Let each slice of what windows gave be the windows that it keeps the results of."""
    mains: dict[At, int] = {}
    for op in slices:
        for d in cut_dims(op):
            found = _kept_of(parts, op, d)
            if found is not None:
                mains.setdefault(*found)
    if not mains:
        return
    for op in slices:
        dims = list[tuple[int, int]]()
        for d in cut_dims(op):
            at = _windows_behind((op.operands[0], d))
            least = None if at is None else mains.get((parts.origins.get(at[0], at[0]), at[1]))
            if least is not None:
                dims.append((d, least))
        cut_slice(parts, op, dims)


def _kept_of(parts: Parts, op: ir.Operation, dim: int) -> tuple[At, int] | None:
    """The results of windows of which a slice keeps so many as shards hold, and how many."""
    whole, kept = (shape_of(value)[dim] for value in (op.operands[0], op.results[0]))
    if 2 * kept <= whole or (found := _windows_behind((op.operands[0], dim))) is None:
        return None
    windows = operation_of(found[0])
    rows = Rows.read(windows)
    row = rows.outs.index(found[1])
    read = shape_of(windows.operands[0])[rows.ins[row]] * rows.gaps[row] // rows.strides[row]
    is_held = parts.shards.splits((op.results[0], dim)) or (
        kept == read and parts.shards.splits((windows.operands[0], rows.ins[row]))
    )
    if not is_held or parts.shards.splits((op.operands[0], dim)):
        return None
    return found, kept


def _windows_behind(at: At) -> At | None:
    """The result of windows that a value was computed of, element by element along a dimension."""
    for _ in range(_DEEPEST):
        op = maker_of(at[0])
        if op is None:
            return None
        if op.name in WINDOWED:
            is_walked = len(op.results) == 1 and at[1] in Rows.read(op).outs
            return at if is_walked else None
        found = _longest(op, at[1])
        if found is None or (op.name == CONCATENATE and _joined(op) == at[1]):
            return None
        at = found[:2]
    return None
