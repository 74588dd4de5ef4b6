"""Regions in regions, of which Python reads as many as its recursion allows."""

from __future__ import annotations

import sys

from dtensor.dialect.diagnostics import error
from dtensor.dialect.mlir import ir, ops_of

_SAFE_DEPTH = 50  # what stands less deep ends no recursion


def refuse_deep_regions(name: str, module: ir.Module) -> None:
    """Say that regions stand too deep in each other, if they stand deep.

    Args:
        name: the pass that ran into the recursion limit.
        module: the module.

    Raises:
        LocatedError: they do.
    """
    depth, deepest = _deepest(module.operation)
    if depth >= _SAFE_DEPTH:
        error(
            deepest,
            f"{depth} regions stand in each other here, more than {name} reads with Python's "
            f"recursion limit of {sys.getrecursionlimit()}; nest fewer, or raise it by "
            "sys.setrecursionlimit",
        )


def _deepest(owner: ir.Operation) -> tuple[int, ir.Operation]:
    """How many regions stand around the operation that most stand around, and that operation."""
    found, left = (0, owner), [(0, owner)]
    while left:
        depth, op = left.pop()
        if depth > found[0]:
            found = depth, op
        blocks = [block for region in op.regions for block in region]
        left += reversed([(depth + 1, inner) for block in blocks for inner in ops_of(block)])
    return found
