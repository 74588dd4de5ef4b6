"""Setting up the problem of one mesh axis, given what the axes before it decided."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from dtensor.dialect.axes import AxisRef
from dtensor.dialect.dim import digit_size
from dtensor.dialect.layout import Layout
from dtensor.dialect.manual import inner_layout
from dtensor.passes.graph import BORDERS, RESULT, Graph, Node
from dtensor.passes.ops.table import opdef
from dtensor.passes.propagation.inside import inside_seconds
from dtensor.passes.propagation.labels import Label, LabelTable
from dtensor.passes.propagation.pins import Pins
from dtensor.passes.propagation.places import WHOLE, place_of, split_place
from dtensor.passes.propagation.problem import Problem, Sizes, cost_arrays
from dtensor.passes.propagation.rounds import ONLY, Round
from dtensor.passes.propagation.spread import spread
from dtensor.passes.propagation.task import Task

Digit = tuple[int, int, int]  # factor (or dimension), major, devices


@dataclass
class Decided:
    """What the axes decided so far say.

    Attributes:
        digits: per node the digits of its factors that are taken.
        value_split: per value into how many shards its producer cuts it.
        node_split: per node among how many devices its work is divided.
        outcomes: per decided axis, in order, the label of every node.
    """

    digits: list[list[Digit]]
    value_split: list[int]
    node_split: list[int]
    outcomes: list[tuple[Label, ...]] = field(default_factory=list)

    def add(self, graph: Graph, atom: AxisRef, labels: tuple[Label, ...]) -> None:
        """Take in one more axis."""
        self.outcomes.append(labels)
        for node, label in zip(graph.nodes, labels, strict=True):
            if label.factor >= 0:
                self.take(node.index, atom, label)
                if label.divides:
                    self.node_split[node.index] *= atom.size
            for value, place in zip(node.results, label.outs, strict=True):
                if place > WHOLE:
                    self.value_split[value] *= atom.size

    def take(self, node: int, atom: AxisRef, label: Label) -> None:
        """Let nobody else have the digit of a node that a label takes."""
        digit = label.factor, label.major, atom.size
        if digit not in self.digits[node]:
            self.digits[node].append(digit)


def nothing_decided(graph: Graph) -> Decided:
    """The state before the first axis."""
    return Decided([[] for _ in graph.nodes], [1] * len(graph.values), [1] * len(graph.nodes))


def make_problem(
    task: Task,
    atom: AxisRef,
    decided: Decided,
    sizes: Sizes,
    later: Sequence[int] = (),
    now: Round = ONLY,
) -> Problem:
    """The problem of one axis, its labels spread from the pins.

    Args:
        task: what is to be planned.
        atom: the axis.
        decided: what earlier axes decided.
        sizes: of the task.
        later: devices of the axes that are still to be decided.
        now: the round, and what rounds before it decided.
    """
    graph, pins, cost, free = task.graph, task.pins, task.cost, task.free
    table = LabelTable(atom.size, inside_seconds(atom, cost))
    labels = [[table.idle(node)] for node in graph.nodes]
    fixed: list[Label | None] = [None] * len(graph.nodes)
    open_dims: dict[int, frozenset[int]] = {}
    for index in pins.whole:
        fixed[index] = labels[index][0]
    asleep = {index for index, layout in pins.layouts.items() if now.sleeps(layout, atom)}
    for index, layout in pins.layouts.items():
        place = place_of(layout, atom)
        node = graph.nodes[index]
        if place == WHOLE and layout.has_open and node.may_use(atom.name):
            open_dims[index] = now.open_dims(layout, atom)
            continue
        fixed[index] = table.given(node, place, atom.name)
        labels[index] = [fixed[index]]  # type: ignore[list-item]
    for index, label in now.kept.items():
        fixed[index], labels[index] = label, [label]
    for other, kept in now.others:
        for index, label in kept.items():
            decided.take(index, other, label)
    for node in graph.nodes:
        is_free = free[node.results[0]] if node.results else False
        if is_free or (fixed[node.index] is None and not node.may_use(atom.name)):
            fixed[node.index] = labels[node.index][0]
    costs = cost_arrays(graph, sizes, cost, atom, decided.value_split, decided.node_split)
    problem = Problem(
        graph,
        atom,
        table,
        labels,
        fixed,
        [],
        free,
        *costs,
        open_dims=open_dims,
        asleep=asleep,
    )
    spread(problem)
    problem.result_places = {
        node.index: frozenset(label.ins[0] for label in labels[node.index] if not label.is_idle)
        for node in graph.nodes
        if node.kind == RESULT
    }
    respect_taken_digits(problem, decided, pins)
    keep_blocks_inside(problem, decided, later)
    _forbid_idleness(problem, decided, task.min_flops)
    problem.current = [ls[0] for ls in problem.labels]
    return problem


def respect_taken_digits(problem: Problem, decided: Decided, pins: Pins) -> None:
    """Drop labels that overlap digits of earlier axes; offer the place behind those instead.

    A layout with open dimensions takes axes behind all that it says, whichever axis comes first.
    """
    n = problem.atom.size
    for node in problem.graph.nodes:
        labels = problem.labels[node.index]
        taken = decided.digits[node.index]
        ends: dict[int, int] = {}
        if node.index in problem.open_dims:
            written, ends = _written(_inner(node, pins.layouts[node.index]))
            taken = taken + written
        if not taken or len(labels) == 1 or problem.fixed[node.index] is not None:
            continue
        problem.labels[node.index] = _different(
            label
            if label.factor < 0
            or (compatible(label, taken, n) and label.major % ends.get(label.factor, 1) == 0)
            else behind(problem, node, label, taken)
            for label in labels
        )


def keep_blocks_inside(problem: Problem, decided: Decided, later: Sequence[int] = ()) -> None:
    """Move the axis ahead of blocks on arguments and results, which have none ahead of an axis.

    What stands ahead may be another axis that is decided, or one that comes later.
    """
    for node in problem.graph.nodes:
        if node.kind not in BORDERS or problem.fixed[node.index] is not None:
            continue
        labels = problem.labels[node.index]
        if all(label.major == 1 for label in labels):
            continue
        taken = decided.digits[node.index]
        problem.labels[node.index] = _different(
            _ahead_of_blocks(problem, node, label, taken, later) for label in labels
        )


def _different(labels: Iterable[Label | None]) -> list[Label]:
    """Those labels that there are, each once; they are compared by identity."""
    return [label for label in dict.fromkeys(labels) if label is not None]


def _ahead_of_blocks(
    problem: Problem, node: Node, label: Label, taken: list[Digit], later: Sequence[int]
) -> Label | None:
    """The label with nothing ahead of the axis but decided axes and, where it fits, later ones."""
    if label.factor < 0:
        return label
    ahead = _axes_ahead(label, taken)
    for count in _products(label.major // ahead, later):
        if ahead * count == label.major:
            return label
        moved = problem.table.joint(node, split_place(label.factor, ahead * count))
        if compatible(moved, taken, problem.atom.size):
            return moved
    return behind(problem, node, label, taken)


def _axes_ahead(label: Label, taken: list[Digit]) -> int:
    """How many blocks the decided axes make of the label's dimension, ahead of its place."""
    end = 1
    for factor, major, size in sorted(taken):
        if factor == label.factor and major == end and label.major % (end * size) == 0:
            end *= size
    return end


def _products(count: int, sizes: Sequence[int]) -> list[int]:
    """The products of some of the sizes that divide a number, the largest first."""
    products = {1}
    for size in sizes:
        products |= {product * size for product in products}
    return sorted((product for product in products if count % product == 0), reverse=True)


def _inner(node: Node, layout: Layout) -> Layout:
    """What a layout says in the factors of a node: at a manual region, of the shards inside."""
    return layout if node.free is None or node.rule is None else inner_layout(layout, node.free)


def _written(layout: Layout) -> tuple[list[Digit], dict[int, int]]:
    """The digits that a layout says, and per dimension how many blocks they make."""
    digits: list[Digit] = []
    ends: dict[int, int] = {}
    for dim, word in enumerate(layout.dims):
        major = 1
        for digit in word.digits:
            if not isinstance(digit, int):
                digits.append((dim, major, digit.size))
            major *= digit_size(digit)
        ends[dim] = major
    return digits, ends


def compatible(label: Label, taken: list[Digit], n: int) -> bool:
    """Whether an axis of `n` devices can take the label beside the digits that others took."""
    end = label.major * n
    return all(
        factor != label.factor or other % end == 0 or label.major % (other * size) == 0
        for factor, other, size in taken
    )


def behind(problem: Problem, node: Node, label: Label, taken: list[Digit]) -> Label | None:
    """The label that splits the same factor behind all digits that are taken of it, if it fits."""
    major = max(other * size for factor, other, size in taken if factor == label.factor)
    if node.rule is not None:
        return problem.table.of_rule(node.rule).digit(label.factor, major)
    if problem.graph.types[node.subject].shape[label.factor] % (major * problem.atom.size):
        return None
    return problem.table.joint(node, major * 64 + label.factor)


def _forbid_idleness(problem: Problem, decided: Decided, min_flops: float) -> None:
    for node in problem.graph.nodes:
        if node.rule is None or problem.fixed[node.index] is not None:
            continue
        if node.rule.flops < min_flops * decided.node_split[node.index]:
            continue
        if not opdef(node.name).must_divide:
            continue
        dividing = [label for label in problem.labels[node.index] if label.divides]
        if dividing:
            problem.labels[node.index] = dividing
