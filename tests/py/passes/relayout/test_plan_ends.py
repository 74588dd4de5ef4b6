"""Plans between random layouts end where they must: parts, blocks, mixed reductions."""

from __future__ import annotations

import random

import pytest

from dtensor.dialect.axes import AxisRef
from dtensor.dialect.errors import LayoutError
from dtensor.dialect.layout import Layout
from dtensor.dialect.mesh import Mesh
from dtensor.passes.relayout.search import plan

MESH = Mesh([("x", 2), ("y", 4), ("z", 2)])
ATOMS = (AxisRef("x", 1, 2), AxisRef("y", 1, 2), AxisRef("y", 2, 2), AxisRef("z", 1, 2))
SHAPE = (96, 144)


def random_layout(chooser: random.Random) -> Layout | None:
    dims: list[list[AxisRef | int]] = [[], []]
    partial = []
    for sub_axis in chooser.sample(ATOMS, len(ATOMS)):
        where = chooser.random()
        if where < 0.25:
            continue
        if where < 0.4:
            partial.append((sub_axis, chooser.choice(["sum", "max"])))
            continue
        dim = dims[chooser.randrange(2)]
        if chooser.random() < 0.2:
            dim.append(chooser.choice([2, 3]))
        dim.append(sub_axis)
    try:
        layout = Layout([tuple(dim) if dim else None for dim in dims], MESH, partial)
        layout.verify(SHAPE)
    except LayoutError:
        return None
    return layout


@pytest.mark.sweep
@pytest.mark.parametrize("seed", range(8))
def test_a_plan_ends_in_the_layout_that_is_wanted(seed: int) -> None:
    chooser = random.Random(seed)
    planned = 0
    for _ in range(100):
        before, after = random_layout(chooser), random_layout(chooser)
        if before is None or after is None:
            continue
        steps = plan(before, after, SHAPE, 4)
        assert (steps[-1].result if steps else before) == after, (before.short(), after.short())
        planned += 1
    assert planned > 50
