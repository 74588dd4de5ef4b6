"""Lower bounds: never above what the cheapest assignment costs, equal to it on trees."""

import itertools
import random

import numpy as np
import pytest

from dtensor.dialect.mesh import Mesh
from dtensor.passes.planning import relax
from dtensor.passes.planning import solve as solving
from dtensor.passes.planning.limits import Limits
from dtensor.passes.planning.messages import Messages
from dtensor.passes.planning.model import Model
from dtensor.passes.planning.problem import Problem
from dtensor.passes.planning.solve import bound_seconds, lower_bound, polish
from tests.py.passes.planning.small_graphs import small_program
from tests.py.passes.planning.small_models import least, random_model, small_models
from tests.py.passes.planning.test_plans_are_cheapest import cheapest, keep_few
from tests.py.passes.run_passes import after

ROUNDING = 1e-9


def random_tree(seed: int) -> Model:
    """Up to nine variables, each but the first in one table with an earlier one."""
    rng = np.random.default_rng(seed)
    model = Model()
    for x in range(rng.integers(2, 10)):
        states = int(rng.integers(1, 5))
        model.variable(rng.integers(0, 20, states).astype(float), 0)
        if x:
            other = int(rng.integers(x))
            shape = len(model.unary[other]), states
            model.add(other, x, rng.integers(0, 20, shape).astype(float))
    return model


def size(model: Model) -> float:
    return float(np.prod([len(u) for u in model.unary]))


@pytest.mark.sweep
@pytest.mark.parametrize("first", range(0, 200, 50))
def test_the_bound_is_at_most_the_least_cost(first: int) -> None:
    tight = 0
    for seed in range(first, first + 50):
        model = random_model(seed)
        if size(model) > 20_000:
            continue
        cheapest_cost = least(model)
        for max_table in (1, 1_000_000):  # by messages alone, and with variables minimised away
            found = lower_bound(model, max_table=max_table)
            assert found.cost <= cheapest_cost + ROUNDING, seed
            assert model.cost(found.states) >= cheapest_cost - ROUNDING, seed
            tight += found.cost >= cheapest_cost - 0.01
    assert tight > 50  # of up to 100; tables of random numbers are harder than those of programs


def test_what_is_known_to_be_possible_drops_nothing_that_is_needed() -> None:
    for seed in range(100):
        model = random_model(seed)
        if size(model) > 20_000:
            continue
        cheapest_cost = least(model)
        for upper in (cheapest_cost, cheapest_cost + 1.0, cheapest_cost - 1.0):
            found = lower_bound(model, upper, max_table=1)
            assert found.cost <= max(min(cheapest_cost, upper), cheapest_cost) + ROUNDING, seed
            assert found.cost >= lower_bound(model, passes=4, max_table=1).cost - 1.0 - ROUNDING


def test_on_trees_the_bound_is_the_least_cost() -> None:
    for seed in range(100):
        model = random_tree(seed)
        if size(model) > 20_000:
            continue
        found = lower_bound(model)
        assert found.left == found.passes == 0
        assert found.cost == pytest.approx(least(model), abs=ROUNDING), seed
        assert model.cost(found.states) == pytest.approx(found.cost, abs=ROUNDING), seed


def test_more_sweeps_never_lower_the_bound() -> None:
    for seed in range(20):
        model = random_model(seed)
        bounds = [lower_bound(model, passes=n, max_table=1).cost for n in (1, 2, 5, 20)]
        assert bounds == sorted(bounds), seed


def test_a_model_is_left_as_it_was() -> None:
    model = random_model(3)
    before = [u.copy() for u in model.unary], {k: t.copy() for k, t in model.tables.items()}
    lower_bound(model)
    assert all(map(np.array_equal, model.unary, before[0]))
    assert all(np.array_equal(model.tables[k], t) for k, t in before[1].items())


@pytest.mark.sweep
@pytest.mark.parametrize(
    ("mesh", "programs", "listed"),
    [
        ([("x", 4)], 60, True),
        ([("x", 2), ("y", 4)], 60, True),
        ([("x", 2), ("y", 4)], 30, False),  # states of copies, as where there are too many sets
    ],
)
def test_no_assignment_of_strategies_costs_less_than_the_bound(
    mesh: list[tuple[str, int]], programs: int, listed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not listed:
        monkeypatch.setattr(relax, "_LEAST_OF_VALUE", 1)
        monkeypatch.setattr(relax, "_MOST_OF_VALUE", 1)
    compared: list[bool] = []
    seed = 0

    def check(problem: Problem, limits: Limits) -> int:
        keep_few(problem, random.Random(seed))
        cost, bound = cheapest(problem), bound_seconds(problem)
        assert bound <= cost * (1 + ROUNDING), f"seed {seed}"
        polish(problem, rounds=2, sweeps=2)
        assert problem.total() >= bound * (1 - ROUNDING), f"seed {seed}"
        compared.append(bound >= cost * (1 - 1e-6))
        return 1

    monkeypatch.setattr(solving, "solve", check)
    while len(compared) < programs:
        text = small_program(seed, tuple(name for name, _ in mesh))
        with after("builtin.module(dtensor-import, dtensor-propagate)", text, Mesh(mesh)):
            seed += 1
    assert sum(compared) > (0.9 if listed else 0.5) * programs  # mostly it is what the least costs


RING = """
func.func @main(%a: tensor<64x32xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>},
                %b: tensor<32x64xf32> {dtensor.layout = #dtensor.layout<@mesh, [{}, {"y"}]>})
    -> tensor<64x64xf32> {
  %0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0]
      : (tensor<64x32xf32>, tensor<32x64xf32>) -> tensor<64x64xf32>
  %1 = stablehlo.transpose %0, dims = [1, 0] : (tensor<64x64xf32>) -> tensor<64x64xf32>
  %2 = stablehlo.add %0, %1 : tensor<64x64xf32>
  return %2 : tensor<64x64xf32>
}"""


@pytest.mark.parametrize("asked", [False, True])
def test_the_record_of_the_plan_says_how_near_it_is(asked: bool) -> None:
    option = "{bound=true}" if asked else ""
    passes = f"builtin.module(dtensor-import, dtensor-propagate{option})"
    with after(passes, RING) as (_, state):
        (record,) = state.ledger.of_kind("plan")
    assert ("; no plan that lays equal layers out alike is" in record.text) == asked
    assert (0.0 < record.bound <= record.seconds) == asked


def test_where_every_value_has_one_user_the_bound_is_known_for_nothing() -> None:
    text = RING.replace("add %0, %1", "tanh %1")
    text = text.replace('[{"x"}, {}]>}', '[{}, {"x"}]>}')
    with after("builtin.module(dtensor-import, dtensor-propagate)", text) as (_, state):
        (record,) = state.ledger.of_kind("plan")
    assert record.bound == record.seconds > 0.0
    assert record.text.endswith("; no plan that lays equal layers out alike is cheaper")


def test_least_is_over_all_states() -> None:
    model = random_tree(1)
    states = itertools.product(*(range(len(u)) for u in model.unary))
    assert least(model) == min(model.cost(s) for s in states)


def test_among_few_states_better_assignments_are_met_and_kept_ones_stay() -> None:
    """Where two rounds of messages lead past the cheapest assignment, few states help at times."""
    better = 0
    for seed, model in small_models(150):
        messages = Messages(dict(enumerate(model.unary)), model.tables)
        messages.run(2, 0.0, looks=True)
        before, kept = messages.least, dict(messages.states)
        lost = messages.narrow(0.3, kept)
        assert all(kept[x] in messages.alive[x] for x in kept), f"seed {seed}"
        assert lost == {x for x, u in enumerate(model.unary) if len(messages.alive[x]) < len(u)}
        messages.run(24, 1e-6, looks=True)
        states = [messages.states[x] for x in range(len(model.unary))]
        assert messages.least == pytest.approx(model.cost(states)), f"seed {seed}"
        assert least(model) - 1e-9 <= messages.least <= before, f"seed {seed}"
        better += messages.least < before - 1e-9
    assert better > 5


def test_momentum_brings_the_bound_nearer(monkeypatch: pytest.MonkeyPatch) -> None:
    models = [random_tree(seed) for seed in range(20)] + [model for _, model in small_models(60)]

    def bounds() -> list[float]:
        found = []
        for model in models:
            messages = Messages(dict(enumerate(model.unary)), model.tables)
            messages.run(8, 0.0)
            assert messages.bound <= least(model) + 1e-9
            found.append(messages.bound)
        return found

    quick = bounds()
    monkeypatch.setattr(Messages, "_go_on", lambda self, momentum: None)
    assert sum(quick) > sum(bounds()) + 1e-6
