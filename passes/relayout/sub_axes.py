"""Sub-axes: the pieces of mesh axes that both layouts of a relayout keep in one part.

Where a sub-axis stands is a place, as in `propagation.places`. The digits of
a dimension of N elements stand at positions: a digit of n values with M combinations of more
major digits stands at (M, n), and element i has there the value (i // (N / (M n))) % n. Two digits
can stand in one dimension if one ends, at M n, where or before the other starts: M n divides M'.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from dtensor.dialect.axes import AxisRef
from dtensor.dialect.layout import Layout
from dtensor.dialect.mesh import Mesh
from dtensor.passes.propagation.places import LayoutTable

_PRIMES = (2, 3, 5, 7)  # devices of an axis that cannot be cut


def positions(layout: Layout) -> list[tuple[AxisRef, int, int]]:
    """Every axis that splits a dimension, as `(axis, dimension, M)`."""
    return [(axis, d, outer) for d, dim in enumerate(layout.dims) for axis, outer in dim.placed()]


def is_chain(cuts: Iterable[int]) -> bool:
    """Whether each cut of an axis divides the next."""
    ordered = sorted(cuts)
    return all(b % a == 0 for a, b in pairwise(ordered))


def axis_cuts(*layouts: Layout) -> dict[str, set[int]]:
    """Per axis name, where the layouts cut it: products of the more major parts' sizes."""
    cuts: dict[str, set[int]] = {}
    for layout in layouts:
        for axis in (*layout.axes, *layout.partial_axes):
            cuts.setdefault(axis.name, set()).update((axis.pre, axis.pre * axis.size))
    return cuts


def align(before: Layout, after: Layout, cuts: dict[str, set[int]]) -> None:
    """Add cuts so that digits of both layouts begin and end at the same places where they can.

    Moving from `{"x"}` (2 devices) to `{"y"}` (4) is possible without gathering because the major
    half of y can take the place of x.
    """
    where = [p for p in (*positions(before), *positions(after)) if p[0].size not in _PRIMES]
    boundaries: dict[int, set[int]] = {}
    for layout in (before, after):
        for axis, dim, outer in positions(layout):
            boundaries.setdefault(dim, set()).update((outer, outer * axis.size))
    grown = True
    while grown:
        grown = False
        for axis, dim, outer in where:
            for edge in sorted(boundaries[dim]):
                if outer < edge < outer * axis.size and edge % outer == 0:
                    grown |= _add_cut(cuts[axis.name], axis.pre * (edge // outer))
            inside = [c for c in cuts[axis.name] if axis.pre < c < axis.pre * axis.size]
            boundaries[dim].update(outer * c // axis.pre for c in inside)


def _add_cut(cuts: set[int], cut: int) -> bool:
    if cut in cuts or not is_chain({*cuts, cut}):
        return False
    cuts.add(cut)
    return True


def split_axis(axis: AxisRef, cuts: set[int]) -> list[AxisRef]:
    """The sub-axes of an axis, major first."""
    inner = sorted(c for c in cuts if axis.pre < c < axis.pre * axis.size)
    if not inner:
        return [axis]
    edges = [axis.pre, *inner, axis.pre * axis.size]
    return [AxisRef(axis.name, a, b // a) for a, b in pairwise(edges)]


def named_sub_axes(before: Layout, after: Layout, cuts: dict[str, set[int]]) -> list[AxisRef]:
    """The sub-axes of all axes that a layout names: those that split a dimension come first."""
    axes = (*before.axes, *after.axes, *before.partial_axes, *after.partial_axes)
    found = [sub_axis for axis in axes for sub_axis in split_axis(axis, cuts[axis.name])]
    return list(dict.fromkeys(found))


def merge_axes(axes: Sequence[AxisRef]) -> tuple[AxisRef, ...]:
    """The same axes, neighbouring parts of one axis joined."""
    merged: list[AxisRef] = []
    for axis in axes:
        last = merged[-1] if merged else None
        if last and last.name == axis.name and last.pre * last.size == axis.pre:
            merged[-1] = AxisRef(last.name, last.pre, last.size * axis.size)
        else:
            merged.append(axis)
    return tuple(merged)


def layout_at(places: Mapping[AxisRef, int], rank: int, mesh: Mesh) -> Layout:
    """The layout in which each axis, or part of one, stands at its place."""
    return LayoutTable(tuple(places), mesh).layout(rank, tuple(places.values()))


def local_outer(layout: Layout, dim: int, outer: int) -> int:
    """Combinations of the local digits of a shard that are more major than position `outer`."""
    end = 1
    fixed = 1
    for digit in layout.dims[dim].digits:
        if isinstance(digit, int):
            end *= digit
            continue
        if end >= outer:
            break
        fixed *= min(digit.size, outer // end)  # `outer` may lie inside the axis
        end *= digit.size
    return outer // fixed
