"""The pass that decides layouts: see docs/propagation.md for the algorithm, step by step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from dtensor.dialect.diagnostics import error
from dtensor.dialect.dim import Dim
from dtensor.dialect.layout import Layout
from dtensor.dialect.mesh import Mesh
from dtensor.dialect.mlir import ir
from dtensor.passes.base import Pass, PassState
from dtensor.passes.cost.model import CostModel
from dtensor.passes.functions import main_function
from dtensor.passes.graph import ARGUMENT, OP, RESULT, Graph, read_graph
from dtensor.passes.ledger import Ledger, NodeFacts, Trail
from dtensor.passes.propagation.axis import (
    Decided,
    decided_by,
    free_values,
    make_problem,
    nothing_decided,
    renew,
)
from dtensor.passes.propagation.chains import move_up
from dtensor.passes.propagation.choose import Choice, choose, largest_differences
from dtensor.passes.propagation.descend import descend
from dtensor.passes.propagation.detours import take_detours
from dtensor.passes.propagation.labels import Label
from dtensor.passes.propagation.pins import Pins, atoms_of, read_pins, seed_bytes
from dtensor.passes.propagation.places import MAX_RANK, WHOLE, LayoutTable
from dtensor.passes.propagation.problem import Problem, Sizes, measure
from dtensor.passes.propagation.strategy import Strategy, write_strategy


@dataclass(frozen=True)
class PropagatePass(Pass):
    """Decides the layouts in which every op reads and writes.

    From the layouts of arguments, results and constraints, each mesh axis in turn: what is free
    spreads; where operands disagree, candidates are costed and the cheapest is taken. Leaves
    `dtensor.operands` and `dtensor.results` on every op; types stay global.
    """

    name: ClassVar[str] = "dtensor-propagate"
    min_flops: float = 1e5  # a matmul of more flops per device never leaves a usable axis idle

    def run(self, module: ir.Module, state: PassState) -> None:
        """Annotate the module with the chosen strategy; keep it in `state` as well."""
        function = main_function(module)
        mesh = state.mesh
        if mesh is None:
            error(
                function,
                "no mesh: give the module a dtensor.mesh, or pass --mesh x=2,y=4 (in Python mesh=)",
            )
        graph = state.graph if state.graph is not None else read_graph(function)
        state.graph = graph
        pins = read_pins(graph, state.meshes)
        _note_fallbacks(graph, state.ledger)
        state.ledger.facts = _facts(graph, pins)
        cost = state.cost_model()
        strategy = decide(graph, pins, mesh, cost, self.min_flops, state.ledger, function)
        write_strategy(graph, strategy)
        state.strategy = strategy


def decide(
    graph: Graph,
    pins: Pins,
    mesh: Mesh,
    cost: CostModel,
    min_flops: float,
    ledger: Ledger,
    function: ir.Operation,
) -> Strategy:
    """Choose for every axis in turn and put the layouts together."""
    cuts: dict[str, set[int]] = {}
    free = free_values(graph)
    sizes = measure(graph, cost)
    while True:
        try:
            atoms = atoms_of(pins, mesh, cuts)
        except ValueError as wrong:
            error(function, str(wrong))
        atoms.sort(
            key=lambda a: (
                -seed_bytes(graph, pins, a) / cost.axis_link(a.name).bytes_per_second,
                mesh.axis_names.index(a.name),
                a.pre,
            )
        )
        decided = nothing_decided(graph)
        choices: list[tuple[Problem, Choice]] = []
        more_cuts = False
        for i, atom in enumerate(atoms):
            later = [other.size for other in atoms[i + 1 :]]
            problem = make_problem(graph, pins, atom, decided, cost, sizes, free, min_flops, later)
            more_cuts |= _add_cuts(problem, cuts)
            if more_cuts:
                break
            choice = choose(problem)
            choices.append((problem, choice))
            decided.add(graph, atom, choice.winner.labels)
        if not more_cuts:
            break
    _refine(graph, pins, choices, decided, cost, sizes)
    for (problem, choice), labels in zip(choices, decided.outcomes, strict=True):
        size = mesh.axis_size(problem.atom.name)
        _record(problem, problem.atom.text(size), choice, labels, ledger)
    return _realise(graph, LayoutTable([p.atom for p, _ in choices], mesh), decided, pins, free)


def _refine(
    graph: Graph,
    pins: Pins,
    choices: list[tuple[Problem, Choice]],
    decided: Decided,
    cost: CostModel,
    sizes: Sizes,
) -> None:
    """Improve every axis once more, given all the others: the first ones were blind to them."""
    atoms = [problem.atom for problem, _ in choices]

    def others(i: int) -> Decided:
        pairs = enumerate(zip(atoms, decided.outcomes, strict=True))
        return decided_by(graph, [outcome for j, outcome in pairs if j != i])

    for i, (problem, _) in enumerate(choices):
        if len(choices) > 1:
            renew(problem, others(i), cost, sizes, decided.outcomes[i])
            descend(problem)
        if move_up(problem):
            descend(problem)
        decided.outcomes[i] = tuple(problem.current)
    for i, (problem, choice) in enumerate(choices):
        if problem.refused:
            rest = others(i)
            renew(problem, rest, cost, sizes, decided.outcomes[i])
            choices[i] = problem, take_detours(problem, choice, rest, pins)
            decided.outcomes[i] = tuple(problem.current)


def _add_cuts(problem: Problem, cuts: dict[str, set[int]]) -> bool:
    """Cut the axis where one of its digits straddles two dimensions of a reshape."""
    atom = problem.atom
    grown = False
    for rule_labels in problem.table.rules():
        for edges in rule_labels.cuts.values():
            for edge in edges:
                have = cuts.setdefault(atom.name, set())
                cut = atom.pre * edge
                if cut not in have and all(cut % c == 0 or c % cut == 0 for c in have if c):
                    have.add(cut)
                    grown = True
    return grown


def _realise(
    graph: Graph, table: LayoutTable, decided: Decided, pins: Pins, free: list[bool]
) -> Strategy:
    """Layouts from the places of all axes."""
    outcomes = decided.outcomes
    operands: list[tuple[Layout, ...]] = []
    results: list[tuple[Layout, ...]] = []
    types, layout = graph.types, table.layout
    cache: dict[tuple[object, ...], tuple[tuple[Layout, ...], tuple[Layout, ...]]] = {}
    for node in graph.nodes:
        labels = [outcome[node.index] for outcome in outcomes]
        ranks = tuple([len(types[v].shape) for v in node.operands])
        out_ranks = tuple([len(types[v].shape) for v in node.results])
        key = (tuple(map(id, labels)), ranks, out_ranks)
        found = cache.get(key)
        if found is None:
            found = cache[key] = (
                tuple(
                    layout(rank, tuple([label.ins[k] for label in labels]))
                    for k, rank in enumerate(ranks)
                ),
                tuple(
                    layout(rank, tuple([label.outs[k] for label in labels]))
                    for k, rank in enumerate(out_ranks)
                ),
            )
        operands.append(found[0])
        results.append(found[1])
        given = pins.layouts.get(node.index)
        if node.kind in (ARGUMENT, RESULT) and (given is None or given.has_open):
            operands[-1] = tuple(map(_at_border, found[0]))
            results[-1] = tuple(map(_at_border, found[1]))
    _place_free_values(graph, operands, results, free)
    return Strategy(operands, results)


def _at_border(layout: Layout) -> Layout:
    """The nearest layout that an argument or a result can have."""
    if layout.border_problem() is None:
        return layout
    axes = [tuple(d for d in dim.digits if not isinstance(d, int)) for dim in layout.dims]
    return Layout.of(list(map(Dim, axes)), layout.mesh)


def _place_free_values(
    graph: Graph,
    operands: list[tuple[Layout, ...]],
    results: list[tuple[Layout, ...]],
    free: list[bool],
) -> None:
    """A free value with users takes the layout its first user wants, reductions aside."""
    for node in graph.nodes:
        if not node.results or not free[node.results[0]]:
            continue
        uses = graph.uses[node.results[0]]
        if uses:
            index, k = uses[0]
            results[node.index] = (operands[index][k].complete(),)


def _note_fallbacks(graph: Graph, ledger: Ledger) -> None:
    for node in graph.nodes:
        if node.kind == OP and node.rule is None and node.operation is not None:
            moved = sum(graph.bytes(v) for v in node.operands)
            if not moved and not node.results:
                continue
            ledger.add(
                "fallback",
                f"{node.name} has no rule: its operands are replicated, {moved:.0f} bytes per "
                "device; add a rule in passes/ops, or lay its operands out whole",
                node.operation,
                bytes=0.0,
                asked_for=False,
            )
    for loop in graph.unknown_trips:
        ledger.warn(
            loop, "the trip count of this loop is unknown; its cost is planned for 10 iterations"
        )


def _facts(graph: Graph, pins: Pins) -> NodeFacts:
    return NodeFacts(
        [n.name for n in graph.nodes],
        [n.kind for n in graph.nodes],
        [n.slot for n in graph.nodes],
        [None if n.operation is None else n.operation.location for n in graph.nodes],
        [n.operands for n in graph.nodes],
        [n.results for n in graph.nodes],
        graph.producer,
        [f"{'x'.join(map(str, t.shape))}x{t.element}".lstrip("x") for t in graph.types],
        frozenset(pins.layouts),
    )


def _agreement(choice: Choice) -> str:
    """How far the given layouts agree on an axis, in words."""
    rivals = sum(1 for group in choice.classes if group.rivals)
    if not choice.classes:
        return "nothing given is split over it"
    if not rivals:
        return f"all that is given agrees{', with detours' if choice.detours else ''}"
    return f"{rivals} groups of given layouts disagree; cheapest is {choice.winner.name}"


def _runner_up(problem: Problem, choice: Choice) -> str:
    """The best alternative, its cost, and the moves that make most of the difference."""
    runner_up = choice.runner_up
    if runner_up is None:
        return ""
    graph = problem.graph
    moves = []
    for value, more in largest_differences(problem, choice, most=3):
        node = graph.nodes[graph.producer[value]]
        what = f"argument {node.slot}" if node.kind == ARGUMENT else node.name.split(".")[-1]
        shape = "x".join(map(str, graph.types[value].shape))
        moves.append(f"{'+' if more > 0 else '-'}{abs(more) * 1e6:.3g} us for {what} [{shape}]")
    why = f" ({'; '.join(moves)})" if moves else ""
    return f"{runner_up.name}{why}, {runner_up.seconds * 1e6:.3g} us"


def _refusals(problem: Problem) -> dict[int, str]:
    """Per node that the axis reached but that cannot use it there, the reason in words."""
    reasons: dict[int, str] = {}
    for (index, slot), place in problem.refused.items():
        rule = problem.graph.nodes[index].rule
        if rule is None or index in reasons:
            continue
        major, dim = divmod(place, MAX_RANK)
        side = f"operand {slot}" if slot >= 0 else f"result {~slot}"
        reason = rule.why_whole.get((slot, dim))
        if reason is None:
            behind = f" behind {major} blocks" if major > 1 else ""
            reason = f"cannot be split into {problem.atom.size} there{behind}"
        reasons[index] = f"dimension {dim} of {side} {reason}"
    return reasons


def _record(
    problem: Problem, axis: str, choice: Choice, chosen: tuple[Label, ...], ledger: Ledger
) -> None:
    mesh_axis = problem.atom
    parents: dict[int, int] = {}
    labels: dict[int, tuple[tuple[int, ...], tuple[int, ...]]] = {}
    for index, label in enumerate(chosen):
        if (
            max(label.ins + label.outs, default=WHOLE) > WHOLE
            or min(label.ins + label.outs, default=WHOLE) < WHOLE
        ):
            labels[index] = (label.ins, label.outs)
            parents[index] = problem.reached_from.get((index, label), -1)
    ledger.trails.append(Trail(axis, parents, labels, _refusals(problem), choice.detours))
    ledger.add(
        "choice",
        f"axis {axis}: {_agreement(choice)}, {choice.winner.seconds * 1e6:.3g} us planned",
        axes=(mesh_axis.name,),
        seconds=choice.winner.seconds,
        runner_up=_runner_up(problem, choice),
    )
