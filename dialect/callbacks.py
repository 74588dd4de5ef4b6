"""Custom calls: what they call, and those of Python functions, as jax writes them."""

from __future__ import annotations

import re
from typing import Final

from dtensor.dialect.mlir import ir

TARGET: Final = "call_target_name"
_PYTHON = re.compile(r"xla(_ffi)?(_partitioned)?_python_\w*callback\Z")


def target_of(op: ir.Operation) -> str:
    """What a custom call calls; empty of an operation that does not say so."""
    return ir.StringAttr(op.attributes[TARGET]).value if TARGET in op.attributes else ""


def is_callback(op: ir.Operation) -> bool:
    """Whether an operation is a custom call of a Python function."""
    return _PYTHON.match(target_of(op)) is not None


def has_effects(op: ir.Operation) -> bool:
    """Whether it matters how often a custom call is made: not of a `jax.pure_callback`."""
    name = "has_side_effect"
    return name in op.attributes and bool(ir.BoolAttr(op.attributes[name]).value)
