"""Meshes, layouts and shapes that fit them, drawn by hypothesis."""

from __future__ import annotations

import math

from hypothesis import strategies as st

from dtensor.dialect.axes import AxisRef
from dtensor.dialect.dim import Dim, canonical_digits, digit_size
from dtensor.dialect.layout import REDUCTIONS, Layout
from dtensor.dialect.mesh import Mesh
from dtensor.dialect.mesh_axes import RESERVED
from dtensor.dialect.mesh_devices import MeshDevices

AXIS_NAMES = st.from_regex(r"\A[A-Za-z_][A-Za-z0-9_.\-]{0,6}\Z").filter(
    lambda name: name not in RESERVED
)


@st.composite
def meshes(draw: st.DrawFn) -> Mesh:
    names = draw(st.lists(AXIS_NAMES, max_size=3, unique=True))
    axes = [(name, draw(st.sampled_from([1, 2, 3, 4, 6, 8]))) for name in names]
    size = math.prod(n for _, n in axes)
    ids = draw(st.none() | st.permutations(range(size)))
    return Mesh(axes, ids, name=draw(st.sampled_from(["", "m_0", "data.mesh"])))


def on_named_devices(mesh: Mesh, first_id: int = 0, local: int | None = None) -> Mesh:
    """The mesh over TPUs that are nowhere; this client drives the first `local` of them."""
    names = tuple(f"/job:w/replica:0/task:{i // 4}/device:TPU:{i % 4}" for i in range(mesh.size))
    positions = tuple(range(mesh.size if local is None else local))
    here = tuple(names[i] for i in positions)
    written = MeshDevices(
        () if local is None else names, positions, here, first_id, local is not None
    )
    return Mesh.of(mesh.axes, None, mesh.name, written=written)


def _parts(draw: st.DrawFn, mesh: Mesh) -> list[AxisRef]:
    """Each axis of the mesh, cut into parts along a random divisor chain."""
    parts = []
    for name, size in mesh.axes:
        pre = 1
        while pre < size:
            divisors = [d for d in range(2, size // pre + 1) if size // pre % d == 0]
            part = draw(st.sampled_from(divisors))
            parts.append(AxisRef(name, pre, part))
            pre *= part
    return parts


@st.composite
def layouts(draw: st.DrawFn, partial: bool = True) -> Layout:
    mesh = draw(meshes())
    parts = draw(st.permutations(_parts(draw, mesh)))
    rank = draw(st.integers(0, 4))
    words: list[list[AxisRef | int]] = [[] for _ in range(rank)]
    left = []
    for part in parts:
        where = draw(st.integers(-1, rank - 1))
        if where < 0:
            left.append(part)
            continue
        if draw(st.booleans()):
            words[where].append(draw(st.sampled_from([2, 3])))
        words[where].append(part)
    axes = [mesh.axis(name) for name, size in mesh.axes if size > 1]
    opened = st.lists(st.sampled_from(axes), unique=True, max_size=2) if axes else st.just([])
    dims = [
        Dim(
            canonical_digits(word),
            is_open,
            priority=draw(st.sampled_from([0, 0, 1, 12])),
            barred=tuple(sorted(draw(opened))) if is_open else (),
        )
        for word in words
        for is_open in [draw(st.booleans())]
    ]
    reduced = [(part, draw(st.sampled_from(REDUCTIONS))) for part in left if draw(st.booleans())]
    return Layout.of(dims, mesh, reduced if partial else ())


@st.composite
def layouts_and_shapes(draw: st.DrawFn) -> tuple[Layout, tuple[int, ...]]:
    layout = draw(layouts(partial=False).filter(lambda x: x.mesh.size <= 48))
    shape = tuple(
        math.prod(digit_size(d) for d in dim.digits) * draw(st.integers(1, 3))
        for dim in layout.dims
    )
    return layout, shape
