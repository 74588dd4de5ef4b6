"""Which dimensions of some indices the dimensions of what is computed with them walk.

A value may have an element for each index, or several. An operation on it may give a value that has
them along other dimensions, which a reshape has joined with others, say.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from dtensor.dialect.mlir import Value, ir
from dtensor.passes.ops.attributes import (
    dot_sides,
    integer,
    integers,
    pad_numbers,
    shape_of,
    slice_numbers,
    spread_dims,
)
from dtensor.passes.ops.elementwise import is_scalar_work

# Per dimension of a value the dimensions of the indices that it walks, or None, with their sizes:
# the first is the major one. What has one element is left out.
Walks = list[list[tuple[int | None, int]]]


def plain_walks(value: Value) -> Walks:
    """Those of a value that has nothing to do with the indices."""
    return [_plain(size) for size in shape_of(value)]


def _plain(size: int) -> list[tuple[int | None, int]]:
    return [(None, size)] if size != 1 else []


def labels_of(dims: Walks) -> list[int]:
    """The dimensions of the indices, in the order in which they are walked."""
    return [label for walked in dims for label, _ in walked if label is not None]


def walk_alike(one: Walks, other: Walks, pairs: Sequence[tuple[int, int]]) -> bool:
    """Whether dimensions of two values, in pairs, walk the same indices."""
    return all(one[d] == other[e] for d, e in pairs if labels_of([one[d]]) or labels_of([other[e]]))


def moved_walks(op: ir.Operation, known: dict[Value, Walks]) -> Walks | None:
    """The dimensions of an op's one result, whose operands walk what is known; None if not seen."""
    given = [known[value] for value in op.operands if value in known]
    first, result = given[0], shape_of(op.results[0])
    if is_scalar_work(op):
        pairs = [(d, d) for d in range(len(result))]
        is_alike = all(len(each) == len(result) for each in given)
        return first if is_alike and all(walk_alike(first, e, pairs) for e in given) else None
    match op.name:
        case "stablehlo.transpose":
            return [first[d] for d in integers(op.attributes["permutation"])]
        case "stablehlo.reshape":
            return _reshaped(first, result)
        case "stablehlo.broadcast_in_dim":
            found = plain_walks(op.results[0])
            for d, walked in zip(spread_dims(op), first, strict=True):
                found[d] = walked or found[d]
            return found
        case "stablehlo.slice":
            starts, _, strides = slice_numbers(op)
            kept = [
                start == 0 and stride == 1 for start, stride in zip(starts, strides, strict=True)
            ]
        case "stablehlo.pad":
            kept = [not any(numbers) for numbers in zip(*pad_numbers(op), strict=True)]
        case "stablehlo.concatenate":
            kept = [d != integer(op.attributes["dimension"]) for d in range(len(result))]
            pairs = [(d, d) for d, is_kept in enumerate(kept) if is_kept]
            if not all(walk_alike(first, each, pairs) for each in given):
                return None
        case _:
            return None
    return _cut(first, result, kept)


def _cut(dims: Walks, shape: Sequence[int], kept: Sequence[bool]) -> Walks | None:
    """Dimensions of which those that are not kept, or get another size, walk no indices."""
    found: Walks = []
    for walked, size, is_kept in zip(dims, shape, kept, strict=True):
        is_whole = is_kept and math.prod(n for _, n in walked) == size
        if not is_whole and labels_of([walked]):
            return None
        found.append(walked if is_whole else _plain(size))
    return found


def _reshaped(dims: Walks, shape: Sequence[int]) -> Walks | None:
    """The dimensions after a reshape; None if it takes one of the indices apart."""
    left = [each for walked in dims for each in walked]
    found: Walks = []
    for size in shape:
        walked, have = list[tuple[int | None, int]](), 1
        while left and have < size:
            label, count = left.pop(0)
            if have * count > size and label is None and count % (size // have) == 0:
                left.insert(0, (None, count // (size // have)))
                count = size // have
            walked.append((label, count))
            have *= count
        if have != size:
            return None
        found.append(walked)
    return found


def product_walks(op: ir.Operation, sides: Sequence[Walks]) -> Walks:
    """Those of the result of a product, by those of its operands."""
    (batching, summed), (beside, others) = dot_sides(op)
    found = [sides[0][d] or sides[1][e] for d, e in zip(batching, beside, strict=True)]
    found += [walked for d, walked in enumerate(sides[0]) if d not in (*batching, *summed)]
    return found + [walked for d, walked in enumerate(sides[1]) if d not in (*beside, *others)]
