"""Lost parallelism: large ops that every device of an axis computes alike, found in a plan."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from dtensor.passes.graph import OP, Graph, Node
from dtensor.passes.ops.rule import OpRule
from dtensor.passes.ops.table import opdef
from dtensor.passes.planning.plan import Plan
from dtensor.passes.propagation.places import MAX_RANK, WHOLE

LARGE_FLOPS = 1e6  # of one device and execution; an op of fewer may be computed by all


class NotParallel(NamedTuple):
    """An op that is not divided over axes that could have divided it.

    Attributes:
        node: the node; of several ops, the one with the most flops.
        axes: the mesh axes.
        flops: what each device computes, per execution.
        text: the op, its flops, the axes and why, one sentence.
        chosen: whether dividing it was possible, and priced higher.
    """

    node: Node
    axes: tuple[str, ...]
    flops: float
    text: str
    chosen: bool = False


def lost_parallelism(
    graph: Graph, plan: Plan, refusals: Sequence[Mapping[int, str]]
) -> list[NotParallel]:
    """The large ops that are not divided over an axis, though an operand was split over it.

    A matmul or a convolution is one too where nothing was split, but one of its dimensions could
    have been. Element-wise ops that could have been divided are told of together: the plan gathers
    once what several of them read, for less than it takes to gather what they make. `refusals` has,
    per sub-axis and node that it reached but that cannot use it there, the reason.
    """
    found: list[NotParallel] = []
    chosen: dict[tuple[int, ...], list[tuple[float, Node]]] = {}
    for node in graph.nodes:
        rule = node.rule
        if node.kind != OP or rule is None or rule.is_free:
            continue
        flops = _work(graph, node, rule) / plan.strategies[node.index].split
        if flops < LARGE_FLOPS:
            continue
        usable = [i for i, axis in enumerate(plan.specs.subaxes) if node.may_use(axis.name)]
        lost = [i for i in usable if _is_lost(graph, plan, node, rule, i)]
        if lost and opdef(node.name).fuses and not any([node.index in refusals[i] for i in lost]):
            chosen.setdefault(tuple(lost), []).append((flops, node))
        elif lost:
            found.append(_finding(node, plan, lost, flops, refusals))
    return found + [_together(plan, lost, ops) for lost, ops in chosen.items()]


def _work(graph: Graph, node: Node, rule: OpRule) -> float:
    """Flops of an op; one per element of its largest value where none are known or it only moves.

    What XLA fuses and computes nothing is no work.
    """
    if rule.flops or opdef(node.name).fuses:
        return rule.flops
    values = [*node.operands, *node.results]
    return float(max([math.prod(graph.types[v].shape) for v in values], default=0))


def _is_lost(graph: Graph, plan: Plan, node: Node, rule: OpRule, axis: int) -> bool:
    """Whether a sub-axis does not divide a node, though it split an operand or could have."""
    strategy = plan.strategies[node.index]
    sides = [*zip(node.operands, strategy.ins, strict=True)]
    sides += zip(node.results, strategy.outs, strict=True)
    if any([_place(graph, plan, v, spec, axis) > WHOLE for v, spec in sides]):
        return False
    for v in node.operands:
        maker = plan.strategies[graph.producer[v]]
        given = maker.outs[graph.producer_slot[v]]
        if _place(graph, plan, v, given, axis) > WHOLE:
            return True
    return opdef(node.name).must_divide and _could_divide(graph, plan, node, rule, axis)


def _place(graph: Graph, plan: Plan, value: int, spec: int, axis: int) -> int:
    return plan.specs.rank(len(graph.types[value].shape)).places[spec][axis]


def _could_divide(graph: Graph, plan: Plan, node: Node, rule: OpRule, axis: int) -> bool:
    """Whether a dimension of a matmul has room for one more sub-axis."""
    strategy, sizes = plan.strategies[node.index], plan.specs.sizes
    for factor, dims in zip(rule.factors, rule.dims_of_factor, strict=True):
        if not dims or not factor.kind.is_local:
            continue
        slot, dim = dims[0]
        value = node.operands[slot] if slot >= 0 else node.results[~slot]
        spec = strategy.ins[slot] if slot >= 0 else strategy.outs[~slot]
        places = plan.specs.rank(len(graph.types[value].shape)).places[spec]
        there = [p > WHOLE and p % MAX_RANK == dim for p in places]
        taken = math.prod([n for n, here in zip(sizes, there, strict=True) if here])
        if factor.size and factor.size % (taken * sizes[axis]) == 0:
            return True
    return False


def _finding(
    node: Node, plan: Plan, lost: Sequence[int], flops: float, refusals: Sequence[Mapping[int, str]]
) -> NotParallel:
    axes, devices = _axes(plan, lost)
    reasons = dict.fromkeys([refusals[i][node.index] for i in lost if node.index in refusals[i]])
    why = "; ".join(reasons) or "dividing it would take longer to communicate than it saves"
    often = f", {node.weight:.0f} times" if node.weight != 1 else ""
    text = (
        f"{node.name} is not divided over {', '.join(axes)}: each of {devices} devices computes "
        f"the same {flops:.3g} flops{often}; {why}"
    )
    return NotParallel(node, axes, flops, text)


def _together(plan: Plan, lost: Sequence[int], ops: Sequence[tuple[float, Node]]) -> NotParallel:
    axes, devices = _axes(plan, lost)
    flops = sum([flops * node.weight for flops, node in ops])
    _, largest = max(ops, key=lambda op: (op[0] * op[1].weight, -op[1].index))
    text = (
        f"{len(ops)} element-wise operations are not divided over {', '.join(axes)}, such as this "
        f"{largest.name}: each of {devices} devices computes the same {flops:.3g} flops in all; "
        "dividing them would take longer to communicate than it saves"
    )
    return NotParallel(largest, axes, flops, text, chosen=True)


def _axes(plan: Plan, lost: Sequence[int]) -> tuple[tuple[str, ...], int]:
    """The names of the mesh axes of some sub-axes, and how many devices these have."""
    axes = tuple(dict.fromkeys([plan.specs.subaxes[i].name for i in lost]))
    return axes, math.prod([plan.specs.sizes[i] for i in lost])
