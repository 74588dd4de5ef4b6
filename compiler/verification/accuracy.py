"""How far two right ways to compute one operation may lie apart."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from dtensor.dialect.mlir import ir, stablehlo
from dtensor.passes.ops.attributes import integers
from dtensor.passes.ops.table import opdef
from dtensor.passes.program import CONTROL, walk

_ELEMENTARY = 8.0  # roundings of XLA's elementary functions, whose vectors and tails differ
_SPECIAL = 64.0  # and of CHLO's, which are long series
_FACTORISATION = 64.0  # per column
_finfo: Any = ml_dtypes.finfo  # it carries no types
_WIDE = 2.0**-23  # in which narrower products and sums are accumulated

# Sums of products of their operands: each result is as exact as the sum of the terms' magnitudes.
SUMS = frozenset(
    f"stablehlo.{name}"
    for name in (
        "add",
        "convolution",
        "dot",
        "dot_general",
        "reduce",
        "reduce_window",
        "scatter",
        "select_and_scatter",
        "subtract",
    )
)
_ROUNDED_EACH = frozenset(f"stablehlo.{n}" for n in ("reduce_window", "scatter"))
_DENSE = frozenset(f"stablehlo.{n}" for n in ("cholesky", "triangular_solve", "custom_call"))


@dataclass(frozen=True)
class Accuracy:
    """What a difference between two ways to compute an operation is measured by.

    Attributes:
        roundings: how many roundings of the element type may lie between them.
        length: how many terms are added up in one element, 1 for none.
        wide: whether terms of narrow types are added in float32.
        of_tensor: whether the largest element of the result is the scale of all.
        is_sum: whether the sum of the terms' magnitudes is the scale.
    """

    roundings: float
    length: int = 1
    wide: bool = False
    of_tensor: bool = False
    is_sum: bool = False

    def epsilons(self, dtype: np.dtype[Any], parts: int = 1) -> float:
        """The largest difference, relative to the scale; 0 where values must be equal.

        Args:
            dtype: element type of the result.
            parts: over how many devices its parts, or those of an operand, are added up.
        """
        own = epsilon(dtype)
        terms = self.length - 1
        if self.wide and own > _WIDE:
            return own * (self.roundings + parts - 1) + _WIDE * terms
        return own * (self.roundings + parts - 1 + terms)


def epsilon(dtype: np.dtype[Any]) -> float:
    """The distance from 1 to the next number; 0 for integers and truth values."""
    if dtype.kind in "biu":
        return 0.0
    if dtype.kind == "c":
        return float(np.finfo(dtype).eps)
    try:
        return float(_finfo(dtype).eps)
    except ValueError:  # narrow integers, which numpy does not know as such
        return 0.0


def accuracy_of(op: ir.Operation) -> Accuracy:
    """The accuracy of one operation, by its name, shapes and attributes."""
    name = op.name
    if name in CONTROL:
        return _of_region(op)
    if opdef(name).moves_only:
        return Accuracy(0.0)
    narrow = _is_narrow(op)
    if name in SUMS:
        wide = narrow and name not in _ROUNDED_EACH
        return Accuracy(2.0 if narrow else _ELEMENTARY, _terms(op, name), wide, is_sum=True)
    if name == "stablehlo.fft":
        length = math.prod(integers(op.attributes["fft_length"]))
        return Accuracy(_ELEMENTARY * (2 + math.log2(max(length, 1))), of_tensor=True)
    if name in _DENSE:
        size = max([max(_shape(v), default=1) for v in op.operands], default=1)
        return Accuracy(_FACTORISATION * max(size, 1), of_tensor=True)
    if name.startswith("chlo.") or "batch_norm" in name:
        return Accuracy(_SPECIAL, of_tensor=True)
    return Accuracy(2.0 if narrow else _ELEMENTARY)


def _of_region(op: ir.Operation) -> Accuracy:
    """The roundings of all operations in it, one after another, as often as they run."""
    total = 0.0
    for inner, _, scope in walk(op):
        if inner.name not in CONTROL:
            found = accuracy_of(inner)
            total += (found.roundings + found.length - 1) * (scope.trips or 1)
    return Accuracy(max(total, _ELEMENTARY), of_tensor=True)


def _shape(value: ir.Value[Any]) -> Sequence[int]:
    try:
        return list(ir.RankedTensorType(value.type).shape)
    except ValueError:
        return []


def _elements(value: ir.Value[Any]) -> int:
    return math.prod(_shape(value))


def _is_narrow(op: ir.Operation) -> bool:
    texts = [str(result.type) for result in op.results]
    return any("bf16" in text or "f16" in text or "f8" in text for text in texts)


def _terms(op: ir.Operation, name: str) -> int:
    """How many terms one element of the result is the sum of, at most."""
    if name in ("stablehlo.add", "stablehlo.subtract"):
        return 2
    operand, result = op.operands[0], op.results[0]
    if name in ("stablehlo.dot", "stablehlo.dot_general"):
        # Each product of one element of either operand belongs to one element of the result.
        return _contracted(op, name)
    if name == "stablehlo.convolution":
        return max(1, _elements(op.operands[1]))
    if name == "stablehlo.reduce":
        return max(1, _elements(operand) // max(1, _elements(result)))
    if name == "stablehlo.reduce_window":
        return max(1, math.prod(integers(op.attributes["window_dimensions"])))
    return max(1, _elements(op.operands[-2]))  # the updates, or an upper bound of them


def _contracted(op: ir.Operation, name: str) -> int:
    lhs = _shape(op.operands[0])
    if name == "stablehlo.dot":
        return max(1, lhs[-1] if lhs else 1)
    numbers = stablehlo.DotDimensionNumbers(op.attributes["dot_dimension_numbers"])
    return max(1, math.prod(lhs[d] for d in numbers.lhs_contracting_dimensions))
