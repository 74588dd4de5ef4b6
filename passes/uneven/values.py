"""One value in several sizes: as it is made, cut to its true size, padded, masked."""

from __future__ import annotations

from collections.abc import Sequence

from dtensor.dialect.diagnostics import place_of
from dtensor.dialect.mlir import Value, ir, operation_of
from dtensor.dialect.names import FITS
from dtensor.passes.builder import Trail
from dtensor.passes.creation import Shape, place_behind
from dtensor.passes.expansion.indices import index_element
from dtensor.passes.graph import OP, Graph, Node, title_of
from dtensor.passes.ledger import Ledger
from dtensor.passes.locations import tagged_id
from dtensor.passes.ops.attributes import element_of, shape_of
from dtensor.passes.ops.elements import EXACT, INEXACT, element_kind
from dtensor.passes.ops.narrow import Narrow
from dtensor.passes.ops.reduction import Reduction
from dtensor.passes.ops.rule import element_bytes

Masks = dict[int, "Value | Reduction"]


class Forms:
    """The forms of all values of a function.

    Attributes:
        true: per value its shape as the program has it, in elements.
        longer: per value the shape that it has wherever that may be.
        made: per value the shape in which it is made.
    """

    def __init__(
        self, graph: Graph, ledger: Ledger, longer: Sequence[Shape], poison: bool = False
    ) -> None:
        self.graph = graph
        self.ledger = ledger
        self.true = true = [info.shape for info in graph.types]
        self.longer = longer
        self.poison = poison
        self.made = list(true)
        self._forms: dict[tuple[int, Shape, tuple[tuple[int, object], ...]], Value] = {}

    def make(self, value: int, shape: Shape) -> None:
        """Let a value be made in another shape."""
        self.made[value] = shape
        if shape == self.true[value]:
            return
        own = self.graph.values[value]
        own.set_type(ir.RankedTensorType.get(shape, ir.RankedTensorType(own.type).element_type))
        if self.poison and element_kind(self.graph.types[value].element)[0] in INEXACT:
            writer = Writer(self.ledger, *place_behind(own))
            for d in self._longer(value, shape):
                own = writer.masked(own, d, self.true[value][d], writer.nan(own))
            self._forms[value, shape, ()] = own

    def form(self, value: int, shape: Shape, masks: Masks, reader: Node) -> Value:
        """A value in a shape, with something given beyond the end of some dimensions.

        Args:
            value: number of the value.
            shape: the shape that is needed; longer dimensions than are made hold anything there.
            masks: by dimension, what must stand beyond its end: the identity of a reduction, or a
                scalar.
            reader: what reads it.
        """
        masks = {d: mask for d, mask in masks.items() if shape[d] != self.true[value][d]}
        key = (value, shape, tuple(masks.items()))
        found = self._forms.get(key)
        if found is not None:
            return found
        if not masks:
            found = self._resized(value, shape, reader)
        else:
            found = self.form(value, shape, {}, reader)
            is_given = any(isinstance(mask, ir.Value) for mask in masks.values())
            if is_given:  # what it is masked with may be computed behind the value
                op = reader.operation
                writer = Writer(self.ledger, ir.InsertionPoint(op), op.location)
            else:
                writer = self._behind(found, reader)
            for d, mask in masks.items():
                fill = mask if isinstance(mask, ir.Value) else writer.neutral(mask, found)
                found = writer.masked(found, d, self.true[value][d], fill)
            if is_given:
                return found
        self._forms[key] = found
        return found

    def replace(self, value: int, new: Value, made: Sequence[ir.Operation]) -> None:
        """Let another value stand for one, in the shape in which that is made.

        The operations `made` read it to make the other.
        """
        own = self.graph.values[value]
        own.replace_all_uses_except(new, list(made))
        self.graph.values[value] = new
        for key, form in self._forms.items():
            if form == own:
                self._forms[key] = new

    def _resized(self, value: int, shape: Shape, reader: Node) -> Value:
        made = self.made[value]
        if shape == made:
            return self.graph.values[value]
        found = self.form(value, made, {}, reader)
        writer = self._behind(found, reader)
        # Padded first: what is cut off then may stand along a dimension that was split so far. XLA
        # may end the process where it pads an argument of 2 bits.
        is_narrow = element_bytes(self.graph.types[value].element) < 1 / 2
        between: Shape = tuple(map(min if is_narrow else max, made, shape))
        for sizes in (between, shape):
            behind = [n - m for n, m in zip(sizes, writer.shape_of(found), strict=True)]
            if any(more > 0 for more in behind):
                fill = writer.nan(found) if self.poison else writer.neutral(Reduction.SUM, found)
                found = writer.pad(found, fill, [0] * len(shape), behind)
                operation_of(found).attributes[FITS] = ir.UnitAttr.get()
            elif any(behind):
                found = writer.slice(found, [0] * len(shape), sizes)
                if reader.kind == OP and shape != self.longer[value]:
                    self._note_cut(operation_of(found), reader.operation)
        return found

    def _note_cut(self, cut: ir.Operation, reader: ir.Operation) -> None:
        """Record that a slice leaves the true elements to what does not know of padding."""
        before, after = shape_of(cut.operands[0]), shape_of(cut.results[0])
        long, true = next((n, m) for n, m in zip(before, after, strict=True) if n != m)
        self.ledger.add(
            "cut",
            f"{title_of(reader)} does not know of padding: a dimension of {true} elements, which "
            f"is padded to {long}",
            reader,
            ops=tuple([n for op in (cut, reader) if (n := tagged_id(op.location)) is not None]),
        )

    def _longer(self, value: int, shape: Shape) -> list[int]:
        return [d for d, size in enumerate(self.true[value]) if shape[d] != size]

    def _behind(self, form: Value, reader: Node) -> Writer:
        """Writes behind a form of a value, wherever that is defined.

        What it writes stands at the line of the value, or for an argument, which has none, at that
        of its first reader.
        """
        point, location = place_behind(form)
        if place_of(location) is None:
            location = reader.operation.location
        return Writer(self.ledger, point, location)


class Writer(Trail):
    """Creates operations one behind the other, and numbers them."""

    def __init__(self, ledger: Ledger, point: ir.InsertionPoint, location: ir.Location) -> None:
        super().__init__(point, location)
        self._ledger = ledger

    def note(self, op: ir.Operation) -> None:
        super().note(op)
        self._ledger.add_op(op)

    def masked(self, value: Value, dim: int, true: int, fill: Value) -> Value:
        """A value with a scalar in the place of its elements from `true` on.

        What was converted from a narrower type is masked before, where that has such a scalar: then
        shards send it so.
        """
        narrow = Narrow.of(value)
        scalar = narrow.scalar(self, fill) if narrow.elements else None
        if scalar is not None:
            return narrow.widened(self, self.masked(narrow.value, dim, true, scalar))
        shape = self.shape_of(value)
        index = self.iota([shape[dim]], 0, index_element(shape[dim]))
        return self.kept_before(value, dim, index, true, fill)

    def neutral(self, reduction: str, like: Value) -> Value:
        """The scalar that a reduction of elements like these does not notice.

        It is a negative zero for sums of floats, but of those that were integers: none is one.
        """
        is_exact = element_kind(element_of(Narrow.of(like).value))[0] in EXACT
        if reduction == Reduction.SUM and is_exact:
            return self.constant(0, self.tensor_type((), self.element_of(like)))
        return self.identity(reduction, self.tensor_type((), self.element_of(like)))

    def nan(self, like: Value) -> Value:
        """NaN, or of elements that have none, a large number."""
        element = self.element_of(like)
        kind = element_kind(element)[0]
        if kind == "complex":
            part = self.constant(float("nan"), self.tensor_type((), element[8:-1]))
            return self.complex(part, part)
        if kind != "float":
            return self.neutral(Reduction.MIN if kind == "signed" else Reduction.SUM, like)
        return self.constant(float("nan"), self.tensor_type((), element))
