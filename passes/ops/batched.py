"""What operations do for several blocks at once, side by side along a first dimension."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from dtensor.dialect.mlir import Value, ir, stablehlo
from dtensor.dialect.names import DOT_NUMBERS
from dtensor.passes.builder import Builder, Shape, integers_attr
from dtensor.passes.ops.attributes import dot_sides, integer, integers, pad_numbers, slice_numbers
from dtensor.passes.ops.elementwise import is_scalar_work
from dtensor.passes.program import captured


@dataclass
class Batched:
    """Writes operations anew.

    Attributes:
        make: creates what is written.
        count: how many blocks there are.
        known: what stands for values; what is not here stands for itself.
        many: the values that are not the same in all blocks.
    """

    make: Builder
    count: int
    known: dict[Value, Value] = field(default_factory=dict)
    many: set[Value] = field(default_factory=set)

    def write(self, op: ir.Operation) -> bool:
        """Write an operation of which all operands are known; whether that can be done."""
        if len(op.regions) and captured(op, self.known):
            return False
        if not any(operand in self.many for operand in op.operands):
            copy = copied(self.make, op, [self.one(operand) for operand in op.operands])
            self.known.update(zip(op.results, copy.results, strict=True))
            return True
        found = self._written(op)
        if found is None:
            return False
        self.say(op.results, found)
        return True

    def say(self, values: Iterable[Value], found: Iterable[Value]) -> None:
        """Values are these in the blocks."""
        for value, each in zip(values, found, strict=True):
            self.known[value] = each
            self.many.add(value)

    def one(self, value: Value) -> Value:
        """What stands for a value, side by side only if it is not the same in all blocks."""
        return self.known.get(value, value)

    def all(self, value: Value, shape: Shape | None = None) -> Value:
        """What stands for a value, side by side; a scalar perhaps spread over a shape."""
        found, own = self.one(value), self.make.shape_of(value)
        shape = own if shape is None else shape
        dims = [d + 1 for d in range(len(own))]
        return self.make.broadcast(
            found, (self.count, *shape), [0, *dims] if value in self.many else dims
        )

    def _written(self, op: ir.Operation) -> Sequence[Value] | None:
        shapes = [self.make.shape_of(result) for result in op.results]
        if is_scalar_work(op) or op.name == "stablehlo.optimization_barrier":
            given = [self.all(v, None if len(shapes) > 1 else shapes[0]) for v in op.operands]
            return list(copied(self.make, op, given, [(self.count, *s) for s in shapes]).results)
        rule = _RULES.get(op.name)
        return None if rule is None else rule(self, op, shapes[0])


def copied(
    make: Builder,
    op: ir.Operation,
    operands: Sequence[Value],
    shapes: Sequence[Shape] | None = None,
    attributes: Mapping[str, ir.Attribute] | None = None,
) -> ir.Operation:
    """The op on other operands, its results of other shapes, with other attributes perhaps."""
    types = [result.type for result in op.results]
    if shapes is not None:
        elements = map(make.element_of, op.results)
        types = [make.tensor_type(*pair) for pair in zip(shapes, elements, strict=True)]
    own = {name: op.attributes[name] for name in op.attributes}
    new = make.create(op.name, operands, types, own | dict(attributes or {}), len(op.regions))
    if len(op.regions):
        copy = op.clone(ip=ir.InsertionPoint(new)).operation
        for region, other in zip(new.regions, copy.regions, strict=True):
            other.blocks[0].append_to(region)
        copy.erase()
    return new


def _spread(to: Batched, op: ir.Operation, shape: Shape) -> list[Value]:
    dims = [0, *(d + 1 for d in integers(op.attributes["broadcast_dimensions"]))]
    return [to.make.broadcast(to.all(op.operands[0]), (to.count, *shape), dims)]


def _reshape(to: Batched, op: ir.Operation, shape: Shape) -> list[Value]:
    return [to.make.reshape(to.all(op.operands[0]), (to.count, *shape))]


def _transpose(to: Batched, op: ir.Operation, shape: Shape) -> list[Value]:
    order = [0, *(d + 1 for d in integers(op.attributes["permutation"]))]
    return [to.make.transpose(to.all(op.operands[0]), order)]


def _slice(to: Batched, op: ir.Operation, shape: Shape) -> list[Value]:
    starts, limits, strides = slice_numbers(op)
    value = to.all(op.operands[0])
    return [to.make.slice(value, [0, *starts], [to.count, *limits], [1, *strides])]


def _dynamic_slice(to: Batched, op: ir.Operation, shape: Shape) -> list[Value] | None:
    starts = list(op.operands)[1:]
    if any(start in to.many for start in starts) or not starts:
        return None
    first = to.one(starts[0])
    places = [to.make.constant_like(0, first), *map(to.one, starts)]
    return [to.make.dynamic_slice(to.all(op.operands[0]), places, (to.count, *shape))]


def _concatenate(to: Batched, op: ir.Operation, shape: Shape) -> list[Value]:
    return [to.make.joined([*map(to.all, op.operands)], integer(op.attributes["dimension"]) + 1)]


def _pad(to: Batched, op: ir.Operation, shape: Shape) -> list[Value] | None:
    value, fill = op.operands
    if fill in to.many:
        return None
    lows, highs, between = pad_numbers(op)
    return [to.make.pad(to.all(value), to.one(fill), [0, *lows], [0, *highs], [0, *between])]


def _along(to: Batched, op: ir.Operation, shape: Shape) -> list[Value] | None:
    """A reverse, or a reduce: all but the init values, which are half of its operands."""
    values, count = list(op.operands), len(op.results)
    if any(value in to.many for value in values[count:]):
        return None
    given = [*map(to.all, values[:count]), *map(to.one, values[count:])]
    dims = integers_attr([d + 1 for d in integers(op.attributes["dimensions"])])
    shapes = [(to.count, *to.make.shape_of(result)) for result in op.results]
    return list(copied(to.make, op, given, shapes, {"dimensions": dims}).results)


def _dot(to: Batched, op: ir.Operation, shape: Shape) -> list[Value]:
    """Blocks are a batching dimension; where one operand alone has them, a free one."""
    sides = dot_sides(op)
    many = [operand in to.many for operand in op.operands]
    free = len(to.make.shape_of(op.operands[0])) - len(sides[0][0]) - len(sides[0][1])
    place = 0 if all(many) else len(sides[0][0]) + (0 if many[0] else free)
    for (batching, contracting), has in zip(sides, many, strict=True):
        batching[:] = [*([0] if all(many) else []), *(d + has for d in batching)]
        contracting[:] = [d + has for d in contracting]
    (lb, lc), (rb, rc) = sides
    made = copied(
        to.make,
        op,
        [to.one(operand) for operand in op.operands],
        [(*shape[:place], to.count, *shape[place:])],
        {DOT_NUMBERS: stablehlo.DotDimensionNumbers.get(lb, rb, lc, rc)},
    )
    others = [d for d in range(len(shape) + 1) if d != place]
    return [to.make.transpose(made.results[0], [place, *others])]


_Rule = Callable[[Batched, ir.Operation, Shape], "Sequence[Value] | None"]

_RULES: Final[dict[str, _Rule]] = {
    "stablehlo.broadcast_in_dim": _spread,
    "stablehlo.concatenate": _concatenate,
    "stablehlo.dot_general": _dot,
    "stablehlo.dynamic_slice": _dynamic_slice,
    "stablehlo.pad": _pad,
    "stablehlo.reduce": _along,
    "stablehlo.reshape": _reshape,
    "stablehlo.reverse": _along,
    "stablehlo.slice": _slice,
    "stablehlo.transpose": _transpose,
}
