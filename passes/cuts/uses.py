"""Updates of a constant place, and reductions, of what was computed of slices.

`x.at[1:-1].set(y)` chooses `y` where it belongs and `x` elsewhere; a sum of `x[1:] - x[:-1]` adds
zeros in place of what a roll brings round. So both read `y` in the size of `x`.
"""

from __future__ import annotations

from collections.abc import Sequence

from dtensor.dialect.mlir import Value, ir, stablehlo, terminator
from dtensor.passes.builder import Builder
from dtensor.passes.cuts.align import REDUCE, Aligner, Wanted
from dtensor.passes.cuts.pieces import operation_of
from dtensor.passes.cuts.positions import GATHER, SCATTER
from dtensor.passes.ops.attributes import integers, shape_of
from dtensor.passes.ops.combiners import combiner
from dtensor.passes.ops.numbers import known_integers
from dtensor.passes.ops.reduction import Reduction

USES = frozenset((SCATTER, REDUCE, GATHER))


def replaced_use(aligner: Aligner, op: ir.Operation, scope: int) -> None:
    """Replace an update or a reduction of what was computed of slices, if it is one."""
    if op.name == SCATTER:
        _replace_update(aligner, op, scope)
    else:
        _replace_reduction(aligner, op, scope)


def slice_of(op: ir.Operation) -> ir.Operation | None:
    """A gather of one window from a constant place, as the slice that it is; None of others."""
    attribute = op.attributes["dimension_numbers"]
    numbers = stablehlo.GatherDimensionNumbers(attribute)
    operand, rank = op.operands[0], len(shape_of(op.operands[0]))
    place = _place(op.operands[1])
    if (
        place is None
        or list(numbers.offset_dims) != list(range(rank))
        or numbers.collapsed_slice_dims
        or numbers.operand_batching_dims
    ):
        return None
    sizes, kept = shape_of(operand), integers(op.attributes["slice_sizes"])
    starts = [0] * rank
    for d, start in zip(numbers.start_index_map, place, strict=True):
        starts[d] = min(max(start, 0), sizes[d] - kept[d])
    limits = [start + count for start, count in zip(starts, kept, strict=True)]
    made = Builder(op).slice(operand, starts, limits)
    op.results[0].replace_all_uses_with(made)
    return operation_of(made)


def _replace_update(aligner: Aligner, op: ir.Operation, scope: int) -> None:
    starts = _starts(op)
    if starts is None:
        return
    into, _, update = op.operands
    sizes, counts = shape_of(into), shape_of(update)
    kind = _body(op)
    dims = [d for d, (n, count) in enumerate(zip(sizes, counts, strict=True)) if n != count]
    fits = all(0 <= s <= n - c for s, n, c in zip(starts, sizes, counts, strict=True))
    if kind is None or not dims or not fits or 0 in counts:
        return
    long = update
    for d in dims:
        found = aligner.aligned(long, Wanted(d, starts[d], sizes[d], op, scope))
        if found is None:
            return
        long = found
    make = Builder(op, aligner.made)
    mask = _box(make, sizes, {d: (starts[d], starts[d] + counts[d]) for d in dims})
    if kind == "set":
        value = make.select(mask, long, into)
    else:
        value = make.select(mask, long, make.identity(kind, into.type))
        value = make.value(Reduction.named(kind).op, [into, value], into.type)
    op.results[0].replace_all_uses_with(value)


def _starts(op: ir.Operation) -> list[int] | None:
    """Where the one window of a scatter begins, if that is constant."""
    if len(op.operands) != 3:
        return None
    attribute = op.attributes["scatter_dimension_numbers"]
    numbers = stablehlo.ScatterDimensionNumbers(attribute)
    rank = len(shape_of(op.operands[0]))
    if (
        list(numbers.update_window_dims) != list(range(rank))
        or numbers.inserted_window_dims
        or numbers.input_batching_dims
    ):
        return None
    place = _place(op.operands[1])
    if place is None:
        return None
    starts = [0] * rank
    for d, start in zip(numbers.scattered_dims_to_operand_dims, place, strict=True):
        starts[d] = start
    return starts


def _place(indices: Value) -> list[int] | None:
    """The one position that a vector says, if it is known."""
    if len(shape_of(indices)) != 1:
        return None
    found = known_integers(indices)
    return None if found is None else found.tolist()


def _body(op: ir.Operation) -> str | None:
    """What a scatter does with an update: "set", or a reduction; None for anything else."""
    block = op.regions[0].blocks[0]
    end = terminator(block)
    if len(block.operations) == 1 and end.operands[0] == block.arguments[1]:
        return "set"
    element = str(ir.RankedTensorType(op.operands[0].type).element_type)
    return combiner(op.regions[0], (element,))


def _replace_reduction(aligner: Aligner, op: ir.Operation, scope: int) -> None:
    if len(op.operands) != 2:
        return
    value = op.operands[0]
    element = str(ir.RankedTensorType(value.type).element_type)
    sizes, long = shape_of(value), value
    inside = {}
    for d in integers(op.attributes["dimensions"]):
        if not any(sizes[d] < length for length in aligner.pieces.lengths):
            continue
        cut = aligner.sliced(value, d)
        if cut is None or sizes[d] >= cut.size:
            continue
        if not aligner.shards.fits(cut.size, sizes[d], cut.place):
            continue
        place = min(cut.start, cut.size - sizes[d])
        found = aligner.aligned(long, Wanted(d, place, cut.size, op, scope))
        if found is not None:
            long, inside[d] = found, (place, place + sizes[d])
    kind = combiner(op.regions[0], (element,))
    if not inside or kind is None:
        return
    make = Builder(op, aligner.made)
    mask = _box(make, shape_of(long), inside)
    op.operands[0] = make.select(mask, long, make.identity(kind, long.type))


def _box(make: Builder, shape: Sequence[int], inside: dict[int, tuple[int, int]]) -> Value:
    """True where the indices along some dimensions are within ranges, else false."""
    return make.combined(
        "and",
        (
            make.broadcast(make.within(make.iota([shape[d]], 0, "i32"), *limits), shape, [d])
            for d, limits in inside.items()
        ),
    )
