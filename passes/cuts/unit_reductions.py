"""Reductions along dimensions of one element, which are none.

The gradient of a row that was repeated once, as by `jnp.pad(x, 1, mode="edge")`, sums a single row.
If the row keeps its dimension, it is seen that what is computed of it is computed of a slice.
"""

from __future__ import annotations

from dtensor.dialect.mlir import Value, ir, users
from dtensor.passes.builder import Builder
from dtensor.passes.ops.attributes import integers, shape_of
from dtensor.passes.ops.combiners import combiner
from dtensor.passes.ops.patterns import adds_ones
from dtensor.passes.ops.reduction import Reduction
from dtensor.passes.rewriting.names import CUTS, REDUCE
from dtensor.passes.rewriting.rewriting import Rewriting


def keep_units(function: Rewriting) -> None:
    """Write reductions of one element each as that element."""
    for op in function.named(REDUCE):
        kind = combiner(op.regions[0]) if _reduces_units(op) else None
        if kind is not None:
            _replace(op, kind, function)


def _reduces_units(op: ir.Operation) -> bool:
    """Whether only dimensions of one element are reduced, which come back and are cut or padded."""
    sizes = shape_of(op.operands[0])
    dims = integers(op.attributes["dimensions"])
    if len(op.operands) != 2 or not dims or not all(sizes[d] == 1 for d in dims):
        return False
    readers = filter(adds_ones, users(op.results[0]))
    return any(user.name in CUTS for reader in readers for user in users(reader.results[0]))


def _replace(op: ir.Operation, kind: Reduction, function: Rewriting) -> None:
    """Let the readers of a reduction read a value that still has those dimensions."""
    make, (value, start) = Builder(op, function.made), op.operands
    result: Value = op.results[0]
    value = make.merged(kind, start, value)
    for reader in filter(adds_ones, users(result)):
        at = Builder(reader, function.made)
        function.replace(reader, at.reshape(value, shape_of(reader.results[0])))
    function.replace(op, make.reshape(value, shape_of(result)))
