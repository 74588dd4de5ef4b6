"""Random models that are small enough to try all states of all variables."""

import itertools
from collections.abc import Iterator

import numpy as np

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


def least(model: Model) -> float:
    """The least cost of all assignments."""
    costs = np.zeros([len(unary) for unary in model.unary])
    for scope, table in [
        *(((x,), unary) for x, unary in enumerate(model.unary)),
        *model.tables.items(),
    ]:
        costs += np.expand_dims(table, tuple(set(range(costs.ndim)) - set(scope)))
    return float(costs.min())


def small_models(count: int, most: int = 20_000) -> Iterator[tuple[int, Model]]:
    """Random models whose states can all be tried."""
    for seed in range(count):
        model = random_model(seed)
        if np.prod([len(u) for u in model.unary]) <= most:
            yield seed, model
