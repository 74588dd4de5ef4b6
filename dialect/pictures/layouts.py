"""The picture of a layout, and that of a mesh."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from functools import lru_cache

from dtensor.dialect.axes import AxisRef
from dtensor.dialect.dim import Dim, digit_size
from dtensor.dialect.layout import Layout
from dtensor.dialect.mesh import Mesh
from dtensor.dialect.pictures.picture import MOST_CELLS, Cut, Picture, draw, ranges_of_parts


@lru_cache(maxsize=256)  # of a program with equal layers, the same ones many times
def layout_picture(
    layout: Layout,
    shape: tuple[int, ...] | None = None,
    dims: tuple[int, ...] | None = None,
    most: int = MOST_CELLS,
) -> Picture:
    """Which devices hold which part of an array.

    Args:
        layout: how the array is laid out.
        shape: its global shape in elements; None where it is not known.
        dims: the dimensions to draw; see `draw`.
        most: how many parts are drawn along a dimension; likewise.

    Raises:
        LayoutError: the layout does not fit the shape, or `dims` are not dimensions.
    """
    if shape is not None:
        layout = layout.for_rank(len(shape))
        layout.verify(shape, uneven=True)
    sizes = [None] * layout.rank if shape is None else list(shape)
    cuts = [_cut(i, layout, size) for i, size in enumerate(sizes)]
    holders: dict[tuple[int, ...], list[int]] = {}
    for device, shard in zip(layout.mesh.ids(), layout.offset_to_shard(), strict=False):
        holders.setdefault(shard, []).append(device)
    return draw(cuts, holders, dims, _notes(layout), most)


def mesh_picture(mesh: Mesh) -> Picture:
    """The devices of a mesh: the last axis to the right, the other ones together downwards."""
    if not mesh.axes:  # a device by itself
        return draw((), {(): mesh.ids()})
    *others, last = mesh.axes
    heads = [
        " ".join(f"{name}={i}" for (name, _), i in zip(others, index, strict=True))
        for index in itertools.product(*(range(size) for _, size in others))
    ]
    cuts = [_axis_cut(last[0], last[1], ranges_of_parts(None, last[1]))]
    if others:
        name = " x ".join(name for name, _ in others)
        cuts.insert(0, _axis_cut(name, len(heads), heads))
    ids = iter(mesh.ids()[: mesh.size])
    places = itertools.product(*(range(len(cut.shards)) for cut in cuts))
    return draw(cuts, {place: [device] for place, device in zip(places, ids, strict=False)})


def _axis_cut(name: str, size: int, heads: Sequence[str]) -> Cut:
    return Cut(tuple(range(size)), tuple(heads), f"{name} ({size})")


def _cut(index: int, layout: Layout, size: int | None) -> Cut:
    dim = layout.dims[index]
    words = f"dimension {index}" + ("" if size is None else f": {size}")
    count = math.prod(map(digit_size, dim.digits))
    if dim.digits:
        names = ", ".join(_digit_text(digit, layout.mesh) for digit in dim.digits)
        words += f" over {names}"
    elif dim.is_match:
        words += ", as it is found"
    else:
        words += ", whole"
    if dim.is_open and not dim.is_match:
        words += ", open"
    return Cut(
        tuple(_shard(dim, part) for part in range(count)), ranges_of_parts(size, count), words
    )


def _shard(dim: Dim, part: int) -> int:
    """The shard that a part belongs to; digits that are block counts do not tell shards apart."""
    shard, stride = 0, 1
    for digit in reversed(dim.digits):
        size = digit_size(digit)
        if not isinstance(digit, int):
            shard += part % size * stride
            stride *= size
        part //= size
    return shard


def _digit_text(digit: AxisRef | int, mesh: Mesh) -> str:
    if isinstance(digit, int):
        return f"{digit} blocks"
    whole = mesh.axis_size(digit.name)
    if digit.size == whole:
        return f"{digit.name} ({whole})"
    return f"{digit.text(whole)} ({digit.size} of the {whole} of {digit.name})"


def _notes(layout: Layout) -> list[str]:
    """What an array of this layout is beside its cuts."""
    notes = [
        f"each device holds a part of a {kind} over {axis.text(layout.mesh.axis_size(axis.name))}"
        for axis, kind in layout.partial
    ]
    used = {axis.name for axis in (*layout.axes, *layout.partial_axes)}
    unused = [name for name, size in layout.mesh.axes if name not in used and size > 1]
    if unused and len(unused) < len(layout.mesh.axes):
        notes.append(f"replicated over {', '.join(unused)}")
    elif unused:
        notes.append("replicated: every device holds all of it")
    return notes
