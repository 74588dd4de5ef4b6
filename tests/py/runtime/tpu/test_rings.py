"""Orders of cores in which the neighbours in a ring are neighbours in the machine."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jax.experimental import mesh_utils

from dtensor.dialect.errors import MeshError
from dtensor.runtime.tpu.rings import (
    CORE,
    Location,
    ring_box,
    ring_order,
    rings,
)
from tests.py.runtime.tpu.slices import distance, tpu_slice

CHIPS = st.integers(1, 6)
BOXES = st.tuples(CHIPS, CHIPS, CHIPS, st.integers(1, 2))


def hops(ring: Sequence[Location]) -> list[int]:
    """The distance from each member of a ring to the next, and from the last to the first."""
    return [distance(a, b) for a, b in zip(ring, [*ring[1:], ring[0]], strict=True)]


def has_a_cycle(box: Location) -> bool:
    """Whether the cores of a box can be visited in a closed walk of single hops.

    The chips of a grid can if their number is even and it is no line; else a second core leads
    back. An odd number of cores cannot: each hop changes the parity of x + y + z + core.
    """
    chips = math.prod(box[:CORE])
    line = sum(size > 1 for size in box[:CORE]) <= 1
    return math.prod(box) <= 2 or box[CORE] == 2 or (chips % 2 == 0 and not (line and chips > 2))


def test_a_ring_of_a_grid_is_a_snake_and_the_way_back() -> None:
    order = ring_order((3, 4, 1, 1))
    expected = [(0, 0), (1, 0), (2, 0), (2, 1), (1, 1), (1, 2), (2, 2), (2, 3), (1, 3)]
    expected += [(0, 3), (0, 2), (0, 1)]
    assert [cell[:2] for cell in order] == expected


def test_the_cores_of_a_chip_follow_each_other_where_the_chips_have_a_cycle() -> None:
    order = ring_order((2, 2, 1, 2))
    assert [chip for chip, _ in itertools.groupby(cell[:3] for cell in order)] == [
        (0, 0, 0),
        (1, 0, 0),
        (1, 1, 0),
        (0, 1, 0),
    ]


def test_the_second_core_leads_back_on_a_line_of_chips() -> None:
    order = ring_order((1, 4, 1, 2))
    assert [(cell[1], cell[CORE]) for cell in order] == [
        (0, 0), (1, 0), (2, 0), (3, 0), (3, 1), (2, 1), (1, 1), (0, 1)
    ]  # fmt: skip


@given(BOXES)
def test_a_ring_visits_each_core_once_in_single_hops(box: Location) -> None:
    ring = ring_order(box)
    assert sorted(ring) == sorted(itertools.product(*map(range, box)))
    assert ring[0] == (0, 0, 0, 0)
    assert max(hops(ring)[:-1], default=0) <= 1
    if has_a_cycle(box):
        assert hops(ring)[-1] <= 1


@st.composite
def tilings(draw: st.DrawFn) -> tuple[Location, Location]:
    """A box, and the sizes of a topology that it tiles."""
    box = draw(st.tuples(*[st.integers(1, 4)] * 3, st.integers(1, 2)))
    times = draw(st.tuples(*[st.integers(1, 3)] * 3, st.integers(1, 2 // box[CORE])))
    x, y, z, core = (b * t for b, t in zip(box, times, strict=True))
    return box, (x, y, z, core)


@given(tilings())
def test_rings_tile_the_topology(tiling: tuple[Location, Location]) -> None:
    box, sizes = tiling
    tiles = rings(box, sizes)
    assert sorted(itertools.chain(*tiles)) == sorted(itertools.product(*map(range, sizes)))
    assert {tuple(hops(ring)) for ring in tiles} == {tuple(hops(ring_order(box)))}


def test_rings_come_along_x_first() -> None:
    origins = [ring[0][:2] for ring in rings((2, 1, 1, 1), (4, 4, 1, 1))]
    assert origins[:4] == [(0, 0), (2, 0), (0, 1), (2, 1)]


SIZES = st.tuples(*[st.integers(1, 6)] * 3, st.integers(1, 2))


@given(SIZES, st.integers(1, 72))
def test_a_ring_fills_chips_first_and_then_x(sizes: Location, count: int) -> None:
    fitting = [
        box
        for box in itertools.product(*(range(1, size + 1) for size in sizes))
        if math.prod(box) == count and not any(n % b for n, b in zip(sizes, box, strict=True))
    ]
    if fitting:
        best = max(fitting, key=lambda box: [box[axis] for axis in (CORE, 0, 1, 2)])
        assert ring_box(sizes, count) == best
    else:
        with pytest.raises(MeshError, match=f"no ring of {count} devices tiles"):
            ring_box(sizes, count)


def test_rings_of_sizes_that_are_no_powers_of_two_are_boxes_too() -> None:
    assert ring_box((4, 3, 1, 1), 6) == (2, 3, 1, 1)


@pytest.mark.parametrize(
    ("sizes", "kind", "mesh", "theirs"),
    [
        ((4, 4, 1, 1), "TPU v5 lite", (16,), 1),
        ((2, 4, 1, 1), "TPU v5 lite", (8,), 2),
        ((8, 8, 1, 1), "TPU v5 lite", (64,), 14),
        ((8, 8, 1, 1), "TPU v5 lite", (4, 16), 8),
        ((2, 2, 2, 1), "TPU v4", (8,), 3),
        ((4, 4, 4, 1), "TPU v4", (8, 8), 2),
        ((4, 4, 1, 2), "TPU v3", (32,), 6),
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_hops_are_single_where_those_of_jaxs_mesh_are_not(
    sizes: Location, kind: str, mesh: tuple[int, ...], theirs: int
) -> None:
    cores = [replace(core, device_kind=kind) for core in tpu_slice(sizes, host=sizes[:CORE])]
    grid = mesh_utils.create_device_mesh(mesh, cores, allow_split_physical_axes=True)
    ours = rings(ring_box(sizes, mesh[-1]), sizes)
    assert len(ours) == math.prod(mesh[:-1])
    assert longest(ours) == 1
    torus = kind == "TPU v4"
    rows = grid.reshape(-1, mesh[-1])
    jaxs = [[(*core.coords, core.core_on_chip) for core in row] for row in rows]
    assert (
        longest(jaxs, sizes if torus else None) == theirs
    )  # if it gets better, say so in rings.py


def longest(walks: Sequence[Sequence[Any]], torus: Location | None = None) -> int:
    """The longest hop of closed walks; on a torus, where its axes close."""

    def hop(a: Location, b: Location) -> int:
        if torus is None:
            return distance(a, b)
        places = zip(a[:CORE], b[:CORE], torus[:CORE], strict=True)
        return sum(min(abs(p - q), size - abs(p - q)) for p, q, size in places)

    return max(hop(a, b) for walk in walks for a, b in zip(walk, [*walk[1:], walk[0]], strict=True))
