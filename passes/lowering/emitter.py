"""What the lowerings of all collectives share: attributes made once, channels, coordinates."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Any

from dtensor.dialect.axes import AxisRef
from dtensor.dialect.mesh import Mesh
from dtensor.dialect.mlir import ir
from dtensor.passes.ops.reduction import Reduction

Tensor = tuple[tuple[int, ...], ir.Type]  # shape and element type


class Emitter:
    """Creates StableHLO operations in place of the dtensor operation at hand.

    A device is known to the program by `partition_id`, its row-major position in the mesh; replica
    groups list these positions. Each function reads `partition_id` once, at its start, and each
    coordinate is computed once.
    """

    def __init__(self, is_variadic: bool = False) -> None:
        self.is_variadic = is_variadic  # whether an all_reduce may have several operands
        self.i64 = ir.IntegerType.get_signless(64)
        self.i32 = ir.IntegerType.get_signless(32)
        self.ui32 = ir.IntegerType.get_unsigned(32)
        self.scalar_i32 = ir.RankedTensorType.get([], self.i32)
        self._channels = 0
        self._unit = ir.UnitAttr.get()
        self._groups: dict[tuple[Mesh, tuple[AxisRef, ...]], ir.Attribute] = {}
        self._tensors: dict[ir.Type, Tensor] = {}
        self._block: ir.Block | None = None
        self._head: ir.Operation | None = None  # the last op of the function's preamble
        self._coordinates: dict[tuple[Mesh, tuple[AxisRef, ...]], ir.Value[Any]] = {}
        self._constants: dict[int, ir.Value[Any]] = {}
        self._partition: ir.Value[Any] | None = None
        self._location: ir.Location | None = None
        self._point: ir.InsertionPoint | None = None

    def enter_function(self, block: ir.Block) -> None:
        """From now on, coordinates are computed at the start of this function's first block."""
        self._block = block
        self._head = None
        self._coordinates = {}
        self._constants = {}
        self._partition = None

    def move_to(self, operation: ir.Operation) -> None:
        """From now on, create operations before `operation`, at its location."""
        self._point = ir.InsertionPoint(operation)
        self._location = operation.location

    # Types.

    def tensor(self, type_: ir.Type) -> Tensor:
        """Shape and element type of a tensor type."""
        found = self._tensors.get(type_)
        if found is None:
            ranked = ir.RankedTensorType(type_)
            found = self._tensors[type_] = (tuple(ranked.shape), ranked.element_type)
        return found

    def tensor_type(self, shape: Sequence[int], element: ir.Type) -> ir.Type:
        """The type `tensor<shape x element>`."""
        return ir.RankedTensorType.get(list(shape), element)

    # Operations.

    def create(
        self,
        name: str,
        operands: Sequence[ir.Value[Any]],
        results: Sequence[ir.Type],
        attributes: dict[str, ir.Attribute] | None = None,
        regions: int = 0,
    ) -> ir.Operation:
        """The new operation `name`, before the operation at hand."""
        return ir.Operation.create(
            name,
            results=list(results),
            operands=list(operands),
            attributes=attributes or {},
            regions=regions,
            loc=self._location,
            ip=self._point,
        )

    def reshape(self, value: ir.Value[Any], shape: Sequence[int]) -> ir.Value[Any]:
        """`value` in another shape."""
        type_ = self.tensor_type(shape, self.tensor(value.type)[1])
        reshaped: ir.Value[Any] = self.create("stablehlo.reshape", [value], [type_]).results[0]
        return reshaped

    def integer(self, value: int) -> ir.Attribute:
        """`value : i64`."""
        return ir.IntegerAttr.get(self.i64, value)

    def integers(self, values: Sequence[int]) -> ir.Attribute:
        """`array<i64: ...>`."""
        return ir.DenseI64ArrayAttr.get(list(values))

    def matrix(self, rows: Sequence[Sequence[int]]) -> ir.Attribute:
        """`dense<[[...], ...]> : tensor<n x m x i64>`; at least one row."""
        flat = array("q", [number for row in rows for number in row])
        return ir.DenseElementsAttr.get(flat, shape=[len(rows), len(rows[0])], type=self.i64)

    # Collectives.

    def channel(self) -> ir.Attribute:
        """A channel that no other collective of this module has."""
        self._channels += 1
        return ir.Attribute.parse(f"#stablehlo.channel_handle<handle = {self._channels}, type = 1>")

    def groups(self, mesh: Mesh, axes: tuple[AxisRef, ...]) -> ir.Attribute:
        """The mesh positions that differ on `axes`, one row per group, the first axis major."""
        key = (mesh, axes)
        found = self._groups.get(key)
        if found is None:
            found = self._groups[key] = self.matrix(mesh.groups(axes))
        return found

    def collective(
        self,
        name: str,
        operands: Sequence[ir.Value[Any]],
        results: Sequence[ir.Type],
        mesh: Mesh,
        axes: tuple[AxisRef, ...],
        attributes: dict[str, ir.Attribute],
        reduction: str = "",
    ) -> ir.Operation:
        """The StableHLO collective `name` over `axes`, with a reduction body if it needs one."""
        attributes = {
            **attributes,
            "replica_groups": self.groups(mesh, axes),
            "channel_handle": self.channel(),
        }
        if name == "stablehlo.all_to_all":
            # XLA's CPU code cuts the operand, and fails where it gives the parts two memory orders.
            types = [operand.type for operand in operands]
            operands = self.create("stablehlo.optimization_barrier", operands, types, {}).results
        else:
            attributes["use_global_device_ids"] = self._unit
        if not reduction:
            return self.create(name, operands, results, attributes)
        op = self.create(name, operands, results, attributes, regions=1)
        element = self.tensor(operands[0].type)[1]
        combiner = Reduction.named(reduction).on(str(element)).op
        self.reduction_body(op, combiner, self.tensor_type((), element))
        return op

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

    # Coordinates.

    def coordinate(self, mesh: Mesh, axes: tuple[AxisRef, ...]) -> ir.Value[Any]:
        """This device's coordinate along `axes`, the first major: an i32 scalar."""
        key = (mesh, axes)
        found = self._coordinates.get(key)
        if found is None:
            found = self._coordinates[key] = self._coordinate(mesh, axes)
        return found

    def _coordinate(self, mesh: Mesh, axes: tuple[AxisRef, ...]) -> ir.Value[Any]:
        """Neighbouring axes of the mesh are one digit of the position; digits are summed."""
        total: ir.Value[Any] | None = None
        weight = 1
        for stride, size in reversed(position_digits(mesh, axes)):
            part = self._digit(mesh.size, stride, size)
            if weight != 1:
                part = self._arithmetic("multiply", part, weight)
            if total is not None:
                part = self._preamble("stablehlo.add", [part, total], self.scalar_i32)
            total = part
            weight *= size
        return self.constant(0) if total is None else total

    def _digit(self, devices: int, stride: int, size: int) -> ir.Value[Any]:
        value = self._partition_id()
        if stride != 1:
            value = self._arithmetic("divide", value, stride)
        if stride * size != devices:
            value = self._arithmetic("remainder", value, size)
        return value

    def _arithmetic(self, name: str, value: ir.Value[Any], number: int) -> ir.Value[Any]:
        operands = [value, self.constant(number)]
        return self._preamble(f"stablehlo.{name}", operands, self.scalar_i32)

    def _partition_id(self) -> ir.Value[Any]:
        if self._partition is None:
            unsigned = ir.RankedTensorType.get([], self.ui32)
            number = self._preamble("stablehlo.partition_id", [], unsigned)
            self._partition = self._preamble("stablehlo.convert", [number], self.scalar_i32)
        return self._partition

    def constant(self, value: int) -> ir.Value[Any]:
        """An i32 scalar, at the start of the function."""
        found = self._constants.get(value)
        if found is None:
            scalar = ir.IntegerAttr.get(self.i32, value)
            attribute = ir.DenseElementsAttr.get_splat(self.scalar_i32, scalar)
            found = self._preamble("stablehlo.constant", [], self.scalar_i32, {"value": attribute})
            self._constants[value] = found
        return found

    def _preamble(
        self,
        name: str,
        operands: Sequence[ir.Value[Any]],
        result: ir.Type,
        attributes: dict[str, ir.Attribute] | None = None,
    ) -> ir.Value[Any]:
        """A new operation behind those made before it at the start of the function."""
        assert self._block is not None
        if self._head is None:
            point = ir.InsertionPoint.at_block_begin(self._block)
        else:
            point = ir.InsertionPoint.after(self._head)
        self._head = ir.Operation.create(
            name,
            results=[result],
            operands=list(operands),
            attributes=attributes or {},
            loc=self._location,
            ip=point,
        )
        value: ir.Value[Any] = self._head.results[0]
        return value


def position_digits(mesh: Mesh, axes: Sequence[AxisRef]) -> list[tuple[int, int]]:
    """The axes as digits of a mesh position, `(stride, size)`, major first; neighbours joined."""
    digits: list[tuple[int, int]] = []
    for axis in axes:
        stride, size = mesh.position_stride(axis), axis.size
        if size == 1:
            continue
        if digits and digits[-1][0] == stride * size:
            size *= digits.pop()[1]
        digits.append((stride, size))
    return digits
