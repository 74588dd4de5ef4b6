"""What an expander sees of its op, and what it may create."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dtensor.dialect.attributes import axes_attr
from dtensor.dialect.axes import AxisRef
from dtensor.dialect.dim import Dim
from dtensor.dialect.layout import Layout
from dtensor.dialect.mesh import Mesh
from dtensor.dialect.mlir import Value, forget, ir
from dtensor.dialect.names import (
    ALGORITHM,
    ALL_REDUCE,
    AXES,
    AXIS_INDEX,
    OPERANDS,
    REDUCTION,
    RESULTS,
)
from dtensor.passes.builder import Builder
from dtensor.passes.creation import Shape, integers_attr
from dtensor.passes.expansion.indices import digits_of, index_element, signed_index

if TYPE_CHECKING:
    from dtensor.passes.base import PassState

Relayout = Callable[["ExpansionContext", "Value", Layout, Layout, Shape], "Value"]


class ExpansionContext(Builder):
    """Creates operations before the op at hand, at its location, on local values.

    Attributes:
        mesh: the mesh of the program.
        state: what the passes of this run share.
        free: the mesh axes that the manual region at hand leaves to the planner; None outside.
    """

    def __init__(self, mesh: Mesh, state: PassState | None, relayout: Relayout) -> None:
        super().__init__()
        self.mesh = mesh
        self.state = state
        self.free: Sequence[str] | None = None
        self._relayout = relayout

    def clone(self, operation: ir.Operation) -> ir.Operation:
        """A copy of `operation`, without layouts, before the op at hand."""
        copy = operation.clone(ip=self._point)
        forget(copy.operation, ALGORITHM, OPERANDS, RESULTS)
        return copy.operation

    @contextmanager
    def in_place_of(self, make: Builder) -> Iterator[None]:
        """Meanwhile, creates operations where `make` does: in a turn of a loop."""
        point, self._point = self._point, make._place()
        yield
        self._point = point

    # What depends on the device.

    def axis_index(self, axes: Sequence[AxisRef]) -> Value:
        """The device's coordinate along `axes`, the first major: an i32 scalar."""
        return self.value(AXIS_INDEX, [], self.tensor_type((), "i32"), {AXES: self.axes(axes)})

    def axes(self, axes: Sequence[AxisRef]) -> ir.Attribute:
        """The attribute `#dtensor.axes<...>`."""
        return axes_attr(self.mesh, axes)

    def is_shard(self, axes: Sequence[AxisRef], number: int) -> Value:
        """Whether the device's coordinate along `axes` is a number: an i1 scalar."""
        index = self.axis_index(axes)
        return self.compare("EQ", index, number)

    def all_reduced(self, value: Value, axes: Sequence[AxisRef], reduction: str) -> Value:
        """What the devices along `axes` have, combined."""
        attributes = {AXES: self.axes(axes), REDUCTION: ir.StringAttr.get(reduction)}
        return self.value(ALL_REDUCE, [value], value.type, attributes)

    def shard_offset(self, layout: Layout, dim: int, size: int) -> Value | None:
        """What the device's axes add to the global index along `dim`: an i32 or i64 scalar.

        None if the dimension is whole. If it is contiguous, this is the index of the shard's first
        element.
        """
        return self._offset(layout.dims[dim], size, index_element(size))

    def global_index(self, layout: Layout, dim: int, size: int, element: str) -> Value:
        """The global index of each element of this shard along `dim`: a 1-D tensor.

        `size` is the global one, in elements; the result has elements of this type.
        """
        word, work = layout.dims[dim], index_element(size)
        inner = [digit for digit in digits_of(word, size) if not digit.axes]
        shape = tuple(digit.size for digit in inner)
        parts = (
            self.times(self.iota(shape, position, work), digit.global_weight)
            for position, digit in enumerate(inner)
        )
        if inner:
            index = self.reshape(self.combined("add", parts), (math.prod(shape),))
        else:
            index = self.constant(0, self.tensor_type((1,), work))
        offset = self._offset(word, size, work)
        if offset is not None:
            index = self.binary("add", index, offset)
        return self.convert(index, element)

    def localise_index(
        self, index: Value, layout: Layout, dim: int, size: int
    ) -> tuple[Value, Value]:
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
        word = layout.dims[dim]
        element = signed_index(index_element(size), self.element_of(index))
        index = self.convert(index, element)
        if not word.is_contiguous:
            return self._localise_digits(index, word, size)
        offset = self._offset(word, size, self.element_of(index))
        if offset is not None:
            index = self.binary("subtract", index, offset)
        return index, self.within(index, 0, size // word.split)

    def _offset(self, dim: Dim, size: int, element: str) -> Value | None:
        parts = [
            self.times(self.convert(self.axis_index(digit.axes), element), digit.global_weight)
            for digit in digits_of(dim, size)
            if digit.axes
        ]
        return self.combined("add", parts) if parts else None

    def _localise_digits(self, index: Value, dim: Dim, size: int) -> tuple[Value, Value]:
        element = self.element_of(index)
        mine = self.within(index, 0, size)
        local: list[Value] = []
        for digit in digits_of(dim, size):
            value = self.modulo(self.over(index, digit.global_weight), digit.size)
            if digit.axes:
                here = self.convert(self.axis_index(digit.axes), element)
                mine = self.binary("and", mine, self.compare("EQ", value, here))
                continue
            local.append(self.times(value, digit.local_weight))
        return (self.combined("add", local) if local else self.constant_like(0, index)), mine

    def shard_of(self, whole: Value, layout: Layout, global_shape: Sequence[int]) -> Value:
        """This device's part of a value of which it has all."""
        complete = Layout.replicated(layout.mesh, layout.rank)
        return self.relayout(whole, complete, layout, global_shape)

    def relayout(
        self, value: Value, before: Layout, after: Layout, global_shape: Sequence[int]
    ) -> Value:
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
    def operands(self) -> list[Value]:
        """The local operands."""
        return list(self.operation.operands)

    def local_result_shape(self, index: int = 0) -> Shape:
        """Shape of this device's part of a result."""
        return self.result_layouts[index].local_shape(self.result_shapes[index])

    def result_element(self, index: int = 0) -> str:
        """Element type of a result, as written."""
        return self.ctx.read_type(self.operation.results[index].type)[1]

    def local_result_type(self, index: int = 0) -> ir.Type:
        """Type of this device's part of a result."""
        return self.ctx.tensor_type(self.local_result_shape(index), self.result_element(index))

    def again(
        self, operands: Sequence[Value] = (), types: Sequence[ir.Type] | None = None
    ) -> ir.Operation:
        """The op once more, before this one, on other first operands.

        Results have the local types, unless others are given.
        """
        copy = self.ctx.clone(self.operation)
        for k, value in enumerate(operands):
            copy.operands[k] = value
        for k, result in enumerate(copy.results):
            result.set_type(self.local_result_type(k) if types is None else types[k])
        return copy

    @contextmanager
    def changed(self) -> Iterator[None]:
        """Meanwhile, operands and attributes may be others: `again` copies them."""
        operation, operands = self.operation, self.operands
        attributes = {name: operation.attributes[name] for name in operation.attributes}
        yield
        for k, value in enumerate(operands):
            operation.operands[k] = value
        for name in list(operation.attributes):
            if name not in attributes:
                del operation.attributes[name]
        for name, attribute in attributes.items():
            operation.attributes[name] = attribute

    def set_integers(self, name: str, values: Sequence[int]) -> None:
        """Write an attribute of the form `array<i64: ...>`."""
        self.operation.attributes[name] = integers_attr(values)


# None: adapted in place, ExpandPass sets the result types. Otherwise local replacement values.
Expander = Callable[[LocalOp], "Sequence[Value] | None"]
