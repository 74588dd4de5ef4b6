"""Annotations of operations that other passes fold or inline, as operations of their own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final

from dtensor.dialect.diagnostics import error
from dtensor.dialect.errors import LayoutError
from dtensor.dialect.functions import entry_function, function_name, functions
from dtensor.dialect.mlir import Value, forget, ir, is_read, operation_of, terminator
from dtensor.dialect.names import ARG_ATTRS, LAYOUT, LAYOUT_ATTR, RELAYOUT, RES_ATTRS
from dtensor.passes.base import Pass, PassState
from dtensor.passes.builder import Trail
from dtensor.passes.functions import entries, main_function, tensor_shape
from dtensor.passes.importing.gspmd import GSPMD_ATTR, sharding_text, shardings_of
from dtensor.passes.importing.shardy_text import per_value
from dtensor.passes.ops.attributes import CONSTANT
from dtensor.passes.program import CALLEE, CUSTOM_CALL, walk

_SHARDY_ATTR: Final = "sdy.sharding"
_FOLDED: Final = frozenset((CONSTANT, *CALLEE))


@dataclass(frozen=True)
class KeepAnnotationsPass(Pass):
    """Writes shardings that other passes would lose as constraints.

    Equal constants are made one, whatever is annotated on them; a call or composite that is
    inlined takes along what is annotated on it, and on arguments and results of its function.
    """

    name: ClassVar[str] = "dtensor-keep-annotations"

    def run(self, module: ir.Module, state: PassState) -> None:
        """Put the constraints behind the operations."""
        found = functions(module)
        if entry_function(module) is not None:
            main_function(module)  # one without a body would go, too
        called: set[str] = set()
        for function in found:
            for op, name, _ in list(walk(function, combiners=True)):
                if name in _FOLDED:
                    _keep(op)
                if name in CALLEE:
                    called.add(ir.FlatSymbolRefAttr(op.attributes[CALLEE[name]]).value)
        for function in found:
            if function_name(function) in called and len(function.regions[0].blocks) > 0:
                _keep_boundary(function)
        state.forget_ir()


def _keep(op: ir.Operation) -> None:
    if _SHARDY_ATTR in op.attributes:
        texts = list(per_value(str(op.attributes[_SHARDY_ATTR])))
        asked = [_shardy(ir.Attribute.parse(text)) for text in texts]
    elif GSPMD_ATTR in op.attributes:
        try:
            texts = shardings_of(sharding_text(op.attributes[GSPMD_ATTR]), len(op.results))
        except LayoutError as wrong:
            error(op, str(wrong))
        asked = [_gspmd(ir.StringAttr.get(text)) for text in texts]
    else:
        return
    forget(op, _SHARDY_ATTR, GSPMD_ATTR)
    for value, constraint in zip(op.results, asked, strict=False):
        make = Trail(ir.InsertionPoint.after(op), op.location)
        new = _constrained(make, value, constraint)
        if new is not None:
            value.replace_all_uses_except(new, operation_of(new))


def _keep_boundary(function: ir.Operation) -> None:
    """Constrain what a function that is called reads and returns; the caller's layouts stay."""
    block = function.regions[0].blocks[0]
    for value, entry in zip(block.arguments, entries(function, ARG_ATTRS), strict=True):
        constraint = _written(entry)
        if constraint is not None:
            make = Trail(ir.InsertionPoint.at_block_begin(block), function.location)
            new = _constrained(make, value, constraint)
            if new is not None:
                value.replace_all_uses_except(new, operation_of(new))
    last = terminator(block)
    for k, entry in enumerate(entries(function, RES_ATTRS)):
        constraint = _written(entry)
        if constraint is not None:
            make = Trail(ir.InsertionPoint(last), last.location)
            last.operands[k] = _constrained(make, last.operands[k], constraint) or last.operands[k]


# The name of an operation that constrains its operand, and its attributes.
_Constraint = tuple[str, dict[str, ir.Attribute]]


def _shardy(sharding: ir.Attribute) -> _Constraint:
    return "sdy.sharding_constraint", {"sharding": sharding}


def _gspmd(sharding: ir.Attribute) -> _Constraint:
    return CUSTOM_CALL, {"call_target_name": ir.StringAttr.get("Sharding"), GSPMD_ATTR: sharding}


def _written(entry: dict[str, ir.Attribute]) -> _Constraint | None:
    """What the attributes of an argument or a result ask for; a layout says the most."""
    if LAYOUT in entry:
        return RELAYOUT, {LAYOUT_ATTR: entry[LAYOUT]}
    if _SHARDY_ATTR in entry:
        return _shardy(entry[_SHARDY_ATTR])
    return _gspmd(entry[GSPMD_ATTR]) if GSPMD_ATTR in entry else None


def _constrained(make: Trail, value: Value, constraint: _Constraint) -> Value | None:
    """The value behind a new constraint; None if it is no tensor, or nothing reads it."""
    if tensor_shape(value.type) is None or not is_read(value):
        return None
    name, attributes = constraint
    result: Value = make.create(name, [value], [value.type], attributes).results[0]
    return result
