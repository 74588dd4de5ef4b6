"""What a loop computes anew in each trip of what never changes there: sums and products.

XLA computes it once, in front of the loop. So does the program, or its plan would send and compute
it once for every trip. What is no smaller than what it is computed of stays where it is: it would
have to be kept.
"""

from __future__ import annotations

from dtensor.dialect.mlir import Value, every, ir, operation_of, ops_of
from dtensor.passes.ops.attributes import elements_of
from dtensor.passes.ops.elementwise import is_scalar_work
from dtensor.passes.ops.opdef import UNKNOWN
from dtensor.passes.ops.table import opdef
from dtensor.passes.program import CONTROL, copy_to, never_changed_in
from dtensor.passes.rewriting.rewriting import Rewriting

_SMALLER = 2  # times, than the largest operand


def hoist(loop: ir.Operation, function: Rewriting) -> None:
    """Compute in front of a loop what its trips reduce of what never changes in them."""
    body = loop.regions[1].blocks[0]
    outside: dict[Value, Value] = {
        body.arguments[k]: loop.operands[k] for k in never_changed_in(loop)
    }
    inside = set(body.arguments) - set(outside)
    for op in list(ops_of(body)):
        if not _is_invariant(op, inside):
            inside.update(op.results)
        elif _reduces(op):
            _move(op, body, outside, function)


def _is_invariant(op: ir.Operation, inside: set[Value]) -> bool:
    """Whether an operation gives the same in each trip, and has no other effect."""
    definition = opdef(op.name)
    if not op.results or op.name in CONTROL or definition is UNKNOWN or definition.varies:
        return False
    if not op.name.startswith(("stablehlo.", "chlo.")) or op.name == "stablehlo.custom_call":
        return False
    return all(value not in inside for value in _read(op))


def _read(op: ir.Operation) -> list[Value]:
    """What an operation reads, and what those in its regions do."""
    each = every(op) if len(op.regions) else [op]
    return [value for inner in each for value in inner.operands]


def _reduces(op: ir.Operation) -> bool:
    """Whether an operation computes something smaller of an array."""
    if is_scalar_work(op) or opdef(op.name).moves_only or not op.operands:
        return False
    sizes = [elements_of(value) for value in op.operands]
    return max(sizes) >= _SMALLER * sum(map(elements_of, op.results)) > 0


def _move(
    op: ir.Operation, body: ir.Block, outside: dict[Value, Value], function: Rewriting
) -> None:
    """Let a copy in front of the loop, with what it reads, stand for an operation."""
    point, waiting = ir.InsertionPoint(body.owner), [op]
    while waiting:
        last = waiting[-1]
        reads = [v for v in _read(last) if v not in outside and _is_made_in(v, body)]
        makers = [operation_of(value) for value in reads]
        if missing := [maker for maker in makers if maker != last]:
            waiting += missing
            continue
        waiting.pop()
        if last.results[0] not in outside:
            function.made.append(copy_to(point, last, outside))
    function.replace(op, *[outside[result] for result in op.results])


def _is_made_in(value: Value, body: ir.Block) -> bool:
    """Whether an operation that stands in a block makes a value."""
    return not isinstance(value.owner, ir.Block) and operation_of(value).block == body
