"""Which algorithm computes an operation in its layouts: the cheapest.

What several operations fetch of one value is fetched once. So of those that read a value in one
layout all fetch what others do, where that is cheaper than what each would do by itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import NamedTuple

from dtensor.passes.cost.model import CostModel
from dtensor.passes.ops.opdef import Algorithm, Placed, Traffic, algorithm_of, sends_nothing
from dtensor.passes.ops.table import opdef
from dtensor.passes.planning.work import compute_seconds

_ALIKE = 1e-9  # of a price: less is rounding


class Reading(NamedTuple):
    """An operation in its layouts.

    Attributes:
        placed: the op.
        values: the numbers of its operands.
        runs: how often it runs.
    """

    placed: Placed
    values: Sequence[int]
    runs: float


def traffic_seconds(cost: CostModel, traffic: Traffic) -> float:
    """Seconds of what an algorithm sends over one set of axes."""
    return cost.seconds_of(traffic.wire_bytes, traffic.collectives, traffic.axes)


def cheapest(cost: CostModel, placed: Placed) -> Algorithm | None:
    """The algorithm that computes an op in its layouts at the least cost, by itself; if one does.

    The first that applies is taken; if it communicates, the cheapest of those that do.
    """

    def price(algorithm: Algorithm) -> float:
        sent = sum([traffic_seconds(cost, each) for each in algorithm.comm_bytes(placed)], 0.0)
        return algorithm.weight * sent + _more_seconds(cost, placed, algorithm)

    return algorithm_of(opdef(placed.op.name), placed, price)


def _more_seconds(cost: CostModel, placed: Placed, algorithm: Algorithm) -> float:
    """Seconds of what a device computes by an algorithm besides its share of the op."""
    op, flops = placed.op, algorithm.more_flops(placed)
    if not flops:
        return 0.0
    return compute_seconds(cost, opdef(op.name), op.operation, op.operand_elements[0], flops)


class Price(NamedTuple):
    """What an operation costs by one of its algorithms.

    Attributes:
        algorithm: how it is computed.
        alone: seconds that it takes for itself.
        shared: seconds of what others may fetch as well, by the side of a value that it is of: all
            that several need of one is what the most of them do.
    """

    algorithm: Algorithm
    alone: float
    shared: Mapping[object, float]


def choose(cost: CostModel, readings: Mapping[int, Reading]) -> dict[int, Algorithm]:
    """The algorithm of each of some operations, by what tells them apart.

    Begun once with what is cheapest by itself, and once with the first that applies, which may be
    what others do; then each takes what is cheapest with the others as they are.
    """
    alone, first = dict[int, Algorithm](), dict[int, Algorithm]()
    prices = dict[int, list[Price]]()
    for key, reading in readings.items():
        placed = reading.placed
        found, definition = cheapest(cost, placed), opdef(placed.op.name)
        assert found is not None, "strategies are those that some algorithm computes"
        alone[key] = first[key] = found
        if found.comm_bytes is not sends_nothing:
            applying = [each for each in definition.algorithms if each.applies(placed)]
            senders = [each for each in applying if each.comm_bytes is not sends_nothing]
            first[key] = senders[0]
            prices[key] = [_price(cost, reading, each) for each in senders]
    if alone == first:
        return alone
    plans = [_improved(plan, prices) for plan in (alone, first)]
    return min(plans, key=lambda plan: _seconds(plan, prices))


def _price(cost: CostModel, reading: Reading, algorithm: Algorithm) -> Price:
    """What an operation costs by an algorithm that sends something."""
    placed, values, runs = reading
    traffic = algorithm.comm_bytes(placed)
    weight = runs * algorithm.weight
    seconds = [weight * traffic_seconds(cost, each) for each in traffic]
    count = len(list(takewhile(lambda each: each.what, traffic)))
    of = [(values[each.slot], placed.operands[each.slot], each.what) for each in traffic[:count]]
    shared = dict[object, float]()
    for k, (value, layout, (dim, low, high, *around)) in enumerate(of):
        for side, number in enumerate((low, high)):
            what = tuple(of[:k]), value, layout, dim, tuple(around), side
            shared[what] = seconds[k] * number / max(1, low + high)
    alone = runs * _more_seconds(cost, placed, algorithm) + sum(seconds[count:])
    return Price(algorithm, alone, shared)


def _improved(
    plan: Mapping[int, Algorithm], prices: Mapping[int, Sequence[Price]]
) -> dict[int, Algorithm]:
    """A plan in which no operation would be cheaper by another algorithm."""
    found, several = dict(plan), [key for key, each in prices.items() if len(each) > 1]
    users = dict[object, dict[int, float]]()  # what several need of each, in seconds

    def use(key: int, price: Price) -> None:
        for what, seconds in price.shared.items():
            users.setdefault(what, {})[key] = seconds

    def marginal(price: Price) -> float:
        more = [s - max([0.0, *users.get(w, {}).values()]) for w, s in price.shared.items()]
        return price.alone + sum([max(0.0, seconds) for seconds in more])

    for key in prices:
        use(key, _of(found, prices, key))
    is_changed = True
    while is_changed:
        is_changed = False
        for key in several:
            now = _of(found, prices, key)
            for what in now.shared:
                del users[what][key]
            best = min(prices[key], key=marginal)
            if marginal(best) < (1 - _ALIKE) * marginal(now):
                found[key], now, is_changed = best.algorithm, best, True
            use(key, now)
    return found


def _of(plan: Mapping[int, Algorithm], prices: Mapping[int, Sequence[Price]], key: int) -> Price:
    """What an operation costs by the algorithm that a plan has for it."""
    return next(each for each in prices[key] if each.algorithm is plan[key])


def _seconds(plan: Mapping[int, Algorithm], prices: Mapping[int, Sequence[Price]]) -> float:
    """Seconds of all operations of a plan that send something."""
    most, alone = dict[object, float](), 0.0
    for key in prices:
        price = _of(plan, prices, key)
        alone += price.alone
        for what, seconds in price.shared.items():
            most[what] = max(seconds, most.get(what, 0.0))
    return alone + sum(most.values())
