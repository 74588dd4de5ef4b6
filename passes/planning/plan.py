"""The cheapest plan over all axes together, searched from where what is given spreads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from dtensor.dialect.axes import AxisRef
from dtensor.dialect.dim import Dim
from dtensor.dialect.layout import Layout
from dtensor.passes.graph import ARGUMENT, BORDERS, RESULT, Graph, Node
from dtensor.passes.planning.alternatives import Alternative, alternatives
from dtensor.passes.planning.joint_labels import strategy_of
from dtensor.passes.planning.limits import Limits
from dtensor.passes.planning.options import Strategy
from dtensor.passes.planning.prices import Prices
from dtensor.passes.planning.problem import Problem
from dtensor.passes.planning.results import along_whole_axes
from dtensor.passes.planning.solve import solve_within
from dtensor.passes.planning.strategies import Maker, ResultPlaces
from dtensor.passes.propagation.labels import Label
from dtensor.passes.propagation.task import Task
from dtensor.passes.sharding.specs import Specs

Sides = tuple[tuple[Layout, ...], tuple[Layout, ...]]  # of operands, of results


@dataclass(frozen=True)
class Plan:
    """What was planned.

    Attributes:
        specs: what the numbers of specs stand for.
        strategies: per node of the graph, its strategy.
        classes: per node of the graph, the number of its class: nodes of one are laid out alike.
        seconds: planned seconds per execution, work and communication.
        price: seconds that the search counts beside these: see `Strategy`.
        communication: the part of them that relayouts take.
        bound: seconds that no plan falls below in which equal layers are laid out alike; None if
            nobody asked and elimination does not say.
        alternatives: per value of the graph that is moved, what could be done instead.
    """

    specs: Specs
    strategies: list[Strategy]
    classes: list[int]
    seconds: float
    price: float
    communication: float
    bound: float | None
    alternatives: dict[int, Alternative]
    _layouts: dict[int, Sides] = field(default_factory=dict, repr=False, compare=False)

    def layouts(self, graph: Graph, node: Node) -> Sides:
        """The layouts of a node's operands and results; of equal nodes the same tuples."""
        number = self.classes[node.index]
        found = self._layouts.get(number) if node.kind != ARGUMENT else None  # of any rank
        if found is None:
            strategy, (ins, outs) = self.strategies[node.index], self.specs.sides(graph, node)
            found = self._layouts[number] = (
                tuple([side.layout(s) for side, s in zip(ins, strategy.ins, strict=True)]),
                tuple([side.layout(s) for side, s in zip(outs, strategy.outs, strict=True)]),
            )
        return found


def make_plan(
    task: Task,
    subaxes: Sequence[AxisRef],
    spread: Sequence[Sequence[Label]],
    result_places: Sequence[ResultPlaces],
    limits: Limits,
    kept: Sequence[Mapping[int, Label]] = (),
) -> Plan:
    """The cheapest plan that is found.

    Args:
        task: what is to be planned.
        subaxes: the sub-axes.
        spread: per sub-axis the label of every node at which the search starts.
        result_places: per sub-axis where results nobody laid out may have it.
        limits: how long to search.
        kept: per sub-axis and node, labels that must stay as they are.
    """
    axes = tuple(subaxes)
    if axes not in task.prices:
        task.prices[axes] = Prices(Specs(axes, task.mesh), task.cost, task.is_strict)
    prices = task.prices[axes]
    specs = prices.specs
    maker = Maker(task, specs, result_places, kept)
    problem = Problem(maker, start_of(task, maker, spread), prices)
    bound = _solve(problem, limits)
    strategies = [problem.now[number] for number in problem.node_of]
    work = sum(map(problem.work_seconds, range(len(problem.now))))
    priced = sum([n * s.price for n, s in zip(problem.runs, problem.now, strict=True)])
    with prices.as_sent():
        seconds = problem.total() - priced
        others = alternatives(problem)
    bound = None if bound is None else min(bound - priced, seconds)  # above it by rounding alone
    communication = seconds - work
    return Plan(specs, strategies, problem.node_of, seconds, priced, communication, bound, others)


def _solve(problem: Problem, limits: Limits) -> float | None:
    """As `solve_within`; a program that has one plan needs no search."""
    has_choice = _has_choice(problem)
    if not (has_choice or limits.polish or limits.bound):
        return None
    return solve_within(problem, limits, has_choice)


def _has_choice(problem: Problem) -> bool:
    """Whether anything is moved, inside an op too, or a large op is not divided among all."""
    if any(problem.value_seconds(v) > 0.0 for v in range(len(problem.values))):
        return True
    devices, min_flops = problem.maker.specs.devices, problem.maker.task.min_flops
    for node, strategy in zip(problem.example, problem.now, strict=True):
        if strategy.comm > 0.0:
            return True
        rule = problem.graph.nodes[node].rule
        if rule is not None and rule.flops >= min_flops * strategy.split < min_flops * devices:
            return True
    return False


def start_of(task: Task, maker: Maker, spread: Sequence[Sequence[Label]]) -> list[Strategy]:
    """The strategies that labels of single sub-axes make together.

    Each sub-axis spread by itself: together they may fit no algorithm, or make a value
    partial in several ways. The node then reads and writes whole values.
    """
    specs = maker.specs
    memo: dict[object, Strategy | None] = {}
    found = []
    for node in task.graph.nodes:
        labels = [of[node.index] for of in spread]
        ins, outs = specs.sides(task.graph, node)
        key = (tuple(map(id, labels)), ins, outs)
        if key not in memo:
            memo[key] = strategy_of(labels, ins, outs, specs.sizes)
        strategy = memo[key]
        if strategy is not None and node.rule is not None:
            strategy = maker.with_algorithm(node.rule, strategy)
        if strategy is None:
            strategy = maker.whole(node)
        if node.kind in BORDERS:
            given = task.pins.layouts.get(node.index)
            if given is None and node.kind == RESULT:
                strategy = along_whole_axes(strategy, ins[0], maker.ways(node), maker.cut_axes)
            if given is None or given.has_open:
                strategy = _at_border(strategy, (*ins, *outs)[0].rank, specs)
        found.append(strategy)
    return found


def _at_border(strategy: Strategy, rank: int, specs: Specs) -> Strategy:
    """The nearest strategy that an argument or a result can have: no blocks ahead of an axis."""
    spec = (*strategy.ins, *strategy.outs)[0]
    layout = specs.rank(rank).layout(spec)
    if layout.border_problem() is None:
        return strategy
    axes = [tuple(d for d in dim.digits if not isinstance(d, int)) for dim in layout.dims]
    spec = specs.of_layout(Layout.of(list(map(Dim, axes)), layout.mesh))
    return Strategy((spec,) * len(strategy.ins), (spec,) * len(strategy.outs), strategy.split)
