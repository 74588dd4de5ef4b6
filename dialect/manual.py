"""Layouts at the border of a `dtensor.manual`: one part cuts shards for the region, one is left."""

from __future__ import annotations

from collections.abc import Collection

from dtensor.dialect.dim import Dim
from dtensor.dialect.layout import Layout


def manual_part(layout: Layout, free: Collection[str]) -> Layout:
    """What cuts the shards that a region works on: the axes that are not free, and no open ones."""
    dims = [Dim(dim.digits[: _count(dim, free)]) for dim in layout.dims]
    partial = [part for part in layout.partial if part[0].name not in free]
    return Layout.of(dims, layout.mesh, partial)


def inner_layout(layout: Layout, free: Collection[str]) -> Layout:
    """How the shards themselves are laid out inside the region, over the axes that are free."""
    dims = [
        Dim(dim.digits[_count(dim, free) :], dim.is_open, priority=dim.priority, barred=dim.barred)
        for dim in layout.dims
    ]
    partial = [part for part in layout.partial if part[0].name in free]
    return Layout.of(dims, layout.mesh, partial)


def _count(dim: Dim, free: Collection[str]) -> int:
    """How many digits at the front are axes that are not free."""
    count = 0
    for digit in dim.digits:
        if isinstance(digit, int) or digit.name in free:
            break
        count += 1
    return count
