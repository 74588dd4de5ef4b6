"""From a first choice, made one axis at a time, to a plan that is joint over all axes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from dtensor.dialect.axes import AxisRef
from dtensor.dialect.dim import Dim
from dtensor.dialect.layout import Layout
from dtensor.passes.graph import ARGUMENT, BORDERS, Graph, Node
from dtensor.passes.ops.rule import FactorKind
from dtensor.passes.planning.descend import descend
from dtensor.passes.planning.eliminate import Effort, Elimination
from dtensor.passes.planning.messages import proven
from dtensor.passes.planning.model import FINE, Model, make_model
from dtensor.passes.planning.options import Strategy
from dtensor.passes.planning.polish import bound_seconds, polish
from dtensor.passes.planning.prices import Prices
from dtensor.passes.planning.problem import Problem
from dtensor.passes.planning.strategies import Maker, ResultPlaces
from dtensor.passes.planning.windows import improve
from dtensor.passes.propagation.labels import Label
from dtensor.passes.propagation.task import Task
from dtensor.passes.sharding.specs import RankSpecs, Specs

Sides = tuple[tuple[Layout, ...], tuple[Layout, ...]]  # of operands, of results
_MOVING = (FactorKind.ORDER, FactorKind.TRANSFORM)  # such algorithms send all that they read
_GAIN = 1e-3  # of the plan's cost; another round must have gained more to be followed by a third


@dataclass(frozen=True)
class Limits:
    """How long to search, in counts: a plan never depends on how fast the machine is.

    Attributes:
        rounds: eliminations, each around the plan that the one before it found; 0 for single
            changes alone.
        effort: of each elimination.
        sweeps: rounds of single changes after each.
        polish: rounds of messages after that, which may find a better plan; they need the bound.
        bound: whether to find what no plan costs less than.
    """

    rounds: int = 1
    effort: Effort = field(default_factory=Effort)
    sweeps: int = 4
    polish: int = 0
    bound: bool = False


EFFORTS: Final[Mapping[str, Limits]] = {
    "fast": Limits(rounds=0),  # single changes alone
    "normal": Limits(),
    "best": Limits(polish=8, bound=True),
}
"""How hard to search, by name; docs/propagation.md has the table."""


@dataclass(frozen=True)
class Plan:
    """What was planned.

    Attributes:
        specs: what the numbers of specs stand for.
        strategies: per node of the graph, its strategy.
        classes: per node of the graph, the number of its class: nodes of one are laid out alike.
        seconds: planned seconds per execution, work and communication.
        communication: the part of them that relayouts take.
        start: seconds of the first choice, made one axis at a time.
        bound: seconds that no plan falls below in which equal layers are laid out alike; None if
            nobody asked and elimination does not say.
    """

    specs: Specs
    strategies: list[Strategy]
    classes: list[int]
    seconds: float
    communication: float
    start: float
    bound: float | None
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
    outcomes: Sequence[tuple[Label, ...]],
    result_places: Sequence[ResultPlaces],
    limits: Limits,
    kept: Sequence[Mapping[int, Label]] = (),
) -> Plan:
    """Improve a choice of one label per node and sub-axis, all axes together.

    Args:
        task: what is to be planned.
        subaxes: the sub-axes that were decided one by one.
        outcomes: per sub-axis the label of every node.
        result_places: per sub-axis where results nobody laid out may have it.
        limits: how long to search.
        kept: per sub-axis and node, labels that must stay as they are.
    """
    specs = Specs(subaxes, task.mesh)
    maker = Maker(task, specs, result_places, kept)
    start = _start(task, specs, outcomes)
    for node in task.graph.nodes:
        if node.rule is not None:
            found = maker.with_algorithm(node.rule, start[node.index])
            # Labels were priced one sub-axis at a time; together they may not fit an algorithm.
            start[node.index] = maker.whole(node) if found is None else found
    problem = Problem(maker, start, Prices(specs, task.cost))
    before = problem.total()
    bound = _solve_within(problem, limits)
    strategies = [problem.now[number] for number in problem.node_of]
    work = sum(map(problem.work_seconds, range(len(problem.now))))
    seconds = problem.total()
    bound = None if bound is None else min(bound, seconds)  # above it by rounding alone
    communication = seconds - work
    return Plan(specs, strategies, problem.node_of, seconds, communication, before, bound)


def _solve_within(problem: Problem, limits: Limits) -> float | None:
    """Leave the cheapest plan found in `problem.now`; a lower bound, if asked for or known."""
    has_choice = _has_choice(problem)
    held = 0
    if has_choice and limits.rounds:
        held = solve(problem, limits)
    elif has_choice:
        held = descend(problem, limits.sweeps) + 1
    if limits.polish:
        return polish(problem, limits.polish, limits.sweeps)
    if limits.bound:
        return bound_seconds(problem)
    # Elimination's model is exact where every value has one user.
    is_exact = has_choice and not held and all(len(v.uses) == 1 for v in problem.values)
    return problem.total() if is_exact else None


def _has_choice(problem: Problem) -> bool:
    """Whether anything is moved, inside an op too, or a large op is not divided among all.

    What neighbours exchange, and the totals of scans, are small beside moving the arrays.
    """
    if any(problem.value_seconds(v) > 0.0 for v in range(len(problem.values))):
        return True
    devices, min_flops = problem.maker.specs.devices, problem.maker.task.min_flops
    for node, strategy in zip(problem.example, problem.now, strict=True):
        rule = problem.graph.nodes[node].rule
        if rule is None:
            continue
        if strategy.comm > 0.0 and any(factor.kind in _MOVING for factor in rule.factors):
            return True
        if rule.flops >= min_flops * strategy.split < min_flops * devices:
            return True
    return False


def solve(problem: Problem, limits: Limits) -> int:
    """Leave the cheapest plan found in `problem.now`; how many variables were narrowed."""
    best, least = list(problem.now), problem.total()
    narrowed = 0
    for _ in range(limits.rounds):
        model = make_model(problem)
        states = proven(model)
        if states is None:
            model = make_model(problem, FINE)
            states, narrowed = _eliminate(model, limits.effort)
        model.take(problem, states)
        descend(problem, limits.sweeps)
        found = problem.total()
        gain = least - found
        if gain > 0.0:
            best, least = list(problem.now), found
        problem.now[:] = best
        if not narrowed or gain < _GAIN * least:
            break
    return narrowed


def _eliminate(model: Model, effort: Effort) -> tuple[list[int], int]:
    """The cheapest states found, and how many variables were narrowed."""
    elimination = Elimination(model, effort)
    found = elimination.run()
    if not found.narrowed:
        return found.states, 0
    return improve(model, found.states, elimination.regret, effort), found.narrowed


def _start(task: Task, specs: Specs, outcomes: Sequence[tuple[Label, ...]]) -> list[Strategy]:
    """The strategies that labels of single sub-axes make together."""
    memo: dict[object, Strategy] = {}
    found = []
    for node in task.graph.nodes:
        labels = [outcome[node.index] for outcome in outcomes]
        ins, outs = specs.sides(task.graph, node)
        key = (tuple(map(id, labels)), ins, outs)
        strategy = memo.get(key)
        if strategy is None:
            strategy = memo[key] = _joint(labels, ins, outs, specs.sizes)
        if node.kind in BORDERS:
            given = task.pins.layouts.get(node.index)
            if given is None or given.has_open:
                strategy = _at_border(strategy, (*ins, *outs)[0].rank, specs)
        found.append(strategy)
    return found


def _joint(
    labels: Sequence[Label],
    operands: Sequence[RankSpecs],
    results: Sequence[RankSpecs],
    sizes: Sequence[int],
) -> Strategy:
    split = math.prod([n for label, n in zip(labels, sizes, strict=True) if label.divides])
    ins = [side.of(tuple([x.ins[k] for x in labels])) for k, side in enumerate(operands)]
    outs = [side.of(tuple([x.outs[k] for x in labels])) for k, side in enumerate(results)]
    return Strategy(tuple(ins), tuple(outs), split)


def _at_border(strategy: Strategy, rank: int, specs: Specs) -> Strategy:
    """The nearest strategy that an argument or a result can have: no blocks ahead of an axis."""
    spec = (*strategy.ins, *strategy.outs)[0]
    layout = specs.rank(rank).layout(spec)
    if layout.border_problem() is None:
        return strategy
    axes = [tuple(d for d in dim.digits if not isinstance(d, int)) for dim in layout.dims]
    spec = specs.of_layout(Layout.of(list(map(Dim, axes)), layout.mesh))
    return Strategy((spec,) * len(strategy.ins), (spec,) * len(strategy.outs), strategy.split)
