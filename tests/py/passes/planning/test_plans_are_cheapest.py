"""The search against all assignments there are: on small programs its plan is a cheapest one."""

import itertools
import math
import random

import pytest

from dtensor.dialect.mesh import Mesh
from dtensor.passes.planning import solve as solving
from dtensor.passes.planning.limits import Limits
from dtensor.passes.planning.options import Options
from dtensor.passes.planning.problem import Problem
from tests.py.passes.planning.small_graphs import small_program
from tests.py.passes.run_passes import after

STRATEGIES = 4  # of one node, so that all assignments can be listed
PROGRAMS = 110  # on each mesh
SOLVE = solving.solve


def keep_few(problem: Problem, rng: random.Random) -> None:
    """Leave each node its present strategy and a few others, drawn at random."""
    for node, now in enumerate(problem.now):
        others = [s for s in problem.options(node).strategies if s != now]
        kept = rng.sample(others, min(STRATEGIES - 1, len(others)))
        sides = problem.maker.specs.sides(problem.graph, problem.graph.nodes[problem.example[node]])
        problem._options[node] = Options([now, *kept], sides)
        problem._costs[node] = None


def cheapest(problem: Problem) -> float:
    """The least cost over all assignments."""
    kept = list(problem.now)
    lists = [problem.options(node).strategies for node in range(len(kept))]
    least = math.inf
    for assignment in itertools.product(*lists):
        problem.now[:] = assignment
        least = min(least, problem.total())
    problem.now[:] = kept
    return least


@pytest.mark.sweep
@pytest.mark.parametrize("sizes", [(4,), (2, 4), (2, 2, 2)])
def test_the_plan_costs_the_least_of_all_assignments(
    sizes: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    mesh = Mesh(list(zip("xyz", sizes, strict=False)))
    compared: list[int] = []
    seed = 0

    def solve(problem: Problem, limits: Limits) -> int:
        assert len(problem.now) <= 9
        keep_few(problem, random.Random(seed))
        least = cheapest(problem)
        held = SOLVE(problem, limits)
        assert problem.total() == pytest.approx(least, rel=1e-9), f"seed {seed}"
        compared.append(seed)
        return held

    monkeypatch.setattr(solving, "solve", solve)
    while len(compared) < PROGRAMS:
        text = small_program(seed, tuple(mesh.axis_names))
        with after("builtin.module(dtensor-import, dtensor-propagate)", text, mesh):
            seed += 1
