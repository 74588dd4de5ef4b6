"""Digit arithmetic: between an element's index in the whole dimension and in a shard of it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dtensor.dialect.axes import AxisRef
from dtensor.dialect.dim import Dim
from dtensor.dialect.mlir import Value

if TYPE_CHECKING:
    from dtensor.passes.expansion.context import ExpansionContext


@dataclass(frozen=True, slots=True)
class Digit:
    """One digit of a dimension's index.

    Attributes:
        axes: the mesh axes that fix it, first major; empty if it varies inside the shard.
        size: number of values.
        global_weight: what one step of the digit adds to the index in the whole dimension.
        local_weight: what it adds to the index in the shard; 0 if axes fix it.
    """

    axes: tuple[AxisRef, ...]
    size: int
    global_weight: int
    local_weight: int


def digits_of(dim: Dim, size: int) -> tuple[Digit, ...]:
    """The digits of a dimension of `size` elements, major first; neighbouring axes are joined.

    The last one is the contiguous rest, unless it has a single value; a dimension of one element
    has no digits.
    """
    word: list[tuple[tuple[AxisRef, ...], int]] = []
    for digit in dim.digits:
        if isinstance(digit, int):
            word.append(((), digit))
        elif word and word[-1][0]:
            axes, count = word[-1]
            word[-1] = ((*axes, digit), count * digit.size)
        else:
            word.append(((digit,), digit.size))
    rest = size // math.prod(count for _, count in word)
    if rest != 1:
        word.append(((), rest))
    digits: list[Digit] = []
    global_weight = local_weight = 1
    for axes, count in reversed(word):
        digits.append(Digit(axes, count, global_weight, 0 if axes else local_weight))
        global_weight *= count
        local_weight *= 1 if axes else count
    return tuple(reversed(digits))


def index_element(size: int) -> str:
    """The element type in which indices into a dimension of `size` elements are computed."""
    return "i32" if size < 2**31 else "i64"


def shard_offset(ctx: ExpansionContext, dim: Dim, size: int, element: str) -> Value | None:
    """What this device's axes add to the global index, a scalar; None if no axis splits `dim`."""
    parts = [
        ctx.times(ctx.convert(ctx.axis_index(digit.axes), element), digit.global_weight)
        for digit in digits_of(dim, size)
        if digit.axes
    ]
    return ctx.combined("add", parts) if parts else None


def global_index(ctx: ExpansionContext, dim: Dim, size: int, element: str) -> Value:
    """The index in the whole dimension of each element of this shard, a 1-D tensor."""
    work = index_element(size)
    inner = [digit for digit in digits_of(dim, size) if not digit.axes]
    index = _inner_index(ctx, inner, work)
    offset = shard_offset(ctx, dim, size, work)
    if offset is not None:
        index = ctx.binary("add", index, ctx.broadcast(offset, ctx.shape_of(index)))
    return ctx.convert(index, element)


def _inner_index(ctx: ExpansionContext, inner: Sequence[Digit], element: str) -> Value:
    shape = tuple(digit.size for digit in inner)
    if not inner:
        return ctx.constant(0, ctx.tensor_type((1,), element))
    parts = (
        ctx.times(ctx.iota(shape, position, element), digit.global_weight)
        for position, digit in enumerate(inner)
    )
    return ctx.reshape(ctx.combined("add", parts), (math.prod(shape),))


def localise_index(ctx: ExpansionContext, index: Value, dim: Dim, size: int) -> tuple[Value, Value]:
    """Where global indices lie in this shard, and whether they lie in it at all.

    Args:
        ctx: where to create operations.
        index: a tensor, of any rank and integer type, of indices into the whole dimension.
        dim: how the dimension is cut.
        size: elements of the whole dimension.

    Returns:
        The local index, i32 or i64, meaningless where the second is false; and an i1 tensor: true
        where the index is in range and this shard holds its element.
    """
    given = ctx.element_of(index)
    wide = size >= 2**31 or given in ("i64", "ui64", "ui32")
    index = ctx.convert(index, "i64" if wide else "i32")
    if dim.is_contiguous:
        return _localise_range(ctx, index, dim, size)
    return _localise_digits(ctx, index, dim, size)


def _localise_range(
    ctx: ExpansionContext, index: Value, dim: Dim, size: int
) -> tuple[Value, Value]:
    offset = shard_offset(ctx, dim, size, ctx.element_of(index))
    if offset is not None:
        index = ctx.binary("subtract", index, ctx.broadcast(offset, ctx.shape_of(index)))
    return index, ctx.within(index, 0, size // dim.split)


def _localise_digits(
    ctx: ExpansionContext, index: Value, dim: Dim, size: int
) -> tuple[Value, Value]:
    shape, element = ctx.shape_of(index), ctx.element_of(index)
    mine = ctx.within(index, 0, size)
    local: list[Value] = []
    for digit in digits_of(dim, size):
        value = ctx.over(index, digit.global_weight)
        value = ctx.modulo(value, digit.size)
        if digit.axes:
            here = ctx.broadcast(ctx.convert(ctx.axis_index(digit.axes), element), shape)
            mine = ctx.binary("and", mine, ctx.compare("EQ", value, here))
            continue
        local.append(ctx.times(value, digit.local_weight))
    return (ctx.combined("add", local) if local else ctx.constant_like(0, index)), mine
