"""Sums over devices in a wider floating-point type than the values have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from dtensor.dialect import names
from dtensor.dialect.diagnostics import error
from dtensor.dialect.functions import functions
from dtensor.dialect.mlir import ir, operation_of
from dtensor.passes.base import Pass, PassState
from dtensor.passes.builder import Builder, Trail
from dtensor.passes.ops.reduction import Reduction
from dtensor.passes.program import walk

_BITS = {"bf16": 16, "f16": 16, "f32": 32, "f64": 64}
_REDUCES = (names.ALL_REDUCE, names.REDUCE_SCATTER)


@dataclass(frozen=True)
class WidenReductionsPass(Pass):
    """Makes sums over devices of narrow floats in a wider type, and converts the result back.

    A bfloat16 sum over 8 devices loses several of its 8 bits; in f32 it loses none, for twice the
    bytes. Does nothing unless an element type is asked for.
    """

    name: ClassVar[str] = "dtensor-widen-reductions"

    element: str = ""  # f16, bf16, f32 or f64; empty is CompileOptions.reduce_dtype

    def run(self, module: ir.Module, state: PassState) -> None:
        element = self.element or state.reduce_element
        if not element:
            return
        if element not in _BITS:
            error(module.operation, f"element is '{element}'; give one of {', '.join(_BITS)}")
        wide = ir.Type.parse(element)
        for function in functions(module):
            for op, name, _ in walk(function):
                if name in _REDUCES:
                    _widen(op, wide, _BITS[element])
        state.forget_ir()


def _widen(op: ir.Operation, wide: ir.Type, bits: int) -> None:
    if not Reduction.named(ir.StringAttr(op.attributes[names.REDUCTION]).value).rounds:
        return
    for k, operand in enumerate(op.operands):
        tensor = ir.RankedTensorType(operand.type)
        if _BITS.get(str(tensor.element_type), 64) >= bits:
            continue
        result = op.results[k]
        given = ir.RankedTensorType(result.type)
        op.operands[k] = Builder(op).convert(operand, str(wide))
        result.set_type(ir.RankedTensorType.get(list(given.shape), wide))
        behind = Trail(ir.InsertionPoint.after(op), op.location)
        narrow = behind.convert(result, str(given.element_type))
        result.replace_all_uses_except(narrow, operation_of(narrow))
