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
    rings_in_a_ring,
)
from tests.py.runtime.tpu.slices import distance, tpu_slice

BY_DEFAULT = (CORE, 0, 1, 2)
ORDERS = st.permutations(range(4))
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
    order = ring_order((3, 4, 1, 1), BY_DEFAULT)
    expected = [(0, 0), (1, 0), (2, 0), (2, 1), (1, 1), (1, 2), (2, 2), (2, 3), (1, 3)]
    expected += [(0, 3), (0, 2), (0, 1)]
    assert [cell[:2] for cell in order] == expected


def test_the_cores_of_a_chip_follow_each_other_where_the_chips_have_a_cycle() -> None:
    order = ring_order((2, 2, 1, 2), BY_DEFAULT)
    assert [chip for chip, _ in itertools.groupby(cell[:3] for cell in order)] == [
        (0, 0, 0),
        (1, 0, 0),
        (1, 1, 0),
        (0, 1, 0),
    ]


def test_the_second_core_leads_back_on_a_line_of_chips() -> None:
    order = ring_order((1, 4, 1, 2), BY_DEFAULT)
    assert [(cell[1], cell[CORE]) for cell in order] == [
        (0, 0), (1, 0), (2, 0), (3, 0), (3, 1), (2, 1), (1, 1), (0, 1)
    ]  # fmt: skip


@given(BOXES, ORDERS)
def test_a_ring_visits_each_core_once_in_single_hops(box: Location, order: list[int]) -> None:
    ring = ring_order(box, order)
    assert sorted(ring) == sorted(itertools.product(*map(range, box)))
    assert ring[0] == (0, 0, 0, 0)
    assert max(hops(ring)[:-1], default=0) <= 1
    if has_a_cycle(box):
        assert hops(ring)[-1] <= 1


@st.composite
def tilings(draw: st.DrawFn) -> tuple[Location, Location, list[int]]:
    """A box, the sizes of a topology that it tiles, and an order of axes."""
    box = draw(st.tuples(*[st.integers(1, 4)] * 3, st.integers(1, 2)))
    times = draw(st.tuples(*[st.integers(1, 3)] * 3, st.integers(1, 2 // box[CORE])))
    x, y, z, core = (b * t for b, t in zip(box, times, strict=True))
    return box, (x, y, z, core), draw(ORDERS)


@given(tilings(), st.booleans())
def test_rings_tile_the_topology(tiling: Any, rotate: bool) -> None:
    box, sizes, order = tiling
    for tiles in (rings(box, sizes, order, sizes), rings_in_a_ring(box, sizes, order, rotate)):
        assert sorted(itertools.chain(*tiles)) == sorted(itertools.product(*map(range, sizes)))
        assert {tuple(hops(ring)) for ring in tiles} == {tuple(hops(ring_order(box, order)))}


@given(tilings(), st.booleans())
def test_rings_that_follow_each_other_in_a_ring_are_one_box_apart(
    tiling: Any, rotate: bool
) -> None:
    box, sizes, order = tiling
    tiles = rings_in_a_ring(box, sizes, order, rotate)
    x, y, z, core = (n // b for n, b in zip(sizes, box, strict=True))
    for members in zip(*tiles, strict=True):
        steps = [
            [abs(p - q) for p, q in zip(members[i - 1], member, strict=True)]
            for i, member in enumerate(members)
        ]
        closed = len(tiles) > 1 and has_a_cycle((x, y, z, core))
        for step in steps[0 if closed else 1 :]:
            moved = [axis for axis in range(CORE) if step[axis]]
            assert len(moved) <= 1
            assert all(step[axis] == box[axis] for axis in moved)
            assert moved or step[CORE] == box[CORE]


def test_rings_come_in_the_order_of_the_axes_and_block_by_block() -> None:
    def origins(order: Sequence[int], bounds: Location) -> list[tuple[int, ...]]:
        return [ring[0][:2] for ring in rings((2, 1, 1, 1), (4, 4, 1, 1), order, bounds)]

    assert origins(BY_DEFAULT, (4, 4, 1, 1))[:4] == [(0, 0), (2, 0), (0, 1), (2, 1)]
    assert origins((1, 0, 2, 3), (4, 4, 1, 1))[:4] == [(0, 0), (0, 1), (0, 2), (0, 3)]
    assert origins(BY_DEFAULT, (2, 2, 1, 1))[:4] == [(0, 0), (0, 1), (2, 0), (2, 1)]


@pytest.mark.parametrize(
    ("size", "order", "bounds", "box"),
    [
        (2, BY_DEFAULT, (4, 8, 2, 2), (1, 1, 1, 2)),
        (8, BY_DEFAULT, (4, 8, 2, 2), (4, 1, 1, 2)),
        (32, BY_DEFAULT, (4, 8, 2, 2), (4, 4, 1, 2)),
        (8, (1, 0, 2, 3), (4, 8, 2, 2), (1, 8, 1, 1)),
        (8, (2, 0, 3, 1), (4, 8, 2, 2), (4, 1, 2, 1)),
        (8, BY_DEFAULT, (2, 2, 2, 2), (2, 2, 1, 2)),
        (8, BY_DEFAULT, (3, 3, 2, 1), (2, 2, 2, 1)),
        (1, BY_DEFAULT, (1, 1, 1, 1), (1, 1, 1, 1)),
    ],
)
def test_a_ring_fills_the_first_axes_first(
    size: int, order: tuple[int, ...], bounds: Location, box: Location
) -> None:
    assert ring_box((4, 8, 2, 2), size, order, bounds) == box


SIZES = st.tuples(*[st.integers(1, 6)] * 3, st.integers(1, 2))


@given(SIZES, SIZES, st.integers(1, 72), ORDERS)
def test_no_ring_that_fits_is_longer_along_the_first_axes(
    sizes: Location, limits: Location, count: int, order: list[int]
) -> None:
    x, y, z, core = (min(n, limit) for n, limit in zip(sizes, limits, strict=True))
    bounds = (x, y, z, core)
    fitting = [
        box
        for box in itertools.product(*(range(1, bound + 1) for bound in bounds))
        if math.prod(box) == count and not any(n % b for n, b in zip(sizes, box, strict=True))
    ]
    if fitting:
        best = max(fitting, key=lambda box: [box[axis] for axis in order])
        assert ring_box(sizes, count, order, bounds) == best
    else:
        with pytest.raises(MeshError, match=f"no ring of {count} devices tiles"):
            ring_box(sizes, count, order, bounds)


def test_rings_of_sizes_that_are_no_powers_of_two_are_boxes_too() -> None:
    assert ring_box((4, 3, 1, 1), 6, BY_DEFAULT, (4, 3, 1, 1)) == (2, 3, 1, 1)


def test_rings_that_must_not_split_a_host_hold_whole_ones() -> None:
    hosts = [
        [(x + i, y + j, 0, core) for i in range(2) for j in range(2) for core in range(2)]
        for x in (0, 2)
        for y in (0, 2)
    ]
    sizes = (4, 4, 1, 2)
    assert ring_box(sizes, 8, BY_DEFAULT, sizes) == (4, 1, 1, 2)
    assert ring_box(sizes, 8, BY_DEFAULT, sizes, hosts) == (2, 2, 1, 2)
    assert ring_box(sizes, 16, BY_DEFAULT, sizes, hosts) == (4, 2, 1, 2)
    with pytest.raises(MeshError, match=r"rings too small for can_split_host_across_rings=False"):
        ring_box(sizes, 4, BY_DEFAULT, sizes, hosts)
    with pytest.raises(MeshError, match=r"within ring_bounds \[4, 1, 1, 2\] without splitting"):
        ring_box(sizes, 8, BY_DEFAULT, (4, 1, 1, 2), hosts)


def test_a_ring_that_exceeds_its_bounds_is_refused() -> None:
    with pytest.raises(MeshError, match=r"no ring of 8 devices tiles .* ring_bounds \[2, 2, 1, 1"):
        ring_box((4, 4, 1, 1), 8, BY_DEFAULT, (2, 2, 1, 1))


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
    ours = rings(ring_box(sizes, mesh[-1], BY_DEFAULT, sizes), sizes, BY_DEFAULT, sizes)
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
