"""Windows over what was reversed, whose results are reversed again: sums from the end on.

`jnp.cumsum(rewards[::-1])[::-1]` is how returns are computed, and every reversal of a split
dimension moves all of it. Windows over the array itself give the same, from its other end on.
"""

from __future__ import annotations

from dtensor.dialect.ends import read_padding
from dtensor.dialect.mlir import Value, ir, is_read, maker_of, operation_of
from dtensor.passes.builder import matrix_attr
from dtensor.passes.ops.attributes import integers, shape_of, splat_of
from dtensor.passes.ops.combiners import commutes
from dtensor.passes.ops.elementwise import is_scalar_work
from dtensor.passes.program import copy_to

_REVERSE, _STRIDES = "stablehlo.reverse", "window_strides"
_MOST = 16  # operations in between


def replaced_windows(windows: ir.Operation) -> list[ir.Operation]:
    """Windows over what was not reversed in the place of others, which are erased; or nothing.

    Which of two elements comes first must not matter, for windows are walked backwards.
    """
    turns = [use.owner.operation for use in windows.results[0].uses]
    if not turns or turns[0].name != _REVERSE or len(windows.results) != 1:
        return []
    dims, named = integers(turns[0].attributes["dimensions"]), windows.attributes
    if not all(_turns(user, dims) and user.block == windows.block for user in turns):
        return []
    if any("." in name for name in named) or not commutes(windows.regions[0], 1):
        return []
    if _STRIDES in named and any(integers(named[_STRIDES])[d] != 1 for d in dims):
        return []
    works: list[ir.Operation] = []
    known: dict[Value, Value] = {}
    if not _is_turned(windows.operands[0], dims, works, known):
        return []
    for op in (*works, windows):
        copy_to(ir.InsertionPoint(windows), op, known)
    made = operation_of(known[windows.results[0]])
    pairs = read_padding(made, len(shape_of(made.results[0])))
    rows = [(high, low) if d in dims else (low, high) for d, (low, high) in enumerate(pairs)]
    made.attributes["padding"] = matrix_attr(rows)
    for user in turns:
        user.results[0].replace_all_uses_with(made.results[0])
        user.erase()
    new = [*[operation_of(known[op.results[0]]) for op in works], made]
    sources = [operation_of(value) for value in known if _turns(operation_of(value), dims)]
    for op in (windows, *reversed(works), *sources):
        if not is_read(op.results[0]):
            op.erase()
    return new


def _is_turned(
    value: Value, dims: list[int], works: list[ir.Operation], known: dict[Value, Value]
) -> bool:
    """Whether a value is computed, element by element, of what was reversed.

    Args:
        value: the value.
        dims: the dimensions that were.
        works: the operations in between are put there, in order.
        known: what was reversed is put there, by what it became.
    """
    op = maker_of(value)
    if value in known or splat_of(value) is not None:
        return True
    if op is None or len(works) > _MOST:
        return False
    if _turns(op, dims):
        known[value] = op.operands[0]
        return True
    if not is_scalar_work(op) or len(op.results) != 1:
        return False
    if not all(_is_turned(operand, dims, works, known) for operand in op.operands):
        return False
    if op not in works:
        works.append(op)
    return True


def _turns(op: ir.Operation, dims: list[int]) -> bool:
    """Whether an operation reverses these dimensions, and no others."""
    return op.name == _REVERSE and sorted(integers(op.attributes["dimensions"])) == sorted(dims)
