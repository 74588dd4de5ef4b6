"""What is computed of dimensions that a reshape merged, computed of them before that.

`x.reshape(-1)` of rows that are not divided into shards, but split all the same, would have padding
within: it is put together first. `jnp.vdot(x, y)`, `jnp.linalg.norm`, `x.reshape(-1, n) @ w` and
the like need no merged dimensions; nor do lookups and sums at places (`table[tokens.ravel()]`), and
the largest of all are among those of each row. So the reshape moves behind what is computed of it,
until a reduction, a product or another reshape ends it.

`jnp.concatenate([x, x])` puts such rows one behind the other: it merges two blocks of them, which
slices take apart again, as samplers with guidance and losses of pairs have it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from dtensor.dialect.mlir import Value, ir, stablehlo
from dtensor.dialect.names import DOT_NUMBERS, RELAYOUT
from dtensor.passes.builder import Builder
from dtensor.passes.creation import integers_attr
from dtensor.passes.cuts.merged_blocks import cut_blocks, join_blocks, pad_blocks, swap_rows
from dtensor.passes.cuts.merged_dims import (
    MergedDims,
    among,
    merged_from,
    parted_as,
    sizes_of,
    with_units,
)
from dtensor.passes.cuts.merged_values import Merges, counted, is_elementwise
from dtensor.passes.ops.attributes import dot_sides, integers, is_marked, shape_of
from dtensor.passes.ops.indexing import IndexNumbers
from dtensor.passes.rewriting.names import (
    BROADCAST,
    CONCATENATE,
    DOT,
    GATHER,
    PAD,
    REDUCE,
    RESHAPE,
    SCATTER,
    SLICE,
    TOP_K,
    TRANSPOSE,
)
from dtensor.passes.rewriting.rewriting import Rewriting


def keep_apart(function: Rewriting) -> None:
    """Compute of dimensions before they are merged, where one would be padded within."""
    if not function.shards.is_uneven(function.named(RELAYOUT)):
        return
    merges = Merges(function)
    for op, name, _ in function.ops.visits:
        if is_marked(op):
            continue
        if name in _MERGING:
            _MERGING[name](merges, op)
        elif merges.apart and any(value in merges.apart for value in op.operands):
            _WRITERS.get(name, _other)(merges, op)
        elif not merges.parted.isdisjoint(op.operands) and is_elementwise(op):
            merges.parted.add(op.results[0])
    merges.replace()


def _other(merges: Merges, op: ir.Operation) -> None:
    """What computes elements or rows by themselves, or adds them up."""
    (_elementwise if is_elementwise(op) else swap_rows)(merges, op)


def _elementwise(merges: Merges, op: ir.Operation) -> None:
    """Each element is computed of those at its place."""
    make = Builder(op, merges.function.made)
    given = [merges.apart[v][1] for v in op.operands if v in merges.apart]
    groups = tuple([max(every, key=len) for every in zip(*given, strict=True)])
    values = [merges.of(v, groups, make) if shape_of(v) else v for v in op.operands]
    known = [value for value in values if value is not None]
    if len(known) == len(values):
        new = make.again(op, known, [tuple(sizes_of(groups))])
        merges.say(op.results[0], new.results[0], groups)


def _reshape(merges: Merges, op: ir.Operation) -> None:
    """Dimensions are merged, or parted again."""
    value, result = op.operands[0], op.results[0]
    sizes = shape_of(result)
    if value not in merges.apart:
        groups = merged_from(shape_of(value), sizes)
        if groups is not None and _is_padded_within(merges, value, groups):
            merges.apart[result] = value, groups
        return
    whole, groups = merges.apart[value]
    again = (
        with_units(groups, sizes) or merged_from(shape_of(whole), sizes) or parted_as(groups, sizes)
    )
    if again is not None:
        make = Builder(op, merges.function.made)
        merges.say(result, make.reshape(whole, sizes_of(again)), again)
        if result not in merges.apart:
            merges.parted.add(result)


def _is_padded_within(merges: Merges, value: Value, groups: MergedDims) -> bool:
    """Whether layouts split a dimension unevenly that is merged behind another."""
    if value in merges.parted:
        return any(len(group) > 1 for group in groups)
    dim = 0
    for group in groups:
        for k, size in enumerate(group):
            if math.prod(group[:k]) > 1 and size % merges.function.shards.count((value, dim + k)):
                return True
        dim += len(group)
    return False


def _broadcast(merges: Merges, op: ir.Operation) -> None:
    """A dimension that is kept is merged from the same ones."""
    whole, groups = merges.apart[op.operands[0]]
    dims = integers(op.attributes["broadcast_dimensions"])
    before, after = shape_of(op.operands[0]), shape_of(op.results[0])
    if any(before[k] != after[d] and groups[k] != (1,) for k, d in enumerate(dims)):
        return
    new: list[tuple[int, ...]] = [(size,) for size in after]
    for k, d in enumerate(dims):
        if before[k] == after[d]:
            new[d] = groups[k]
    make = Builder(op, merges.function.made)
    spread = make.broadcast(whole, sizes_of(new), among(new, dims, groups))
    merges.say(op.results[0], spread, tuple(new))


def _transpose(merges: Merges, op: ir.Operation) -> None:
    """Dimensions move together with those that they were merged with."""
    whole, groups = merges.apart[op.operands[0]]
    order = integers(op.attributes["permutation"])
    moved = tuple([groups[d] for d in order])
    make = Builder(op, merges.function.made)
    moved_whole = make.transpose(whole, among(groups, order, moved))
    merges.say(op.results[0], moved_whole, moved)


def _reduce(merges: Merges, op: ir.Operation) -> None:
    """Of a merged dimension, all are reduced that it was merged from."""
    count, make = len(op.results), Builder(op, merges.function.made)
    values, starts = op.operands[:count], op.operands[count:]
    groups = next((merges.apart[value][1] for value in values if value in merges.apart), None)
    if groups is None:
        return
    found = [merges.of(value, groups, make) for value in values]
    known = [value for value in found if value is not None]
    if len(known) < count:
        return
    dims = integers(op.attributes["dimensions"])
    left = tuple([group for d, group in enumerate(groups) if d not in dims])
    gone = integers_attr(among(groups, dims, [groups[d] for d in dims]))
    shapes = [tuple(sizes_of(left))] * count
    new = make.again(op, [*known, *starts], shapes, {"dimensions": gone})
    for result, whole in zip(op.results, new.results, strict=True):
        merges.say(result, whole, left)


def _largest(merges: Merges, op: ir.Operation) -> None:
    """The largest of a merged dimension are among those of its rows.

    Of equal ones the first is taken of each row, and then the first row.
    """
    whole, groups = merges.apart[op.operands[0]]
    make, others, last = Builder(op, merges.function.made), groups[:-1], groups[-1]
    taken, width = shape_of(op.results[0])[-1], last[-1]
    if len(last) > 1 and taken >= width:
        return
    rows = (*others, last[:-1], (taken,)) if len(last) > 1 else (*others, (taken,))
    best = make.again(op, [whole], [tuple(sizes_of(rows))] * 2)
    if len(last) > 1:
        values, index = best.results
        row = counted(make, rows, len(others), make.element_of(index))
        place = make.binary("add", index, make.times(row, width))
        shape = (*sizes_of(others), math.prod(last[:-1]) * taken)
        best = make.again(op, [make.reshape(values, shape)], [(*shape[:-1], taken)] * 2)
        places = make.along_last(make.reshape(place, shape), best.results[1])
    else:
        places = best.results[1]
    left = (*others, (taken,))
    merges.say(op.results[0], best.results[0], left)
    merges.say(op.results[1], places, left)


def _indexed(merges: Merges, op: ir.Operation) -> None:
    """What is read or added at places has their dimensions, merged or not; or rows are swapped."""
    given, numbers = op.operands, IndexNumbers.of(op)
    is_read, indices = op.name == GATHER, given[1]
    if len(op.results) > 1 or numbers.beside or given[0] in merges.apart:
        swap_rows(merges, op)
        return
    slices = op.results[0] if is_read else given[2]
    own = [d for d in range(len(shape_of(indices))) if d != numbers.vector_dim]
    theirs = [d for d in range(len(shape_of(slices))) if d not in numbers.windows]
    of_slices, of_indices = list(merges.groups(slices)), list(merges.groups(indices))
    for d, e in zip(own, theirs, strict=True):
        of_indices[d] = of_slices[e] = max(of_indices[d], of_slices[e], key=len)
    vectors = of_indices[numbers.vector_dim : numbers.vector_dim + 1]
    if any(len(group) > 1 for group in (*vectors, *[of_slices[d] for d in numbers.windows])):
        swap_rows(merges, op)
        return
    make = Builder(op, merges.function.made)
    found = [given[0], merges.of(indices, tuple(of_indices), make)]
    if not is_read:
        found.append(merges.of(slices, tuple(of_slices), make))
    known = [value for value in found if value is not None]
    if len(known) < len(found):
        return
    groups = tuple(of_slices) if is_read else merges.groups(op.results[0])
    new = make.again(op, known, [tuple(sizes_of(groups))])
    windows = among(of_slices, numbers.windows, [(1,)] * len(numbers.windows))
    vector_dim = len(sizes_of(of_indices[: numbers.vector_dim]))
    replace(numbers, windows=windows, vector_dim=vector_dim).write(new)
    merges.say(op.results[0], new.results[0], groups)


def _dot(merges: Merges, op: ir.Operation) -> None:
    """What both sides share is merged from the same ones on both."""
    sides, make = dot_sides(op), Builder(op, merges.function.made)
    groups = [list(merges.groups(value)) for value in op.operands]
    for one, other in ((0, 1), (1, 0)):
        for mine, others in zip(sides[one], sides[other], strict=True):
            for d, e in zip(mine, others, strict=True):
                if len(groups[one][d]) > 1:
                    groups[other][e] = groups[one][d]
    values = [
        merges.of(value, tuple(of), make) for value, of in zip(op.operands, groups, strict=True)
    ]
    left, right = values
    if left is None or right is None:
        return

    def places(side: int, which: int) -> list[int]:
        dims, of = sides[side][which], groups[side]
        return among(of, dims, [of[d] for d in dims])

    numbers = stablehlo.DotDimensionNumbers.get(
        places(0, 0), places(1, 0), places(0, 1), places(1, 1)
    )
    shared = [groups[0][d] for d in sides[0][0]]
    free = [
        group
        for of, (batch, summed) in zip(groups, sides, strict=True)
        for d, group in enumerate(of)
        if d not in batch and d not in summed
    ]
    result = (*shared, *free)
    new = make.again(op, [left, right], [tuple(sizes_of(result))], {DOT_NUMBERS: numbers})
    merges.say(op.results[0], new.results[0], result)


_Writer = Callable[[Merges, ir.Operation], None]

_MERGING: dict[str, _Writer] = {RESHAPE: _reshape, CONCATENATE: join_blocks, PAD: pad_blocks}

_WRITERS: dict[str, _Writer] = {
    BROADCAST: _broadcast,
    TRANSPOSE: _transpose,
    REDUCE: _reduce,
    TOP_K: _largest,
    GATHER: _indexed,
    SCATTER: _indexed,
    DOT: _dot,
    SLICE: cut_blocks,
}
