"""Loops that an expansion writes, and tables of numbers that it looks things up in."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dtensor.dialect.attributes import index_attr, number_attr
from dtensor.dialect.mlir import Value, ir, operation_of, stablehlo
from dtensor.dialect.names import TRIPS
from dtensor.passes.builder import Builder, new_block
from dtensor.passes.creation import with_sizes

LoopBody = Callable[[Builder, Value, Sequence[Value]], Sequence[Value]]


def counted_loop(
    make: Builder,
    trips: int | Value,
    carried: Sequence[Value],
    step: LoopBody,
) -> list[Value]:
    """What is carried after `trips` turns of a loop.

    Args:
        make: where to create it.
        trips: how many turns; a value is an i32 scalar.
        carried: what the first one begins with.
        step: writes a turn, of its number and what is carried; it may read values from around it.
    """
    scalar = make.tensor_type((), "i32")
    operands = [make.constant(0, scalar), *carried]
    types = [value.type for value in operands]
    loop = make.create("stablehlo.while", operands, types, regions=2)
    blocks = [new_block(region, types) for region in loop.regions]
    condition, body = map(make.inside, blocks)
    number = blocks[0].arguments[0]
    condition.end([condition.compare("LT", number, trips)])
    number, *values = blocks[1].arguments
    after = step(body, number, values)
    body.end([body.binary("add", number, 1), *after])
    found: list[Value] = list(loop.results)
    return found[1:]


def plan_trips(results: Sequence[Value], trips: int) -> None:
    """For how many trips a loop is planned that runs as often as is found while running."""
    operation_of(results[0]).attributes[TRIPS] = index_attr(trips)


def numbered(make: Builder, numbers: Sequence[int], element: str) -> Value:
    """A constant of one dimension, of integers."""
    type_ = make.tensor_type((len(numbers),), element)
    kind = ir.RankedTensorType(type_).element_type
    each = [number_attr(kind, number) for number in numbers]
    return make.dense(ir.DenseElementsAttr.get(each, type=type_), type_)


def take(make: Builder, value: Value, index: Value, dim: int) -> Value:
    """The elements of `value` along `dim` at indices in range, a tensor of any shape."""
    shape, places = make.shape_of(value), make.shape_of(index)
    behind = range(dim + len(places), len(shape) - 1 + len(places))
    numbers = stablehlo.GatherDimensionNumbers.get(
        [*range(dim), *behind], [dim], [], [], [dim], len(places)
    )
    sizes = [1 if d == dim else size for d, size in enumerate(shape)]
    vectors = make.reshape(index, (*places, 1))
    return make.gather(value, vectors, sizes, numbers, with_sizes(shape, dim, *places))


def looked_up(make: Builder, index: Value, numbers: Sequence[int]) -> Value:
    """`numbers[index]` for each index, in its type."""
    return take(make, numbered(make, numbers, make.element_of(index)), index, 0)
