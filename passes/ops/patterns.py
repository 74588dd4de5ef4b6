"""Small patterns of operations that many passes look for."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from dtensor.dialect.mlir import Value, ir, made_by, maker_of, reader_of, users
from dtensor.passes.ops.attributes import (
    constant_numbers,
    constant_of,
    fill_number,
    integer,
    integers,
    pad_numbers,
    shape_of,
    splat_number,
    spread_dims,
)
from dtensor.passes.ops.combiners import combiner
from dtensor.passes.ops.reduction import Reduction

_ADD, _BROADCAST = "stablehlo.add", "stablehlo.broadcast_in_dim"


def is_zero(value: Value) -> bool:
    """Whether a value is a constant of zeros, complex or converted ones too."""
    maker = constant_of(value)
    numbers = None if maker is None else constant_numbers(maker)
    return fill_number(value) == 0 if numbers is None else bool((numbers == 0).all())


def is_negative_zero(value: Value) -> bool:
    """Whether a value repeats -0.0, which changes no number that it is added to; 0 changes -0.0."""
    number = fill_number(value)
    return number == 0 and math.copysign(1.0, number) < 0


def zeros_around(value: Value) -> tuple[Value, list[tuple[int, int]]] | None:
    """What a value is with zeros around it: that, and how many before and behind, by dimension.

    None where it is no such value: nothing is cut off, and no zeros stand in between.
    """
    pad = made_by("stablehlo.pad", value)
    if pad is None or not is_zero(pad.operands[1]):
        return None
    lows, highs, gaps = pad_numbers(pad)
    if any(gaps) or min([*lows, *highs], default=0) < 0:
        return None
    return pad.operands[0], list(zip(lows, highs, strict=True))


def counts_along(value: Value) -> tuple[int, int] | None:
    """The dimension along which a value counts its elements, and the first number; None if none."""
    op = maker_of(value)
    if op is not None and op.name == "stablehlo.iota":
        return integer(op.attributes["iota_dimension"]), 0
    if op is None or op.name not in (_ADD, _BROADCAST):
        return None
    found, operand = counts_along(op.operands[0]), op.operands[0]
    if found is None:
        return None
    dim, first = found
    if op.name == _BROADCAST:
        along = spread_dims(op)[dim]
        return (along, first) if shape_of(operand)[dim] == shape_of(value)[along] else None
    number = splat_number(op.operands[1])
    return (dim, first + int(number)) if number is not None and number.is_integer() else None


def spreads_in_place(op: ir.Operation) -> bool:
    """Whether each dimension of what a broadcast_in_dim reads is the same one of the result."""
    dims = integers(op.attributes["broadcast_dimensions"])
    return dims == list(range(len(dims)))


def adds(op: ir.Operation) -> bool:
    """Whether an op combines elements by adding them up, as its body says."""
    return combiner(op.regions[0]) is Reduction.SUM


def terms_of(op: ir.Operation) -> list[Value]:
    """The terms of the sum whose last addition this is, in order; none of an earlier one."""
    found: list[Value] = []
    last: ir.Operation | None = None if _goes_on(op) else op
    while last is not None:
        value, term = last.operands
        first = made_by(_ADD, value)
        last = first if first is not None and _goes_on(first) else None
        found += [term] if last is not None else [term, value]
    return found[::-1]


def sums_with(terms: Iterable[Value]) -> set[Value]:
    """The sums, as their last additions give them, that have any of these terms."""
    found = set[Value]()
    for term in terms:
        for op in users(term):
            if op.name == _ADD:
                while _goes_on(op):
                    op = users(op.results[0])[0]
                found.add(op.results[0])
    return found


def _goes_on(op: ir.Operation) -> bool:
    """Whether the one reader of a sum adds a further term to it, in the same block."""
    reader = reader_of(op.results[0])
    if reader is None or reader.name != _ADD or reader.operands[0] != op.results[0]:
        return False
    return bool(reader.parent == op.parent)


def reverses(op: ir.Operation, dims: Sequence[int]) -> bool:
    """Whether an op reverses these dimensions, and no others."""
    is_reverse = op.name == "stablehlo.reverse"
    return is_reverse and sorted(integers(op.attributes["dimensions"])) == sorted(dims)


def unreversed(value: Value, dim: int) -> Value | None:
    """What a value is the reverse of, along one dimension."""
    maker = maker_of(value)
    return maker.operands[0] if maker is not None and reverses(maker, [dim]) else None


def keeps_all_but_ones(op: ir.Operation) -> bool:
    """Whether the shapes of operand and result differ in dimensions of one element alone."""
    one, other = (
        [n for n in shape_of(value) if n != 1] for value in (op.operands[0], op.results[0])
    )
    return one == other


def adds_ones(op: ir.Operation) -> bool:
    """Whether an op does nothing but add dimensions of one element, or leave some out."""
    if op.name == _BROADCAST:
        dims = spread_dims(op)
        if dims != sorted(dims):
            return False
    elif op.name != "stablehlo.reshape":
        return False
    return keeps_all_but_ones(op)


def without_ones(value: Value) -> tuple[Value, list[ir.Operation]]:
    """What a value is but for dimensions of one element; and what adds and leaves out those."""
    ops: list[ir.Operation] = []
    while (op := maker_of(value)) is not None and adds_ones(op):
        ops.append(op)
        value = op.operands[0]
    return value, ops
