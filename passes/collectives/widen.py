"""Sums over devices in a wider floating-point type than the values have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from dtensor.dialect import names
from dtensor.dialect.diagnostics import error
from dtensor.dialect.functions import functions
from dtensor.dialect.mlir import Value, ir, maker_of, operation_of
from dtensor.passes.base import Pass, PassState
from dtensor.passes.builder import Builder, Trail
from dtensor.passes.ops.reduction import FLOAT_BITS, Reduction, sum_element
from dtensor.passes.program import walk

_PRODUCTS = ("stablehlo.dot_general", "stablehlo.convolution")  # may be wider than their factors
_REDUCES = (names.ALL_REDUCE, names.REDUCE_SCATTER)


@dataclass(frozen=True)
class WidenReductionsPass(Pass):
    """Makes sums over devices of narrow floats in a wider type, and converts the result back.

    A bfloat16 sum over 8 devices loses several of its 8 bits; in f32 it loses none, for twice the
    bytes. It is made so if an element type is asked for. A float16 sum always is, unless float16
    is asked for: parts may be beyond what it can hold, though one device finds their sum.
    """

    name: ClassVar[str] = "dtensor-widen-reductions"

    element: str = ""  # f16, bf16, f32 or f64; empty is CompileOptions.reduce_dtype

    def run(self, module: ir.Module, state: PassState) -> None:
        element = self.element or state.reduce_element
        if element and element not in FLOAT_BITS:
            error(module.operation, f"element is '{element}'; give one of {', '.join(FLOAT_BITS)}")
        for function in functions(module):
            for op, name, _ in walk(function):
                if name in _REDUCES:
                    _widen(op, element)
        state.forget_ir()


def _widen(op: ir.Operation, asked: str | None) -> None:
    if not Reduction.named(ir.StringAttr(op.attributes[names.REDUCTION]).value).rounds:
        return
    for k, operand in enumerate(op.operands):
        narrow = str(ir.RankedTensorType(operand.type).element_type)
        wide = sum_element(narrow, asked)
        if wide == narrow:
            continue
        result = op.results[k]
        op.operands[k] = _as_wide(op, operand, wide)
        _set_element(result, wide)
        behind = Trail(ir.InsertionPoint.after(op), op.location)
        back = behind.convert(result, narrow)
        result.replace_all_uses_except(back, operation_of(back))


def _as_wide(op: ir.Operation, value: Value, wide: str) -> Value:
    """A value in a wider type; what a product adds up is not rounded before it is added on."""
    maker = maker_of(value)
    is_product = maker is not None and maker.name in _PRODUCTS
    is_free = maker is None or "algorithm" not in maker.attributes  # to give another type
    if is_product and is_free and len(list(value.uses)) == 1:
        _set_element(value, wide)
        return value
    return Builder(op).convert(value, wide)


def _set_element(value: Value, element: str) -> None:
    shape = list(ir.RankedTensorType(value.type).shape)
    value.set_type(ir.RankedTensorType.get(shape, ir.Type.parse(element)))
