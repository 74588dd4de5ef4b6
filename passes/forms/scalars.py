"""A computation of tensors, element by element, written as one of scalars."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from dtensor.dialect import build
from dtensor.dialect.mlir import Value, ir, maker_of
from dtensor.passes.builder import Builder, filling
from dtensor.passes.creation import with_sizes
from dtensor.passes.ops.attributes import splat_of
from dtensor.passes.ops.elementwise import is_scalar_work


@dataclass
class Scalars:
    """Writes a body of scalars.

    Attributes:
        make: creates what is written.
        known: the scalars of tensors that are given.
        other: the scalar of any tensor that is neither given nor computed element by element.
    """

    make: Builder
    known: dict[Value, Value] = field(default_factory=dict)
    other: Value | None = None

    def of(self, value: Value) -> Value:
        """The scalar that stands for a value."""
        if value not in self.known:
            self.known[value] = self._made(value)
        return self.known[value]

    def _made(self, value: Value) -> Value:
        type_ = self.make.tensor_type((), self.make.element_of(value))
        number = splat_of(value)
        if number is not None:
            return self.make.splat(number, type_)
        maker = maker_of(value)
        assert maker is not None, "a value that was found to be computed element by element"
        if not is_scalar_work(maker):
            assert self.other is not None
            return self.other
        operands = [self.of(operand) for operand in maker.operands]
        return self.make.value(maker.name, operands, type_, attributes_of(maker))


def attributes_of(op: ir.Operation) -> dict[str, ir.Attribute]:
    """The attributes of an op that belong to it."""
    return {name: op.attributes[name] for name in op.attributes if not name.startswith("dtensor.")}


Combine = Callable[[Builder, list[Value], list[Value]], Sequence[Value]]


def scanned(
    before: ir.Operation,
    values: Sequence[Value],
    dim: int,
    is_reverse: bool,
    combine: Combine,
    make: Builder,
) -> list[Value]:
    """The scan of some values, ahead of an operation; `make` takes notice of it.

    `combine` writes what the scalars of an earlier and of a later element combine to; of values of
    several shapes, what their rows do.
    """
    point = ir.InsertionPoint(before)
    rows = None
    if len({tuple(make.shape_of(value)) for value in values}) > 1:
        half = [with_sizes(shape, dim, shape[dim] // 2) for shape in map(make.shape_of, values)]
        types = [make.element_of(value) for value in values]
        rows = [make.tensor_type(*each) for each in zip(half, types, strict=True)]
    scan = build.scan(values, dim, is_reverse, rows, loc=before.location, ip=point)
    make.note(scan)
    block, count = scan.regions[0].blocks[0], len(values)
    inner, arguments = filling(block), list(block.arguments)
    inner.end(combine(inner, arguments[:count], arguments[count:]))
    return list(scan.results)
