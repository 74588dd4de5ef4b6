"""The pass that decides layouts: see docs/propagation.md for the algorithm, step by step."""

from __future__ import annotations

import math
from collections.abc import Container, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

from dtensor.dialect.callbacks import is_callback
from dtensor.dialect.diagnostics import error
from dtensor.dialect.mlir import ir
from dtensor.passes.base import Pass, PassOptionError, PassState
from dtensor.passes.cost.units import seconds_text
from dtensor.passes.functions import main_function
from dtensor.passes.graph import OP, Graph, Node, title_of
from dtensor.passes.ledger import Ledger, NodeFacts
from dtensor.passes.planning.limits import EFFORTS, Limits
from dtensor.passes.planning.not_parallel import lost_parallelism
from dtensor.passes.planning.plan import Plan, make_plan
from dtensor.passes.planning.provenance import Provenance
from dtensor.passes.program import CUSTOM_CALL
from dtensor.passes.propagation.barriers import Settled, stages
from dtensor.passes.propagation.places import split_of
from dtensor.passes.propagation.planned import PlannedLayouts, write_planned
from dtensor.passes.propagation.reach import AxisReach
from dtensor.passes.propagation.task import Pins, Task, read_pins
from dtensor.passes.propagation.turns import AxesInTurn, in_turn
from dtensor.passes.uneven.components import check_even

_MUCH_LESS = 0.8  # of what a plan takes: for less no axis is cut that operations can use whole


@dataclass(frozen=True)
class Ahead:
    """Plans of a program, and how they are made.

    Attributes:
        limits: how long to search.
        min_flops: as the pass has it.
        stages: per stage how axes spread, and the plan.
    """

    limits: Limits
    min_flops: float
    stages: list[tuple[AxesInTurn, Plan]] = field(default_factory=list, compare=False)

    @property
    def plan(self) -> Plan:
        """That of the last stage, of all the program."""
        return self.stages[-1][1]


@dataclass(frozen=True)
class PropagatePass(Pass):
    """Decides the layouts in which every op reads and writes.

    What arguments, results and constraints say spreads through the program; from there the plan
    that costs the least, over all mesh axes together, is searched. Leaves `dtensor.operands` and
    `dtensor.results` on every op; types stay global.
    """

    name: ClassVar[str] = "dtensor-propagate"
    needs_mesh: ClassVar[bool] = True
    min_flops: float = 1e5  # a matmul of more flops per device never leaves a usable axis idle
    bound: bool = False  # find what no plan costs less than, for the record of the plan
    effort: str = ""  # fast, normal or best; empty is CompileOptions.effort

    def run(self, module: ir.Module, state: PassState) -> None:
        """Annotate the module with the planned layouts; keep them in `state` as well."""
        function = main_function(module)
        graph = state.graph_of(function)
        pins = read_pins(graph, state.meshes)
        check_even(graph, pins)
        _note_fallbacks(graph, state.ledger)
        state.ledger.facts = _facts(graph, pins)
        task, ahead = self._begun(graph, pins, state)
        if state.ahead == ahead:
            ahead = state.ahead
        planned = decide(task, ahead, state.ledger, function)
        write_planned(graph, planned, task.cost)
        state.planned, state.ahead = planned, ahead

    def plan_ahead(self, function: ir.Operation, state: PassState, below: float) -> Ahead:
        """The plans that `run` would make of a function; any, where none costs less than `below`.

        Args:
            function: stays as it is.
            state: what is known of it, with the mesh; its ledger gets no record of the plans.
            below: seconds.
        """
        graph = state.graph_of(function)
        task, ahead = self._begun(graph, read_pins(graph, state.meshes), state)
        _plan_stages(task, ahead, state.ledger, function, below)
        return ahead

    def _begun(self, graph: Graph, pins: Pins, state: PassState) -> tuple[Task, Ahead]:
        """What is to be planned, and how; no plan is made yet."""
        limits = _limits(self.effort or state.effort, self.bound)
        return self.task_of(graph, pins, state), Ahead(limits, self.min_flops)

    def task_of(self, graph: Graph, pins: Pins, state: PassState) -> Task:
        """What is to be planned of a graph, whose mesh the state has."""
        assert state.mesh is not None
        cost, prices = state.cost_model(), state.prices
        task = Task.of(graph, pins, state.mesh, cost, self.min_flops, prices)
        return replace(task, reduce_element=state.reduce_element, is_strict=state.is_strict)


def _limits(effort: str, bound: bool) -> Limits:
    """How long to search, by the name of the effort; with the bound if either asks for it."""
    if effort not in EFFORTS:
        raise PassOptionError(
            f"option 'effort' of pass 'dtensor-propagate' is '{effort}'; give one of "
            f"{', '.join(EFFORTS)}"
        )
    limits = EFFORTS[effort]
    return replace(limits, bound=bound or limits.bound)


def decide(task: Task, ahead: Ahead, ledger: Ledger, function: ir.Operation) -> PlannedLayouts:
    """Let what is given spread, then search the cheapest plan from there."""
    mesh = task.mesh
    _plan_stages(task, ahead, ledger, function)
    turns, plan = ahead.stages[-1]
    refusals = [_refusals(reach) for reach, _ in turns.axes]
    assert ledger.facts is not None
    for i, (reach, _) in enumerate(turns.axes):
        axis, size = reach.sub_axis, mesh.axis_size(reach.sub_axis.name)
        ledger.trails.append(Provenance(axis, size, i, plan, ledger.facts, refusals[i]))
    _record_plan(plan, turns.order, ledger)
    for lost in lost_parallelism(task.graph, plan, refusals):
        at = lost.node.operation
        ledger.add("not_parallel", lost.text, at, axes=lost.axes, asked_for=lost.chosen)
    return _realise(task, plan)


def _plan_stages(
    task: Task, ahead: Ahead, ledger: Ledger, function: ir.Operation, below: float = math.inf
) -> None:
    """Plan the stages, if they are not planned yet; any plan will do where none takes less."""
    if ahead.stages:
        return
    settled: Settled = {}
    cuts: dict[str, set[int]] = {}
    for stage, ready in stages(task, ledger):
        try:
            turns, plan = _stage(stage, cuts, settled, replace(ahead.limits, below=below))
        except ValueError as wrong:
            error(function, str(wrong))
        ahead.stages.append((turns, plan))
        settled |= {node.index: plan.layouts(stage.graph, node) for node in ready}


def _stage(
    stage: Task, cuts: dict[str, set[int]], settled: Settled, limits: Limits
) -> tuple[AxesInTurn, Plan]:
    """The plan of one stage; of small programs, with an axis that is alone cut, if much cheaper.

    Raises:
        ValueError: written parts of one axis have no common refinement.
    """
    turns = in_turn(stage, cuts, settled)
    plan = _plan(stage, turns, limits)
    if len(turns.axes) == 1 and len(stage.graph.nodes) <= limits.cut:
        finer = {name: set(edges) for name, edges in cuts.items()}
        in_parts = in_turn(stage, finer, settled, nearby=True)
        if len(in_parts.axes) > 1:
            other = _plan(stage, in_parts, limits)
            if other.seconds < _MUCH_LESS * plan.seconds:
                cuts.update(finer)
                return in_parts, other
    return turns, plan


def _plan(stage: Task, turns: AxesInTurn, limits: Limits) -> Plan:
    return make_plan(
        stage,
        [reach.sub_axis for reach, _ in turns.axes],
        [labels for _, labels in turns.axes],
        turns.result_places,
        limits,
        turns.kept,
    )


def _realise(task: Task, plan: Plan) -> PlannedLayouts:
    """The plan as layouts; a free value takes that which its first user wants, reductions aside."""
    graph = task.graph
    sides = [plan.layouts(graph, node) for node in graph.nodes]
    operands, results = [ins for ins, _ in sides], [outs for _, outs in sides]
    for node in graph.nodes:
        uses = graph.uses[node.results[0]] if node.results and task.free[node.results[0]] else ()
        if uses:
            index, k = uses[0]
            results[node.index] = (operands[index][k].complete(),)
    return PlannedLayouts(operands, results, plan.alternatives)


def _note_fallbacks(graph: Graph, ledger: Ledger) -> None:
    told_scalars = set[int]()
    for node in graph.nodes:
        if node.kind == OP and node.rule is None:
            moved = sum(graph.bytes(v) for v in node.operands)
            if not moved and not any(graph.types[v].itemsize for v in node.results):
                continue  # it works on nothing, or on tokens
            if _told_scalars(graph, node, told_scalars):
                told_scalars.add(node.index)
                continue
            ledger.add(
                "fallback",
                f"{title_of(node.operation)} has no rule: its operands are replicated, {moved:.0f} "
                f"bytes per device; {_REMEDY.get(node.name, 'add a rule in passes/ops')}, or lay "
                "its operands out whole",
                node.operation,
                bytes=0.0,
                asked_for=False,
            )
    for loop in graph.unknown_trips:
        ledger.warn(
            loop, "the trip count of this loop is unknown; its cost is planned for 10 iterations"
        )


_REMEDY = {CUSTOM_CALL: "say with dtensor.define_op how it may be split"}


def _told_scalars(graph: Graph, node: Node, others: Container[int]) -> bool:
    """Whether a call of Python is told scalars, and what `others` of the kind gave, by their index.

    Checks of values are written so: the first call raises, and the next is told what it gave.
    """
    return _is_python(node) and all(
        graph.types[v].shape == () or graph.producer[v] in others for v in node.operands
    )


def _is_python(node: Node) -> bool:
    """Whether an operation calls a Python function."""
    is_call = node.kind == OP and node.name == CUSTOM_CALL
    return is_call and is_callback(node.operation)


def _facts(graph: Graph, pins: Pins) -> NodeFacts:
    return NodeFacts(
        [n.name for n in graph.nodes],
        [n.kind for n in graph.nodes],
        [n.slot for n in graph.nodes],
        [n.operation.location for n in graph.nodes],
        [n.operands for n in graph.nodes],
        [n.results for n in graph.nodes],
        graph.producer,
        [len(t.shape) for t in graph.types],
        frozenset(pins.layouts),
    )


def _order(priorities: Sequence[int]) -> str:
    """In which order what is given was spread, where something says so."""
    if len(priorities) < 2:
        return ""
    first, *rest = [f"p{priority}" for priority in priorities]
    return f"; spread by priority, {first} first, then {', then '.join(rest)}"


def _refusals(reach: AxisReach) -> dict[int, str]:
    """Per node that the axis reached but that cannot use it there, the reason in words."""
    reasons: dict[int, str] = {}
    for (index, slot), place in reach.refused.items():
        rule = reach.graph.nodes[index].rule
        if rule is None or index in reasons:
            continue
        dim, major = split_of(place)
        side = f"operand {slot}" if slot >= 0 else f"result {~slot}"
        reason = rule.why_whole.get((slot, dim))
        if reason is None:
            behind = f" behind {major} blocks" if major > 1 else ""
            reason = f"cannot be split into {reach.sub_axis.size} there{behind}"
        reasons[index] = f"dimension {dim} of {side} {reason}"
    return reasons


def _record_plan(plan: Plan, priorities: Sequence[int], ledger: Ledger) -> None:
    """What the plan costs, and how near it is to the cheapest."""
    ledger.add(
        "plan",
        f"{seconds_text(plan.seconds)} planned, {seconds_text(plan.communication)} of them to "
        f"communicate{_order(priorities)}{_proven(plan)}",
        seconds=plan.seconds,
        communication=plan.communication,
        bound=plan.bound or 0.0,
    )


def _proven(plan: Plan) -> str:
    """How near the plan is to the cheapest, as far as that is known."""
    if plan.bound is None:
        return ""
    gap = 1.0 - plan.bound / plan.seconds if plan.seconds else 0.0
    if gap < 1e-6:
        return "; no plan that lays equal layers out alike is cheaper"
    return f"; no plan that lays equal layers out alike is more than {gap:.2%} cheaper"
