"""Making StableHLO operations: what each needs is derived from its operands."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence

from dtensor.dialect.mlir import Value, ir
from dtensor.dialect.names import PLUS_ZERO
from dtensor.passes.creation import integers_attr, with_sizes
from dtensor.passes.ops.elements import element_kind
from dtensor.passes.ops.reduction import Reduction
from dtensor.passes.shaping import Shaper

Operand = Value | int | float  # of a tensor, a number or a scalar that all its elements are


class Builder(Shaper):
    """Creates operations before the one at hand: those that compute, and all of `Shaper`."""

    def inside(self, block: ir.Block) -> Builder:
        """Creates operations in a block, and lists them with those that are created here."""
        return filling(block, self.made)

    def end(self, values: Sequence[Value]) -> None:
        """End a block, which passes on these values."""
        self.create("stablehlo.return", values, [])

    # Element by element.

    def _both(self, one: Operand, other: Operand) -> tuple[Value, Value]:
        """Two values of one shape; a number is of the type of the other one."""
        if not isinstance(one, ir.Value):
            assert isinstance(other, ir.Value), "two numbers, of no type"
            return self.constant_like(one, other), other
        if not isinstance(other, ir.Value):
            return one, self.constant_like(other, one)
        if one.type == other.type:
            return one, other
        shape = self.shape_of(one) or self.shape_of(other)
        return self.broadcast(one, shape), self.broadcast(other, shape)

    def of_one_shape(self, one: Value, other: Value) -> tuple[Value, Value]:
        """Two values whose first dimensions are the same, both broadcast to what they have in all.

        One of them may have one element along a dimension, or have fewer dimensions.
        """
        shapes = self.shape_of(one), self.shape_of(other)
        pairs = itertools.zip_longest(*shapes, fillvalue=1)
        shape = [there if here == 1 else here for here, there in pairs]
        first = self.broadcast(one, shape, range(len(shapes[0])))
        return first, self.broadcast(other, shape, range(len(shapes[1])))

    def binary(self, name: str, left: Operand, right: Operand) -> Value:
        """An element-wise op whose result has the type of `left`; `name` without the dialect."""
        left, right = self._both(left, right)
        return self.value(f"stablehlo.{name}", [left, right], left.type)

    def unary(self, name: str, value: Value) -> Value:
        """An element-wise op of one value, which gives its type; `name` without the dialect."""
        return self.value(f"stablehlo.{name}", [value], value.type)

    def plus_zero(self, value: Value) -> Value:
        """`value + 0`: floats with 0 for a zero of the other sign."""
        is_float = element_kind(self.element_of(value))[0] == "float"
        return self.value(PLUS_ZERO, [value], value.type) if is_float else value

    def nothing_of(self, value: Value, is_negative: bool) -> Value:
        """A scalar zero of the element type of a value; -0.0 where that is asked for."""
        if is_negative:
            return self.identity("sum", self.tensor_type((), self.element_of(value)))
        return self.zero_of(value)

    def combined(self, name: str, values: Iterable[Value]) -> Value:
        """One value, at least, after another joined by an element-wise op of two."""
        total, *others = values
        for value in others:
            total = self.binary(name, total, value)
        return total

    def merged(self, kind: str, one: Value, other: Value) -> Value:
        """Two values combined element by element as a reduction combines them."""
        return self.binary(Reduction.named(kind).op.partition(".")[2], one, other)

    def times(self, value: Value, factor: int) -> Value:
        """`value * factor`."""
        return value if factor == 1 else self.binary("multiply", value, factor)

    def over(self, value: Value, divisor: int) -> Value:
        """`value / divisor`, towards zero."""
        return value if divisor == 1 else self.binary("divide", value, divisor)

    def modulo(self, value: Value, divisor: int) -> Value:
        """`value % divisor`, with the sign of `value`."""
        return self.binary("remainder", value, divisor)

    def compare(self, direction: str, left: Operand, right: Operand) -> Value:
        """An i1 tensor: `left` compared with `right`; `direction` is EQ, NE, LT, LE, GT or GE."""
        left, right = self._both(left, right)
        attribute = ir.Attribute.parse(f"#stablehlo<comparison_direction {direction}>")
        type_ = self.tensor_type(self.shape_of(left), "i1")
        return self.value(
            "stablehlo.compare", [left, right], type_, {"comparison_direction": attribute}
        )

    def within(self, index: Value, low: int, high: int) -> Value:
        """An i1 tensor: true where `low <= index < high`; `index` is signed."""
        return self.binary("and", self.compare("GE", index, low), self.compare("LT", index, high))

    def select(
        self, predicate: Value, yes: Operand, no: Operand, dims: Sequence[int] | None = None
    ) -> Value:
        """`yes` where the predicate is true, `no` elsewhere.

        It is a scalar, or of the same shape; or it has some dimensions of it, `dims`.
        """
        yes, no = self._both(yes, no)
        if dims is not None:
            predicate = self.broadcast(predicate, self.shape_of(yes), dims)
        return self.value("stablehlo.select", [predicate, yes, no], yes.type)

    def kept_before(
        self, value: Value, dim: int, index: Value, end: int, beyond: Operand = 0
    ) -> Value:
        """A value with `beyond` in the place of its elements of an index of `end` or more.

        `index` has that of each element along the dimension, a 1-D tensor.
        """
        return self.select(self.compare("LT", index, end), value, beyond, [dim])

    def convert(self, value: Value, element: str) -> Value:
        """`value` with elements of another type."""
        shape, have = self.read_type(value.type)
        if have == element:
            return value
        return self.value("stablehlo.convert", [value], self.tensor_type(shape, element))

    def bitcast(self, value: Value, element: str) -> Value:
        """What has the bits of `value`, as elements of another type of as many."""
        shape, have = self.read_type(value.type)
        if have == element:
            return value
        return self.value("stablehlo.bitcast_convert", [value], self.tensor_type(shape, element))

    # Reductions.

    def reduced(self, value: Value, dim: int, reduction: str) -> Value:
        """A value reduced along one dimension."""
        shape, element = self.read_type(value.type)
        scalar = self.tensor_type((), element)
        start = self.identity(reduction, scalar)
        type_ = self.tensor_type(with_sizes(shape, dim), element)
        attributes = {"dimensions": integers_attr([dim])}
        op = self.create("stablehlo.reduce", [value, start], [type_], attributes, regions=1)
        self.reduction_body(op, Reduction.named(reduction).op, scalar)
        result: Value = op.results[0]
        return result

    def is_finite(self, value: Value) -> Value:
        """Whether all elements of a value are finite: an i1 scalar."""
        shape, element = self.read_type(value.type)
        parts = self.parts(value) if element.startswith("complex<") else [value]
        type_ = self.tensor_type(shape, "i1")
        each = [self.value("stablehlo.is_finite", [part], type_) for part in parts]
        found = self.combined("and", each)
        return self.reduced(self.reshape(found, [math.prod(shape)]), 0, "and") if shape else found

    def reduction_body(self, op: ir.Operation, name: str, scalar: ir.Type) -> None:
        """Give `op` a region that combines two scalars by the operation `name`."""
        body = new_block(op.regions[0], [scalar, scalar])
        make = filling(body)
        make.end([make.value(name, list(body.arguments), scalar)])


def new_block(region: ir.Region, types: Sequence[ir.Type] = ()) -> ir.Block:
    """A block in a region, whose arguments are of these types."""
    return region.blocks.append(*types, arg_locs=[region.owner.location] * len(types))


def filling(block: ir.Block, made: list[ir.Operation] | None = None) -> Builder:
    """Creates operations at the end of a block."""
    make = Builder(made=made)
    make._point, make.location = ir.InsertionPoint(block), block.owner.location
    return make


class Trail(Builder):
    """Creates operations one behind the other.

    Args:
        point: where the first one goes.
        location: what they stand for.
        made: takes the operations that are created.
    """

    def __init__(
        self,
        point: ir.InsertionPoint,
        location: ir.Location | None,
        made: list[ir.Operation] | None = None,
    ) -> None:
        super().__init__(made=made)
        self._point = point
        self._last: ir.Operation | None = None
        self.location = location

    def _place(self) -> ir.InsertionPoint | None:
        if self._last is not None:  # what stands behind it may be another operation by now
            self._point = ir.InsertionPoint.after(self._last)
        return self._point

    def note(self, op: ir.Operation) -> None:
        super().note(op)
        self._last = op
