"""What could be done instead of a move: against all single changes there are."""

import math
import random
from collections.abc import Iterator

import pytest

from dtensor.dialect.mesh import Mesh
from dtensor.passes.planning import plan as planning
from dtensor.passes.planning.alternatives import Alternative, alternatives
from dtensor.passes.planning.problem import Problem, ValueClass
from tests.py.passes.planning.small_graphs import small_program
from tests.py.passes.run_passes import after

PROGRAMS = 40


def changed_nodes(problem: Problem, value: ValueClass) -> set[int] | None:
    """The producer, and the one user that has a value moved; None if several have."""
    given = problem.now[value.producer].outs[value.slot]
    movers = {n for n, k in value.uses if problem.now[n].ins[k] != given}
    rank = problem.maker.specs.rank(len(problem.graph.types[value.example].shape))
    if len(movers) > 1:
        return None
    return {value.producer} if rank.partial[given] else {value.producer, *movers}


def without_the_move(problem: Problem, number: int, node: int) -> Iterator[float]:
    """What the plan costs with each strategy of a node that leaves a value unmoved."""
    kept = problem.now[node]
    for strategy in problem.options(node).strategies:
        problem.now[node] = strategy
        if problem.value_seconds(number) == 0.0:
            yield problem.total()
    problem.now[node] = kept


@pytest.mark.parametrize("mesh", [Mesh([("x", 4)]), Mesh([("x", 2), ("y", 4)])])
def test_it_costs_what_the_cheapest_single_change_costs(
    mesh: Mesh, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared: list[bool] = []

    def find(problem: Problem) -> dict[int, Alternative]:
        now, before = list(problem.now), problem.total()
        found = alternatives(problem)
        assert problem.now == now
        for graph_value, number in problem.value_of.items():
            value = problem.values[number]
            nodes = changed_nodes(problem, value)
            if problem.value_seconds(number) == 0.0:
                assert graph_value not in found
            elif nodes is not None:
                costs = [c for node in nodes for c in without_the_move(problem, number, node)]
                least = min(costs, default=math.inf)
                compared.append(least < math.inf)
                said = found[graph_value].seconds if graph_value in found else math.inf
                assert said == pytest.approx(least - before, rel=1e-6, abs=1e-15)
        return found

    monkeypatch.setattr(planning, "alternatives", find)
    for seed in random.Random(7).sample(range(10_000), PROGRAMS):
        text = small_program(seed, tuple(mesh.axis_names))
        with after("builtin.module(dtensor-import, dtensor-propagate)", text, mesh):
            pass
    assert sum(compared) > 20
