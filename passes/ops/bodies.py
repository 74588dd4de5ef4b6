"""Bodies of defined operations: programs that are made again for the shapes of a shard."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dtensor.dialect.diagnostics import error
from dtensor.dialect.functions import functions
from dtensor.dialect.mlir import Value, ir, ops_of
from dtensor.dialect.modules import read_module
from dtensor.dialect.names import MODULE
from dtensor.passes.expansion.context import LocalOp
from dtensor.passes.program import RETURNS

# From shape in elements and element type, as written, of each operand: a StableHLO module.
BodyMaker = Callable[[Sequence[tuple[tuple[int, ...], str]]], bytes]


def inline_body(op: LocalOp, body: bytes, count: Callable[[ir.Operation], bool]) -> list[Value]:
    """The operations of a module's one function, on the local operands of `op`, in its place.

    Args:
        op: the operation that is replaced.
        body: the module.
        count: told of each operation, until it answers that this one counts what `op` computes.

    Raises:
        LocatedError: the body has other results than the operation.
    """
    module = read_module(body, op.operation.context)
    entry = functions(module)[0]
    point = ir.InsertionPoint.at_block_begin(_module_of(op.operation).regions[0].blocks[0])
    copy = entry.clone(ip=point)
    block = copy.regions[0].blocks[0]
    for argument, value in zip(block.arguments, op.operands, strict=True):
        argument.replace_all_uses_with(value)
    values: list[Value] = []
    counted = False
    for inner in ops_of(block):
        if inner.name in RETURNS:
            values = list(inner.operands)
        else:
            inner.location = op.operation.location
            inner.move_before(op.operation)
            counted = counted or count(inner)
    copy.erase()
    wanted = [op.local_result_type(i) for i in range(len(op.result_layouts))]
    found = [value.type for value in values]
    if found != wanted:
        texts = [", ".join(map(str, types)) for types in (found, wanted)]
        error(
            op.operation,
            f"on one shard {op.operation.attributes['call_target_name']} gives {texts[0]}, and not "
            f"{texts[1]} as its signature says; name in whole= what it does not compute by shards",
        )
    return values


def _module_of(operation: ir.Operation) -> ir.Operation:
    while operation.name != MODULE:
        assert operation.parent is not None
        operation = operation.parent.operation
    return operation
