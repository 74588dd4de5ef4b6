"""What is moved between shards is moved in the narrowest type that it has on its way.

A roll of `x.astype(float32)` is that of `x`, converted afterwards; where a roll is converted to a
narrower type, so is what is rolled. Between a conversion and windows, which fetch what they read
before it is converted (`ops/narrow.py`), stands no reshape.
"""

from __future__ import annotations

from dtensor.dialect.mlir import Value, ir, maker_of, reader_of
from dtensor.dialect.names import SPLICE
from dtensor.passes.builder import Builder
from dtensor.passes.ops.attributes import element_of, elements_of, itemsize, shape_of
from dtensor.passes.ops.narrow import Narrow
from dtensor.passes.ops.table import opdef
from dtensor.passes.rewriting.names import CONVERT, CUTS, REVERSE, WINDOWED
from dtensor.passes.rewriting.rewriting import Rewriting

_MOVES = CUTS | {REVERSE, SPLICE}  # of what shards may fetch of others
_MORE_ELEMENTS = 2  # times as many elements are converted at most
_NEAR_WORKS = 4  # operations between a conversion and what moves, or windows


def move_narrow(function: Rewriting) -> None:
    """Convert what moves between shards before that, if to a narrower type; or else behind it."""
    for op in function.each(CONVERT, is_reverse=True):
        _convert_before(function, op)
    for op in function.each(*_MOVES, *WINDOWED):
        _convert_behind(function, op)


def _convert_before(function: Rewriting, op: ir.Operation) -> None:
    """Convert what moves to a narrower type, where that alone is read of what moved."""
    value, element = op.operands[0], element_of(op.results[0])
    moves = maker_of(value)
    if moves is None or moves.name not in _MOVES or reader_of(value) is None:
        return
    if itemsize(op.results[0]) >= itemsize(value) or not _is_as_large(moves):
        return
    if not _is_sent(function, value, *moves.operands):
        return
    make = Builder(moves, function.made)
    operands = [make.convert(operand, element) for operand in moves.operands]
    function.replace(op, *make.again(moves, operands, element=element).results)


def _convert_behind(function: Rewriting, op: ir.Operation) -> None:
    """Move what was converted from a narrower type as that, and convert what came."""
    for value in list(op.operands)[: len(op.operands) if op.name in _MOVES else len(op.results)]:
        _convert_reshaped(function, value)
    if op.name not in _MOVES or not _is_as_large(op):
        return
    found = [Narrow.of(value) for value in op.operands if shape_of(value)]
    narrow = found[0]
    before, after = element_of(narrow.value), narrow.elements
    alike = all(element_of(n.value) == before and n.elements == after for n in found)
    if not (after and alike and _is_sent(function, op.results[0], *op.operands, narrow.value)):
        return
    make, operands = Builder(op, function.made), list[Value]()
    for value in op.operands:
        if shape_of(value):
            operands.append(Narrow.of(value).value)
        elif (fill := narrow.scalar(make, value)) is not None:
            operands.append(fill)
        else:
            return
    moved = make.again(op, operands, element=before).results[0]
    function.replace(op, narrow.widened(make, moved))


def _convert_reshaped(function: Rewriting, value: Value) -> None:
    """Let a value that was reshaped or transposed after it was converted, be converted last."""
    moved, read = list[ir.Operation](), value
    while (op := maker_of(read)) is not None and len(moved) < _NEAR_WORKS and _only_reorders(op):
        moved.append(op)
        read = op.operands[0]
    narrow = Narrow.of(read)
    if not narrow.elements or not _is_sent(function, value, read, narrow.value):
        return
    inner = narrow.value
    for op in reversed(moved):
        make = Builder(op, function.made)
        inner = make.again(op, [inner], element=element_of(inner)).results[0]
        function.replace(op, narrow.widened(make, inner))


def _is_sent(function: Rewriting, *values: Value) -> bool:
    """Whether some of these, which are moved or windowed, may be sent.

    A layout is known to split a dimension of one, and constants alone do not say what they are.
    """
    places = [(value, d) for value in values for d in range(len(shape_of(value)))]
    return function.shards.nearly(*places) > 1 and not all(map(_is_of_constants, values))


def _is_of_constants(value: Value, depth: int = 2 * _NEAR_WORKS) -> bool:
    op = maker_of(value) if depth else None
    return op is not None and all(_is_of_constants(operand, depth - 1) for operand in op.operands)


def _only_reorders(op: ir.Operation) -> bool:
    """Whether an operation gives the elements of its operand, each once, without sending any."""
    is_local = opdef(op.name).moves_only and op.name not in _MOVES and not len(op.regions)
    if not (is_local and opdef(op.name).fuses and len(op.operands) == 1):
        return False
    return elements_of(op.operands[0]) == elements_of(op.results[0])


def _is_as_large(op: ir.Operation) -> bool:
    """Whether what moves is about as many elements on either side, and of more than none."""
    operands = sum([elements_of(v) for v in op.operands if shape_of(v)])
    result = elements_of(op.results[0]) if shape_of(op.results[0]) else 0
    return 0 < result <= _MORE_ELEMENTS * operands and operands <= _MORE_ELEMENTS * result
