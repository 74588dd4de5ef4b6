"""Windows over a long value with short ones around it, and windows whose results are so long.

`jnp.pad(x, 1, mode="wrap")` puts elements of `x` around `x`, and a convolution that reads them
gives as many results as `x` has. Here the convolution reads `x`, with nothing around it, and the
few results whose windows would have met the others are computed apart. Its gradient gives as many
results as the padded value had: those at the ends are added to the elements that stood there, and
each stretch of them becomes windows of its own. Either way what is long is as long as `x`.
"""

from __future__ import annotations

from collections.abc import Sequence

from dtensor.dialect.ends import Ends, write_ends
from dtensor.dialect.mlir import Value, ir, maker_of
from dtensor.dialect.names import ENDS
from dtensor.passes.cuts.align import read_along
from dtensor.passes.cuts.around import REVERSE, Reader
from dtensor.passes.cuts.padded import cut_dims, cut_padded, cut_slice
from dtensor.passes.cuts.pads import WINDOWED, Rows
from dtensor.passes.cuts.parts import Part, Parts, reads_one
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


def surrounded(ops: Sequence[Visit], shards: Shards) -> list[ir.Operation] | None:
    """Write windows anew that meet what stands around a value; what was made, if anything changed.

    Args:
        ops: of the function.
        shards: tell which dimensions layouts split.
    """
    windowed = [op for op, name, _ in ops if name in WINDOWED and len(op.results) == 1]
    slices = [op for op, name, _ in ops if name == SLICE]
    parts, reader = Parts(shards), Reader()
    has_ends = [op for op in windowed if _with_ends(parts, reader, op)]
    if windowed:
        _cut_windows(parts, slices)
    cut_padded(parts, slices)
    parts.share()
    return parts.made if parts.made or has_ends else None


def _with_ends(parts: Parts, reader: Reader, op: ir.Operation) -> bool:
    """Let windows read a value alone that was padded with its own elements, and say how."""
    if not reads_one(op) or ENDS in op.attributes:
        return False
    rows = Rows.read(op)
    ends: list[Ends | None] = [None] * len(rows.ins)
    value: Value = op.operands[0]
    for row, dim in enumerate(rows.ins):
        found = reader.around(value, dim)
        if found is None or rows.lows[row] or rows.highs[row] or rows.gaps[row] > 1:
            continue
        value = parts.of(value, Part(dim, found.low, found.size, found.size))
        rows.lows[row], rows.highs[row], ends[row] = found.low, found.high, Ends(found.mode)
    if any(ends):
        op.operands[0] = value
        rows.write(op)
        write_ends(op, ends)
    return any(ends)


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
