"""Elimination against all states there are, on random models."""

import itertools

import numpy as np
import pytest

from dtensor.passes.planning.eliminate import Elimination
from dtensor.passes.planning.model import Model


def random_model(seed: int) -> Model:
    """Up to nine variables of up to four states, and tables over about half of the pairs."""
    rng = np.random.default_rng(seed)
    model = Model()
    for _ in range(rng.integers(2, 10)):
        states = int(rng.integers(1, 5))
        model.variable(rng.integers(0, 20, states).astype(float), int(rng.integers(states)))
    for one, other in itertools.combinations(range(len(model.unary)), 2):
        if rng.random() < 0.5:
            shape = len(model.unary[one]), len(model.unary[other])
            model.add(one, other, rng.integers(0, 20, shape).astype(float))
    return model


def cost(model: Model, states: tuple[int, ...]) -> float:
    """What an assignment of states costs."""
    unary = sum(u[s] for u, s in zip(model.unary, states, strict=True))
    tables = sum(t[states[one], states[other]] for (one, other), t in model.tables.items())
    return float(unary + tables)


def least(model: Model) -> float:
    """The least cost of all assignments."""
    return min(cost(model, s) for s in itertools.product(*(range(len(u)) for u in model.unary)))


@pytest.mark.parametrize("first", range(0, 200, 50))
def test_without_held_variables_the_states_are_the_best(first: int) -> None:
    for seed in range(first, first + 50):
        model = random_model(seed)
        if np.prod([len(u) for u in model.unary]) > 20_000:
            continue
        solution = Elimination(model, {}).run()
        assert solution.held == []
        assert cost(model, tuple(solution.states)) == pytest.approx(least(model), abs=1e-5), seed


def test_held_variables_never_make_it_worse() -> None:
    some = False
    for seed in range(100):
        model = random_model(seed)
        before = cost(model, tuple(model.start))
        solution = Elimination(model, {}, max_table=8).run()
        some |= bool(solution.held)
        assert cost(model, tuple(solution.states)) <= before + 1e-5, seed
    assert some


def test_other_variables_are_held_in_the_next_round() -> None:
    found = (random_model(seed) for seed in range(100))
    model = next(m for m in found if Elimination(m, {}, max_table=4).run().held)
    first = Elimination(model, {}, max_table=4).run()
    second = Elimination(model, dict.fromkeys(first.held, 1), max_table=4).run()
    assert second.held[0] not in first.held[:1]
