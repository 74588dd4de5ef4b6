"""Operations that the user defined get their definitions, composites as custom calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dtensor.dialect.diagnostics import error
from dtensor.dialect.mlir import ir, replace_op
from dtensor.dialect.names import DEFINED
from dtensor.passes.builder import Builder
from dtensor.passes.ops.bodies import BodyMaker
from dtensor.passes.ops.definition import Definition
from dtensor.passes.program import COMPOSITE, walk

_NAMES = {"stablehlo.custom_call": "call_target_name", COMPOSITE: "name"}


def import_definitions(
    function: ir.Operation, definitions: Sequence[Definition], bodies: Mapping[str, BodyMaker]
) -> None:
    """Write `dtensor.op` on every custom call and composite that is defined by name.

    A composite becomes a custom call of its name, which dtensor-expand replaces by its body: the
    decomposition in the module is one for whole arrays.
    """
    by_name = {definition.name: definition for definition in definitions}
    if not by_name:
        return
    for op, kind, _ in walk(function):
        if kind not in _NAMES:
            continue
        name = ir.StringAttr(op.attributes[_NAMES[kind]]).value
        if name not in by_name or not by_name[name].is_meant(op):
            continue
        if kind == COMPOSITE:
            if name not in bodies:
                error(
                    op,
                    f'composite "{name}" is defined without fn=, and its decomposition is for '
                    "whole arrays; define it with the function that it stands for",
                )
            _check_attributes(op, name)
            _check_operands(op, by_name[name])
            op = _as_custom_call(op, name)
        op.attributes[DEFINED] = by_name[name].attribute()


def _check_attributes(op: ir.Operation, name: str) -> None:
    if "composite_attributes" in op.attributes and len(
        ir.DictAttr(op.attributes["composite_attributes"])
    ):
        error(
            op,
            f'composite "{name}" has attributes, which fn= is not called with; let the function '
            "close over them",
        )


def _check_operands(op: ir.Operation, definition: Definition) -> None:
    given, named = len(op.operands), len(definition.operands)
    if given > named:
        error(
            op,
            f"'{definition.name}' has {given} operands; its signature has {named}. Arrays that its "
            "function closes over are operands too: pass them as arguments, or make them in it",
        )


def _as_custom_call(op: ir.Operation, name: str) -> ir.Operation:
    attributes = {"call_target_name": ir.StringAttr.get(name)}
    types = [result.type for result in op.results]
    call = Builder(op).create("stablehlo.custom_call", list(op.operands), types, attributes)
    replace_op(op, call.results)
    return call
