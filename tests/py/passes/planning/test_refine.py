"""Plans near one: never dearer than before, and the cheapest where nothing is left out."""

import numpy as np
import pytest

from dtensor.passes.planning.limits import Effort
from dtensor.passes.planning.model import Model
from dtensor.passes.planning.refine import improve, refine
from tests.py.passes.planning.small_models import least, small_models


def regret(x: int, state: int) -> float:
    """Nothing is known: windows begin in program order."""
    return 0.0


def test_a_window_over_everything_finds_the_cheapest_states() -> None:
    for seed, model in small_models(200):
        # What shares no table with anything is a window of its own.
        states = improve(model, model.start, regret, Effort(windows=20, window=10))
        assert model.cost(states) == pytest.approx(least(model), abs=1e-5), seed


def test_small_windows_never_make_it_dearer_and_mostly_cheaper() -> None:
    better = 0
    for seed, model in small_models(200):
        before, tables = model.cost(model.start), {s: t.copy() for s, t in model.tables.items()}
        states = improve(model, model.start, regret, Effort(windows=4, window=3))
        assert model.cost(states) <= before + 1e-6, seed
        assert all((model.tables[s] == table).all() for s, table in tables.items()), seed
        better += model.cost(states) < before
    assert better > 100


def test_windows_begin_where_another_state_may_be_cheapest() -> None:
    model = Model()
    for _ in range(6):
        model.variable(np.array([3.0, 0.0]), 0)
    states = improve(model, model.start, lambda x, _: float(x), Effort(windows=2, window=1))
    assert states == [0, 0, 0, 0, 1, 1]


def test_all_variables_among_a_few_states_change_what_no_window_holds() -> None:
    """A chain that costs where neighbours differ: all have to leave their state together."""
    count, differ = 12, np.array([[0.0, 9.0, 9.0], [9.0, 0.0, 9.0], [9.0, 9.0, 0.0]])
    model = Model()
    for x in range(count):
        model.variable(np.array([1.0, 0.5, 2.0]), 0)
        if x:
            model.add(x - 1, x, differ)
    small = Effort(windows=20, window=3, rounds=0)
    assert refine(model, model.start, regret, small) == model.start
    assert refine(model, model.start, regret, Effort(windows=0)) == [1] * count


def test_what_is_near_a_plan_is_never_dearer_and_mostly_cheaper() -> None:
    better = 0
    for seed, model in small_models(200):
        before = model.cost(model.start)
        states = refine(model, model.start, regret, Effort(windows=0))
        assert model.cost(states) <= before + 1e-6, seed
        better += model.cost(states) < before
    assert better > 150
