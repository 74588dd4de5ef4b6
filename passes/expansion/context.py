"""What an expander sees of its op, and what it may create."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dtensor.dialect.attributes import axes_attr
from dtensor.dialect.axes import AxisRef
from dtensor.dialect.layout import Layout
from dtensor.dialect.mesh import Mesh
from dtensor.dialect.mlir import ir
from dtensor.dialect.names import ALGORITHM, AXES, AXIS_INDEX, OPERANDS, RESULTS
from dtensor.passes.expansion import indices

if TYPE_CHECKING:
    from dtensor.passes.base import PassState

Shape = tuple[int, ...]
Relayout = Callable[["ExpansionContext", "ir.Value[Any]", Layout, Layout, Shape], "ir.Value[Any]"]


class ExpansionContext:
    """Creates operations before the op at hand, at its location, on local values.

    Attributes:
        mesh: the mesh of the program.
        state: what the passes of this run share.
        free: the mesh axes that the manual region at hand leaves to the planner; None outside.
    """

    def __init__(self, mesh: Mesh, state: PassState | None, relayout: Relayout) -> None:
        self.mesh = mesh
        self.state = state
        self.free: Sequence[str] | None = None
        self._relayout = relayout
        self._location: ir.Location | None = None
        self._point: ir.InsertionPoint | None = None
        self._types: dict[tuple[Shape, str], ir.Type] = {}
        self._read: dict[ir.Type, tuple[Shape, str]] = {}

    def move_to(self, operation: ir.Operation) -> None:
        """From now on create operations before `operation`, at its location."""
        self._point = ir.InsertionPoint(operation)
        self._location = operation.location

    # Types.

    def tensor_type(self, shape: Sequence[int], element: str) -> ir.Type:
        """The type `tensor<shape x element>`; `element` as written: `f32`, `complex<f32>`."""
        key = (tuple(shape), element)
        found = self._types.get(key)
        if found is None:
            found = ir.RankedTensorType.get(key[0], ir.Type.parse(element))
            self._types[key] = found
        return found

    def read_type(self, type_: ir.Type) -> tuple[Shape, str]:
        """Shape and element type, as written, of a tensor type; of others `()` and the type."""
        found = self._read.get(type_)
        if found is None:
            if isinstance(type_, ir.RankedTensorType):
                found = (tuple(type_.shape), str(type_.element_type))
            else:
                found = ((), str(type_))
            self._read[type_] = found
        return found

    def shape_of(self, value: ir.Value[Any]) -> Shape:
        """Shape of a (local) value."""
        return self.read_type(value.type)[0]

    def element_of(self, value: ir.Value[Any]) -> str:
        """Element type of a value, as written."""
        return self.read_type(value.type)[1]

    # Operations.

    def create(
        self,
        name: str,
        operands: Sequence[ir.Value[Any]],
        results: Sequence[ir.Type],
        attributes: Mapping[str, ir.Attribute] | None = None,
    ) -> ir.Operation:
        """The new operation `name`, before the op at hand."""
        return ir.Operation.create(
            name,
            results=list(results),
            operands=list(operands),
            attributes=dict(attributes or {}),
            loc=self._location,
            ip=self._point,
        )

    def value(
        self,
        name: str,
        operands: Sequence[ir.Value[Any]],
        result: ir.Type,
        attributes: Mapping[str, ir.Attribute] | None = None,
    ) -> ir.Value[Any]:
        """The single result of the new operation `name`."""
        created: ir.Value[Any] = self.create(name, operands, [result], attributes).results[0]
        return created

    def clone(self, operation: ir.Operation) -> ir.Operation:
        """A copy of `operation`, without layouts, before the op at hand."""
        copy = operation.clone(ip=self._point)
        for name in (ALGORITHM, OPERANDS, RESULTS):
            if name in copy.attributes:
                del copy.attributes[name]
        return copy.operation

    def constant(self, value: int | float | bool, type_: ir.Type) -> ir.Value[Any]:
        """A constant of type `type_`, every element of which is `value`."""
        element = ir.RankedTensorType(type_).element_type
        scalar: ir.Attribute
        if isinstance(element, ir.IntegerType):
            scalar = ir.IntegerAttr.get(element, int(value))
        else:
            scalar = ir.FloatAttr.get(element, float(value))
        attribute = ir.DenseElementsAttr.get_splat(type_, scalar)
        return self.value("stablehlo.constant", [], type_, {"value": attribute})

    def constant_like(self, value: int | float | bool, like: ir.Value[Any]) -> ir.Value[Any]:
        """A constant of the type of `like`."""
        return self.constant(value, like.type)

    def binary(self, name: str, left: ir.Value[Any], right: ir.Value[Any]) -> ir.Value[Any]:
        """An element-wise op whose result has the type of `left`; `name` without the dialect."""
        return self.value(f"stablehlo.{name}", [left, right], left.type)

    def times(self, value: ir.Value[Any], factor: int) -> ir.Value[Any]:
        """`value * factor`."""
        if factor == 1:
            return value
        return self.binary("multiply", value, self.constant_like(factor, value))

    def over(self, value: ir.Value[Any], divisor: int) -> ir.Value[Any]:
        """`value / divisor`, towards zero."""
        if divisor == 1:
            return value
        return self.binary("divide", value, self.constant_like(divisor, value))

    def modulo(self, value: ir.Value[Any], divisor: int) -> ir.Value[Any]:
        """`value % divisor`, with the sign of `value`."""
        return self.binary("remainder", value, self.constant_like(divisor, value))

    def compare(self, direction: str, left: ir.Value[Any], right: ir.Value[Any]) -> ir.Value[Any]:
        """An i1 tensor: `left` compared with `right`; `direction` is EQ, NE, LT, LE, GT or GE."""
        attribute = ir.Attribute.parse(f"#stablehlo<comparison_direction {direction}>")
        type_ = self.tensor_type(self.shape_of(left), "i1")
        return self.value(
            "stablehlo.compare", [left, right], type_, {"comparison_direction": attribute}
        )

    def select(
        self, predicate: ir.Value[Any], yes: ir.Value[Any], no: ir.Value[Any]
    ) -> ir.Value[Any]:
        """`yes` where the predicate, a scalar or of the same shape, is true; `no` elsewhere."""
        return self.value("stablehlo.select", [predicate, yes, no], yes.type)

    def convert(self, value: ir.Value[Any], element: str) -> ir.Value[Any]:
        """`value` with elements of another type."""
        shape, have = self.read_type(value.type)
        if have == element:
            return value
        return self.value("stablehlo.convert", [value], self.tensor_type(shape, element))

    def reshape(self, value: ir.Value[Any], shape: Sequence[int]) -> ir.Value[Any]:
        """`value` in another shape."""
        have, element = self.read_type(value.type)
        if have == tuple(shape):
            return value
        return self.value("stablehlo.reshape", [value], self.tensor_type(shape, element))

    def broadcast(
        self, value: ir.Value[Any], shape: Sequence[int], dims: Sequence[int] = ()
    ) -> ir.Value[Any]:
        """`value` spread over `shape`; its dimension i becomes dimension `dims[i]`."""
        have, element = self.read_type(value.type)
        if have == tuple(shape):
            return value
        attributes = {"broadcast_dimensions": ir.DenseI64ArrayAttr.get(list(dims))}
        type_ = self.tensor_type(shape, element)
        return self.value("stablehlo.broadcast_in_dim", [value], type_, attributes)

    def iota(self, shape: Sequence[int], dim: int, element: str) -> ir.Value[Any]:
        """A tensor whose elements are their index along `dim`."""
        i64 = ir.IntegerType.get_signless(64)
        attributes = {"iota_dimension": ir.IntegerAttr.get(i64, dim)}
        return self.value("stablehlo.iota", [], self.tensor_type(shape, element), attributes)

    # What depends on the device.

    def axis_index(self, axes: Sequence[AxisRef]) -> ir.Value[Any]:
        """The device's coordinate along `axes`, the first major: an i32 scalar."""
        return self.value(AXIS_INDEX, [], self.tensor_type((), "i32"), {AXES: self.axes(axes)})

    def axes(self, axes: Sequence[AxisRef]) -> ir.Attribute:
        """The attribute `#dtensor.axes<...>`."""
        return axes_attr(self.mesh, axes)

    def shard_offset(self, layout: Layout, dim: int, size: int) -> ir.Value[Any] | None:
        """What the device's axes add to the global index along `dim`: an i32 or i64 scalar.

        None if the dimension is whole. If it is contiguous, this is the index of the shard's first
        element.
        """
        return indices.shard_offset(self, layout.dims[dim], size, indices.index_element(size))

    def global_index(self, layout: Layout, dim: int, size: int, element: str) -> ir.Value[Any]:
        """The global index of each element of this shard along `dim`: a 1-D tensor.

        Args:
            layout: the layout of the tensor.
            dim: the dimension.
            size: its global size in elements.
            element: element type of the result, as written.
        """
        return indices.global_index(self, layout.dims[dim], size, element)

    def localise_index(
        self, index: ir.Value[Any], layout: Layout, dim: int, size: int
    ) -> tuple[ir.Value[Any], ir.Value[Any]]:
        """Local indices for global ones, and an i1 tensor: whether this shard holds the element.

        Args:
            index: global indices along `dim`, of any integer type, any rank; out of range is
                allowed and nobody's.
            layout: the layout of the tensor that is indexed.
            dim: the dimension.
            size: its global size in elements.

        Returns:
            Local indices (i32, or i64 where i32 might not do), meaningless where the second is
            false; and the i1 tensor.
        """
        return indices.localise_index(self, index, layout.dims[dim], size)

    def relayout(
        self, value: ir.Value[Any], before: Layout, after: Layout, global_shape: Sequence[int]
    ) -> ir.Value[Any]:
        """`value` moved from one layout to another, by the cheapest chain of steps."""
        if before == after:
            return value
        return self._relayout(self, value, before, after, tuple(global_shape))


@dataclass
class LocalOp:
    """One op while it is expanded.

    Attributes:
        operation: its operands are local already; its result types are still global.
        name: name of the op.
        operand_layouts: how the operands are laid out, as the rule wanted them.
        result_layouts: how the results must be laid out.
        operand_shapes: global shapes.
        result_shapes: global shapes.
        ctx: creates operations before this one.
    """

    operation: ir.Operation
    name: str
    operand_layouts: tuple[Layout, ...]
    result_layouts: tuple[Layout, ...]
    operand_shapes: tuple[Shape, ...]
    result_shapes: tuple[Shape, ...]
    ctx: ExpansionContext

    @property
    def operands(self) -> list[ir.Value[Any]]:
        """The local operands."""
        return list(self.operation.operands)

    def local_result_shape(self, index: int = 0) -> Shape:
        """Shape of this device's part of a result."""
        return self.result_layouts[index].local_shape(self.result_shapes[index])

    def result_element(self, index: int = 0) -> str:
        """Element type of a result, as written."""
        return self.ctx.read_type(self.operation.results[index].type)[1]

    def set_integers(self, name: str, values: Sequence[int]) -> None:
        """Write an attribute of the form `array<i64: ...>`."""
        self.operation.attributes[name] = ir.DenseI64ArrayAttr.get(list(values))


# None: adapted in place, ExpandPass sets the result types. Otherwise local replacement values.
Expander = Callable[[LocalOp], "Sequence[ir.Value[Any]] | None"]
