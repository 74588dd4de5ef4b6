"""Windows over what was reversed, whose results are reversed again: sums from the end on.

`jnp.cumsum(rewards[::-1])[::-1]` is how returns are computed, and every reversal of a split
dimension moves all of it. Windows over the array itself, from its other end on, give the same. So
does a convolution of it with the kernel reversed: `jax.scipy.signal.correlate2d` is written so.
"""

from __future__ import annotations

from collections.abc import Sequence

from dtensor.dialect.ends import read_padding, read_steps
from dtensor.dialect.mlir import (
    Value,
    ir,
    made_by,
    maker_of,
    reader_of,
    users,
)
from dtensor.passes.builder import Builder
from dtensor.passes.creation import matrix_attr
from dtensor.passes.ops.attributes import convolution_numbers, integers, is_marked, shape_of
from dtensor.passes.ops.combiners import commutes
from dtensor.passes.ops.elementwise import cone
from dtensor.passes.ops.patterns import adds_ones, keeps_all_but_ones, reverses, without_ones
from dtensor.passes.program import copy_to
from dtensor.passes.rewriting.names import REVERSE
from dtensor.passes.rewriting.rewriting import Rewriting

_STRIDES = "window_strides"
_MOST_WORKS = 16  # operations, one after another, in between


def replace_windows(windows: ir.Operation, function: Rewriting) -> None:
    """Let windows over what was not reversed stand for others that are reversed again.

    Which of two elements comes first must not matter, for windows are walked backwards.
    """
    reversals = users(windows.results[0])
    if not reversals or reversals[0].name != REVERSE or len(windows.results) != 1:
        return
    dims, named = integers(reversals[0].attributes["dimensions"]), windows.attributes
    if not all(reverses(user, dims) and user.block == windows.block for user in reversals):
        return
    if is_marked(windows) or not commutes(windows.regions[0], 1):
        return
    if _STRIDES in named and any(integers(named[_STRIDES])[d] != 1 for d in dims):
        return
    straight = without_reversals(windows, dims, function)
    if straight is None:
        return
    pairs = read_padding(windows, len(shape_of(windows.results[0])))
    rows = [(high, low) if d in dims else (low, high) for d, (low, high) in enumerate(pairs)]
    padding = {"padding": matrix_attr(rows)}
    made = Builder(windows, function.made).again(windows, [straight], attributes=padding)
    for user in reversals:
        function.replace(user, made.results[0])


def replace_convolution(convolution: ir.Operation, function: Rewriting) -> None:
    """A convolution of what was not reversed in the place of one of what was.

    Dimensions of one element may come or go between the reversals and the convolution.
    """
    given, kernel = convolution.operands
    (value, _), last = without_ones(given), convolution.results[0]
    while (reader := reader_of(last)) is not None and _has_units(reader):
        last = reader.results[0]
    first, reversals = made_by(REVERSE, value), users(last)
    if first is None or not reversals or any(each.name != REVERSE for each in reversals):
        return
    dims = integers(reversals[0].attributes["dimensions"])
    backwards = _reversed_windows(
        convolution,
        _placed(value, given, integers(first.attributes["dimensions"])),
        _placed(last, convolution.results[0], dims),
    )
    if not backwards or not all(reverses(each, dims) for each in reversals):
        return
    make = Builder(convolution, function.made)
    numbers = convolution_numbers(convolution)
    for i in backwards:
        kernel = make.reversed(kernel, numbers.kernel_spatial_dimensions[i])
    straight = make.reshape(first.operands[0], shape_of(given))
    pairs = read_padding(convolution, len(numbers.input_spatial_dimensions))
    rows = [pair[::-1] if i in backwards else pair for i, pair in enumerate(pairs)]
    padding = {"padding": matrix_attr(rows)}
    new = make.again(convolution, [straight, kernel], attributes=padding)
    if last == convolution.results[0]:
        last = new.results[0]
    function.replace(convolution, new.results[0])
    for each in reversals:
        function.replace(each, last)


def _reversed_windows(
    convolution: ir.Operation, before: set[int] | None, after: set[int] | None
) -> list[int]:
    """Which windows must walk backwards if these dimensions are not reversed; none if it cannot be.

    Args:
        convolution: the convolution.
        before: the dimensions of its operand that are reversed.
        after: the dimensions of its result that are.
    """
    numbers, found = convolution_numbers(convolution), []
    if before is None or after is None:
        return []
    sizes, counts = shape_of(convolution.operands[0]), shape_of(convolution.results[0])
    kernel = shape_of(convolution.operands[1])
    rows = zip(
        numbers.input_spatial_dimensions,
        numbers.kernel_spatial_dimensions,
        numbers.output_spatial_dimensions,
        read_steps(convolution, _STRIDES, len(sizes) - 2),
        strict=True,
    )
    for i, (source, k, result, stride) in enumerate(rows):
        is_before, is_after = source in before, result in after
        if not (is_before or is_after):
            continue
        is_both = (is_before or sizes[source] == 1) and (is_after or counts[result] == 1)
        if not is_both or stride != 1 or 2 * kernel[k] > max(sizes[source], 2):
            return []
        before.discard(source)
        after.discard(result)
        found.append(i)
    return [] if before or after else found


def _has_units(op: ir.Operation) -> bool:
    """Whether an operation gives what it is given, with dimensions of one element more or less."""
    if op.name != "stablehlo.reduce" or len(op.results) != 1:
        return adds_ones(op)
    return keeps_all_but_ones(op)


def _placed(value: Value, other: Value, dims: Sequence[int]) -> set[int] | None:
    """Where dimensions of a value are in what differs in those of one element alone, or None."""
    here, there = ([(d, n) for d, n in enumerate(shape_of(v)) if n != 1] for v in (value, other))
    if [n for _, n in here] != [n for _, n in there]:
        return None
    places = {d: place for (d, _), (place, _) in zip(here, there, strict=True)}
    return {places[d] for d in dims if d in places}


def without_reversals(op: ir.Operation, dims: list[int], function: Rewriting) -> Value | None:
    """The first operand of an operation without the reversals that it is computed of, or None."""
    known: dict[Value, Value] = {}

    def is_reversed(value: Value) -> bool:
        maker = maker_of(value)
        if maker is None or not reverses(maker, dims):
            return False
        known[value] = maker.operands[0]
        return True

    given = op.operands[0]
    works = cone(given, is_reversed, _MOST_WORKS)
    for work in works or ():
        function.made.append(copy_to(ir.InsertionPoint(op), work, known))
    return None if works is None else known.get(given, given)
