"""Random relayouts on meshes of every kind and machines of every speed, element by element."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from dtensor.dialect.axes import AxisRef
from dtensor.dialect.errors import LayoutError
from dtensor.dialect.layout import Layout
from dtensor.dialect.mesh import Mesh
from dtensor.dialect.mlir import ir
from dtensor.passes.cost.model import CostModel, Link
from dtensor.passes.expansion.context import ExpansionContext
from dtensor.passes.relayout.realise import apply_steps
from dtensor.passes.relayout.search import plan
from tests.py.passes.relayout.run_local import (
    Array,
    local_module,
    partial_groups,
    run_text,
    shard,
    tensor_type,
)

MESHES = [
    Mesh([("x", 8)]),
    Mesh([("x", 2), ("y", 4)]),
    Mesh([("x", 2), ("y", 2), ("z", 2)]),
    Mesh([("x", 3), ("y", 2)]),
    Mesh([("x", 6)]),
    Mesh([("x", 5)]),
]
PARTS = {8: [(8,), (2, 4), (4, 2), (2, 2, 2)], 6: [(6,), (2, 3), (3, 2)], 4: [(4,), (2, 2)]}
BATCH = 60  # relayouts in one program: compiling is what takes time
ALWAYS = CostModel(Link(0.0, 1e11))  # many small messages cost no more than a large one


def random_layout(rng: random.Random, mesh: Mesh, shape: Sequence[int]) -> Layout:
    """Parts of axes in any order, in one dimension or several, in blocks, partial or not there."""
    while True:
        sub_axes = []
        for name, size in mesh.axes:
            pre = 1
            for part in rng.choice(PARTS.get(size, [(size,)])):
                sub_axes.append(AxisRef(name, pre, part))
                pre *= part
        rng.shuffle(sub_axes)
        absent, partial = rng.choice([0, 0.1, 0.4]), rng.choice([0, 0, 0.3])
        words: list[list[AxisRef | int]] = [[] for _ in shape]
        parts = []
        dims = words if rng.random() < 0.6 else [rng.choice(words)]
        for sub_axis in sub_axes:
            where = rng.random()
            if where < partial:
                parts.append((sub_axis, "sum"))
            elif where > absent + partial:
                word = rng.choice(dims)
                word += [rng.choice([2, 2, 3, 4]), sub_axis] if rng.random() < 0.4 else [sub_axis]
        try:
            layout = Layout([tuple(word) or None for word in words], mesh, parts)
            layout.verify(shape)
        except LayoutError:
            continue
        return layout


def random_cost(rng: random.Random, mesh: Mesh) -> CostModel:
    def link() -> Link:
        return Link(rng.choice([0.0, 0.0, 1e-6, 1e-3]), 10 ** rng.uniform(7, 12))

    links = tuple((name, link()) for name, _ in mesh.axes)
    return rng.choice([ALWAYS, ALWAYS, CostModel(), CostModel(link(), links)])


def given(rng: random.Random, whole: Array, layout: Layout) -> list[Array]:
    """What each device holds: parts that add up to `whole` where it is partial."""
    shards = [shard(whole, layout, device) for device in range(layout.mesh.size)]
    for first, *others in partial_groups(layout) if layout.partial else ():
        for device in others:
            shards[device] = np.full_like(shards[device], rng.randrange(-9, 9))
            shards[first] = shards[first] - shards[device]
    return shards


def check(whole: Array, layout: Layout, got: list[Array]) -> None:
    for devices in partial_groups(layout):
        want = shard(whole, layout, devices[0])
        held = [got[device] for device in devices]
        for value in [sum(held[1:], held[0])] if layout.partial else held:
            np.testing.assert_array_equal(value, want)


def run(mesh: Mesh, seed: int, dtype: Any) -> Counter[str]:
    """A batch of random relayouts; what kinds of steps they took."""
    rng = random.Random(seed)
    name = str(np.dtype(dtype))
    shapes, moves, plans = [], [], []
    for _ in range(BATCH):
        sizes = [mesh.size * rng.choice([1, 3, 6, 12]), rng.choice([2, 3, 4, 12, 24])]
        shape = tuple(rng.sample(sizes, rng.choice([1, 2, 2])))
        before, after = (random_layout(rng, mesh, shape) for _ in range(2))
        shapes.append(shape)
        moves.append((before, after))
        plans.append(plan(before, after, shape, 4, random_cost(rng, mesh)))
    wholes = [np.array(rng.choices(range(-9, 9), k=math.prod(s)), dtype) for s in shapes]
    wholes = [whole.reshape(shape) for whole, shape in zip(wholes, shapes, strict=True)]
    inputs = [given(rng, w, before) for w, (before, _) in zip(wholes, moves, strict=True)]

    def body(ctx: ExpansionContext, values: list[ir.Value[Any]]) -> list[ir.Value[Any]]:
        return [apply_steps(v, steps, ctx) for v, steps in zip(values, plans, strict=True)]

    types = [tensor_type(b.local_shape(s), name) for s, (b, _) in zip(shapes, moves, strict=True)]
    outs = [(a.local_shape(s), name) for s, (_, a) in zip(shapes, moves, strict=True)]
    results = run_text(mesh, local_module(mesh, types, body), inputs, outs)
    for whole, (before, after), steps, got in zip(wholes, moves, plans, results, strict=True):
        try:
            check(whole, after, got)
        except AssertionError as wrong:
            raise AssertionError(f"{before} to {after} by {steps}: {wrong}") from None
    return Counter(step.kind for steps in plans for step in steps)


@pytest.mark.sweep
@pytest.mark.parametrize("mesh", MESHES, ids=lambda mesh: mesh.short())
def test_any_layout_to_any_other_on_any_machine(mesh: Mesh) -> None:
    taken = run(mesh, 1, np.float32) + run(mesh, 2, np.int32)
    assert taken["match"]
    assert len(taken) > 5


def test_pieces_change_devices_behind_what_came_to_stand_in_front() -> None:
    """`y` is sliced into the dimension first: the pieces of `x` lie in its blocks then."""
    mesh = Mesh([("x", 3), ("y", 2)])
    before, after = Layout([(4, "x")], mesh), Layout([("y", "x")], mesh)
    cost = CostModel(Link(1e-6, 1e8), (("x", Link(0.0, 2e10)), ("y", Link(1e-3, 1e8))))
    steps = plan(before, after, (48,), 4, cost)
    assert any(step.kind == "match" for step in steps), steps
    whole = np.arange(48, dtype=np.float32)
    types, outs = [tensor_type((16,), "float32")], [((8,), "float32")]
    text = local_module(mesh, types, lambda ctx, values: [apply_steps(values[0], steps, ctx)])
    (got,) = run_text(mesh, text, [given(random.Random(0), whole, before)], outs)
    check(whole, after, got)
