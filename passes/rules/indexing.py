"""Gather and scatter: embedding lookups, their gradients, and all other access by computed index.

A dimension that is indexed element by element (the vocabulary of an embedding) can be split: each
shard serves the indices of the elements that it owns, and no table moves.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from dtensor.dialect.mlir import ir, stablehlo
from dtensor.passes.rules.elements import reductions_of
from dtensor.passes.rules.reading import integers
from dtensor.passes.rules.reduction import combiner
from dtensor.passes.rules.rule import OpInfo, OpRule, RuleBuilder

Pairs = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class IndexedDims:
    """How the dimensions of a gather or a scatter hang together.

    The *slices* are what is read or written: the result of a gather, the updates of a scatter.

    Attributes:
        batching: `(operand, indices, slices)` dimensions that walk together.
        spread: `(indices, slices)` dimensions: one index vector, one window.
        full: `(operand, slices)` dimensions that every window holds whole.
        picked: `(operand dimension, component of the index vector)` of the dimensions of which
            every window holds the one element that the index names.
        partly: operand dimensions of which windows hold some elements, but not one by index.
        vector_dim: the dimension of the indices that holds index vectors; their rank if each
            index is a vector by itself.
    """

    batching: tuple[tuple[int, int, int], ...]
    spread: Pairs
    full: Pairs
    picked: Pairs
    partly: tuple[int, ...]
    vector_dim: int


def gather_dims(operation: ir.Operation, operand: Sequence[int], indices: int) -> IndexedDims:
    """The dimensions of a gather.

    Args:
        operation: the gather.
        operand: global shape of its operand.
        indices: rank of its start indices.
    """
    numbers = stablehlo.GatherDimensionNumbers(operation.attributes["dimension_numbers"])
    sizes = integers(operation.attributes["slice_sizes"])
    batching = list(numbers.operand_batching_dims)
    skipped = {*numbers.collapsed_slice_dims, *batching}
    windows = [d for d in range(len(operand)) if d not in skipped]
    return _indexed_dims(
        operand,
        sizes,
        dict(zip(windows, numbers.offset_dims, strict=True)),
        list(zip(batching, numbers.start_indices_batching_dims, strict=True)),
        list(numbers.start_index_map),
        (indices, numbers.index_vector_dim),
    )


def scatter_dims(
    operation: ir.Operation, operand: Sequence[int], indices: int, updates: Sequence[int]
) -> IndexedDims:
    """The dimensions of a scatter.

    Args:
        operation: the scatter.
        operand: global shape of its (first) input.
        indices: rank of its scatter indices.
        updates: global shape of its (first) update.
    """
    attribute = operation.attributes["scatter_dimension_numbers"]
    numbers = stablehlo.ScatterDimensionNumbers(attribute)
    batching = list(numbers.input_batching_dims)
    skipped = {*numbers.inserted_window_dims, *batching}
    windows = [d for d in range(len(operand)) if d not in skipped]
    slice_dims = dict(zip(windows, numbers.update_window_dims, strict=True))
    return _indexed_dims(
        operand,
        [updates[slice_dims[d]] if d in slice_dims else 1 for d in range(len(operand))],
        slice_dims,
        list(zip(batching, numbers.scatter_indices_batching_dims, strict=True)),
        list(numbers.scattered_dims_to_operand_dims),
        (indices, numbers.index_vector_dim),
    )


def _indexed_dims(
    operand: Sequence[int],
    window: Sequence[int],
    slice_dims: dict[int, int],
    batching: list[tuple[int, int]],
    components: list[int],
    indices: tuple[int, int],
) -> IndexedDims:
    """Sort the dimensions; `slice_dims` are those of the windows, by operand dimension."""
    rank, vector_dim = indices
    index_dims = [d for d in range(rank) if d != vector_dim]
    slices = len(index_dims) + len(slice_dims)
    taken = set(slice_dims.values())
    place = dict(zip(index_dims, (d for d in range(slices) if d not in taken), strict=True))
    walked = {d for d, _ in batching}
    full, picked, partly = [], [], []
    for d, size in enumerate(operand):
        if d in walked:
            continue
        if window[d] == size and d in slice_dims:
            full.append((d, slice_dims[d]))
        elif window[d] == 1 and size > 1 and d in components:
            picked.append((d, components.index(d)))
        elif size > 1:
            partly.append(d)
    together = {i for _, i in batching}
    return IndexedDims(
        tuple((d, i, place[i]) for d, i in batching),
        tuple((i, place[i]) for i in index_dims if i not in together),
        tuple(full),
        tuple(picked),
        tuple(partly),
        vector_dim,
    )


_PARTLY = "is read or written in windows of some elements, which may lie across two shards"
_OVERWRITTEN = "has updates that overwrite; which one is the last, only all of them tell"
_UNKNOWN_BODY = "has updates that are joined by a body that is not one known combiner"
_VECTOR = "holds the components of one index"


def gather_rule(op: OpInfo) -> OpRule:
    """`vi,j->ji` reduce `v`: an embedding lookup; `v` is the vocabulary, `j` are the indices.

    A shard that does not own the element adds zero (false), so the result is a sum (an "or").
    Where the operand is in parts, every part is looked up by itself.
    """
    operand, indices = op.operand_shapes
    dims = gather_dims(op.operation, operand, len(indices))
    kinds = reductions_of(op.result_elements[0])
    owner = next((kind for kind in ("sum", "or") if kind in kinds), None)
    builder = RuleBuilder(op)
    for d, i, r in dims.batching:
        factor = builder.factor(operand[d])
        builder.operand(0, d, factor)
        builder.operand(1, i, factor)
        builder.result(0, r, factor)
    for i, r in dims.spread:
        factor = builder.factor(indices[i])
        builder.operand(1, i, factor)
        builder.result(0, r, factor)
    for d, r in dims.full:
        factor = builder.factor(operand[d])
        builder.operand(0, d, factor)
        builder.result(0, r, factor)
    for d, _ in dims.picked:
        if owner is None:
            builder.whole(0, d, f"shards of {op.result_elements[0]} cannot be added")
        else:
            builder.operand(0, d, builder.factor(operand[d], owner))
    _say_whole(builder, dims, 1, len(indices))
    builder.passes_each(kinds, [True, False])
    return builder.build()


def scatter_rule(op: OpInfo) -> OpRule:
    """`vi,j,ji->vi` reduce `j`: the gradient of a lookup.

    If `v` is split, each shard takes the updates of the elements it owns and drops the others. If
    `j` is split, each shard takes its own updates, one of them the old elements too, and the
    shards are combined as the body does it. A body that overwrites needs all updates in one place:
    of two updates to one element, the shards could not tell which is the last.
    """
    count = len(op.result_shapes)
    operand, indices, updates = (op.operand_shapes[k] for k in (0, count, count + 1))
    dims = scatter_dims(op.operation, operand, len(indices), updates)
    inputs, slices = range(count), range(count + 1, 2 * count + 1)
    reduction = combiner(op.operation.regions[0], op.result_elements)
    is_overwriting = overwrites(op.operation.regions[0], count)
    builder = RuleBuilder(op)
    for d, i, u in dims.batching:
        factor = _shared(builder, inputs, d)
        builder.operand(count, i, factor)
        for k in slices:
            builder.operand(k, u, factor)
    for i, u in dims.spread:
        if reduction is None:
            builder.whole(count, i, _OVERWRITTEN if is_overwriting else _UNKNOWN_BODY)
            continue
        factor = builder.factor(indices[i], reduction, inputs)
        builder.operand(count, i, factor)
        for k in slices:
            builder.operand(k, u, factor)
    for d, u in dims.full:
        factor = _shared(builder, inputs, d)
        for k in slices:
            builder.operand(k, u, factor)
    for d, _ in dims.picked:
        _shared(builder, inputs, d)
    _say_whole(builder, dims, count, len(indices))
    _scatter_passes(builder, reduction, dims)
    return builder.build(flops=float(math.prod(updates)) * count)


def _shared(builder: RuleBuilder, inputs: range, dim: int) -> int:
    """A factor that dimension `dim` of every input and of every result carries."""
    factor = builder.factor(builder.op.operand_shapes[0][dim])
    for k in inputs:
        builder.operand(k, dim, factor)
        builder.result(k, dim, factor)
    return factor


def _say_whole(builder: RuleBuilder, dims: IndexedDims, indices: int, rank: int) -> None:
    for d in dims.partly:
        for k in range(indices):
            builder.whole(k, d, _PARTLY)
    if dims.vector_dim < rank:
        builder.whole(indices, dims.vector_dim, _VECTOR)


def _scatter_passes(builder: RuleBuilder, reduction: str | None, dims: IndexedDims) -> None:
    """Parts of the combiner's reduction pass; an overwriting body only moves elements.

    That needs every shard to choose the same one of several updates to one element, which the
    specification leaves open: there must not be several.
    """
    op = builder.op
    count = len(op.result_shapes)
    inputs, updates = op.operand_elements[:count], op.operand_elements[count + 1 :]
    if inputs != op.result_elements or updates != op.result_elements:
        return  # the body computes in a wider type, where parts that wrapped around do not add up
    parts = [True] * count + [False] + [True] * count
    if reduction is not None:
        builder.passes_each([reduction], parts)
    elif overwrites(op.operation.regions[0], count) and _each_once(op, dims):
        kinds = [k for k in reductions_of(inputs[0]) if all(k in reductions_of(e) for e in inputs)]
        builder.passes_each(kinds, parts)


def overwrites(region: ir.Region, count: int) -> bool:
    """Whether a scatter body of `count` values returns its updates as they are."""
    block = region.blocks[0]
    operations = list(block.operations)
    returned = list(operations[0].operation.operands)
    return len(operations) == 1 and returned == list(block.arguments)[count:]


def _each_once(op: OpInfo, dims: IndexedDims) -> bool:
    """Whether no element is updated twice."""
    if op.has("unique_indices") and ir.BoolAttr(op.attribute("unique_indices")).value:
        return True
    indices = op.operand_shapes[len(op.result_shapes)]
    return math.prod(indices[i] for i, _ in dims.spread) <= 1
