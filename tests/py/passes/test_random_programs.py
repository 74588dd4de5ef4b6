"""Random programs under random layouts give what one device gives; found cases stay."""

import jax
import numpy as np
import pytest

from dtensor.compiler.api import jit
from dtensor.dialect.layout import Layout
from dtensor.dialect.mesh import Mesh
from dtensor.passes.relayout.search import plan
from tests.py.passes.random_programs import program

BATCH = 8
MESH = Mesh([("x", 2), ("y", 4)])


def check(seed: int) -> None:
    made = program(seed)
    expected = jax.jit(made.function)(*made.arguments)
    compiled = jit(
        made.function,
        mesh=made.mesh,
        in_layouts=made.in_layouts,
        out_layouts=made.out_layouts(expected),
    )
    for want, got in zip(expected, compiled(*made.arguments), strict=True):
        want, got = np.asarray(want), np.asarray(got.to_jax())
        # Up to 16 steps of f32 sums in another order; relative to the largest element, because
        # a mean that is taken away leaves elements near 0.
        tolerance = 2e-4 * max(1.0, np.abs(want).max())
        np.testing.assert_allclose(got, want, rtol=0, atol=tolerance, err_msg=f"seed {seed}")


@pytest.mark.sweep
@pytest.mark.parametrize("first", range(0, 40, BATCH))
def test_random_programs(first: int) -> None:
    for seed in range(first, first + BATCH):
        check(seed)


@pytest.mark.sweep
@pytest.mark.slow
@pytest.mark.parametrize("first", range(1000, 1048, BATCH))
def test_more_random_programs(first: int) -> None:
    for seed in range(first, first + BATCH):
        check(seed)


# What random programs found.


def layout(text: str) -> Layout:
    return Layout.parse(f"#dtensor.layout<@mesh, {text}>", MESH)


def test_a_permute_names_each_axis_once() -> None:
    before, after = layout('[{}, {"y"}, {"x"}]'), layout('[{}, {"y":(2)2}, {"y":(1)2}]')
    steps = plan(before, after, (2, 12, 6), 4)
    assert steps[-1].result == after
    for step in steps:
        if step.kind == "permute":
            assert len(set(step.axes)) == len(step.axes)
            assert set(step.axes) == set(step.targets)


def test_parts_of_one_reduction_become_parts_of_another() -> None:
    before, after = layout('[], partial = {max: ("x", "y")}'), layout('[], partial = {sum: "x"}')
    steps = plan(before, after, (), 4)
    assert steps[-1].result == after
    assert [step.kind for step in steps].count("reduce") >= 1
