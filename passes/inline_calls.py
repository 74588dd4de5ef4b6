"""Inlining of what C++ `inline` refuses: callees that hold dtensor operations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from dtensor.dialect import names
from dtensor.dialect.diagnostics import error
from dtensor.dialect.mlir import ir
from dtensor.passes.base import Pass, PassState

_CALL = "func.call"
_RETURN = "func.return"


@dataclass(frozen=True)
class InlinePass(Pass):
    """Replaces every func.call by the body of the function it calls.

    C++ `inline` runs first and takes most of them; it refuses callees that hold dtensor operations,
    whose effects it does not know. Locations become call sites, as it makes them.
    """

    name: ClassVar[str] = "dtensor-inline"

    def run(self, module: ir.Module, state: PassState) -> None:
        functions = {}
        for view in module.body.operations:
            op = view.operation
            if op.name == names.FUNC:
                functions[ir.StringAttr(op.attributes[names.SYM_NAME]).value] = op
        finished: set[str] = set()
        for name in functions:
            _inline_into(name, functions, finished, [])
        state.graph = None


def _inline_into(
    name: str, functions: dict[str, ir.Operation], finished: set[str], callers: list[str]
) -> None:
    """Inline every call in the function `name`, its callees first."""
    if name in finished:
        return
    for call in _calls(functions[name]):
        callee = ir.FlatSymbolRefAttr(call.attributes["callee"]).value
        if callee == name or callee in callers:
            error(call, f"@{callee} calls itself; recursion cannot be laid out: write a loop")
        body = functions.get(callee)
        if body is None or not len(body.regions[0].blocks):
            error(call, f"@{callee} has no body; define it, or remove the call")
        _inline_into(callee, functions, finished, [*callers, name])
        _inline(call, body)
    finished.add(name)


def _calls(function: ir.Operation) -> list[ir.Operation]:
    found: list[ir.Operation] = []

    def collect(op: ir.Operation) -> ir.WalkResult:
        if op.name == _CALL:
            found.append(op)
        return ir.WalkResult.ADVANCE

    function.walk(collect)
    return found


def _inline(call: ir.Operation, function: ir.Operation) -> None:
    """Move a copy of the body before the call; uses inside regions follow by themselves."""
    copy = function.clone(ip=ir.InsertionPoint(function))
    block = copy.regions[0].blocks[0]
    for argument, value in zip(block.arguments, call.operands, strict=True):
        argument.replace_all_uses_with(value)
    site = call.location
    for view in list(block.operations):
        op = view.operation
        if op.name == _RETURN:
            for result, value in zip(call.results, op.operands, strict=True):
                result.replace_all_uses_with(value)
            continue
        _locate(op, site)
        op.move_before(call)
    copy.erase()
    call.erase()


def _locate(op: ir.Operation, site: ir.Location) -> None:
    inner: list[ir.Operation] = []

    def collect(each: ir.Operation) -> ir.WalkResult:
        inner.append(each)
        return ir.WalkResult.ADVANCE

    op.walk(collect)
    for each in inner:
        each.location = ir.Location.callsite(each.location, [site])
