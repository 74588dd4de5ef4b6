"""Prices as arrays against the relayout search, which realises them."""

import itertools

import numpy as np
import pytest

from dtensor.dialect.layout import REDUCTIONS
from dtensor.dialect.mesh import Mesh
from dtensor.passes.cost.model import CostModel
from dtensor.passes.planning.all_places import all_places
from dtensor.passes.planning.prices import Prices, _by_rounds, _by_scipy
from dtensor.passes.planning.steps import SpecSteps, Ways
from dtensor.passes.propagation.places import WHOLE, split_place
from dtensor.passes.relayout.search import plan, steps_seconds
from dtensor.passes.sharding.specs import Specs

FREE_START = 1e-9  # what a local step may add: the search counts collectives alone
COST = CostModel()


@pytest.mark.parametrize(
    ("mesh", "shape"),
    [
        (Mesh([("x", 4)]), (16, 8, 4)),
        (Mesh([("x", 2), ("y", 2)]), (8, 16)),
        (Mesh([("x", 2), ("y", 4)]), (64, 48)),
    ],
)
def test_a_price_is_what_the_search_finds(mesh: Mesh, shape: tuple[int, ...]) -> None:
    specs = Specs([mesh.axis(name) for name in mesh.axis_names], mesh)
    rank = specs.rank(len(shape))
    kinds = 1 << REDUCTIONS.index("sum")
    every = [rank.of(places) for places in all_places(shape, specs.sizes, (), kinds)]
    prices = Prices(specs, COST)
    cls = prices.class_of(shape, 4.0)
    same = cheaper = 0
    for before, after in itertools.permutations(every, 2):
        found = prices.move(cls, before, after)
        places = rank.places[before], rank.places[after]
        if any(there < WHOLE and here >= WHOLE for here, there in zip(*places, strict=True)):
            continue  # parts of what is complete: made by a mask, and the search looks no further
        if any(here == there == WHOLE for here, there in zip(*places, strict=True)):
            continue  # a price may send a part over each device of an axis that holds the same
        steps = plan(rank.layout(before), rank.layout(after), shape, 4.0, COST)
        searched = steps_seconds(steps, COST)
        # Below it where a way leads through places that neither layout names.
        assert found >= 0.75 * searched, (rank.layout(before).short(), rank.layout(after).short())
        same += found <= searched + 5 * FREE_START
        cheaper += found > searched + 5 * FREE_START
    # The search may cut an axis in parts that no spec of the program names, and needs less then.
    assert cheaper <= 0.15 * (same + cheaper)


@pytest.mark.parametrize("axes", [[("x", 8)], [("x", 2), ("y", 4)], [("x", 2), ("y", 2), ("z", 2)]])
@pytest.mark.parametrize("blocks", [2, 3])
def test_axes_behind_blocks_go_ahead_of_them_together(
    axes: list[tuple[str, int]], blocks: int
) -> None:
    mesh = Mesh(axes)
    specs = Specs([mesh.axis(name) for name in mesh.axis_names], mesh)
    rank = specs.rank(2)
    ends = np.cumprod([1, *specs.sizes[:-1]]).tolist()
    behind, ahead = (
        rank.of(tuple([split_place(0, first * end) for end in ends])) for first in (blocks, 1)
    )
    prices = Prices(specs, COST)
    shape = (24 * blocks, 1000)
    found = prices.move(prices.class_of(shape, 4.0), behind, ahead)
    steps = plan(rank.layout(behind), rank.layout(ahead), shape, 4.0, COST)
    assert [step.kind for step in steps] == ["match"]
    assert found == pytest.approx(steps_seconds(steps, COST))


def test_prices_grow_with_the_bytes_and_keep_the_start() -> None:
    mesh = Mesh([("x", 4)])
    specs = Specs([mesh.axis("x")], mesh)
    rank = specs.rank(2)
    split, whole = rank.of((split_place(0, 1),)), rank.replicated
    prices = Prices(specs, COST)
    small = prices.move(prices.class_of((8, 16), 4.0), split, whole)
    large = prices.move(prices.class_of((80, 16), 4.0), split, whole)
    start = COST.link.alpha
    assert large - start == pytest.approx(10 * (small - start))


def test_a_copy_is_made_from_the_nearest_one() -> None:
    mesh = Mesh([("x", 4)])
    specs = Specs([mesh.axis("x")], mesh)
    rank = specs.rank(2)
    rows, columns = rank.of((split_place(0, 1),)), rank.of((split_place(1, 1),))
    whole = rank.replicated
    prices = Prices(specs, COST)
    cls = prices.class_of((64, 64), 4.0)
    both = prices.copies(cls, rows, tuple(sorted((columns, whole))))
    gathered = prices.move(cls, rows, whole)
    assert gathered <= both <= gathered + 5 * FREE_START


@pytest.mark.parametrize("seed", range(20))
def test_both_searches_find_the_same_ways(seed: int) -> None:
    random = np.random.default_rng(seed)
    count = int(random.integers(2, 40))
    which = random.random((count, count)) < 0.2
    seconds = np.where(random.random((count, count)) < 0.5, 0.0, random.random((count, count)))
    ways = Ways.of(which, seconds, np.zeros((count, count)), 0)
    sources = np.unique(random.integers(0, count, 3))
    by_rounds, by_scipy = (f(sources, ways, ways.start) for f in (_by_rounds, _by_scipy))
    np.testing.assert_array_equal(by_rounds, by_scipy)


@pytest.mark.parametrize("ends", [(1, 30), (5, 6, 29), (20, 300)])
def test_steps_that_grow_are_those_made_at_once(ends: tuple[int, ...]) -> None:
    mesh = Mesh([("x", 2), ("y", 2), ("z", 2)])
    names = list(mesh.axis_names)
    specs, others = (Specs([mesh.axis(name) for name in names], mesh) for _ in range(2))
    kinds = 1 << REDUCTIONS.index("sum")
    every = list(all_places((16, 8), specs.sizes, (), kinds))[: ends[-1]]
    grown, whole = specs.rank(2), others.rank(2)
    steps = SpecSteps(grown, specs.sizes, COST, names)
    for end in ends:
        for places in every[:end]:
            grown.of(places)
        steps.take_in()
    for places in every:
        whole.of(places)
    made = SpecSteps(whole, specs.sizes, COST, names)
    assert grown.places == whole.places
    for one, other in ((steps.on, made.on), (steps.last, made.last)):
        np.testing.assert_array_equal(one.first, other.first)
        for spec in range(len(whole)):
            here = slice(one.first[spec], one.first[spec + 1])
            rows = [
                sorted(zip(w.to[here], w.start[here], w.rate[here], strict=True))
                for w in (one, other)
            ]
            assert rows[0] == rows[1]
