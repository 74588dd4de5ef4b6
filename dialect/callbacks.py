"""Custom calls of Python functions, as jax writes them."""

from __future__ import annotations

import re

from dtensor.dialect.mlir import ir

_TARGET = re.compile(r"xla(_ffi)?(_partitioned)?_python_\w*callback\Z")


def is_callback(target: str) -> bool:
    """Whether a custom call of this target calls a Python function."""
    return _TARGET.match(target) is not None


def has_effects(op: ir.Operation) -> bool:
    """Whether it matters how often a custom call is made: not of a `jax.pure_callback`."""
    name = "has_side_effect"
    return name in op.attributes and bool(ir.BoolAttr(op.attributes[name]).value)
