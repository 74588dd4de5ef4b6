"""Places: where one mesh axis stands on one tensor, as an integer.

`WHOLE` is -1; partial values are below it, one number per reduction; a split is
`major * 64 + dimension`, where `major` counts the combinations of more major digits: the axis is
the digit `(major, n)` of the dimension.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from dtensor.dialect.axes import AxisRef
from dtensor.dialect.dim import Dim, canonical_digits
from dtensor.dialect.layout import REDUCTIONS, Layout
from dtensor.dialect.mesh import Mesh

Places = tuple[int, ...]  # per sub-axis on one tensor, or of one sub-axis on several tensors

WHOLE = -1
MAX_RANK = 64
_KIND_PLACE = {kind: -2 - i for i, kind in enumerate(REDUCTIONS)}


def split_place(dim: int, major: int) -> int:
    """The place of an axis that splits dimension `dim` behind `major` blocks."""
    return major * MAX_RANK + dim


def split_of(place: int) -> tuple[int, int]:
    """The dimension of a split place, and behind how many blocks of it the axis stands."""
    return place % MAX_RANK, place // MAX_RANK


def dim_of(place: int) -> int:
    """The dimension of a split place; any other as it is."""
    return place % MAX_RANK if place >= 0 else place


def partial_place(kind: str) -> int:
    """The place of an axis over which the value is partial."""
    return _KIND_PLACE[kind]


def place_kind(place: int) -> str:
    """The reduction of a partial place."""
    return REDUCTIONS[-2 - place]


@lru_cache(maxsize=4096)  # many values have one layout
def place_of(layout: Layout, sub_axis: AxisRef) -> int:
    """Where `sub_axis`, an axis or a part of one, stands in a layout."""
    for axis, kind in layout.partial:
        if axis.name == sub_axis.name and axis.overlaps(sub_axis):
            return partial_place(kind)
    for d, dim in enumerate(layout.dims):
        for axis, major in dim.placed():
            if axis.name == sub_axis.name and axis.overlaps(sub_axis):
                return split_place(d, major * sub_axis.pre // axis.pre)
    return WHOLE


class LayoutTable:
    """Layouts by the places of all sub-axes; each is built once."""

    def __init__(self, sub_axes: Sequence[AxisRef], mesh: Mesh) -> None:
        self.sub_axes = tuple(sub_axes)
        self.mesh = mesh
        self._layouts: dict[tuple[int, tuple[int, ...]], Layout] = {}

    def layout(self, rank: int, places: Places) -> Layout:
        """The layout of a tensor of `rank` dimensions; one place per sub-axis."""
        key = (rank, places)
        found = self._layouts.get(key)
        if found is None:
            found = self._layouts[key] = self._build(rank, places)
        return found

    def _build(self, rank: int, places: Places) -> Layout:
        words: list[list[tuple[int, AxisRef]]] = [[] for _ in range(rank)]
        partial: list[tuple[AxisRef, str]] = []
        for sub_axis, place in zip(self.sub_axes, places, strict=True):
            if place >= 0:
                dim, major = split_of(place)
                words[dim].append((major, sub_axis))
            elif place < WHOLE:
                partial.append((sub_axis, place_kind(place)))
        dims = []
        for word in words:
            digits: list[AxisRef | int] = []
            end = 1
            for major, sub_axis in sorted(word):
                assert major % end == 0, (major, end, word)
                digits += [major // end, sub_axis]
                end = major * sub_axis.size
            dims.append(Dim(canonical_digits(digits)))
        return Layout.of(dims, self.mesh, partial)
