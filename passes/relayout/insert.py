"""Making operands agree with the planned layouts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from dtensor.dialect.attributes import layouts_array_attr
from dtensor.dialect.layout import Layout
from dtensor.dialect.mlir import Value, forget, ir, replace_op
from dtensor.dialect.names import DEFINED, OPERANDS, RESULTS
from dtensor.passes.base import Pass, PassState
from dtensor.passes.cost.units import seconds_text
from dtensor.passes.creation import place_behind
from dtensor.passes.functions import main_function
from dtensor.passes.graph import (
    ARGUMENT,
    BORDERS,
    CONSTRAINT,
    JOINTS,
    MANUAL_EDGES,
    MANUAL_GIVE,
    MANUAL_READ,
    OP,
    RESULT,
    Graph,
    Node,
    title_of,
)
from dtensor.passes.ledger import Record
from dtensor.passes.locations import all_ids, operation_name, tag, tagged_id
from dtensor.passes.ops.elementwise import is_scalar_work
from dtensor.passes.ops.table import opdef
from dtensor.passes.program import CUSTOM_CALL
from dtensor.passes.propagation.planned import PlannedLayouts, read_planned
from dtensor.passes.propagation.task import is_free
from dtensor.passes.relayout.copies import copies_in_order
from dtensor.passes.relayout.search import plan, steps_seconds
from dtensor.passes.relayout.steps import wire_bytes
from dtensor.passes.relayout.values import new_relayout

_EXACT = 4  # up to this many layouts of one value, every order in which to make them is tried


@dataclass(frozen=True)
class InsertRelayoutsPass(Pass):
    """Puts a `dtensor.relayout` wherever a use wants another layout than its producer gives.

    A relayout stands behind the producer, one per distinct layout, and starts from the layout of
    the value that is cheapest to start from. Constants, iota and broadcasts of scalars are cloned
    instead. Constraints disappear: what they ask for has been decided. Afterwards every value has
    one layout, in its producer's `dtensor.results`.
    """

    name: ClassVar[str] = "dtensor-insert-relayouts"
    needs_mesh: ClassVar[bool] = True

    def run(self, module: ir.Module, state: PassState) -> None:
        """Insert the relayouts and their records."""
        graph = state.graph_of(main_function(module))
        planned = state.planned or read_planned(graph, state.meshes)
        inserter = _Inserter(graph, planned, state)
        for value in range(len(graph.values)):
            inserter.visit(value)
        inserter.note_fallbacks()
        inserter.note_calls()
        for node in graph.nodes:
            op = node.operation
            if node.kind == CONSTRAINT:  # it and its operand agree now
                replace_op(op, op.operands)
            elif node.kind not in MANUAL_EDGES:
                forget(op, OPERANDS)
        state.forget_ir()


_ASKS = (RESULT, CONSTRAINT, MANUAL_READ)  # what the user gave a layout


class _Inserter:
    def __init__(self, graph: Graph, planned: PlannedLayouts, state: PassState) -> None:
        self.graph = graph
        self.planned = planned
        self.state = state
        self.cost = state.cost_model()
        self.moves: dict[tuple[int, Layout], Record] = {}  # by the value that is moved, and how
        self.ahead: dict[int, list[Record]] = {}  # by the node for which others had them moved

    def visit(self, number: int) -> None:
        """Give every use of one value the layout it wants."""
        graph = self.graph
        producer = graph.nodes[graph.producer[number]]
        given = self._given(number)
        wanted: dict[Layout, list[tuple[Node, int]]] = {}
        for index, k in graph.uses[number]:
            want = self.planned.operands[index][k]
            if want is not given and want != given:
                wanted.setdefault(want, []).append((graph.nodes[index], k))
        if not wanted:
            return
        have: list[tuple[Layout, Value]] = [(given, graph.values[number])]
        free = producer.kind == OP and is_free(graph, producer)
        info = graph.types[number]

        layouts = [given, *wanted]

        def seconds(one: int, other: int) -> float:
            steps = plan(layouts[one], layouts[other], info.shape, info.itemsize, self.cost)
            return steps_seconds(steps, self.cost)

        _, order = copies_in_order(len(wanted), seconds, _EXACT, 1 if free else None)
        for copy, start in order:
            layout = layouts[copy]
            users = wanted[layout]
            if free:
                made = self._clone(producer, layout)
            else:
                made = self._relayout(number, have[start], layout, users[0][0])
            have.append((layout, made))
            for node, k in users:
                operation, operand = node.site(k)
                operation.operands[operand] = made

    def _clone(self, producer: Node, layout: Layout) -> Value:
        """A copy of a free producer that makes the value in another layout."""
        copy = producer.operation.clone(ip=ir.InsertionPoint.after(producer.operation))
        complete = layout.complete()
        copy.attributes[RESULTS] = layouts_array_attr((complete,))
        forget(copy.operation, OPERANDS)
        if complete == layout:
            made: Value = copy.results[0]
            return made
        point, location = place_behind(copy.results[0])
        return new_relayout(copy.results[0], layout, location, point)

    def _relayout(
        self, number: int, source: tuple[Layout, Value], after: Layout, user: Node
    ) -> Value:
        graph = self.graph
        info = graph.types[number]
        before, value = source
        producer = graph.nodes[graph.producer[number]]
        origin = self._origin_of_parts(number) if before.is_partial else producer
        responsible = origin if before.is_partial and origin.kind == OP else user
        if responsible.kind in BORDERS and producer.kind != ARGUMENT:
            responsible = producer
        location = responsible.operation.location
        steps = plan(before, after, info.shape, info.itemsize, self.cost)
        wire = wire_bytes(steps)
        whose = self._in_need(user)
        record = self.state.ledger.add(
            "relayout",
            self._reason(before, after, origin, producer, user, whose),
            location,
            axes=_changed_axes(before, after),
            before=before.asm(),
            after=after.asm(),
            bytes=wire * graph.weights[number],
            seconds=steps_seconds(steps, self.cost),
            runner_up=self._alternative(number),
            asked_for=(
                not wire
                or before.is_partial  # the program itself sums
                or user.kind in _ASKS
                or producer.kind in (CONSTRAINT, MANUAL_GIVE)
                or _stand_for_one(producer, user)
            ),
        )
        self.moves[number, after] = record
        if whose is not user and _gathered_dims(before, after):
            self.ahead.setdefault(whose.index, []).append(record)
        return new_relayout(value, after, tag(location, record.id), place_behind(value)[0])

    def note_fallbacks(self) -> None:
        """Say where an uneven dimension is put together for what does not know of padding.

        It may be put together ahead of what is computed element by element before it is cut, or
        ahead of a loop.
        """
        ledger = self.state.ledger
        cuts = {cut.ops[0]: cut for cut in ledger.of_kind("cut")}
        for node in self.graph.nodes if cuts else ():
            cut = cuts.get(tagged_id(node.operation.location) or -1)
            moved = self._gathered_before(node) if cut is not None else None
            if cut is not None and moved is not None:
                ledger.add(
                    "fallback",
                    f"{cut.text}, is put together for it; leave that dimension whole there, or "
                    "give it a size that they divide",
                    ops=cut.ops[1:],
                    location=cut.location,
                    parents=(moved.id, cut.id),
                    bytes=moved.bytes,
                )

    def note_calls(self) -> None:
        """Say what is put together for calls of libraries, which take it as a whole."""
        for node in self.graph.nodes:
            if node.kind != OP or node.name != CUSTOM_CALL or DEFINED in node.operation.attributes:
                continue
            moved = [record for k in range(len(node.operands)) if (record := self._taken(node, k))]
            for k, value in enumerate(node.operands):
                if self._says_nothing(node, k, range(len(self.graph.types[value].shape))):
                    moved += self.ahead.pop(node.index, [])
            if moved:
                total = sum(record.bytes for record in moved)
                self.state.ledger.add(
                    "fallback",
                    f"{title_of(node.operation)} takes whole what layouts split: {total:.0f} bytes "
                    "per device put its operands together; say with dtensor.define_op how it may "
                    "be split, or lay its operands out whole",
                    node.operation,
                    parents=tuple([record.id for record in moved]),
                    bytes=total,
                )

    def _taken(self, node: Node, k: int) -> Record | None:
        """The relayout that puts together a dimension of which the rule says nothing."""
        value, wanted = node.operands[k], self.planned.operands[node.index][k]
        record = self.moves.get((value, wanted))
        is_unknown = self._says_nothing(node, k, _gathered_dims(self._given(value), wanted))
        return record if is_unknown else None

    def _says_nothing(self, node: Node, k: int, dims: Iterable[int]) -> bool:
        """Whether the rule of an op says nothing of one of these dimensions of an operand."""
        rule = node.rule
        return rule is not None and any(
            rule.map_of(k, d) is None and (k, d) not in rule.why_whole for d in dims
        )

    def _gathered_before(self, cut: Node) -> Record | None:
        """The relayout that puts together a dimension that a slice makes shorter, if one does."""
        graph, value = self.graph, cut.operands[0]
        shape = graph.types[value].shape
        pairs = enumerate(zip(shape, graph.types[cut.results[0]].shape, strict=True))
        shorter = [d for d, (long, true) in pairs if long != true]
        readers = [cut]
        for node in readers:
            for value, wanted in zip(node.operands, self.planned.operands[node.index], strict=True):
                if graph.types[value].shape != shape:
                    continue
                record, have = self.moves.get((value, wanted)), self._given(value)
                if record is None:
                    maker = graph.nodes[graph.producer[value]]
                    if maker.kind in (OP, *JOINTS) and maker not in readers:
                        readers.append(maker)
                elif any(have.dims[d].split > wanted.dims[d].split for d in shorter):
                    return record
        return None

    def _reason(
        self,
        before: Layout,
        after: Layout,
        origin: Node,
        producer: Node,
        user: Node,
        whose: Node,
    ) -> str:
        """Why a relayout is there, one sentence."""
        name = self._name
        needs = "must have" if user.kind in _ASKS else "needs"
        wanted = f"{name(user)} {needs} {after.short()}"
        if not before.is_partial:
            goal = "" if whose is user else f" for {name(whose)}"
            return f"{name(producer)} gives {before.short()}, {wanted}{goal}"
        axes = ", ".join(axis.name for axis in before.partial_axes)
        parts = f"leaves parts of a {before.partial[0][1]}"
        through = "" if origin is producer else f" (through {name(producer)})"
        return f"{name(origin)} over what {axes} splits {parts}{through}, {wanted}"

    def _alternative(self, number: int) -> str:
        """What could be done instead of moving a value, and what that costs; empty if unknown."""
        found = self.planned.alternatives.get(number)
        if found is None:
            return ""
        names = list(dict.fromkeys([self._name(self.graph.nodes[node]) for node in found.nodes]))
        who = names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
        is_maker = found.nodes[0] == self.graph.producer[number]
        verb = "give" if is_maker else "take"
        more = f"{seconds_text(found.seconds)} more" if found.seconds else "as much time"
        return f"{who} could {verb} it as {found.layout.short()}, for {more}"

    def _name(self, node: Node) -> str:
        """What a reader calls a node; ops that JAX's transposition made are `backward of`."""
        if node.kind in BORDERS:
            names = self.state.argument_names
            if node.kind == RESULT:
                names = self.state.result_names
            known = names[node.slot] if node.slot < len(names) else ""
            return known or f"{node.kind} {node.slot}"
        if node.kind == CONSTRAINT:
            return "the constraint"
        if node.kind in MANUAL_EDGES:
            return f"{'operand' if node.kind == MANUAL_READ else 'result'} {node.slot} of shard_map"
        name = title_of(node.operation).split(".", 1)[-1]
        is_backward = "transpose(" in operation_name(node.operation.location)
        return f"backward of {name}" if is_backward else name

    def _origin_of_parts(self, number: int) -> Node:
        """The op that made a value partial: what only passes parts on is not to blame."""
        graph, planned = self.graph, self.planned
        node = graph.nodes[graph.producer[number]]
        for _ in range(len(graph.nodes)):
            partial = [
                value
                for value, layout in zip(node.operands, planned.operands[node.index], strict=True)
                if layout.partial and graph.producer[value] < node.index
            ]
            made = [v for v in partial if self._given(v).partial]
            if not made:
                break
            node = graph.nodes[graph.producer[made[0]]]
        return node

    def _in_need(self, user: Node) -> Node:
        """The op for which others take their operands so: what only hands elements on is not it.

        It is `user` itself where that computes more than that, or hands them on to several.
        """
        graph, planned, node = self.graph, self.planned, user
        while node.kind == OP and len(node.results) == 1 and _hands_on(node):
            uses, given = graph.uses[node.results[0]], planned.results[node.index][0]
            readers = {index for index, k in uses if planned.operands[index][k] == given}
            if len(readers) != 1 or len(uses) > 1 or min(readers) <= node.index:
                return user
            node = graph.nodes[min(readers)]
        return node if node.kind == OP else user

    def _given(self, number: int) -> Layout:
        graph = self.graph
        return self.planned.results[graph.producer[number]][graph.producer_slot[number]]


def _gathered_dims(before: Layout, after: Layout) -> list[int]:
    """The dimensions that lie in fewer parts than before."""
    dims = enumerate(zip(before.dims, after.dims, strict=True))
    return [dim for dim, (have, want) in dims if have.split > want.split]


def _hands_on(node: Node) -> bool:
    """Whether an op moves or computes each element by itself."""
    return opdef(node.name).moves_only or is_scalar_work(node.operation)


def _stand_for_one(producer: Node, user: Node) -> bool:
    """Whether two operations stand for one of the program: a move between them is part of that.

    What blocks of a loop leave, say, moves to the scan that combines it. Neither is the program's
    own: what is only put behind one of those, to mask its padding, hides no move of it.
    """
    if producer.operation == user.operation or {producer.kind, user.kind} & set(BORDERS):
        return False  # a loop that hands one carry on as another, say
    ids = [all_ids(node.operation.location) for node in (producer, user)]
    return min(map(len, ids)) > 1 and not set(ids[0]).isdisjoint(ids[1])


def _changed_axes(before: Layout, after: Layout) -> tuple[str, ...]:
    """Names of the axes on which two layouts differ."""
    names = []
    for name in before.mesh.axis_names:
        mine = [(d, x) for d, dim in enumerate(before.dims) for x in dim.axes if x.name == name]
        other = [(d, x) for d, dim in enumerate(after.dims) for x in dim.axes if x.name == name]
        parts = [p for p in before.partial if p[0].name == name]
        if mine != other or parts != [p for p in after.partial if p[0].name == name]:
            names.append(name)
    return tuple(names)
