"""Writing a program anew in which some dimensions are longer."""

from __future__ import annotations

from collections.abc import Sequence

from dtensor.dialect.dim import Dim
from dtensor.dialect.layout import Layout
from dtensor.dialect.mlir import Value, ir, is_read, terminator
from dtensor.dialect.names import RES_ATTRS
from dtensor.passes.creation import Shape
from dtensor.passes.functions import set_boundary_layouts
from dtensor.passes.graph import ARGUMENT, CONSTRAINT, OP, RESULT, Graph, Node
from dtensor.passes.ledger import Ledger
from dtensor.passes.ops.padding import Fill, Grown
from dtensor.passes.ops.reduction import Reduction
from dtensor.passes.ops.table import opdef
from dtensor.passes.propagation.task import Pins
from dtensor.passes.uneven.components import TIES, Lengths, is_ordered
from dtensor.passes.uneven.values import Forms

OPEN_DIM = Dim((), is_open=True)


class Rewriter:
    """Rewrites one function.

    Attributes:
        forms: each value in the sizes in which it is read.
    """

    def __init__(
        self,
        function: ir.Operation,
        graph: Graph,
        pins: Pins,
        lengths: Lengths,
        ledger: Ledger,
        poison: bool = False,
    ) -> None:
        self.function = function
        self.graph = graph
        self.pins = pins
        self.lengths = lengths
        self.mesh = next(iter(pins.layouts.values())).mesh
        self.ledger = ledger
        self.forms = Forms(graph, ledger, lengths.shapes, poison)
        self.true = self.forms.true
        self._replaced: list[ir.Operation] = []

    def run(self) -> None:
        """Give every value its new type, then every reader the form that it needs."""
        self._lay_out_results()
        for node in self.graph.nodes:
            for slot, value in enumerate(node.results):
                self.forms.make(value, self._made(node, slot, value))
        for node in self.graph.nodes:
            self._read(node)
        for op in self._replaced:
            if not any(map(is_read, op.results)):
                op.erase()
        self._write_signature()

    def _lay_out_results(self) -> None:
        """Let results for which no layout is given be split as what they are made of."""
        found: list[Layout | None] = []
        for node in self.graph.nodes:
            if node.kind != RESULT:
                continue
            layout = self._result_layout(node)
            found.append(layout)
            if layout is not None:
                if layout != self.pins.layouts.get(node.index):
                    self.ledger.padded_results.add(node.slot)
                self.pins.layouts[node.index] = layout
        set_boundary_layouts(self.function, RES_ATTRS, found)

    def _result_layout(self, node: Node) -> Layout | None:
        """The layout given, its open dimensions split as other layouts given split their class."""
        value = node.operands[0]
        given = self.pins.layouts.get(node.index) or self._constraint_on(value)
        true, longer = self.true[value], self.lengths.shapes[value]
        words = [
            word or (self._nearest_word(value, d) if longer[d] != true[d] else None)
            for d, word in enumerate(self.lengths.words[value])
        ]
        if not any(words):
            return None
        dims = [OPEN_DIM] * len(true) if given is None else list(given.dims)
        for d, word in enumerate(words):
            taken = {axis.name for dim in dims for axis in dim.axes}
            if word is None or not word.is_contiguous or dims[d] != OPEN_DIM:
                continue
            if taken & {axis.name for axis in word.axes}:
                continue
            if not self._may_move(value, d, words):
                dims[d] = word
        return Layout.of(dims, self.mesh)

    def _constraint_on(self, value: int) -> Layout | None:
        """The layout that a constraint gives a value, if a result may have it."""
        maker = self.graph.nodes[self.graph.producer[value]]
        layout = self.pins.layouts.get(maker.index) if maker.kind == CONSTRAINT else None
        if layout is None or layout.partial or not layout.is_contiguous:
            return None
        return layout

    def _nearest_word(self, value: int, dim: int) -> Dim | None:
        """How the nearest layout given splits a dimension, of those ahead of a value."""
        ahead = [(value, dim)]
        seen = set(ahead)
        for place in ahead:
            node = self.graph.nodes[self.graph.producer[place[0]]]
            layout = self.pins.layouts.get(node.index)
            if layout is None:
                found = [other for other in self._read_for(node, *place) if other not in seen]
                ahead += found
                seen.update(found)
            elif layout.dims[place[1]].split > 1:
                return Dim(layout.dims[place[1]].digits)
        return None

    def _read_for(self, node: Node, value: int, dim: int) -> list[tuple[int, int]]:
        """The dimensions of a node's operands that stand for one of its result, whole."""
        if node.kind in TIES:
            return [(operand, dim) for operand in node.operands]
        if node.kind != OP or node.rule is None:
            return []
        made = node.rule.results[self.graph.producer_slot[value]][dim]
        return [
            (operand, d)
            for operand, dims in zip(node.operands, node.rule.operands, strict=True)
            for d, read in enumerate(dims)
            if read is not None and read == made
        ]

    def _may_move(self, value: int, dim: int, words: Sequence[Dim | None]) -> bool:
        """Whether a sort or the like along a dimension may move its axes to another dimension."""
        word, shape = words[dim], self.true[value]
        assert word is not None
        others = [size for d, size in enumerate(shape) if d != dim and words[d] is None]
        has_room = any(size and size % word.split == 0 for size in others)
        return has_room and is_ordered(self.graph, value, dim)

    def _made(self, node: Node, slot: int, value: int) -> Shape:
        """The shape in which a node gives a value."""
        longer, true = self._lengths_at(node, ~slot, value), self.true[value]
        if node.kind in TIES:
            return longer
        if node.kind == ARGUMENT:
            return self._border(node, value)
        if node.kind != OP or node.rule is None:
            return true
        return tuple(
            longer[d] if self._fill(node, ~slot, d) else size for d, size in enumerate(true)
        )

    def _lengths_at(self, node: Node, slot: int, value: int) -> Shape:
        """How long the dimensions of a value are that a node reads as an operand, or makes."""
        longer, apart = self.lengths.shapes[value], self.lengths.apart
        if not apart:
            return longer
        return tuple(apart.get((node.index, slot, d), size) for d, size in enumerate(longer))

    def _border(self, node: Node, value: int) -> Shape:
        """The shape of an argument or a result: longer where its own layout is uneven."""
        layout = self.pins.layouts.get(node.index)
        return self.true[value] if layout is None else layout.padded_shape(self.true[value])

    def _fill(self, node: Node, slot: int, dim: int) -> Fill | Reduction | None:
        """What a node needs beyond the end of a dimension; None if it must not be longer."""
        return self.lengths.fills.get((node.index, slot, dim))

    def _read(self, node: Node) -> None:
        operands, results = [], [self.forms.made[value] for value in node.results]
        for k, value in enumerate(node.operands):
            shape, masks = self._wanted(node, k, value)
            operands.append(shape)
            owner, number = node.site(k)
            form = self.forms.form(value, shape, masks, node)
            if form is not owner.operands[number]:
                owner.operands[number] = form
        if node.kind == OP and node.rule is not None:
            self._refit(node, tuple(operands), tuple(results))

    def _wanted(self, node: Node, k: int, value: int) -> tuple[Shape, dict[int, Value | Reduction]]:
        """The shape in which a node reads a value, and by dimension what it is masked with."""
        longer, true = self._lengths_at(node, k, value), self.true[value]
        if node.kind in TIES:
            return longer, {}
        if node.kind == RESULT:
            return self._border(node, value), {}
        if node.kind != OP or node.rule is None:
            return true, {}
        shape = list(true)
        masks: dict[int, Value | Reduction] = {}
        for d in range(len(true)):
            fill = self._fill(node, k, d)
            if longer[d] == true[d] or fill is None:
                continue
            shape[d] = longer[d]
            if isinstance(fill, Reduction):
                masks[d] = fill
            elif fill is Fill.INIT:
                masks[d] = self.graph.values[node.operands[k + len(node.operands) // 2]]
        return tuple(shape), masks

    def _refit(self, node: Node, operands: tuple[Shape, ...], results: tuple[Shape, ...]) -> None:
        rule, padding, op = node.rule, opdef(node.name).padding, node.operation
        assert rule is not None
        before = [self.true[v] for v in (*node.operands, *node.results)]
        if padding is None or before == [*operands, *results]:
            return
        grown = Grown(op, rule, operands, results)
        padding.refit(grown)
        for made in grown.made:
            self.ledger.add_op(made)
        for k, value in grown.instead.items():
            self.forms.replace(node.results[k], value, grown.made)
        if grown.instead:
            self._replaced.append(op)

    def _write_signature(self) -> None:
        """The function's type, of its arguments and of what it returns now."""
        block = self.function.regions[0].blocks[0]
        inputs = [argument.type for argument in block.arguments]
        outputs = [value.type for value in terminator(block).operands]
        type_ = ir.FunctionType.get(inputs, outputs, context=self.function.context)
        self.function.attributes["function_type"] = ir.TypeAttr.get(type_)
