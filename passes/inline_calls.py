"""Inlining of what C++ `inline` leaves: callees with dtensor operations, composites, tuples."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from dtensor.dialect.diagnostics import error
from dtensor.dialect.functions import (
    entry_function,
    function_name,
    functions,
    is_public,
    symbols_of,
)
from dtensor.dialect.mlir import every, ir, is_read, maker_of, replace_op
from dtensor.dialect.names import CALLED_COMPUTATIONS, COMPOSITE_NAME
from dtensor.passes.base import Pass, PassState
from dtensor.passes.ops.attributes import integer
from dtensor.passes.ops.definition import Definition
from dtensor.passes.program import CALLEE, COMPOSITE, dissolve, walk

_TUPLE = "stablehlo.tuple"
_ELEMENT = "stablehlo.get_tuple_element"


@dataclass(frozen=True)
class InlinePass(Pass):
    """Replaces calls by the bodies of what they call, composites by their decompositions.

    C++ `inline` runs first and takes most calls; it refuses callees that hold dtensor operations,
    whose effects it does not know. A composite means what its decomposition computes; those that
    the user defined by name stay, and `dtensor.relayout`. Locations become call sites. Elements of
    a tuple that is made in the program are what it was made of.
    """

    name: ClassVar[str] = "dtensor-inline"

    def run(self, module: ir.Module, state: PassState) -> None:
        by_name = {function_name(function): function for function in functions(module)}
        inliner = _Inliner(by_name, {known.name: known for known in state.definitions}, set())
        for name in _reached(by_name, module):
            inliner.inline_into(name)
        for function in by_name.values() if inliner.has_tuples else ():
            _open_tuples(function)
        state.forget_ir()


@dataclass
class _Inliner:
    """The functions of a module by name, and those in which no call is left.

    Attributes:
        by_name: all functions.
        defined: what the user defined, by name: such composites stay.
        finished: names of functions without calls; grows.
        has_tuples: whether tuples are made in one of the functions.
    """

    by_name: dict[str, ir.Operation]
    defined: Mapping[str, Definition]
    finished: set[str]
    has_tuples: bool = False

    def inline_into(self, name: str) -> None:
        """Inline every call in the function `name`, in its callees first.

        Raises:
            LocatedError: a function calls itself, or has no body.
        """
        left = [(name, self._calls(name))]  # the calls that are left of each caller, last first
        while left:
            caller, calls = left[-1]
            if caller in self.finished or not calls:
                self.finished.add(caller)
                left.pop()
                continue
            call, callee = calls[-1]
            body = self.by_name.get(callee)
            if body is None or not len(body.regions[0].blocks):
                error(call, f"@{callee} has no body; define it, or remove the call")
            if callee in self.finished:
                calls.pop()
                _inline(call, body)
                continue
            if any(callee == above for above, _ in left):
                error(call, f"@{callee} calls itself; recursion cannot be laid out: write a loop")
            left.append((callee, self._calls(callee)))

    def _calls(self, name: str) -> list[tuple[ir.Operation, str]]:
        found = []
        for op, kind, _ in walk(self.by_name[name], combiners=True):
            if kind in CALLEE:
                if kind != COMPOSITE or not self._stays(op):
                    found.append((op, ir.FlatSymbolRefAttr(op.attributes[CALLEE[kind]]).value))
            elif kind in (_TUPLE, _ELEMENT):
                self.has_tuples = True
        return found[::-1]

    def _stays(self, composite: ir.Operation) -> bool:
        name = ir.StringAttr(composite.attributes["name"]).value
        defined = self.defined.get(name)
        return name == COMPOSITE_NAME or (defined is not None and defined.is_meant(composite))


def _reached(by_name: Mapping[str, ir.Operation], module: ir.Module) -> list[str]:
    """The functions that are run, or that other modules may run; the import erases the others.

    Where there are none, all are.
    """
    entry = entry_function(module)
    names = [name for name, each in by_name.items() if is_public(each)]
    if entry is not None and function_name(entry) not in names:
        names.append(function_name(entry))
    names = names or list(by_name)
    reached = dict.fromkeys(names)
    while names:
        for op in every(by_name[names.pop()]):
            key = CALLEE.get(op.name, CALLED_COMPUTATIONS)
            for name in symbols_of(op.attributes[key]) if key in op.attributes else ():
                if name in by_name and name not in reached:
                    reached[name] = None
                    names.append(name)
    return [name for name in by_name if name in reached]


def _inline(call: ir.Operation, function: ir.Operation) -> None:
    """Move a copy of the body before the call; uses inside regions follow by themselves."""
    copy, site = function.clone(ip=ir.InsertionPoint(function)), call.location
    for op in dissolve(copy, call.operands, call):
        for each in every(op):
            each.location = ir.Location.callsite(each.location, [site])
    copy.erase()


def _open_tuples(function: ir.Operation) -> None:
    """Let what reads an element of a tuple read what the tuple was made of."""
    made = []
    for op, kind, _ in walk(function):
        if kind == _TUPLE:
            made.append(op)
        elif kind == _ELEMENT:
            maker = maker_of(op.operands[0])
            if maker is not None and maker.name == _TUPLE:
                element = maker.operands[integer(op.attributes["index"])]
                replace_op(op, [element])
    for op in reversed(made):
        if not is_read(op.results[0]):
            op.erase()
