"""How far two right ways to compute one operation may lie apart, in its element type."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from dtensor.dialect.mlir import ir
from dtensor.dialect.names import MANUAL
from dtensor.passes.ops.accuracy import ELEMENTARY, Accuracy
from dtensor.passes.ops.rule import OpInfo
from dtensor.passes.ops.table import opdef
from dtensor.passes.program import CONTROL, walk

_finfo: Any = ml_dtypes.finfo  # it carries no types
_WIDE = 2.0**-23  # in which narrower products and sums are accumulated


def epsilons(accuracy: Accuracy, dtype: np.dtype[Any], parts: int = 1) -> float:
    """The largest difference, relative to the scale; 0 where values must be equal.

    Args:
        accuracy: the operation's.
        dtype: element type of the result.
        parts: over how many devices its parts, or those of an operand, are added up.
    """
    own = epsilon(dtype)
    terms = accuracy.length - 1
    if accuracy.wide and own > _WIDE:
        return own * (accuracy.roundings + parts - 1) + _WIDE * terms
    return own * (accuracy.roundings + parts - 1 + terms)


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
    """The accuracy of one operation, as the table of operations says."""
    if op.name in (*CONTROL, MANUAL):
        return _of_region(op)
    known, info = opdef(op.name), OpInfo.of(op)
    if known.moves_only:
        return Accuracy(0.0)
    return Accuracy(ELEMENTARY) if info is None else known.accuracy(info)


def _of_region(op: ir.Operation) -> Accuracy:
    """The roundings of all operations in it, one after another, as often as they run."""
    total = 0.0
    for inner, _, scope in walk(op):
        if inner.name not in (*CONTROL, MANUAL):
            found = accuracy_of(inner)
            total += (found.roundings + found.length - 1) * (scope.trips or 1)
    return Accuracy(max(total, ELEMENTARY), of_tensor=True)
