"""Creating any operation at a place, and constants: types are those of the operands."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence

from dtensor.dialect.attributes import index_attr, number_attr
from dtensor.dialect.mlir import Value, ir
from dtensor.passes.ops.elements import real_element
from dtensor.passes.ops.reduction import Reduction

Shape = tuple[int, ...]


def integers_attr(values: Sequence[int]) -> ir.Attribute:
    """`array<i64: ...>`."""
    return ir.DenseI64ArrayAttr.get(list(values))


def matrix_attr(rows: Sequence[Sequence[int]]) -> ir.Attribute:
    """`dense<[[...], ...]> : tensor<n x m x i64>`; without a row, of pairs."""
    flat = array("q", [number for row in rows for number in row])
    i64 = ir.IntegerType.get_signless(64)
    shape = [len(rows), len(rows[0]) if rows else 2]
    return ir.DenseElementsAttr.get(flat, shape=shape, type=i64)


def place_behind(value: Value) -> tuple[ir.InsertionPoint, ir.Location]:
    """Where operations go right behind a value, ahead of all that read it; and its location."""
    owner = value.owner
    if isinstance(owner, ir.Block):
        return ir.InsertionPoint.at_block_begin(owner), value.location
    return ir.InsertionPoint.after(owner.operation), owner.operation.location


def with_sizes(shape: Sequence[int], dim: int, *sizes: int, count: int = 1) -> Shape:
    """A shape with other sizes in the place of `count` of its dimensions, from one on."""
    return (*shape[:dim], *sizes, *shape[dim + count :])


class Creator:
    """Creates operations before the one at hand, at its location.

    Elements are written as MLIR does: `f32`, `complex<f32>`.

    Args:
        before: the operation at hand; another one with `move_to`.
        made: what is created is listed here too.

    Attributes:
        made: as given; None if nobody asks.
        location: of what is created.
    """

    def __init__(
        self, before: ir.Operation | None = None, made: list[ir.Operation] | None = None
    ) -> None:
        self.made = made
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
        self.note(op)
        return op

    def again(
        self,
        op: ir.Operation,
        operands: Sequence[Value],
        shapes: Sequence[Shape] | None = None,
        attributes: Mapping[str, ir.Attribute] | None = None,
        element: str | None = None,
    ) -> ir.Operation:
        """The op once more, at its own location, with all that it holds, on other first operands.

        Args:
            op: the op.
            operands: what it reads in the place of its first operands.
            shapes: the shapes of its results, if others.
            attributes: what it says otherwise, or besides.
            element: the element type of its results, if another one.
        """
        copy = op.clone(ip=self._place()).operation
        for k, operand in enumerate(operands):
            copy.operands[k] = operand
        for name, attribute in (attributes or {}).items():
            copy.attributes[name] = attribute
        if shapes is not None or element is not None:
            for result, shape in zip(
                copy.results, shapes or map(self.shape_of, op.results), strict=True
            ):
                result.set_type(self.tensor_type(shape, element or self.element_of(result)))
        self.note(copy)
        return copy

    def like(self, op: ir.Operation, operands: Sequence[Value], dim: int, size: int) -> Value:
        """As `again` of an op of one result, of which one dimension is of another size."""
        shape = with_sizes(self.shape_of(op.results[0]), dim, size)
        result: Value = self.again(op, operands, [shape]).results[0]
        return result

    def _place(self) -> ir.InsertionPoint | None:
        """Where the next operation goes."""
        return self._point

    def note(self, op: ir.Operation) -> None:
        """Take notice of what was created."""
        if self.made is not None:
            self.made.append(op)

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
        return self.splat(number_attr(element, value), type_)

    def splat(self, scalar: ir.Attribute, type_: ir.Type) -> Value:
        """The constant every element of which is what an attribute says."""
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

    # Complex numbers.

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
