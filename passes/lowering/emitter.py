"""What the lowerings of all collectives share: attributes made once, channels, coordinates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from dtensor.dialect.attributes import index_attr
from dtensor.dialect.axes import AxisRef, devices_along
from dtensor.dialect.mesh import Mesh
from dtensor.dialect.mlir import Value, ir
from dtensor.passes.builder import Builder, Trail
from dtensor.passes.creation import matrix_attr
from dtensor.passes.ops.reduction import Reduction
from dtensor.passes.program import BARRIER

ALL_TO_ALL = "stablehlo.all_to_all"
_IN_BYTES = {"i2": "i8", "ui2": "ui8"}


class Over(NamedTuple):
    """The axes of a mesh that a collective goes over: those with more than one device."""

    mesh: Mesh
    axes: tuple[AxisRef, ...]

    @property
    def parts(self) -> int:
        """How many devices they tell apart."""
        return devices_along(self.axes)


class Emitter(Builder):
    """Creates StableHLO operations in place of the dtensor operation at hand.

    A device is known to the program by `partition_id`, its row-major position in the mesh; replica
    groups list these positions. Each function reads `partition_id` once, at its start, and each
    coordinate is computed once.
    """

    def __init__(self, is_variadic: bool = False, moves_bits: bool = False) -> None:
        super().__init__()
        self.is_variadic = is_variadic  # whether an all_reduce may have several operands
        self._moves_bits = moves_bits  # whether narrow elements are moved as whole bytes
        self.scalar_i32 = self.tensor_type((), "i32")
        self._channels = 0
        self._unit = ir.UnitAttr.get()
        self._groups: dict[Over, ir.Attribute] = {}
        self._block: ir.Block | None = None
        self._head: Trail | None = None  # writes the function's preamble
        self._coordinates: dict[Over, Value] = {}
        self._constants: dict[int, Value] = {}
        self._partition: Value | None = None

    def enter_function(self, block: ir.Block) -> None:
        """From now on, coordinates are computed at the start of this function's first block."""
        self._block = block
        self._head = None
        self._coordinates = {}
        self._constants = {}
        self._partition = None

    # Collectives.

    def channel(self) -> ir.Attribute:
        """A channel that no other collective of this module has."""
        self._channels += 1
        return ir.Attribute.parse(f"#stablehlo.channel_handle<handle = {self._channels}, type = 1>")

    def groups(self, over: Over) -> ir.Attribute:
        """The mesh positions that differ on the axes, one row per group, the first axis major."""
        found = self._groups.get(over)
        if found is None:
            found = self._groups[over] = matrix_attr(over.mesh.groups(over.axes))
        return found

    def collective(
        self,
        name: str,
        operands: Sequence[Value],
        results: Sequence[ir.Type],
        over: Over,
        attributes: dict[str, ir.Attribute],
        reduction: str = "",
    ) -> list[Value]:
        """The results of a StableHLO collective; of one that reduces, with a body that does so."""
        attributes = {
            **attributes,
            "replica_groups": self.groups(over),
            "channel_handle": self.channel(),
        }
        if name != ALL_TO_ALL:
            attributes["use_global_device_ids"] = self._unit
        given = [self.element_of(value) for value in operands]
        sent = [self._in_bytes(*each) for each in zip(operands, results, strict=True)]
        operands, results = [value for value, _ in sent], [type_ for _, type_ in sent]
        op = self.create(name, operands, results, attributes, regions=1 if reduction else 0)
        if reduction:
            element = self.element_of(operands[0])
            combiner = Reduction.named(reduction).on(element).op
            self.reduction_body(op, combiner, self.tensor_type((), element))
        return [self.convert(value, have) for value, have in zip(op.results, given, strict=True)]

    def all_gather(self, value: Value, dim: int, type_: ir.Type, over: Over) -> Value:
        """The shards of a value along some axes, side by side."""
        attributes = {"all_gather_dim": index_attr(dim)}
        bits, sent = self._bits(value, type_)
        gathered = self.collective("stablehlo.all_gather", [bits], [sent], over, attributes)[0]
        return self.bitcast(gathered, self.element_of(value))

    def all_to_all(self, value: Value, dims: tuple[int, int], type_: ir.Type, over: Over) -> Value:
        """A device's part of all shards: split along the first of `dims`, joined along the second.

        XLA's CPU code cuts the operand, and fails where it gives the parts two memory orders.
        """
        attributes = {
            "split_dimension": index_attr(dims[0]),
            "concat_dimension": index_attr(dims[1]),
            "split_count": index_attr(over.parts),
        }
        bits, sent = self._bits(value, type_)
        bits = self.value(BARRIER, [bits], bits.type)
        moved = self.collective(ALL_TO_ALL, [bits], [sent], over, attributes)[0]
        return self.bitcast(moved, self.element_of(value))

    def permute(self, value: Value, pairs: list[tuple[int, int]]) -> Value:
        """The value of the device that sends it; zeros where nobody does."""
        if not pairs:
            return self.zeros(value.type)
        attributes = {"source_target_pairs": matrix_attr(pairs), "channel_handle": self.channel()}
        bits, sent = self._in_bytes(*self._bits(value, value.type))
        moved = self.value("stablehlo.collective_permute", [bits], sent, attributes)
        element = self.element_of(value)
        back = self.convert if element in _IN_BYTES else self.bitcast
        return back(moved, element)

    def _bits(self, value: Value, type_: ir.Type) -> tuple[Value, ir.Type]:
        """A value that is moved, and the type that comes of it; narrow floats may be integers."""
        shape, element = self.read_type(type_)
        integer = "i16" if element == "bf16" else "i8" if element.startswith("f8") else element
        integer = integer if self._moves_bits else element
        return self.bitcast(value, integer), self.tensor_type(shape, integer)

    def _in_bytes(self, value: Value, type_: ir.Type) -> tuple[Value, ir.Type]:
        """The same with i2 as i8: XLA's CPU collectives write i2 beyond their buffers."""
        shape, element = self.read_type(type_)
        wider = _IN_BYTES.get(element, element) if self._moves_bits else element
        return self.convert(value, wider), self.tensor_type(shape, wider)

    # Coordinates.

    def coordinate(self, over: Over) -> Value:
        """This device's coordinate along some axes, the first major: an i32 scalar."""
        found = self._coordinates.get(over)
        if found is None:
            found = self._coordinates[over] = self._coordinate(*over)
        return found

    def _coordinate(self, mesh: Mesh, axes: tuple[AxisRef, ...]) -> Value:
        """Neighbouring axes of the mesh are one digit of the position; digits are summed."""
        total: Value | None = None
        weight = 1
        for stride, size in reversed(position_digits(mesh, axes)):
            part = self._digit(mesh.size, stride, size)
            if weight != 1:
                part = self._start().binary("multiply", part, self.number(weight))
            if total is not None:
                part = self._start().binary("add", part, total)
            total = part
            weight *= size
        return self.number(0) if total is None else total

    def _digit(self, devices: int, stride: int, size: int) -> Value:
        """A digit of the position, computed without a sign: XLA makes shifts and masks of it."""
        start, value = self._start(), self._partition_id()
        modulus = 1 if stride * size == devices else size
        for name, by in (("divide", stride), ("remainder", modulus)):
            if by != 1:
                value = start.binary(name, value, start.constant(by, value.type))
        return start.convert(value, "i32")

    def _partition_id(self) -> Value:
        if self._partition is None:
            start = self._start()
            self._partition = start.value(
                "stablehlo.partition_id", [], start.tensor_type((), "ui32")
            )
        return self._partition

    def number(self, value: int) -> Value:
        """An i32 scalar, at the start of the function."""
        found = self._constants.get(value)
        if found is None:
            found = self._constants[value] = self._start().constant(value, self.scalar_i32)
        return found

    def _start(self) -> Trail:
        """Creates operations at the start of the function, at the location of the one at hand."""
        if self._head is None:
            assert self._block is not None
            self._head = Trail(ir.InsertionPoint.at_block_begin(self._block), self.location)
        self._head.location = self.location
        return self._head


def position_digits(mesh: Mesh, axes: Sequence[AxisRef]) -> list[tuple[int, int]]:
    """The axes as digits of a mesh position, `(stride, size)`, major first; neighbours joined."""
    digits: list[tuple[int, int]] = []
    for axis in axes:
        stride, size = mesh.position_stride(axis), axis.size
        if digits and digits[-1][0] == stride * size:
            size *= digits.pop()[1]
        digits.append((stride, size))
    return digits
