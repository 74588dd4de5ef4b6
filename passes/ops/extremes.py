"""argmax and argmin along a split dimension: which element is largest, then where it stands first.

Two reductions of one number for each row, in place of every shard's choice on every device. The
numbers are compared as integers in whose order NaN comes first, as JAX has it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from dtensor.dialect.axes import AxisRef, devices_along
from dtensor.dialect.mlir import Value, ir, is_read, operation_of, terminator
from dtensor.passes.builder import Builder, filling, new_block
from dtensor.passes.cost.model import all_reduce_bytes
from dtensor.passes.creation import integers_attr
from dtensor.passes.expansion.context import LocalOp
from dtensor.passes.ops.attributes import direction_of, element_of
from dtensor.passes.ops.elements import INTEGERS, element_kind
from dtensor.passes.ops.keys import bits_of, keys_of
from dtensor.passes.ops.opdef import Placed, Traffic
from dtensor.passes.ops.rule import OpInfo, element_bytes, read_once

_LEAST_BITS = {"bool": 1, "signed": 8, "unsigned": 8, "float": 16}  # of what has keys


def extreme(region: ir.Region) -> str | None:
    """Whether a body chooses the largest or the smallest of pairs, as JAX writes it.

    Args:
        region: a body `(a, i, b, j)` on two values and their places.

    Returns:
        "max" or "min"; of equal ones the first. None for other bodies, and for elements that have
        no keys: floats and integers of less than 16 and 8 bits.
    """
    block = region.blocks[0]
    elements = [element_of(value) for value in block.arguments]
    if len(elements) != 4 or element_kind(elements[1])[0] not in INTEGERS:
        return None
    kind, bits = element_kind(elements[0])
    if kind not in _LEAST_BITS or bits < _LEAST_BITS[kind]:
        return None
    numbers: dict[Value, Any] = {value: i for i, value in enumerate(block.arguments)}
    found = tuple([_written(value, numbers) for value in terminator(block).operands])
    for direction, name in (("GT", "max"), ("LT", "min")):
        first: Any = ("or", (direction, 0, 2), ("NE", 0, 0))
        tied = ("and", ("EQ", 0, 2), ("LT", 1, 3))
        for before in (first, first[1]) if kind != "float" else (first,):
            if found == (("select", before, 0, 2), ("select", ("or", before, tied), 1, 3)):
                return name
    return None


@read_once
def chosen(op: OpInfo) -> str | None:
    """Which of pairs the body of a reduce chooses, if it does: see `extreme`."""
    return extreme(op.operation.regions[0])


def _written(value: Value, numbers: dict[Value, Any]) -> Any:
    """A value as its operation and its operands, arguments by number."""
    if value not in numbers:
        maker = operation_of(value)
        name = maker.name.removeprefix("stablehlo.")
        if name == "compare":
            name = direction_of(maker)
        numbers[value] = (name, *[_written(operand, numbers) for operand in maker.operands])
    return numbers[value]


def extreme_bytes(placed: Placed, axes: Sequence[AxisRef]) -> tuple[Traffic, ...]:
    """A key and a place for each row; and the value where it is read."""
    op = placed.op
    devices = devices_along(axes)
    rows = math.prod(placed.shard(~0))
    keys, places = map(element_bytes, (_key(op.result_elements[0]), op.result_elements[1]))
    sizes = [keys, places, *([keys] if is_read(op.operation.results[0]) else [])]
    wire = sum(all_reduce_bytes(rows * size, devices) for size in sizes)
    return (Traffic(tuple(axes), wire, len(sizes)),)


def _key(element: str) -> str:
    """The integers that are reduced for values of a type: those that networks reduce."""
    bits = element_kind(element)[1]
    return "ui8" if bits <= 8 else "ui32" if bits <= 32 else "ui64"


def joined_extremes(
    op: LocalOp, chosen: Sequence[Value], axes: Sequence[AxisRef], name: str
) -> list[Value]:
    """Of what shards have chosen, a value and its place, the one that the body would choose."""
    ctx = op.ctx
    value, place = chosen
    given = element = ctx.element_of(value)
    if given == "i1":
        element, value = "ui8", ctx.convert(value, "ui8")
    key = ctx.convert(compared(ctx, value, name), _key(element))
    best = ctx.all_reduced(key, axes, name)
    is_best = ctx.compare("EQ", key, best)
    largest = ctx.identity("min", place.type)
    first = ctx.all_reduced(ctx.select(is_best, place, largest), axes, "min")
    if not is_read(op.operation.results[0]):
        return [chosen[0], first]
    # Shards that have chosen the init value have the same bits and the same place.
    is_it = ctx.binary("and", is_best, ctx.compare("EQ", place, first))
    own = bits_of(ctx, value)
    wide = ctx.convert(own, _key(element))
    found = ctx.all_reduced(ctx.select(is_it, wide, 0), axes, "max")
    number = ctx.bitcast(ctx.convert(found, ctx.element_of(own)), element)
    return [ctx.convert(number, given), first]


def compared(make: Builder, value: Value, name: str) -> Value:
    """Integers of which the largest or the smallest is that of the value to choose."""
    key = keys_of(make, value, is_up=True)
    if name == "max" or element_kind(make.element_of(value))[0] != "float":
        return key
    is_nan = make.compare("NE", value, value)
    return make.select(is_nan, 0, key)


def reduced_extreme(
    make: Builder, values: Value, places: Value, dim: int, name: str
) -> tuple[Value, Value]:
    """The largest or smallest of integers along a dimension, and the first of its places."""
    pair = [values, places]
    scalars = [make.tensor_type((), make.element_of(value)) for value in pair]
    inits = [make.identity(name, scalars[0]), make.constant(0, scalars[1])]
    shape = [n for d, n in enumerate(make.shape_of(values)) if d != dim]
    types = [make.tensor_type(shape, make.element_of(value)) for value in pair]
    attributes = {"dimensions": integers_attr([dim])}
    op = make.create("stablehlo.reduce", [*pair, *inits], types, attributes, regions=1)
    block = new_block(op.regions[0], [*scalars, *scalars])
    body = filling(block)
    one, i, other, j = block.arguments
    is_before = body.compare("GT" if name == "max" else "LT", one, other)
    is_tied = body.binary("and", body.compare("EQ", one, other), body.compare("LT", i, j))
    place = body.select(body.binary("or", is_before, is_tied), i, j)
    body.end([body.select(is_before, one, other), place])
    best, first = op.results
    return best, first
