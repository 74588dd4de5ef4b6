"""Annotations of operations that other passes fold or inline, as operations of their own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final

from dtensor.dialect.diagnostics import error
from dtensor.dialect.errors import LayoutError
from dtensor.dialect.functions import functions
from dtensor.dialect.mlir import Value, forget, ir, operation_of
from dtensor.passes.base import Pass, PassState
from dtensor.passes.builder import Trail
from dtensor.passes.functions import tensor_shape
from dtensor.passes.importing.gspmd import GSPMD_ATTR, sharding_text, shardings_of
from dtensor.passes.importing.shardy_text import per_value
from dtensor.passes.ops.attributes import CONSTANT
from dtensor.passes.program import CALLS, COMPOSITE, CUSTOM_CALL, walk

_SHARDY_ATTR: Final = "sdy.sharding"
_FOLDED: Final = frozenset((CONSTANT, COMPOSITE, *CALLS))


@dataclass(frozen=True)
class KeepAnnotationsPass(Pass):
    """Writes shardings of constants, calls and composites as constraints of their results.

    Equal constants are made one, whatever is annotated on them, and what is inlined or decomposed
    takes its annotation with it.
    """

    name: ClassVar[str] = "dtensor-keep-annotations"

    def run(self, module: ir.Module, state: PassState) -> None:
        """Put the constraints behind the operations."""
        for function in functions(module):
            for op, name, _ in list(walk(function, combiners=True)):
                if name in _FOLDED:
                    _keep(op)
        state.forget_ir()


def _keep(op: ir.Operation) -> None:
    if _SHARDY_ATTR in op.attributes:
        texts = list(per_value(str(op.attributes[_SHARDY_ATTR])))
        for value, text in zip(op.results, texts, strict=False):
            _constrain(value, "sdy.sharding_constraint", {"sharding": ir.Attribute.parse(text)})
    elif GSPMD_ATTR in op.attributes:
        try:
            each_of = shardings_of(sharding_text(op.attributes[GSPMD_ATTR]), len(op.results))
        except LayoutError as wrong:
            error(op, str(wrong))
        for value, each in zip(op.results, each_of, strict=True):
            target = {"call_target_name": ir.StringAttr.get("Sharding")}
            _constrain(value, CUSTOM_CALL, {**target, GSPMD_ATTR: ir.StringAttr.get(each)})
    else:
        return
    forget(op, _SHARDY_ATTR, GSPMD_ATTR)


def _constrain(value: Value, name: str, attributes: dict[str, ir.Attribute]) -> None:
    if tensor_shape(value.type) is not None:
        op = operation_of(value)
        make = Trail(ir.InsertionPoint.after(op), op.location)
        new = make.create(name, [value], [value.type], attributes)
        value.replace_all_uses_except(new.results[0], new)
