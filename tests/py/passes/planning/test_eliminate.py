"""Elimination against all states there are, on random models."""

import itertools

import numpy as np
import pytest

from dtensor.passes.planning import eliminate
from dtensor.passes.planning.eliminate import Elimination
from dtensor.passes.planning.limits import Effort
from dtensor.passes.planning.messages import Messages
from dtensor.passes.planning.model import Model
from tests.py.passes.planning.small_models import least, small_models


def test_dead_ends_cost_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(eliminate, "_SMALL_TABLE", 0)  # search every variable
    dropped = 0
    for seed, model in small_models(200, 2_000):
        search = Elimination(model, Effort(table=1))
        for x in range(len(model.unary)):
            search._drop_dead_ends(x)
            assert search.start[x] in search.alive[x], seed
            dropped += len(model.unary[x]) - len(search.alive[x])
        left = itertools.product(*(alive.tolist() for alive in search.alive))
        assert min(model.cost(states) for states in left) == pytest.approx(least(model)), seed
        assert model.cost(search.start) <= model.cost(model.start) + 1e-6, seed
    assert dropped > 100


def test_without_narrowed_variables_the_states_are_the_best() -> None:
    for seed, model in small_models(200):
        solution = Elimination(model, Effort()).run()
        assert solution.narrowed == 0
        assert model.cost(tuple(solution.states)) == pytest.approx(least(model), abs=1e-5), seed
        assert solution.bound == pytest.approx(least(model), abs=1e-5), seed


@pytest.mark.parametrize("table", [1, 4])
def test_states_of_the_cheapest_plan_met_are_never_dropped(table: int) -> None:
    """Messages often prove it the cheapest; what they score of its states is rounded."""
    proved = 0
    for seed, model in small_models(200):
        third = Model()
        for unary, start in zip(model.unary, model.start, strict=True):
            third.variable(unary / 3, start)
        for (one, other), costs in model.tables.items():
            third.add(one, other, costs / 3)
        third.start[:] = Elimination(third, Effort()).run().states
        solution = Elimination(third, Effort(table=table)).run()
        assert third.cost(solution.states) == pytest.approx(least(third), abs=1e-5), seed
        proved += not solution.narrowed
    assert proved > 100


def test_one_variable_has_many_neighbours_with_one_state_left() -> None:
    """More of them than an array has dimensions."""
    model = Model()
    hubs = [model.variable(np.array([1.0, 0.0]), 1) for _ in range(3)]
    for k in range(70):
        leaf = model.variable(np.array([1.0]), 0)
        for hub in hubs:
            model.add(hub, leaf, np.array([[0.0], [k % 2]]))
    solution = Elimination(model, Effort()).run()
    assert solution.states == [0] * 73
    assert solution.bound == pytest.approx(73.0)


def test_many_neighbours_are_looked_at_a_few_times(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(eliminate, "_SMALL_TABLE", 0)
    looks: list[int] = []
    drop = Elimination._drop_dead_ends

    def look(search: Elimination, x: int) -> None:
        looks.append(x)
        drop(search, x)

    monkeypatch.setattr(Elimination, "_drop_dead_ends", look)
    rng, model, leaves = np.random.default_rng(5), Model(), 200
    hubs = [model.variable(rng.integers(0, 20, 6).astype(float), 0) for _ in range(2)]
    for _ in range(leaves):
        leaf = model.variable(rng.integers(0, 20, 3).astype(float), 0)
        for hub in hubs:
            model.add(hub, leaf, rng.integers(0, 20, (6, 3)).astype(float))
    each = [
        sum(model.unary[hub][state] for hub, state in zip(hubs, states, strict=True))
        + sum(
            min(
                sum(model.tables[hub, leaf][state] for hub, state in zip(hubs, states, strict=True))
                + model.unary[leaf]
            )
            for leaf in range(2, 2 + leaves)
        )
        for states in itertools.product(range(6), repeat=2)
    ]
    solution = Elimination(model, Effort()).run()
    assert model.cost(solution.states) == pytest.approx(min(each))
    assert solution.bound == pytest.approx(min(each))
    assert looks.count(hubs[0]) < leaves / 2


def test_narrowed_variables_never_make_it_worse() -> None:
    some = False
    for seed, model in small_models(200):
        before = model.cost(tuple(model.start))
        solution = Elimination(model, Effort(table=8)).run()
        some |= bool(solution.narrowed)
        found = model.cost(tuple(solution.states))
        assert solution.bound - 1e-5 <= least(model) <= found + 1e-5, seed
        assert found <= before + 1e-5, seed
    assert some


def test_messages_bound_every_plan_from_below() -> None:
    exact = 0
    for seed, model in small_models(100, 500):
        messages = Messages(dict(enumerate(model.unary)), model.tables, np.inf)
        best, before = least(model), -np.inf
        for _ in range(20):
            messages.run(1, 0.0)
            assert before - 1e-9 <= messages.bound <= best + 1e-9, seed
            before = messages.bound
        exact += best - before < 1e-6
        for x, scores in messages.scores.items():
            for state, score in enumerate(scores):
                fixed = Model(list(model.unary), tables=model.tables)
                fixed.unary[x] = fixed.unary[x] + 1e3 * (np.arange(len(scores)) != state)
                assert messages.floor + score <= least(fixed) + 1e-9, (seed, x, state)
    assert exact > 10


def test_messages_are_exact_on_a_chain_after_one_pass() -> None:
    rng = np.random.default_rng(3)
    model = Model()
    for _ in range(6):
        model.variable(rng.integers(0, 20, 3).astype(float), 0)
    for one in range(5):
        model.add(one, one + 1, rng.integers(0, 20, (3, 3)).astype(float))
    messages = Messages(dict(enumerate(model.unary)), model.tables)
    messages.run(1, 0.0)
    assert messages.bound == pytest.approx(least(model))
