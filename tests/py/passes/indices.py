"""Odd indices, and what the tests of gather and scatter read off a rule."""

from __future__ import annotations

import numpy as np

from tests.py.passes.rule_oracle import NUMPY_TYPES, Array, Report

ODD = [-9, -1, 0, 3, 3, 5, 11, 12, 13, 700, 7, 3]  # for a dimension of 12 elements

ALL = {
    "f32": {"sum", "max", "min", "prod"},
    "bf16": {"sum", "max", "min", "prod"},
    "i32": {"sum", "max", "min", "prod", "and", "or"},
    "i1": {"and", "or"},
    "complex<f32>": {"sum", "prod"},
}


def kinds(report: Report) -> set[str | None]:
    return {kind for _, results in report.passes for kind in results}


def reduced(report: Report) -> dict[int, str]:
    return {f.size: f.reduction for f in report.rule.factors if f.reduction is not None}


def odd(shape: tuple[int, ...], element: str = "i32") -> Array:
    values = np.resize(np.array(ODD, np.int64), shape)
    return values.astype(NUMPY_TYPES[element])
