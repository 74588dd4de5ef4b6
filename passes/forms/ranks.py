"""Sorts of which only a few places are read: medians, quantiles, the k-th element."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any

from dtensor.dialect import build
from dtensor.dialect.mlir import Value, ir, maker_of, ops_of, users
from dtensor.passes.builder import Builder
from dtensor.passes.creation import integers_attr
from dtensor.passes.cuts.rewriting import Rewriting
from dtensor.passes.forms.row_places import RowPlaces
from dtensor.passes.ops.attributes import integer, integers, shape_of, splat_of
from dtensor.passes.ops.combiners import combiner
from dtensor.passes.ops.comparators import compare_by
from dtensor.passes.ops.counting import known_places
from dtensor.passes.ops.elementwise import is_scalar_work
from dtensor.passes.ops.indexing import IndexNumbers
from dtensor.passes.ops.keys import orders
from dtensor.passes.ops.loops import numbered

MOST_PLACES = 16  # places; of more, sorting is simpler


def replace_sort(sort: ir.Operation, function: Rewriting) -> None:
    """Let what stands at a few places stand for a sort of which no others are read."""
    if len(sort.operands) != 1 or orders(sort.regions[0].blocks[0]) is None:
        return
    dim = integer(sort.attributes["dimension"]) if "dimension" in sort.attributes else -1
    shape = shape_of(sort.results[0])
    dim %= len(shape)
    reads, counts = [], []
    for use in sort.results[0].uses:
        if _forgets_order(use.owner.operation, dim, shape):
            counts.append((use.owner.operation, use.operand_number))
            continue
        read = _read(use.owner.operation, sort.results[0], dim)
        if read is None or read.op.block != sort.block:
            return
        reads.append(read)
    if not reads or sum(read.count for read in reads) > MOST_PLACES or shape[dim] <= MOST_PLACES:
        return
    numbers = {op: i for i, op in enumerate(ops_of(sort.block))}
    reads.sort(key=lambda read: numbers[read.op])
    if not all(stands_before(read.op.operands[1:], reads[0].op, numbers) for read in reads):
        return
    for op, k in counts:
        op.operands[k] = sort.operands[0]
    _replace(sort, dim, reads, function)


@dataclass(frozen=True)
class _Read:
    """A gather or a slice, of computed place or not, of whole rows at some places.

    Attributes:
        op: the operation.
        count: how many places it reads.
        places: the first of them, if the program writes it; or the value that has them all; or
            those of each row.
    """

    op: ir.Operation
    count: int
    places: int | Value | RowPlaces


def _read(op: ir.Operation, value: Value, dim: int) -> _Read | None:
    """A use of a sorted value, if it reads few places along the dimension and all else whole.

    What looks up something else at the sorted numbers reads all of them.
    """
    shape = shape_of(value)
    if [k for k, operand in enumerate(op.operands) if operand == value] != [0]:
        return None
    if op.name == "stablehlo.slice":
        cut = shape_of(op.results[0])
        others = [d for d in range(len(shape)) if d != dim and cut[d] != shape[d]]
        is_near = integers(op.attributes["strides"])[dim] == 1
        first = integers(op.attributes["start_indices"])[dim]
        return None if others or not is_near or not cut[dim] else _Read(op, cut[dim], first)
    if op.name == "stablehlo.dynamic_slice":
        taken = [1 if d == dim else size for d, size in enumerate(shape)]
        return _Read(op, 1, op.operands[1 + dim]) if shape_of(op.results[0]) == taken else None
    if op.name != "stablehlo.gather":
        return None
    numbers = IndexNumbers.of(op)
    sizes, indices = integers(op.attributes["slice_sizes"]), shape_of(op.operands[1])
    wanted = [1 if d == dim else size for d, size in enumerate(shape)]
    last = len(indices) - 1
    is_vector = indices == [1] or (len(indices) == 2 and indices[1] == 1)
    is_last = numbers.vector_dim == last
    is_one = sizes == wanted and numbers.named == [dim]
    if not is_vector or not is_last or not is_one or numbers.walked:
        found = RowPlaces.of(op, dim)
        return None if found is None else _Read(op, found.count, found)
    return _Read(op, indices[0], op.operands[1])


def reads_few(op: ir.Operation, value: Value, dim: int) -> bool:
    """Whether a use of a sorted value reads few places along the dimension."""
    found = _read(op, value, dim)
    return found is not None and found.count <= MOST_PLACES


def _forgets_order(op: ir.Operation, dim: int, shape: list[int]) -> bool:
    """Whether a use only computes element by element, and then reduces along the dimension.

    `jnp.nanmedian` does, which counts the numbers that it has sorted.
    """
    if op.name == "stablehlo.reduce":
        is_one = len(op.operands) == 2 and shape_of(op.operands[0]) == shape
        is_known = is_one and combiner(op.regions[0]) is not None
        return is_known and dim in integers(op.attributes["dimensions"])
    if (
        not is_scalar_work(op)
        or len({value for value in op.operands if splat_of(value) is None}) != 1
    ):
        return False
    found = users(op.results[0])
    return bool(found) and all(_forgets_order(user, dim, shape) for user in found)


def stands_before(values: Any, op: ir.Operation, numbers: dict[ir.Operation, int]) -> bool:
    """Whether values can be computed before an operation; what makes them is moved there."""
    for value in values:
        maker = maker_of(value)
        if maker is None or maker.block != op.block or numbers[maker] < numbers[op]:
            continue
        if maker == op or len(maker.regions) or maker.name == "stablehlo.gather":
            return False
        if not stands_before(maker.operands, op, numbers):
            return False
        maker.move_before(op)
        numbers[maker] = numbers[op] - 1
    return True


def _replace(sort: ir.Operation, dim: int, reads: list[_Read], function: Rewriting) -> None:
    make = Builder(reads[0].op, function.made)
    shape = shape_of(sort.results[0])
    known = [_known(read, shape[dim]) for read in reads]
    if None in known:
        columns = [_column(make, read) for read in reads]
        if any(isinstance(read.places, RowPlaces) for read in reads):
            rows = [size for d, size in enumerate(shape) if d != dim]
            columns = [
                make.broadcast(each, (read.count, *rows), list(range(len(make.shape_of(each)))))
                for read, each in zip(reads, columns, strict=True)
            ]
        places = _joined(make, columns)
        ends = [0, *accumulate(read.count for read in reads)]
        indices = [list(range(*each)) for each in pairwise(ends)]
    else:
        numbers = [each for each in known if each is not None]
        wanted = sorted({place for each in numbers for place in each})
        places = numbered(make, wanted, "i32")
        indices = [[wanted.index(place) for place in each] for each in numbers]
    ranked = build.ranked(
        sort.operands[0], places, dim, loc=sort.location, ip=ir.InsertionPoint(reads[0].op)
    )
    compare_by(sort.regions[0].blocks[0], ranked.regions[0].blocks[0], -1)
    function.made.append(ranked)
    for read, index in zip(reads, indices, strict=True):
        _read_ranked(function, read, ranked.results[0], dim, index)
    function.drop(sort)


def _known(read: _Read, size: int) -> list[int] | None:
    """The places that a use reads, if they can be computed now."""
    if isinstance(read.places, int):
        return list(range(read.places, read.places + read.count))
    return None if isinstance(read.places, RowPlaces) else known_places(read.places, size)


def _column(make: Builder, read: _Read) -> Value:
    """The places that a use reads, a tensor of one dimension."""
    if isinstance(read.places, int):
        return numbered(make, range(read.places, read.places + read.count), "i32")
    if isinstance(read.places, RowPlaces):
        return read.places.column(make)
    return make.reshape(read.places, (read.count,))


def _joined(make: Builder, columns: list[Value]) -> Value:
    if len({make.element_of(column) for column in columns}) > 1:
        columns = [make.convert(column, "i64") for column in columns]
    return make.joined(columns, 0)


def _read_ranked(
    function: Rewriting, read: _Read, ranked: Value, dim: int, index: list[int]
) -> None:
    """Let a use read its places among those that are known."""
    make = Builder(read.op, function.made)
    if read.op.name != "stablehlo.gather" or isinstance(read.places, RowPlaces):
        value = make.cut(ranked, dim, index[0], read.count)
        if isinstance(read.places, RowPlaces):
            value = read.places.read(make, value, dim, read.op.results[0])
        function.replace(read.op, value)
        return
    numbers = numbered(make, index, make.element_of(read.op.operands[1]))
    read.op.operands[0] = ranked
    read.op.operands[1] = make.reshape(numbers, shape_of(read.op.operands[1]))
    sizes = [1 if d == dim else size for d, size in enumerate(make.shape_of(ranked))]
    read.op.attributes["slice_sizes"] = integers_attr(sizes)
