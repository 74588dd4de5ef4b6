"""Reductions written apart: arrays with nothing in common, and what windows start from.

A reduce combines elements in the order of their indices, whatever the order in which it lists its
dimensions, says the specification (`reduce`). Of XLA's two ways to write loops for CPUs one takes
them as listed; so they are listed in order.

XLA meets the init value of `reduce_window` once in each window, however much padding the window
reads, where the specification says that padding is made of init values. Shards read init values
where one device reads nothing, so a value that changes the result is combined with it, once, and
windows are reduced from what changes nothing. A scan stays as it is: XLA computes long ones in two
steps, each from the init value, and a split dimension is gathered for it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dtensor.dialect.mlir import Value, ir, ops_of
from dtensor.passes.builder import Builder, filling, new_block
from dtensor.passes.creation import integers_attr
from dtensor.passes.disjoint_sets import DisjointSets
from dtensor.passes.ops.attributes import integers, is_identity
from dtensor.passes.ops.combiners import combiner, combiners
from dtensor.passes.ops.reduction import Reduction
from dtensor.passes.program import copy_to


def reduced_apart(op: ir.Operation, made: list[ir.Operation]) -> list[Value]:
    """One reduce for each group of arrays whose elements the body combines with one another.

    Where the body combines all by one known operation the op stays: its parts are combined so, in
    any order.

    Returns:
        What stands for each result; nothing where the op stays.
    """
    count, dims = len(op.results), integers(op.attributes["dimensions"])
    is_ordered = dims == sorted(dims)
    if (count == 1 and is_ordered) or combiner(op.regions[0]) is not None:
        return []
    groups = _groups(op.regions[0].blocks[0], count)
    if len(groups) == 1 and is_ordered:
        return []
    values: dict[int, Value] = {}
    for group in groups:
        new = _of_group(op, group, made)
        values |= dict(zip(group, new.results, strict=True))
    return [values[k] for k in range(count)]


def _groups(body: ir.Block, count: int) -> list[list[int]]:
    """The numbers of the arrays, those together that a result of the body reads."""
    of: dict[Value, set[int]] = {value: {i % count} for i, value in enumerate(body.arguments)}
    *operations, end = ops_of(body)
    for operation in operations:
        read = set().union(*(of.get(value, set()) for value in operation.operands))
        if len(operation.regions):
            read = set(range(count))  # which may read anything
        of |= dict.fromkeys(operation.results, read)
    together = DisjointSets[int]()
    for i, value in enumerate(end.operands):
        for k in of.get(value, set()):
            together.join(k, i)
    return together.sets(range(count))


def _of_group(op: ir.Operation, group: Sequence[int], made: list[ir.Operation]) -> ir.Operation:
    """The reduce of some of the arrays, with that part of the body which they need."""
    count = len(op.results)
    places = [*group, *(count + k for k in group)]
    dims = sorted(integers(op.attributes["dimensions"]))
    attributes = {**dict(op.attributes), "dimensions": integers_attr(dims)}
    new = Builder(op, made).create(
        op.name,
        [op.operands[k] for k in places],
        [op.results[k].type for k in group],
        attributes,
        regions=1,
    )
    body = op.regions[0].blocks[0]
    arguments = [body.arguments[k] for k in places]
    block = new_block(new.regions[0], [value.type for value in arguments])
    known: dict[Value, Value] = dict(zip(arguments, block.arguments, strict=True))
    inside = set(body.arguments) - set(arguments)  # what others alone read
    *operations, end = ops_of(body)
    for operation in operations:
        if inside.intersection(operation.operands):
            inside.update(operation.results)
            continue
        copy_to(ir.InsertionPoint(block), operation, known)
    given = [known.get(end.operands[k], end.operands[k]) for k in group]
    filling(block).end(given)
    return new


def started_apart(op: ir.Operation, made: list[ir.Operation]) -> list[Value]:
    """Windows and the values that they start from, apart; nothing of most."""
    count = len(op.results)
    kinds = combiners(op.regions[0]) or ()
    late = [
        k
        for k, kind in enumerate(kinds)
        if not kind.idempotent and not is_identity(op.operands[count + k], kind)
    ]
    if not late:
        return []
    make = Builder(op, made)
    windows = make.again(op, [])
    return started_late(make, windows, {k: kinds[k] for k in late})


def started_late(make: Builder, op: ir.Operation, kinds: Mapping[int, Reduction]) -> list[Value]:
    """The results of an op from identities, combined with what some of them started from.

    `kinds` says of each of these, by its number, how it is combined.
    """
    values, inits = list[Value](op.results), list[Value](op.operands)[len(op.results) :]
    for k, kind in kinds.items():
        identity = Builder(op, make.made).identity(kind, inits[k].type)
        op.operands[len(values) + k] = identity
        values[k] = make.merged(kind, values[k], inits[k])
    return values
