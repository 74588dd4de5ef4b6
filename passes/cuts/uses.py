"""Updates of a constant place, and reductions, of what was computed of slices.

`x.at[1:-1].set(y)` selects `y` where it belongs and `x` elsewhere. A sum of `x[1:] - x[:-1]` adds
zeros in the place of what a roll brings round. So both read what is computed in the size of `x`.
"""

from __future__ import annotations

from dtensor.dialect.mlir import ir, made_by, operation_of
from dtensor.passes.builder import Builder
from dtensor.passes.creation import with_sizes
from dtensor.passes.cuts.known_windows import known_place, update_kind, update_of, window_place
from dtensor.passes.cuts.runs import Run, box
from dtensor.passes.cuts.slices_in_place import Aligner, Wanted
from dtensor.passes.ops.attributes import integers, shape_of
from dtensor.passes.ops.combiners import combiner
from dtensor.passes.ops.indexing import IndexNumbers
from dtensor.passes.rewriting.names import DYNAMIC_UPDATE_SLICE, REDUCE, RESHAPE, SCATTER, SLICE

UPDATES = frozenset((SCATTER, DYNAMIC_UPDATE_SLICE))
USES = UPDATES | {REDUCE}


def replaced_use(aligner: Aligner, op: ir.Operation, scope: int) -> None:
    """Replace an update or a reduction of what was computed of slices, if it is one."""
    if op.name in UPDATES:
        _replace_update(aligner, op, scope)
    else:
        _replace_reduction(aligner, op, scope)


def _replace_update(aligner: Aligner, op: ir.Operation, scope: int) -> None:
    starts = window_place(op)
    if starts is None:
        if op.name == SCATTER:
            _replace_row(aligner, op, scope)
        return
    into, update = op.operands[0], update_of(op)
    sizes, counts = shape_of(into), shape_of(update)
    kind = update_kind(op)
    dims = [d for d, (n, count) in enumerate(zip(sizes, counts, strict=True)) if n != count]
    fits = all(0 <= s <= n - c for s, n, c in zip(starts, sizes, counts, strict=True))
    if kind is None or not dims or not fits or 0 in counts:
        return
    long = update
    is_padded = aligner.shards.splits(*[(value, d) for value in (into, update) for d in dims])
    for d in dims:
        found = aligner.aligned(long, Wanted(d, starts[d], sizes[d], op, scope))
        if found is None and is_padded and sizes[d] < 2 * counts[d]:
            found = Builder(op, aligner.made).lengthened(long, d, starts[d], sizes[d])
        if found is None:
            return
        long = found
    make = Builder(op, aligner.made)
    mask = box(make, sizes, {d: Run(starts[d], 1, counts[d]) for d in dims})
    if kind == "set":
        value = make.select(mask, long, into)
    else:
        value = make.select(mask, long, make.identity(kind, into.type))
        value = make.merged(kind, into, value)
    aligner.shards.stands_for(value, op.results[0])
    op.results[0].replace_all_uses_with(value)


def _replace_row(aligner: Aligner, op: ir.Operation, scope: int) -> None:
    """Put a row of a value as large in the place of another, as boundaries are set."""
    numbers = IndexNumbers.of(op)
    gone, named, row = numbers.gone, numbers.named, op.operands[-1]
    place = known_place(op.operands[1])
    if len(op.operands) != 3 or place is None or update_kind(op) != "set":
        return
    if len(gone) != 1 or named != gone:
        return
    while (cut := made_by(RESHAPE, row)) is not None:
        row = cut.operands[0]
    into, dim, at, cut = op.operands[0], gone[0], place[0], made_by(SLICE, row)
    sizes = shape_of(into)
    is_row = tuple(shape_of(row)) == with_sizes(sizes, dim, 1)
    if cut is None or not is_row or shape_of(cut.operands[0]) != sizes:
        return
    if not 0 <= at < sizes[dim] or not aligner.shards.splits((into, dim)):
        return
    joined = Builder(op, aligner.made).patched(into, dim, at, row)
    op.results[0].replace_all_uses_with(joined)
    value = aligner.fuse(operation_of(joined), scope)
    for d in range(len(sizes)):
        aligner.shards.split_like(value, d, (into, d))


def _replace_reduction(aligner: Aligner, op: ir.Operation, scope: int) -> None:
    if len(op.operands) != 2:
        return
    value = op.operands[0]
    sizes, long = shape_of(value), value
    inside = {}
    for d in integers(op.attributes["dimensions"]):
        if not any(sizes[d] < length for length in aligner.lengths):
            continue
        cut = aligner.sliced(value, d)
        if cut is None or sizes[d] >= cut.source.size:
            continue
        size = cut.source.size
        if not aligner.shards.fits(size, sizes[d], cut.source.at):
            continue
        place = min(cut.start, size - sizes[d])
        found = aligner.aligned(long, Wanted(d, place, size, op, scope))
        if found is not None:
            long, inside[d] = found, Run(place, 1, sizes[d])
    kind = combiner(op.regions[0])
    if not inside or kind is None:
        return
    make = Builder(op, aligner.made)
    mask = box(make, shape_of(long), inside)
    op.operands[0] = make.select(mask, long, make.identity(kind, long.type))
