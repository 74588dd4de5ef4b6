"""The plan verifier: what it accepts is right, whatever was done to the plan."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from dtensor.compiler.api import jit
from dtensor.dialect.diagnostics import LocatedError
from dtensor.dialect.dim import Dim, canonical_digits
from dtensor.dialect.layout import Layout
from dtensor.passes.derivation import Checker
from dtensor.passes.graph import ARGUMENT, RESULT, Graph
from dtensor.passes.propagation import propagate
from dtensor.passes.propagation.planned import PlannedLayouts
from dtensor.passes.propagation.task import Task
from dtensor.passes.verify_plan import check_node
from tests.py.passes.random_programs import program

SEEDS = 24
CHOSEN = propagate.decide


def damages(layout: Layout, shape: tuple[int, ...]) -> Iterator[Layout]:
    """Every layout that one change makes of this one and that fits the shape."""
    mesh, dims, partial = layout.mesh, list(layout.dims), list(layout.partial)

    def changed(at: int, digits: list[Any], parts: list[Any] | None = None) -> Layout:
        words = [Dim(canonical_digits(digits)) if d == at else x for d, x in enumerate(dims)]
        return Layout.of(words, mesh, partial if parts is None else parts)

    used = {axis.name for axis in (*layout.axes, *layout.partial_axes)}
    found = []
    for d, dim in enumerate(dims):
        for i, axis in enumerate(dim.digits):
            rest = [x for j, x in enumerate(dim.digits) if j != i]
            if isinstance(axis, int):
                found.append(changed(d, rest))
                continue
            dropped = changed(d, rest)
            found += [dropped, changed(d, rest, [*partial, (axis, "sum")])]
            for other in range(len(dims)):
                if other != d:
                    words = list(dropped.dims)
                    words[other] = Dim(canonical_digits([*words[other].digits, axis]))
                    found.append(Layout.of(words, mesh, partial))
    for i, (axis, kind) in enumerate(partial):
        rest_parts = [p for j, p in enumerate(partial) if j != i]
        found.append(Layout.of(dims, mesh, rest_parts))
        found.append(
            Layout.of(dims, mesh, [*rest_parts, (axis, "max" if kind == "sum" else "sum")])
        )
        found += [changed(d, [*x.digits, axis], rest_parts) for d, x in enumerate(dims)]
    for name in mesh.axis_names:
        if name not in used:
            axis = mesh.axis(name)
            found += [Layout.of(dims, mesh, [*partial, (axis, kind)]) for kind in ("sum", "max")]
            found += [changed(d, [*x.digits, axis]) for d, x in enumerate(dims)]
    return (x for x in dict.fromkeys(found) if x != layout and x.problem(shape) is None)


def accepted(graph: Graph, planned: PlannedLayouts) -> list[tuple[str, PlannedLayouts]]:
    """The plans with one layout changed that the verifier lets pass, and what was changed."""
    checker, found = Checker(), []
    meshes = {layout.mesh.symbol: layout.mesh for row in planned.results for layout in row}
    for node in graph.nodes:
        if node.kind in (ARGUMENT, RESULT):
            continue  # any layout is right there: the caller brings it, or gets it
        rows = {"operands": planned.operands[node.index], "results": planned.results[node.index]}
        for side, values in (("operands", node.operands), ("results", node.results)):
            for k, value in enumerate(values):
                for damaged in damages(rows[side][k], graph.types[value].shape):
                    row = (*rows[side][:k], damaged, *rows[side][k + 1 :])
                    new = {**rows, side: row}
                    try:
                        check_node(graph, node, new["operands"], new["results"], checker, meshes)
                    except LocatedError:
                        continue
                    what = (
                        f"{side} {k} of {node.name}: {rows[side][k].short()} to {damaged.short()}"
                    )
                    found.append((what, _with(planned, node.index, new)))
    return found


def _with(
    planned: PlannedLayouts, index: int, rows: dict[str, tuple[Layout, ...]]
) -> PlannedLayouts:
    operands, results = list(planned.operands), list(planned.results)
    operands[index], results[index] = rows["operands"], rows["results"]
    return PlannedLayouts(operands, results)


@pytest.mark.long
@settings(max_examples=10, deadline=None, derandomize=True, database=None, phases=(Phase.generate,))
@given(seed=st.integers(0, SEEDS), pick=st.integers(0, 1 << 20))
def test_a_damaged_plan_that_is_accepted_gives_the_right_values(seed: int, pick: int) -> None:
    made = program(seed)
    done: list[str] = []

    def decide(task: Task, *rest: Any) -> PlannedLayouts:
        planned = CHOSEN(task, *rest)
        plans = accepted(task.graph, planned)
        if not plans:
            return planned
        what, plan = random.Random(pick).choice(plans)
        done.append(what)
        return plan

    expected = jax.jit(made.function)(*made.arguments)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(propagate, "decide", decide)
        compiled = jit(
            made.function,
            mesh=made.mesh,
            in_layouts=made.in_layouts,
            out_layouts=made.out_layouts(expected),
        )
        results = compiled(*made.arguments)
    for want, got in zip(expected, results, strict=True):
        want, got = np.asarray(want), np.asarray(got.to_jax())
        tolerance = 2e-4 * max(1.0, np.abs(want).max())  # as test_random_programs
        np.testing.assert_allclose(got, want, rtol=0, atol=tolerance, err_msg=str(done))
