"""Inlining of what C++ `inline` refuses: callees that hold dtensor operations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from dtensor.dialect.diagnostics import error
from dtensor.dialect.functions import function_name, functions
from dtensor.dialect.mlir import ir
from dtensor.passes.base import Pass, PassState
from dtensor.passes.program import CALLS, RETURNS, walk


@dataclass(frozen=True)
class InlinePass(Pass):
    """Replaces every func.call by the body of the function it calls.

    C++ `inline` runs first and takes most of them; it refuses callees that hold dtensor operations,
    whose effects it does not know. Locations become call sites, as it makes them.
    """

    name: ClassVar[str] = "dtensor-inline"

    def run(self, module: ir.Module, state: PassState) -> None:
        by_name = {function_name(function): function for function in functions(module)}
        finished: set[str] = set()
        for name in by_name:
            _inline_into(name, by_name, finished, [])
        state.graph = None


def _inline_into(
    name: str, by_name: dict[str, ir.Operation], finished: set[str], callers: list[str]
) -> None:
    """Inline every call in the function `name`, its callees first."""
    if name in finished:
        return
    for call in _calls(by_name[name]):
        callee = ir.FlatSymbolRefAttr(call.attributes["callee"]).value
        if callee == name or callee in callers:
            error(call, f"@{callee} calls itself; recursion cannot be laid out: write a loop")
        body = by_name.get(callee)
        if body is None or not len(body.regions[0].blocks):
            error(call, f"@{callee} has no body; define it, or remove the call")
        _inline_into(callee, by_name, finished, [*callers, name])
        _inline(call, body)
    finished.add(name)


def _calls(function: ir.Operation) -> list[ir.Operation]:
    return [op for op, name, _ in walk(function, combiners=True) if name in CALLS]


def _inline(call: ir.Operation, function: ir.Operation) -> None:
    """Move a copy of the body before the call; uses inside regions follow by themselves."""
    copy = function.clone(ip=ir.InsertionPoint(function))
    block = copy.regions[0].blocks[0]
    for argument, value in zip(block.arguments, call.operands, strict=True):
        argument.replace_all_uses_with(value)
    site = call.location
    for view in list(block.operations):
        op = view.operation
        if op.name in RETURNS:
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
