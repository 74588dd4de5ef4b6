"""Windows over what was padded with its own elements, and what is computed of padded values.

`jnp.pad(x, 1, mode="wrap")` puts elements of `x` around `x`, and a convolution that reads them
gives as many results as `x` has. Here the convolution reads `x`, and says what pads it; and so do
the windows of its gradient, whose results at the ends are added to others. Either way what is long
is as long as `x`.
"""

from __future__ import annotations

from collections.abc import Sequence

from dtensor.dialect.ends import Ends, write_ends
from dtensor.dialect.mlir import Value, ir
from dtensor.dialect.names import ENDS
from dtensor.passes.cuts.around import Reader
from dtensor.passes.cuts.folded import ADD, folded
from dtensor.passes.cuts.pads import WINDOWED, Rows, reads_one
from dtensor.passes.cuts.parts import Part, Parts, cut_padded
from dtensor.passes.cuts.pieces import SLICE
from dtensor.passes.cuts.shards import Shards
from dtensor.passes.program import Visit


def surrounded(ops: Sequence[Visit], shards: Shards) -> list[ir.Operation] | None:
    """Write windows anew that meet what stands around a value; what was made, if anything changed.

    Args:
        ops: of the function.
        shards: tell which dimensions layouts split.
    """
    windowed = [op for op, name, _ in ops if name in WINDOWED and len(op.results) == 1]
    parts, reader = Parts(shards), Reader()
    has_ends = [op for op in windowed if _with_ends(parts, reader, op)]
    adds = [op for op, name, _ in ops if name == ADD] if windowed else []
    has_folds = [op for op in adds if folded(op, parts.made)]
    cut_padded(parts, [op for op, name, _ in ops if name == SLICE])
    parts.share()
    return parts.made if parts.made or has_ends or has_folds else None


def _with_ends(parts: Parts, reader: Reader, op: ir.Operation) -> bool:
    """Let windows read a value alone that was padded with its own elements, and say how."""
    if not reads_one(op) or ENDS in op.attributes:
        return False
    rows = Rows.read(op)
    ends: list[Ends | None] = [None] * len(rows.ins)
    value: Value = op.operands[0]
    for row, dim in enumerate(rows.ins):
        found = reader.around(value, dim)
        low, high = rows.lows[row], rows.highs[row]  # what is cut off of what was put around
        if found is None or max(low, high) > 0 or rows.gaps[row] > 1:
            continue
        low, high = found.low + low, found.high + high
        if min(low, high) >= 0:
            value = parts.of(value, Part(dim, found.low, found.size, found.size))
            rows.lows[row], rows.highs[row], ends[row] = low, high, Ends(found.mode)
    if any(ends):
        op.operands[0] = value
        rows.write(op)
        write_ends(op, ends)
    return any(ends)
