"""Making StableHLO operations: what each needs is derived from its operands."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping, Sequence

from dtensor.dialect.attributes import index_attr
from dtensor.dialect.mlir import Value, ir, stablehlo
from dtensor.passes.ops.elements import real_element
from dtensor.passes.ops.reduction import Reduction

Shape = tuple[int, ...]
Operand = Value | int | float  # of a value, a number that all its elements are


def integers_attr(values: Sequence[int]) -> ir.Attribute:
    """`array<i64: ...>`."""
    return ir.DenseI64ArrayAttr.get(list(values))


def matrix_attr(rows: Sequence[Sequence[int]]) -> ir.Attribute:
    """`dense<[[...], ...]> : tensor<n x m x i64>`; without a row, of pairs."""
    flat = array("q", [number for row in rows for number in row])
    i64 = ir.IntegerType.get_signless(64)
    shape = [len(rows), len(rows[0]) if rows else 2]
    return ir.DenseElementsAttr.get(flat, shape=shape, type=i64)


def signed(number: int) -> int:
    """An integer of 64 bits as the bindings take it, which know no larger ones than signed."""
    return number if number < 1 << 63 else number - (1 << 64)


def place_behind(value: Value) -> tuple[ir.InsertionPoint, ir.Location]:
    """Where operations go right behind a value, ahead of all that read it; and its location."""
    owner = value.owner
    if isinstance(owner, ir.Block):
        return ir.InsertionPoint.at_block_begin(owner), value.location
    return ir.InsertionPoint.after(owner.operation), owner.operation.location


class Builder:
    """Creates operations before the one at hand, at its location.

    Elements are written as MLIR does: `f32`, `complex<f32>`.

    Args:
        before: the operation at hand; another one with `move_to`.
        made: what is created is listed here too.

    Attributes:
        location: of what is created.
    """

    def __init__(
        self, before: ir.Operation | None = None, made: list[ir.Operation] | None = None
    ) -> None:
        self._made = made
        self.location: ir.Location | None = None
        self._point: ir.InsertionPoint | None = None
        self._types: dict[tuple[Shape, str], ir.Type] = {}
        self._read: dict[ir.Type, tuple[Shape, str]] = {}
        if before is not None:
            self.move_to(before)

    def move_to(self, operation: ir.Operation) -> None:
        """From now on create operations before `operation`, at its location."""
        self._point = ir.InsertionPoint(operation)
        self.location = operation.location

    def inside(self, block: ir.Block) -> Trail:
        """Creates operations in a block, and lists them with those that are created here."""
        return Trail(ir.InsertionPoint(block), self.location, self._made)

    # Types.

    def tensor_type(self, shape: Sequence[int], element: str) -> ir.Type:
        """The type `tensor<shape x element>`."""
        key = (tuple(shape), element)
        found = self._types.get(key)
        if found is None:
            found = ir.RankedTensorType.get(key[0], ir.Type.parse(element), loc=self.location)
            self._types[key] = found
        return found

    def read_type(self, type_: ir.Type) -> tuple[Shape, str]:
        """Shape and element type of a tensor type; of others `()` and the type."""
        found = self._read.get(type_)
        if found is None:
            if isinstance(type_, ir.RankedTensorType):
                found = (tuple(type_.shape), str(type_.element_type))
            else:
                found = ((), str(type_))
            self._read[type_] = found
        return found

    def shape_of(self, value: Value) -> Shape:
        """Shape of a value."""
        return self.read_type(value.type)[0]

    def element_of(self, value: Value) -> str:
        """Element type of a value."""
        return self.read_type(value.type)[1]

    # Any operation.

    def create(
        self,
        name: str,
        operands: Sequence[Value],
        results: Sequence[ir.Type],
        attributes: Mapping[str, ir.Attribute] | None = None,
        regions: int = 0,
    ) -> ir.Operation:
        """The new operation `name`."""
        op = ir.Operation.create(
            name,
            results=list(results),
            operands=list(operands),
            attributes=dict(attributes or {}),
            regions=regions,
            loc=self.location,
            ip=self._place(),
        )
        self._note(op)
        return op

    def like(self, op: ir.Operation, operands: Sequence[Value], dim: int, size: int) -> Value:
        """The op, which has one result, on other operands, the result's `dim` of another size."""
        shape, element = self.read_type(op.results[0].type)
        copy = op.clone(ip=self._place()).operation
        for k, operand in enumerate(operands):
            copy.operands[k] = operand
        result: Value = copy.results[0]
        result.set_type(self.tensor_type((*shape[:dim], size, *shape[dim + 1 :]), element))
        self._note(copy)
        return result

    def _place(self) -> ir.InsertionPoint | None:
        """Where the next operation goes."""
        return self._point

    def _note(self, op: ir.Operation) -> None:
        """Take notice of what was created."""
        if self._made is not None:
            self._made.append(op)

    def value(
        self,
        name: str,
        operands: Sequence[Value],
        result: ir.Type,
        attributes: Mapping[str, ir.Attribute] | None = None,
    ) -> Value:
        """The single result of the new operation `name`."""
        created: Value = self.create(name, operands, [result], attributes).results[0]
        return created

    # Constants.

    def dense(self, attribute: ir.Attribute, type_: ir.Type) -> Value:
        """The constant that an attribute holds; of no elements nothing is repeated.

        XLA divides by what a splat repeats, which need not be there, and dies of 0.
        """
        if 0 in self.read_type(type_)[0]:
            attribute = ir.Attribute.parse(f"dense<> : {type_}")
        return self.value("stablehlo.constant", [], type_, {"value": attribute})

    def constant(self, value: int | float | bool, type_: ir.Type) -> Value:
        """A constant of any type, every element of which is `value`; complex ones are joined."""
        element = ir.RankedTensorType(type_).element_type
        if isinstance(element, ir.ComplexType):
            part = self.tensor_type(self.read_type(type_)[0], str(element.element_type))
            real = self.constant(value, part)
            return self.complex(real, self.constant(0, part) if value else real)
        scalar: ir.Attribute
        if isinstance(element, ir.IntegerType):
            scalar = ir.IntegerAttr.get(element, signed(int(value)))
        else:
            scalar = ir.FloatAttr.get(element, float(value))
        return self.dense(ir.DenseElementsAttr.get_splat(type_, scalar), type_)

    def constant_like(self, value: int | float | bool, like: Value) -> Value:
        """A constant of the type of `like`."""
        return self.constant(value, like.type)

    def identity(self, reduction: str, type_: ir.Type) -> Value:
        """What a reduction does not notice."""
        return self.dense(Reduction.named(reduction).identity_attr(type_), type_)

    def zeros(self, type_: ir.Type) -> Value:
        """Zeros of any type; of truth values false."""
        return self.constant(0, type_)

    def zero_of(self, value: Value) -> Value:
        """A scalar zero of the element type of a value."""
        return self.zeros(self.tensor_type((), self.element_of(value)))

    def iota(self, shape: Sequence[int], dim: int, element: str) -> Value:
        """A tensor whose elements are their index along `dim`."""
        attributes = {"iota_dimension": index_attr(dim)}
        return self.value("stablehlo.iota", [], self.tensor_type(shape, element), attributes)

    # Element by element.

    def _both(self, one: Operand, other: Operand) -> tuple[Value, Value]:
        """Two values, where a number stands for a constant of the type of the other one."""
        if isinstance(one, ir.Value):
            return one, other if isinstance(other, ir.Value) else self.constant_like(other, one)
        assert isinstance(other, ir.Value), "two numbers, of no type"
        return self.constant_like(one, other), other

    def binary(self, name: str, left: Operand, right: Operand) -> Value:
        """An element-wise op whose result has the type of `left`; `name` without the dialect."""
        left, right = self._both(left, right)
        return self.value(f"stablehlo.{name}", [left, right], left.type)

    def unary(self, name: str, value: Value) -> Value:
        """An element-wise op of one value, which gives its type; `name` without the dialect."""
        return self.value(f"stablehlo.{name}", [value], value.type)

    def combined(self, name: str, values: Iterable[Value]) -> Value:
        """One value, at least, after another joined by an element-wise op of two."""
        total, *others = values
        for value in others:
            total = self.binary(name, total, value)
        return total

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

    def select(self, predicate: Value, yes: Operand, no: Operand) -> Value:
        """`yes` where the predicate, a scalar or of the same shape, is true; `no` elsewhere."""
        yes, no = self._both(yes, no)
        return self.value("stablehlo.select", [predicate, yes, no], yes.type)

    def kept_before(
        self, value: Value, dim: int, index: Value, end: int, beyond: Operand = 0
    ) -> Value:
        """A value with `beyond` in the place of its elements of an index of `end` or more.

        `index` has that of each element along the dimension, a 1-D tensor.
        """
        inside = self.broadcast(self.compare("LT", index, end), self.shape_of(value), [dim])
        return self.select(inside, value, beyond)

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

    def parts(self, value: Value) -> list[Value]:
        """The real and the imaginary parts of complex numbers."""
        shape, element = self.read_type(value.type)
        type_ = self.tensor_type(shape, real_element(element))
        return [self.value(f"stablehlo.{part}", [value], type_) for part in ("real", "imag")]

    def complex(self, real: Value, imaginary: Value) -> Value:
        """Complex numbers of their parts."""
        shape, element = self.read_type(real.type)
        type_ = self.tensor_type(shape, f"complex<{element}>")
        return self.value("stablehlo.complex", [real, imaginary], type_)

    # Shapes.

    def reshape(self, value: Value, shape: Sequence[int]) -> Value:
        """`value` in another shape."""
        have, element = self.read_type(value.type)
        if have == tuple(shape):
            return value
        return self.value("stablehlo.reshape", [value], self.tensor_type(shape, element))

    def broadcast(self, value: Value, shape: Sequence[int], dims: Sequence[int] = ()) -> Value:
        """`value` spread over `shape`; its dimension i becomes dimension `dims[i]`."""
        have, element = self.read_type(value.type)
        if have == tuple(shape):
            return value
        attributes = {"broadcast_dimensions": integers_attr(dims)}
        type_ = self.tensor_type(shape, element)
        return self.value("stablehlo.broadcast_in_dim", [value], type_, attributes)

    def spread(self, value: Value, shape: Sequence[int], dims: Sequence[int]) -> Value:
        """As `broadcast`, to dimensions in any order."""
        order = sorted(range(len(dims)), key=lambda k: dims[k])
        return self.broadcast(self.transpose(value, order), shape, sorted(dims))

    def transpose(self, value: Value, order: Sequence[int]) -> Value:
        """`value`, whose dimension `order[i]` becomes dimension i."""
        if list(order) == list(range(len(order))):
            return value
        shape, element = self.read_type(value.type)
        type_ = self.tensor_type([shape[i] for i in order], element)
        return self.value(
            "stablehlo.transpose", [value], type_, {"permutation": integers_attr(order)}
        )

    def slice(
        self,
        value: Value,
        starts: Sequence[int],
        limits: Sequence[int],
        strides: Sequence[int] | None = None,
    ) -> Value:
        """The elements from `starts` on and before `limits`, one of every `strides`."""
        strides = strides or [1] * len(starts)
        attributes = {
            "start_indices": integers_attr(starts),
            "limit_indices": integers_attr(limits),
            "strides": integers_attr(strides),
        }
        rows = zip(starts, limits, strides, strict=True)
        shape = [-((start - limit) // stride) for start, limit, stride in rows]
        type_ = self.tensor_type(shape, self.element_of(value))
        return self.value("stablehlo.slice", [value], type_, attributes)

    def cut(self, value: Value, dim: int, start: int, count: int, stride: int = 1) -> Value:
        """`count` elements from `start` on along a dimension, one of every `stride`."""
        shape = self.shape_of(value)
        if count == shape[dim]:
            return value
        starts, limits, strides = [0] * len(shape), list(shape), [1] * len(shape)
        strides[dim] = stride if count > 1 else 1
        starts[dim] = start
        limits[dim] = start + (count - 1) * stride + 1 if count else start
        return self.slice(value, starts, limits, strides)

    def dynamic_slice(self, value: Value, starts: Sequence[Value], sizes: Sequence[int]) -> Value:
        """`sizes` elements of a value from computed places on, a scalar for each dimension."""
        type_ = self.tensor_type(sizes, self.element_of(value))
        attributes = {"slice_sizes": integers_attr(sizes)}
        return self.value("stablehlo.dynamic_slice", [value, *starts], type_, attributes)

    def updated(self, value: Value, new: Value, starts: Sequence[Value]) -> Value:
        """A value with another one written over it, from computed places on."""
        return self.value("stablehlo.dynamic_update_slice", [value, new, *starts], value.type)

    def starts_along(self, value: Value, dim: int, start: Value) -> list[Value]:
        """The places of `value` from `start` on along a dimension, from 0 on along others."""
        zero = self.constant_like(0, start)
        return [start if d == dim else zero for d in range(len(self.shape_of(value)))]

    def stretch(self, value: Value, dim: int, start: Value, count: int) -> Value:
        """`count` elements of a value along a dimension, from a computed place on."""
        shape = self.shape_of(value)
        sizes = (*shape[:dim], count, *shape[dim + 1 :])
        return self.dynamic_slice(value, self.starts_along(value, dim, start), sizes)

    def gather(
        self,
        value: Value,
        index: Value,
        sizes: Sequence[int],
        numbers: stablehlo.GatherDimensionNumbers,
        shape: Sequence[int],
    ) -> Value:
        """A gather of windows of `sizes` elements at any indices; the result has `shape`."""
        attributes = {
            "dimension_numbers": numbers,
            "slice_sizes": integers_attr(sizes),
            "indices_are_sorted": ir.BoolAttr.get(False),
        }
        type_ = self.tensor_type(shape, self.element_of(value))
        return self.value("stablehlo.gather", [value, index], type_, attributes)

    def reversed(self, value: Value, dim: int) -> Value:
        """A value whose last element along a dimension comes first."""
        attributes = {"dimensions": integers_attr([dim])}
        return self.value("stablehlo.reverse", [value], value.type, attributes)

    def joined(self, values: Sequence[Value], dim: int) -> Value:
        """Values one after another along a dimension."""
        if len(values) == 1:
            return values[0]
        shape, element = self.read_type(values[0].type)
        size = sum(self.shape_of(value)[dim] for value in values)
        type_ = self.tensor_type((*shape[:dim], size, *shape[dim + 1 :]), element)
        return self.value("stablehlo.concatenate", values, type_, {"dimension": index_attr(dim)})

    def pad(
        self,
        value: Value,
        fill: Value,
        lows: Sequence[int],
        highs: Sequence[int],
        between: Sequence[int] | None = None,
    ) -> Value:
        """A value with a scalar around it, and between its elements."""
        shape, element = self.read_type(value.type)
        between = between or [0] * len(shape)
        if not any((*lows, *highs, *between)):
            return value
        attributes = {
            "edge_padding_low": integers_attr(lows),
            "edge_padding_high": integers_attr(highs),
            "interior_padding": integers_attr(between),
        }
        rows = zip(shape, lows, highs, between, strict=True)
        padded = [n + low + high + max(n - 1, 0) * gap for n, low, high, gap in rows]
        type_ = self.tensor_type(padded, element)
        return self.value("stablehlo.pad", [value, fill], type_, attributes)

    def lengthened(
        self, value: Value, dim: int, before: int, size: int, fill: Value | None = None
    ) -> Value:
        """A value that is `size` long along a dimension, itself behind `before` elements of zero.

        With `fill`, a scalar, that stands there in the place of zero.
        """
        shape = self.shape_of(value)
        if shape[dim] == size:
            return value
        fill = fill or self.zero_of(value)
        lows = [before if d == dim else 0 for d in range(len(shape))]
        highs = [size - before - n if d == dim else 0 for d, n in enumerate(shape)]
        return self.pad(value, fill, lows, highs)

    # Reductions.

    def reduced(self, value: Value, dim: int, reduction: str) -> Value:
        """A value reduced along one dimension."""
        shape, element = self.read_type(value.type)
        scalar = self.tensor_type((), element)
        start = self.identity(reduction, scalar)
        type_ = self.tensor_type((*shape[:dim], *shape[dim + 1 :]), element)
        attributes = {"dimensions": integers_attr([dim])}
        op = self.create("stablehlo.reduce", [value, start], [type_], attributes, regions=1)
        self.reduction_body(op, Reduction.named(reduction).op, scalar)
        result: Value = op.results[0]
        return result

    def reduction_body(self, op: ir.Operation, name: str, scalar: ir.Type) -> None:
        """Give `op` a region that combines two scalars by the operation `name`."""
        body = op.regions[0].blocks.append(scalar, scalar, arg_locs=[op.location, op.location])
        at = ir.InsertionPoint(body)
        combined = ir.Operation.create(
            name, results=[scalar], operands=list(body.arguments), loc=op.location, ip=at
        )
        ir.Operation.create(
            "stablehlo.return", operands=[combined.results[0]], loc=op.location, ip=at
        )


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

    def _note(self, op: ir.Operation) -> None:
        super()._note(op)
        self._last = op
