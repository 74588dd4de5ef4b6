"""The pass that writes as calls what XLA's CPU code would compute again in many kernels."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import ClassVar, TypeVar

from dtensor.dialect import names
from dtensor.dialect.functions import functions
from dtensor.dialect.mlir import Value, ir, is_read, maker_of, replace_op
from dtensor.passes.base import Pass, PassState
from dtensor.passes.graph import OpReader, attribute_key
from dtensor.passes.ops.table import opdef
from dtensor.passes.program import RETURNS, copy_to, read_by, walk

T = TypeVar("T")

_SUMS = ("stablehlo.add", "stablehlo.subtract")  # what grows with each layer
_MANY = 16  # readers, or arrays read: more of them decide nothing else
_WORTH = 24  # arrays to read: for fewer, a kernel of its own takes longer to start
_SMALL_BYTES = 1024  # bytes: to compute so few again takes no longer than to read them


@dataclass(frozen=True)
class OutlinePass(Pass):
    """For CPUs, calls a function where XLA would compute a value again in many kernels.

    XLA's CPU code computes an element-wise value inside each kernel that reads it, if all of them
    can. Along a residual stream each kernel then adds up all terms before it: it reads and computes
    more with each layer, and of equal layers no two kernels are equal, so that each is compiled.

    What a function that is not inlined gives is written to memory, once. So a value becomes a call
    where that moves fewer bytes: with several kernels that read it and several arrays that it is
    made of. Equal values call one function. Other devices' compilers choose by what a kernel costs;
    nothing is done for those.
    """

    name: ClassVar[str] = "dtensor-outline"

    cpu: bool = False  # for CPUs, also where it is not known what devices run the program

    def run(self, module: ir.Module, state: PassState) -> None:
        if not (self.cpu or state.platform == "cpu"):
            return
        made, types = _Functions(module), OpReader()
        for function in functions(module):
            blocks: dict[int, list[ir.Operation]] = {}
            for op, _, scope in walk(function):
                blocks.setdefault(scope.number, []).append(op)
            for operations in blocks.values():
                if len(operations) > _MANY:
                    block = _Block(operations, types)
                    for number in block.chosen():
                        made.call(block, number)
        state.forget_ir()


class _Block:
    """The operations of a block, and which of them XLA computes inside the kernels that read them.

    Values are numbered as they are met.

    Attributes:
        operations: in program order.
        inside: per operation whether it is computed inside its readers.
    """

    def __init__(self, operations: list[ir.Operation], types: OpReader) -> None:
        self.operations = operations
        self._types = types
        self._values: list[Value] = []
        self._makers: list[int | None] = []  # per value the operation, if it is of this block
        self._bytes: list[float | None] = []  # per value, once it was asked for
        self._reads: list[list[int]] = []  # per operation
        self._made: list[list[int]] = []
        self._readers: list[list[int]] = [[] for _ in operations]
        numbers: dict[Value, int] = {}
        for i, op in enumerate(operations):
            reads = [self._number(value, None, numbers) for value in read_by(op)]
            self._reads.append(reads)
            for made in {self._makers[value]: None for value in reads}:
                if made is not None:
                    self._readers[made].append(i)
            self._made.append([self._number(value, i, numbers) for value in op.results])
        self.inside = [self._is_inside(i) for i in range(len(operations))]
        self._arrays: list[frozenset[int]] = []

    def _number(self, value: Value, maker: int | None, numbers: dict[Value, int]) -> int:
        number = numbers.setdefault(value, len(numbers))
        if number == len(self._makers):
            self._values.append(value)
            self._makers.append(maker)
            self._bytes.append(None)
        return number

    def _is_inside(self, number: int) -> bool:
        op, readers = self.operations[number], self._readers[number]
        definition = opdef(op.name)
        if not definition.fuses or len(op.regions) or len(op.results) != 1:
            return False
        if any([self.operations[reader].name in RETURNS for reader in readers]):
            return False
        return not definition.costly or len(readers) == 1

    def chosen(self) -> list[int]:
        """The operations that become calls, in program order; they are not `inside` any more."""
        self._arrays = []
        for i in range(len(self.operations)):
            self._arrays.append(self._made_of(i))
        kernels: list[frozenset[int]] = [frozenset()] * len(self.operations)
        found = set()
        grown = [False] * len(self.operations)  # it, or what it is a part of, is worth a kernel
        for i in reversed(range(len(self.operations))):
            if not self.inside[i]:
                continue
            near = [kernels[r] if self.inside[r] else {r} for r in self._readers[i]]
            kernels[i] = _few(chain.from_iterable(near))
            grown[i] = any([grown[reader] for reader in self._readers[i]])
            if self._saved(i, kernels[i]) >= (1 if grown[i] else _WORTH):
                grown[i] = True
                self.inside[i] = False
                found.add(i)
        if not found:
            return []
        for i in range(len(self.operations)):  # what was chosen before is one array by now
            if i in found:
                self.inside[i] = True
            self._arrays[i] = self._made_of(i)
            if i in found and self._saved(i, kernels[i]) > 0:
                self.inside[i] = False
            else:
                found.discard(i)
        return sorted(found)

    def _made_of(self, number: int) -> frozenset[int]:
        """The values in memory that one is made of, smaller ones left out; or `_MANY` of them."""
        if not self.inside[number]:
            return frozenset()
        size = self._size(number)
        found: list[int] = []
        for value in self._reads[number]:
            if 2 * self._bytes_of(value) >= size:
                made = self._made_inside(value)
                found += [value] if made is None else self._arrays[made]
        return _few(found)

    def _size(self, number: int) -> float:
        return self._bytes_of(self._made[number][0])

    def _bytes_of(self, value: int) -> float:
        found = self._bytes[value]
        if found is None:
            found = self._types.type_info(self._values[value].type, None).bytes
            self._bytes[value] = found
        return found

    def _made_inside(self, value: int) -> int | None:
        """The operation that makes a value, if it is computed inside those that read it."""
        made = self._makers[value]
        return made if made is not None and self.inside[made] else None

    def parts(self, number: int) -> list[int]:
        """The operation and those computed inside it, in program order."""
        found = [number]
        known = {number}
        for i in found:
            for made in map(self._made_inside, self._reads[i]):
                if made is not None and made not in known:
                    known.add(made)
                    found.append(made)
        return sorted(found)

    def _saved(self, number: int, kernels: frozenset[int]) -> int:
        """How many arrays need not be read or written if one is written, and read instead."""
        if not self.inside[number] or self._size(number) <= _SMALL_BYTES:
            return 0
        if self.operations[number].name not in _SUMS:
            return 0
        arrays = len(self._arrays[number])
        return arrays * len(kernels) - arrays - 1 - len(kernels)


class _Functions:
    """The functions that are called, by what they compute."""

    def __init__(self, module: ir.Module) -> None:
        self._symbols = ir.SymbolTable(module.operation)
        self._end = ir.InsertionPoint(module.body)
        self._known: dict[object, ir.Attribute] = {}

    def call(self, block: _Block, number: int) -> None:
        """Let a call give what an operation does, with all that is computed inside it."""
        op, inside = block.operations[number], [block.operations[i] for i in block.parts(number)]
        made = {part.results[0] for part in inside}
        taken = dict.fromkeys(value for part in inside for value in part.operands)
        outside = [value for value in taken if value not in made]
        constants = [maker for value in outside if (maker := _constant(value)) is not None]
        given = {maker.results[0] for maker in constants}
        operands = [value for value in outside if value not in given]
        key = _key([*constants, *inside], operands)
        if key not in self._known:
            self._known[key] = self._function([*constants, *inside], operands)
        frontend = ir.DictAttr.get({"inlineable": ir.StringAttr.get("false")})
        call = ir.Operation.create(
            "func.call",
            [op.results[0].type],
            operands,
            {"callee": self._known[key], "mhlo.frontend_attributes": frontend},
            loc=op.location,
            ip=ir.InsertionPoint(op),
        )
        replace_op(op, call.results)
        for part in reversed(inside[:-1]):
            if not is_read(part.results[0]):
                part.erase()

    def _function(self, parts: Sequence[ir.Operation], operands: Sequence[Value]) -> ir.Attribute:
        last = parts[-1]
        types = [value.type for value in operands]
        type_ = ir.FunctionType.get(types, [last.results[0].type])
        attributes = {
            names.SYM_NAME: ir.StringAttr.get(f"dtensor_{last.name.partition('.')[2]}"),
            names.SYM_VISIBILITY: ir.StringAttr.get("private"),
            "function_type": ir.TypeAttr.get(type_),
        }
        function = ir.Operation.create(names.FUNC, [], [], attributes, regions=1, ip=self._end)
        body = function.regions[0].blocks.append(*types, arg_locs=[last.location] * len(types))
        point, known = ir.InsertionPoint(body), dict(zip(operands, body.arguments, strict=True))
        for part in parts:
            copy_to(point, part, known)
        ir.Operation.create("func.return", [], [known[last.results[0]]], ip=point)
        name: ir.Attribute = self._symbols.insert(function)
        return ir.FlatSymbolRefAttr.get(ir.StringAttr(name).value)


def _constant(value: Value) -> ir.Operation | None:
    """The operation that makes a value, if it reads nothing."""
    maker = maker_of(value)
    free = maker is not None and not len(maker.operands) and opdef(maker.name).rematerialisable
    return maker if free else None


def _key(operations: Sequence[ir.Operation], operands: Sequence[Value]) -> object:
    """What tells functions apart: operations, wiring, attributes and types."""
    numbers = {value: k for k, value in enumerate(operands)}
    key: list[object] = [value.type for value in operands]
    for op in operations:
        wiring = tuple([numbers[value] for value in op.operands])
        key.append((op.name, op.results[0].type, wiring, attribute_key(op)))
        numbers[op.results[0]] = len(numbers)
    return tuple(key)


def _few(values: Iterable[T]) -> frozenset[T]:
    """The values, each once; no more than `_MANY`."""
    return frozenset(islice(dict.fromkeys(values), _MANY))
