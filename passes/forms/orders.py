"""Sorts one of whose operands counts places, and what is read or written in their order.

`x[jnp.argsort(x)]` is what the sort gives besides the places, and `y[jnp.argsort(x)]` is what it
would give of one more array. Where `y` is split, the shards sort it with the keys, so that nothing
is looked up by place.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dtensor.dialect.attributes import index_attr
from dtensor.dialect.mlir import Value, ir, is_read, made_by, maker_of, ops_of, users
from dtensor.dialect.names import PLACES
from dtensor.passes.builder import Builder, filling
from dtensor.passes.forms.partial_sorts import FewRead, stands_before
from dtensor.passes.ops.attributes import (
    direction_of,
    element_of,
    integer,
    integers,
    is_marked,
    shape_of,
    spread_dims,
)
from dtensor.passes.ops.columnsort import sorted_dimension
from dtensor.passes.ops.comparators import applied, sorted_by
from dtensor.passes.ops.elements import holds_places
from dtensor.passes.ops.indexing import IndexNumbers
from dtensor.passes.ops.patterns import counts_along, is_zero
from dtensor.passes.ops.rule import OpInfo
from dtensor.passes.rewriting.rewriting import Rewriting

_DEEPEST_READ = 6  # operations between places and what is read there
_LEAST_SHARDS = 8  # of fewer, all that is read is sent as fast as it is sorted


def replace_order(sort: ir.Operation, function: Rewriting) -> None:
    """Let a sort give what is read in its order.

    What is sorted along and not read, as JAX has it of the gradient of an argsort, is left out. All
    sorts of places that stay say which of their operands counts the places.
    """
    arguments = list(sort.regions[0].blocks[0].arguments)
    pairs = [arguments[2 * k : 2 * k + 2] for k in range(len(sort.operands))]
    results = enumerate(zip(pairs, sort.results, strict=True))
    kept = [k for k, (pair, result) in results if any(map(is_read, [*pair, result]))]
    if 0 < len(kept) < len(pairs):
        sort = _rebuilt(sort, list(sort.operands), kept, function)
    info = OpInfo.of(sort)
    place = None if info is None or not info.operand_shapes[0] else _mark_places(sort, info)
    if info is not None and place is not None:
        _replace(sort, place, sorted_dimension(info), function)


def _replace(sort: ir.Operation, place: int, dim: int, function: Rewriting) -> None:
    """A sort that also carries what is read in its order, and no places if nobody reads them."""
    values, results = list(sort.operands), list(sort.results)
    numbers = {op: i for i, op in enumerate(ops_of(sort.block))}
    reads: list[tuple[ir.Operation, int]] = []
    for read in _read_in_order(results[place], dim):
        value, alike = read.operands[0], _alike(values, read.operands[0])
        if alike is None:
            is_split = function.shards.count((value, dim)) >= _LEAST_SHARDS
            is_here = is_split and read.block == sort.block
            if not is_here or not stands_before([value], sort, numbers):
                continue
            alike = len(values)
            values.append(value)
        reads.append((read, alike))
    if not reads:
        _count(sort, place, dim, function)
        return
    if len(values) > len(sort.operands):
        sort = _rebuilt(sort, values, range(len(values)), function)
    for read, k in reads:
        function.replace(read, sort.results[k])
    if _is_unread(sort.results[place], _DEEPEST_READ + 1) and _ignores_places(sort, place):
        _rebuilt(sort, values, [k for k in range(len(values)) if k != place], function)


def _count(sort: ir.Operation, place: int, dim: int, function: Rewriting) -> None:
    """Count, of a sort of places of which few are read, and where these elements stand."""
    shape = shape_of(sort.operands[0])
    if len(sort.operands) != 2 or not _ignores_places(sort, place):
        return
    if not function.shards.splits((sort.operands[1 - place], dim)):
        return
    few = FewRead(_copy(sort, list(sort.operands), [1 - place], function.made))
    uses = _uses(sort.results[place], shape)
    if few.takes(sort.results[1 - place]) and few.takes_where(uses) and few.replace(function):
        function.drop(sort)


def _ignores_places(sort: ir.Operation, place: int) -> bool:
    """Whether the places are not compared: elements that are equal stay in their order, or may."""
    pair = list(sort.regions[0].blocks[0].arguments)[2 * place : 2 * place + 2]
    return not any(map(is_read, pair))


def _uses(places: Value, shape: Sequence[int]) -> Iterator[tuple[ir.Operation, int]]:
    """What reads places, as vectors perhaps, and as which operand."""
    for use in places.uses:
        op, k = use.owner.operation, use.operand_number
        if op.name != "stablehlo.select" and _says_as_much(op, k, places, shape):
            yield from _uses(op.results[0], shape)
        else:
            yield op, k


def _alike(values: Sequence[Value], value: Value) -> int | None:
    """The number of the value that has the elements of `value` in their order; None if none."""
    bare = [_bare(each) for each in (*values, value)]
    return bare.index(bare[-1]) if bare.index(bare[-1]) < len(values) else None


def _bare(value: Value) -> Value:
    """What a value is but for operations that leave all elements in their order."""
    while (op := maker_of(value)) is not None and _keeps_order(op):
        value = op.operands[0]
    return value


def _keeps_order(op: ir.Operation) -> bool:
    """Whether an op does no more than add or drop dimensions of one element."""
    if len(op.operands) != 1 or not isinstance(op.operands[0].type, ir.RankedTensorType):
        return False
    shape = shape_of(op.operands[0])
    match op.name:
        case "stablehlo.reshape":
            return True
        case "stablehlo.transpose":
            moved = [d for d in integers(op.attributes["permutation"]) if shape[d] != 1]
            return moved == sorted(moved)
        case "stablehlo.reverse":
            return all(shape[d] == 1 for d in integers(op.attributes["dimensions"]))
        case "stablehlo.slice":
            return shape_of(op.results[0]) == shape
    return False


def _rebuilt(
    sort: ir.Operation, values: Sequence[Value], kept: Sequence[int], function: Rewriting
) -> ir.Operation:
    """A sort of some of these values, of which the first are its own, in the place of a sort."""
    new = _copy(sort, values, kept, function.made)
    for k, value in zip(kept, new.results, strict=True):
        if k < len(sort.results):
            function.replace_value(sort.results[k], value)
    return new


def _copy(
    sort: ir.Operation, values: Sequence[Value], kept: Sequence[int], made: list[ir.Operation]
) -> ir.Operation:
    """As `_rebuilt`, beside the sort."""
    given = sort.regions[0].blocks[0]
    attributes = dict(sort.attributes)
    if PLACES in attributes and integer(attributes[PLACES]) not in kept:
        del attributes[PLACES]

    def compare(body: ir.Block) -> None:
        arguments = list(given.arguments)  # those of what is not kept are not read
        for i, k in enumerate(kept):
            arguments[2 * k : 2 * k + 2] = list(body.arguments)[2 * i : 2 * i + 2]
        less = applied(given, arguments[: len(given.arguments)], ir.InsertionPoint(body))
        filling(body).end(less)

    sorted_by(Builder(sort, made), [values[k] for k in kept], attributes, compare)
    return made[-1]


def _is_unread(value: Value, deep: int) -> bool:
    """Whether all that depends on a value, in so many steps, is read by nobody."""
    return all(
        deep
        and len(op.results)
        and not len(op.regions)
        and all(_is_unread(result, deep - 1) for result in op.results)
        for op in users(value)
    )


def _mark_places(sort: ir.Operation, info: OpInfo) -> int | None:
    """Say which operand of a sort counts the places along the dimension that is sorted."""
    dim = sorted_dimension(info)
    for k, value in enumerate(sort.operands):
        size, element = info.operand_shapes[0][dim], info.operand_elements[k]
        if holds_places(element, size) and counts_along(value) == (dim, 0):
            sort.attributes[PLACES] = index_attr(k)
            return k
    return None


def _read_in_order(places: Value, dim: int) -> Iterator[ir.Operation]:
    """The gathers that read, along a dimension, an array of their shape in the order of places."""
    left, shape = [places], shape_of(places)
    while left:
        value = left.pop()
        for use in list(value.uses):
            op, k = use.owner.operation, use.operand_number
            if op.name == "stablehlo.gather" and k == 1:
                if _reads_each(op, dim, shape):
                    yield op
            elif _says_as_much(op, k, value, shape):
                left.append(op.results[0])


def _says_as_much(op: ir.Operation, k: int, value: Value, shape: Sequence[int]) -> bool:
    """Whether the result of an op is these places, as index vectors perhaps."""
    match op.name:
        case "stablehlo.convert":
            return holds_places(element_of(op.results[0]), max(shape))
        case "stablehlo.reshape":
            return shape_of(op.results[0]) in (list(shape), [*shape, 1])
        case "stablehlo.broadcast_in_dim":
            in_order = spread_dims(op) == list(range(len(shape)))
            return in_order and shape_of(op.results[0]) == [*shape, 1]
        case "stablehlo.select" if k == 2:  # what JAX makes of places that are negative
            compare = made_by("stablehlo.compare", op.operands[0])
            return (
                compare is not None
                and direction_of(compare) == "LT"
                and compare.operands[0] == value
                and is_zero(compare.operands[1])
            )
    return False


def _reads_each(gather: ir.Operation, dim: int, shape: Sequence[int]) -> bool:
    """Whether a gather reads one element for each place, of the same row."""
    numbers, others = IndexNumbers.of(gather), [d for d in range(len(shape)) if d != dim]
    return (
        shape_of(gather.operands[0]) == list(shape)
        and set(integers(gather.attributes["slice_sizes"])) == {1}
        and numbers.named == [dim]
        and numbers.walked == numbers.beside == others
        and numbers.vector_dim == len(shape)
        and not is_marked(gather)
    )
