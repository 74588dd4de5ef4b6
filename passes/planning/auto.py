"""Layouts of arguments as variables of the plan, with a price on the bytes that a device holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from dtensor.dialect.layout import Layout
from dtensor.passes.graph import ARGUMENT, RESULT, Node
from dtensor.passes.planning.descend import Changes, descend
from dtensor.passes.planning.limits import Limits
from dtensor.passes.planning.options import Options, Strategy
from dtensor.passes.planning.plan import start_of
from dtensor.passes.planning.prices import Prices
from dtensor.passes.planning.problem import Problem
from dtensor.passes.planning.solve import polish, solve
from dtensor.passes.planning.strategies import Maker, Moves, ResultPlaces
from dtensor.passes.propagation.places import WHOLE, place_of
from dtensor.passes.propagation.task import Pins, Task
from dtensor.passes.propagation.turns import in_turn
from dtensor.passes.sharding.specs import Specs

_TIED = "tied"  # a result that is the next call's argument: its node is the argument's
_DOUBLINGS = 40  # of the price of a byte, until the arguments fit
_CROSSINGS = 20  # prices at which the plan that fits meets the one that does not
_ABOVE = 1.02  # times the price at which both cost the same, the plan that fits is the cheaper
_LEAST_SECONDS = 1e-9  # seconds; a program that only hands its arguments on costs none
_GAIN = 1e-6  # of a plan's cost; less is rounding


@dataclass(frozen=True)
class Argument:
    """What was found for one argument.

    Attributes:
        layout: its layout.
        bytes: what one device holds of it.
        other: the layout that would be next, all else equal.
        more: seconds that it would take more; memory is priced in both.
    """

    layout: Layout
    bytes: float
    other: Layout | None
    more: float


@dataclass(frozen=True)
class AutoPlan:
    """Layouts of the arguments of a program.

    Attributes:
        arguments: one per argument.
        seconds: planned seconds per execution, moving results back to their arguments included.
        bound: what no layouts that fit cost less than, in seconds; None where some were left out.
        bytes: what one device holds of all arguments.
        price: seconds that a byte was taken to cost, to make the arguments fit; 0 where they do.
    """

    arguments: tuple[Argument, ...]
    seconds: float
    bound: float | None
    bytes: float
    price: float


def plan_arguments(
    task: Task,
    ties: Mapping[int, int],
    max_bytes: float | None,
    limits: Limits,
    tried: Sequence[Layout] | None = None,
) -> AutoPlan | None:
    """Choose the layouts of the arguments that nothing pins, together with all others.

    A compilation divides no large operation less than what is given does as it spreads. So no plan
    is looked for that divides one less than the given layouts do.

    Args:
        task: the program, whose nodes are changed where results are tied, and its mesh, each axis
            of which may be used.
        ties: argument numbers to the numbers of the results that become them.
        max_bytes: of the arguments on one device; None is no limit.
        limits: how long to search.
        tried: layouts of all arguments with which a compilation took more than was planned: now
            no plan is looked for that it could not have made of those. None where nothing was
            tried; if empty, axes that no given layout names are used for large operations alone.

    Returns:
        None if no layouts were found that fit.
    """
    search = _Search(task, limits, ties, tried)
    search.solve(0.0)
    price = 0.0
    if max_bytes is not None and search.bytes() > max_bytes:
        found = search.fit(max_bytes)
        if found is None:
            return None
        price = found
    return search.result(price, max_bytes)


class _Maker(Maker):
    """Strategies with every axis in use, results as they come, and a price on arguments.

    Where layouts were tried, those that a compilation with them chooses among.
    """

    price = 0.0  # seconds per byte that one device holds of an argument

    def __init__(
        self,
        task: Task,
        specs: Specs,
        result_places: Sequence[ResultPlaces],
        tried: Sequence[Layout] | None,
    ) -> None:
        self._tried, self.divides_anyhow = tried, tried is None
        super().__init__(task, specs, result_places)

    def _is_used(self, axis: int) -> bool:
        if self._tried is None:
            return True
        subaxis = self.specs.subaxes[axis]
        is_named = any(place_of(layout, subaxis) != WHOLE for layout in self._tried)
        return is_named or super()._is_used(axis)

    def of(self, node: Node, start: Strategy, now: Strategy, moves: Moves | None) -> Options:
        """The strategies of a node, those of an argument with what its bytes cost."""
        options = super().of(node, start, now, moves)
        if node.kind != ARGUMENT:
            return options
        kept = [s for s in options.strategies if s == now or self._has_whole_axes(node, s)]
        priced = list(dict.fromkeys([self.priced(node, s) for s in kept]))
        return Options(priced, self.specs.sides(self.graph, node))

    def _has_whole_axes(self, node: Node, strategy: Strategy) -> bool:
        """Whether an argument is split by no part of a mesh axis alone, where that is not given."""
        rank = self.specs.rank(len(self.graph.types[node.results[0]].shape))
        parts = {group[0] for group in self.cut_axes}
        axes = rank.layout(strategy.outs[0]).axes if parts else ()
        sizes = dict(self.specs.mesh.axes)
        return all(axis.size == sizes[axis.name] for axis in axes)

    def priced(self, node: Node, strategy: Strategy) -> Strategy:
        """The strategy of a node, that of an argument with what its bytes cost."""
        if node.kind != ARGUMENT:
            return strategy
        info = self.graph.types[node.results[0]]
        splits = self.specs.rank(len(info.shape)).splits
        return strategy._replace(price=self.price * info.bytes / splits[strategy.outs[0]])


class _Point(NamedTuple):
    """A plan: its seconds without what memory costs, what a device holds, and its strategies."""

    seconds: float
    bytes: float
    now: list[Strategy]

    def at(self, price: float) -> float:
        """Its seconds at a price of a byte."""
        return self.seconds + price * self.bytes


class _Search:
    """A problem whose prices of memory change."""

    def __init__(
        self,
        task: Task,
        limits: Limits,
        ties: Mapping[int, int],
        tried: Sequence[Layout] | None,
    ) -> None:
        self.graph, self.limits = task.graph, limits
        turns = in_turn(replace(task, pins=self._pins(task.pins, ties, tried or ())), {}, {})
        self.specs = Specs([reach.sub_axis for reach, _ in turns.axes], task.mesh)
        self.prices = Prices(self.specs, task.cost)
        places = [None] * len(turns.axes) if tried is None else turns.result_places
        self.maker = _Maker(task, self.specs, places, tried)
        spread = [labels for _, labels in turns.axes]
        self.start = start_of(task, self.maker, spread)
        self.now: list[Strategy] = []  # per node of the problem
        self._tie(ties)

    def _pins(self, given: Pins, ties: Mapping[int, int], tried: Sequence[Layout]) -> Pins:
        """What a compilation with the layouts that were tried is given."""
        results = {node.slot: node.index for node in self.graph.nodes if node.kind == RESULT}
        layouts = dict(given.layouts)
        for node, layout in zip(self._arguments(), tried, strict=False):
            layouts[node.index] = layout
            if node.slot in ties:
                layouts[results[ties[node.slot]]] = layout
        return Pins(layouts, given.whole)

    def _tie(self, ties: Mapping[int, int]) -> None:
        """Make a result and the argument that it becomes one node: they are laid out alike."""
        nodes = self.graph.nodes
        arguments = {node.slot: node for node in nodes if node.kind == ARGUMENT}
        results = {node.slot: node for node in nodes if node.kind == RESULT}
        for slot, result in ties.items():
            argument, returned = arguments[slot], results[result]
            (value,) = returned.operands
            self.graph.uses[value].remove((returned.index, 0))
            self.graph.uses[value].append((argument.index, len(argument.operands)))
            argument.operands.append(value)
            returned.operands.clear()
            returned.kind = _TIED
            self.start[returned.index] = Strategy((), (), 1)
            begun = self.start[argument.index]
            self.start[argument.index] = begun._replace(ins=(*begun.ins, *begun.outs))

    def _problem(self, price: float) -> Problem:
        """The problem at a price, with the plan found last."""
        self.maker.price = price
        problem = Problem(self.maker, self.start, self.prices)
        nodes = [self.graph.nodes[example] for example in problem.example]
        problem.start = list(map(self.maker.priced, nodes, problem.start))
        problem.now = list(map(self.maker.priced, nodes, self.now or problem.start))
        return problem

    def solve(self, price: float) -> None:
        """Find the plan at a price, from the one found last."""
        problem = self._problem(price)
        descend(problem, self.limits.sweeps)
        solve(problem, self.limits)
        self._keep(problem)

    def _keep(self, problem: Problem) -> None:
        self.node_of = problem.node_of
        self.now = list(problem.now)

    def fit(self, max_bytes: float) -> float | None:
        """Price a byte so that the cheapest plan found fits; None if no price makes one fit.

        A plan's seconds are a line over the price of a byte. Where the line of the plan that fits
        meets that of the plan that does not, both cost the same: another plan is cheaper there, and
        takes the place of one of them, or none is, and no price gives a better one (LARAC, Juettner
        et al. 2001).
        """
        if self._least_bytes() > max_bytes:
            return None
        over = self._point(0.0)
        price = max(over.seconds, _LEAST_SECONDS) / over.bytes / 4
        for _ in range(_DOUBLINGS):
            self.solve(price)
            under = self._point(price)
            if under.bytes <= max_bytes:
                break
            over, price = under, price * 2
        else:
            return None
        for _ in range(_CROSSINGS):
            saved = max(under.seconds - over.seconds, 0.0)  # 0 if more was found for less
            price = saved / (over.bytes - under.bytes)
            self.solve(price)
            found = self._point(price)
            if found.at(price) >= under.at(price) * (1 - _GAIN):
                break
            if found.bytes <= max_bytes:
                under = found
            else:
                over = found
        price *= _ABOVE
        self.now = under.now
        self._keep(self._problem(price))
        return price

    def _least_bytes(self) -> float:
        """What one device holds of all arguments where each is split as far as it can be."""
        problem, least = self._problem(0.0), 0.0
        for node in self._arguments():
            info = self.graph.types[node.results[0]]
            splits = self.specs.rank(len(info.shape)).splits
            given = problem.options(problem.node_of[node.index]).distinct(~0)
            least += info.bytes / max([splits[spec] for spec in given])
        return least

    def _point(self, price: float) -> _Point:
        """The plan found last, at a price."""
        held = self.bytes()
        return _Point(self._problem(price).total() - price * held, held, list(self.now))

    def bytes(self) -> float:
        """What one device holds of all arguments."""
        return sum([self._bytes(node) for node in self._arguments()])

    def _arguments(self) -> list[Node]:
        nodes = [node for node in self.graph.nodes if node.kind == ARGUMENT]
        return sorted(nodes, key=lambda node: node.slot)

    def _bytes(self, node: Node) -> float:
        info = self.graph.types[node.results[0]]
        spec = self.now[self.node_of[node.index]].outs[0]
        return info.bytes / self.specs.rank(len(info.shape)).splits[spec]

    def result(self, price: float, max_bytes: float | None) -> AutoPlan:
        """The layouts, what they cost, and what none costs less than."""
        before = self._point(price)
        problem = self._problem(price)
        bound = None if self.maker.has_left_out else polish(problem, 1, self.limits.sweeps)
        self._keep(problem)
        if max_bytes is not None:
            after = self._point(price)
            if after.bytes > max_bytes or after.seconds > before.seconds:
                self.now = before.now  # within the limit, and less as such
                problem = self._problem(price)
        held = self.bytes()
        seconds = problem.total() - price * held
        if bound is not None:
            # Lagrange: what fits costs at least the priced bound without what the bytes that are
            # allowed cost.
            bound = max(min(bound - price * (max_bytes or 0.0), seconds), 0.0)
        found = tuple([self._argument(problem, node) for node in self._arguments()])
        return AutoPlan(found, seconds, bound, held, price)

    def _argument(self, problem: Problem, node: Node) -> Argument:
        number = self.node_of[node.index]
        options, now = problem.options(number), problem.now[number]
        rank = self.specs.rank(len(self.graph.types[node.results[0]].shape))
        layout = rank.layout(now.outs[0])
        if len(options) < 2:
            return Argument(layout, self._bytes(node), None, 0.0)
        costs = Changes(problem).seconds(number)
        mine = options.index[now]
        more = costs - costs[mine]
        more[mine] = float("inf")
        other = int(more.argmin())
        runs = max(problem.runs[number], 1.0)
        next_layout = rank.layout(options.strategies[other].outs[0])
        return Argument(layout, self._bytes(node), next_layout, float(more[other]) / runs)
