"""One value in several sizes: as it is made, cut to its true size, padded, masked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from dtensor.dialect.mlir import ir
from dtensor.passes.expansion.indices import index_element
from dtensor.passes.graph import Graph
from dtensor.passes.ledger import Ledger
from dtensor.passes.ops.elements import element_kind
from dtensor.passes.ops.padding import Shape
from dtensor.passes.ops.reduction import Reduction

Value = ir.Value[Any]
Masks = dict[int, "Value | Reduction"]


class Forms:
    """The forms of all values of a function.

    Attributes:
        made: per value the shape in which it is made, in elements.
    """

    def __init__(
        self, graph: Graph, ledger: Ledger, true: Sequence[Shape], poison: bool = False
    ) -> None:
        self.graph = graph
        self.ledger = ledger
        self.true = true
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
        if self.poison and element_kind(self.graph.types[value].element)[0] == "float":
            writer = self._behind(value)
            for d in self._longer(value, shape):
                own = writer.masked(own, d, self.true[value][d], writer.nan(own))
            self._forms[value, shape, ()] = own

    def form(self, value: int, shape: Shape, masks: Masks, reader: ir.Operation | None) -> Value:
        """A value in a shape, with something given beyond the end of some dimensions.

        Args:
            value: number of the value.
            shape: the shape that is needed; longer dimensions than are made hold anything there.
            masks: by dimension, what must stand beyond its end: the identity of a reduction, or a
                scalar.
            reader: the operation that reads it.
        """
        masks = {d: mask for d, mask in masks.items() if shape[d] != self.true[value][d]}
        key = (value, shape, tuple(masks.items()))
        found = self._forms.get(key)
        if found is not None:
            return found
        if not masks:
            found = self._resized(value, shape)
        else:
            found = self.form(value, shape, {}, reader)
            is_given = any(isinstance(mask, ir.Value) for mask in masks.values())
            if is_given:  # what it is masked with may be computed behind the value
                assert reader is not None
                writer = Writer(self.ledger, ir.InsertionPoint(reader), reader.location)
            else:
                writer = self._behind(value, found)
            for d, mask in masks.items():
                fill = mask if isinstance(mask, ir.Value) else writer.identity(mask, found)
                found = writer.masked(found, d, self.true[value][d], fill)
            if is_given:
                return found
        self._forms[key] = found
        return found

    def _resized(self, value: int, shape: Shape) -> Value:
        made = self.made[value]
        if shape == made:
            return self.graph.values[value]
        found = self.form(value, made, {}, None)
        writer = self._behind(value, found)
        shorter: Shape = tuple(map(min, made, shape))
        if shorter != made:
            found = writer.cut(found, shorter)
        if shorter != shape:
            fill = writer.nan(found) if self.poison else writer.identity(Reduction.SUM, found)
            found = writer.padded(found, shape, fill)
        return found

    def _longer(self, value: int, shape: Shape) -> list[int]:
        return [d for d, size in enumerate(self.true[value]) if shape[d] != size]

    def _behind(self, value: int, form: Value | None = None) -> Writer:
        """What writes behind a form of a value, wherever that is defined."""
        own = self.graph.values[value] if form is None else form
        owner = own.owner
        if isinstance(owner, ir.Block):
            return Writer(self.ledger, ir.InsertionPoint.at_block_begin(owner), own.location)
        op = owner.operation
        return Writer(self.ledger, ir.InsertionPoint.after(op), op.location)


@dataclass
class Writer:
    """Creates operations one behind the other.

    Attributes:
        ledger: numbers them.
        point: where the next one goes.
        location: what they stand for.
    """

    ledger: Ledger
    point: ir.InsertionPoint
    location: ir.Location
    _masks: dict[tuple[int, int], Value] = field(default_factory=dict)

    def create(
        self,
        name: str,
        operands: Sequence[Value],
        shape: Sequence[int],
        element: ir.Type,
        attributes: dict[str, ir.Attribute],
    ) -> Value:
        """The result of a new operation."""
        type_ = ir.RankedTensorType.get(list(shape), element, loc=self.location)
        op = ir.Operation.create(
            name,
            results=[type_],
            operands=list(operands),
            attributes=attributes,
            loc=self.location,
            ip=self.point,
        )
        self.point = ir.InsertionPoint.after(op)
        self.ledger.add_op(op)
        result: Value = op.results[0]
        return result

    def cut(self, value: Value, shape: Shape) -> Value:
        """The first elements of a value along each dimension."""
        attributes = {
            "start_indices": _array([0] * len(shape)),
            "limit_indices": _array(shape),
            "strides": _array([1] * len(shape)),
        }
        return self.create("stablehlo.slice", [value], shape, _element(value), attributes)

    def padded(self, value: Value, shape: Shape, fill: Value) -> Value:
        """A value with a scalar behind its last elements."""
        have = ir.RankedTensorType(value.type).shape
        attributes = {
            "edge_padding_low": _array([0] * len(shape)),
            "edge_padding_high": _array([n - m for n, m in zip(shape, have, strict=True)]),
            "interior_padding": _array([0] * len(shape)),
        }
        return self.create("stablehlo.pad", [value, fill], shape, _element(value), attributes)

    def masked(self, value: Value, dim: int, true: int, fill: Value) -> Value:
        """A value with a scalar in the place of its elements from `true` on."""
        shape = list(ir.RankedTensorType(value.type).shape)
        element = _element(value)
        mask = self._mask(shape[dim], true)
        at = {"broadcast_dimensions": _array([dim])}
        spread = "stablehlo.broadcast_in_dim"
        mask = self.create(spread, [mask], shape, ir.IntegerType.get_signless(1), at)
        fills = self.create(spread, [fill], shape, element, {"broadcast_dimensions": _array([])})
        return self.create("stablehlo.select", [mask, value, fills], shape, element, {})

    def _mask(self, size: int, true: int) -> Value:
        integer = ir.Type.parse(index_element(size))
        dimension = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), 0)
        index = self.create("stablehlo.iota", [], [size], integer, {"iota_dimension": dimension})
        splat = ir.DenseElementsAttr.get_splat(index.type, ir.IntegerAttr.get(integer, true))
        end = self.create("stablehlo.constant", [], [size], integer, {"value": splat})
        less = ir.Attribute.parse("#stablehlo<comparison_direction LT>")
        i1 = ir.IntegerType.get_signless(1)
        return self.create(
            "stablehlo.compare", [index, end], [size], i1, {"comparison_direction": less}
        )

    def identity(self, reduction: Reduction, like: Value) -> Value:
        """The scalar that a reduction of elements like these does not notice."""
        element = _element(like)
        value = reduction.identity_attr(ir.RankedTensorType.get([], element, loc=self.location))
        return self.create("stablehlo.constant", [], [], element, {"value": value})

    def nan(self, like: Value) -> Value:
        """NaN, or of elements that have none, a large number."""
        element = _element(like)
        kind = element_kind(str(element))[0]
        if kind != "float":
            return self.identity(Reduction.MIN if kind == "signed" else Reduction.SUM, like)
        scalar = ir.RankedTensorType.get([], element, loc=self.location)
        value = ir.DenseElementsAttr.get_splat(scalar, ir.FloatAttr.get(element, float("nan")))
        return self.create("stablehlo.constant", [], [], element, {"value": value})


def _element(value: Value) -> ir.Type:
    return ir.RankedTensorType(value.type).element_type


def _array(numbers: Sequence[int]) -> ir.Attribute:
    return ir.DenseI64ArrayAttr.get(list(numbers))
