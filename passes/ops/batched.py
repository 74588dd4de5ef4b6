"""What operations do for several blocks at once, side by side along a first dimension."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from dtensor.dialect.attributes import index_attr
from dtensor.dialect.ends import read_padding
from dtensor.dialect.mlir import Value, ir, ops_of, stablehlo, terminator
from dtensor.dialect.names import DOT_NUMBERS
from dtensor.passes.builder import Builder, new_block
from dtensor.passes.creation import Shape, integers_attr, matrix_attr
from dtensor.passes.ops.attributes import (
    dot_sides,
    integer,
    integers,
    pad_numbers,
    slice_numbers,
    spread_dims,
)
from dtensor.passes.ops.custom_calls import widened_call
from dtensor.passes.ops.elements import element_kind
from dtensor.passes.ops.elementwise import is_scalar_work
from dtensor.passes.ops.indexing import IndexNumbers
from dtensor.passes.program import BRANCHES, WHILE, captured, read_by, trip_count, walk


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
        if op.name == WHILE and any(value in self.many for value in read_by(op)):
            return self._loop(op)
        if op.name in BRANCHES and any(value in self.many for value in read_by(op)):
            return self._branches(op)
        if len(op.regions) and captured(op, self.known):
            return False
        if not any(operand in self.many for operand in op.operands):
            copy = self.make.again(op, [self.one(operand) for operand in op.operands])
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

    def wide(self, value: Value) -> Shape:
        """The shape of a value side by side."""
        return (self.count, *self.make.shape_of(value))

    def inside(self, block: ir.Block) -> Batched:
        """Writes into a block, where all that is known here is known."""
        make = self.make.inside(block)
        return Batched(make, self.count, dict(self.known), set(self.many))

    def _loop(self, loop: ir.Operation) -> bool:
        """Write a loop that has as many trips in all blocks."""
        make, many = self.make, self._many_carried(loop)
        if many is None:
            return False
        values = list(loop.operands)
        given = [self.all(v) if k in many else self.one(v) for k, v in enumerate(values)]
        types = [value.type for value in given]
        copy = make.create(loop.name, given, types, regions=2)
        for number, region in enumerate(copy.regions):
            block = new_block(region, types)
            inner = self.inside(block)
            old = loop.regions[number].blocks[0]
            inner.known.update(zip(old.arguments, block.arguments, strict=True))
            inner.many.update([old.arguments[k] for k in many])
            *ops, last = ops_of(old)
            if not all([inner.write(op) for op in ops]):
                return False
            after = [
                inner.all(value) if number and k in many else inner.one(value)
                for k, value in enumerate(last.operands)
            ]
            inner.make.create(last.name, after, [])
        self.known.update(zip(loop.results, copy.results, strict=True))
        self.many.update([loop.results[k] for k in many])
        return True

    def _many_carried(self, loop: ir.Operation) -> set[int] | None:
        """What a loop carries that is not the same in all blocks; None if they stop apart."""
        condition, body = (region.blocks[0] for region in loop.regions)
        many = {k for k, value in enumerate(loop.operands) if value in self.many}
        size = -1
        while len(many) > size:
            size = len(many)
            found = self._differing(body, many)
            many |= {k for k, value in enumerate(terminator(body).operands) if value in found}
        (predicate,) = terminator(condition).operands
        return None if predicate in self._differing(condition, many) else many

    def _differing(self, block: ir.Block, many: set[int]) -> set[Value]:
        """The values that are not the same in all blocks, of these arguments of a region."""
        found = self.many | {block.arguments[k] for k in many}
        for op in ops_of(block):
            if any(value in found for value in read_by(op)):
                found.update(op.results)
        return found

    def _branches(self, op: ir.Operation) -> bool:
        """Write a case or an if: where blocks may take different branches, all of each."""
        index = op.operands[0]
        if index not in self.many:
            return self._branches_alike(op)
        given = list[list[Value]]()
        # A loop might not end in a block that does not take the branch.
        if any(name == WHILE and trip_count(inner) is None for inner, name, _ in walk(op)):
            return False
        for region in op.regions:
            *ops, last = ops_of(region.blocks[0])
            if not all([self.write(each) for each in ops]):
                return False
            given.append([self.all(value) for value in last.operands])
        make, number = self.make, self.one(index)
        is_one = [number]
        if op.name != "stablehlo.if":
            is_one = [make.compare("EQ", number, k) for k in range(len(given) - 1)]
        *others, found = given
        for is_it, values in reversed(list(zip(is_one, others, strict=True))):
            found = [
                make.select(is_it, value, other, [0])
                for value, other in zip(values, found, strict=True)
            ]
        self.say(op.results, found)
        return True

    def _branches_alike(self, op: ir.Operation) -> bool:
        """Write a case or an if of which all blocks take the same branch."""
        make = self.make
        types = [make.tensor_type(self.wide(v), make.element_of(v)) for v in op.results]
        copy = make.create(op.name, [self.one(op.operands[0])], types, regions=len(op.regions))
        for region, old in zip(copy.regions, op.regions, strict=True):
            inner = self.inside(new_block(region))
            *ops, last = ops_of(old.blocks[0])
            if not all([inner.write(each) for each in ops]):
                return False
            inner.make.create(last.name, [inner.all(value) for value in last.operands], [])
        self.say(op.results, copy.results)
        return True

    def _written(self, op: ir.Operation) -> Sequence[Value] | None:
        if is_scalar_work(op) or op.name == "stablehlo.optimization_barrier":
            shape = None if len(op.results) > 1 else self.make.shape_of(op.results[0])
            return list(_wider(self, op, [self.all(v, shape) for v in op.operands]).results)
        rule = _RULES.get(op.name)
        return None if rule is None else rule(self, op)


def _spread(to: Batched, op: ir.Operation) -> list[Value]:
    dims = [0, *(d + 1 for d in spread_dims(op))]
    return [to.make.broadcast(to.all(op.operands[0]), to.wide(op.results[0]), dims)]


def _reshape(to: Batched, op: ir.Operation) -> list[Value]:
    return [to.make.reshape(to.all(op.operands[0]), to.wide(op.results[0]))]


def _transpose(to: Batched, op: ir.Operation) -> list[Value]:
    order = [0, *(d + 1 for d in integers(op.attributes["permutation"]))]
    return [to.make.transpose(to.all(op.operands[0]), order)]


def _slice(to: Batched, op: ir.Operation) -> list[Value]:
    starts, limits, strides = slice_numbers(op)
    value = to.all(op.operands[0])
    return [to.make.slice(value, [0, *starts], [to.count, *limits], [1, *strides])]


def _dynamic_slice(to: Batched, op: ir.Operation) -> list[Value] | None:
    """A slice of all blocks at once, or a gather where each has a place of its own."""
    (value, *starts), wide = op.operands, to.wide(op.results[0])
    if not starts:
        return None
    if not any(start in to.many for start in starts):
        first = to.one(starts[0])
        places = [to.make.constant_like(0, first), *map(to.one, starts)]
        return [to.make.dynamic_slice(to.all(value), places, wide)]
    rows = [to.make.reshape(to.all(start), (to.count, 1)) for start in starts]
    dims = list(range(1, len(wide)))
    numbers = stablehlo.GatherDimensionNumbers.get(dims, [], [0], [0], dims, 1)
    index, sizes = to.make.joined(rows, 1), [1, *wide[1:]]
    return [to.make.gather(to.all(value), index, sizes, numbers, wide)]


def _concatenate(to: Batched, op: ir.Operation) -> list[Value]:
    return [to.make.joined([*map(to.all, op.operands)], integer(op.attributes["dimension"]) + 1)]


def _pad(to: Batched, op: ir.Operation) -> list[Value] | None:
    value, fill = op.operands
    if fill in to.many:
        return None
    lows, highs, between = pad_numbers(op)
    return [to.make.pad(to.all(value), to.one(fill), [0, *lows], [0, *highs], [0, *between])]


def _along(to: Batched, op: ir.Operation) -> list[Value] | None:
    """A reverse or a reduce."""
    dims = integers_attr([d + 1 for d in integers(op.attributes["dimensions"])])
    return _started(to, op, {"dimensions": dims})


def _started(to: Batched, op: ir.Operation, said: _Said) -> list[Value] | None:
    """The op on an operand for each result, and on init values, the same in all blocks."""
    values, count = list(op.operands), len(op.results)
    if any(value in to.many for value in values[count:]):
        return None
    given = [*map(to.all, values[:count]), *map(to.one, values[count:])]
    return list(_wider(to, op, given, said).results)


def _dot(to: Batched, op: ir.Operation) -> list[Value]:
    """Blocks are a batching dimension; where one operand alone has them, a free one."""
    sides, shape = dot_sides(op), to.make.shape_of(op.results[0])
    many = [operand in to.many for operand in op.operands]
    free = len(to.make.shape_of(op.operands[0])) - len(sides[0][0]) - len(sides[0][1])
    place = 0 if all(many) else len(sides[0][0]) + (0 if many[0] else free)
    for (batching, contracting), has in zip(sides, many, strict=True):
        batching[:] = [*([0] if all(many) else []), *(d + has for d in batching)]
        contracting[:] = [d + has for d in contracting]
    (lb, lc), (rb, rc) = sides
    made = to.make.again(
        op,
        [to.one(operand) for operand in op.operands],
        [(*shape[:place], to.count, *shape[place:])],
        {DOT_NUMBERS: stablehlo.DotDimensionNumbers.get(lb, rb, lc, rc)},
    )
    return [to.make.moved(made.results[0], place, 0)]


def _widened(to: Batched, op: ir.Operation, said: _Said | None = None) -> list[Value]:
    """The op on all operands, with one more dimension, ahead of the others.

    Without `said` it is one that takes any number of first dimensions, each element of these by
    itself.
    """
    return list(_wider(to, op, [*map(to.all, op.operands)], said).results)


def _wider(
    to: Batched, op: ir.Operation, given: Sequence[Value], said: _Said | None = None
) -> ir.Operation:
    """The op on other operands, whose results have one more dimension, ahead of the others."""
    return to.make.again(op, given, [*map(to.wide, op.results)], said)


def _sorted(to: Batched, op: ir.Operation) -> list[Value]:
    return _widened(to, op, {"dimension": index_attr(integer(op.attributes["dimension"]) + 1)})


def _updated(to: Batched, op: ir.Operation) -> list[Value] | None:
    value, new, *starts = op.operands
    if not starts:
        return None
    if any(start in to.many for start in starts):
        return _updated_apart(to, value, new, starts)
    places = [to.make.constant_like(0, to.one(starts[0])), *map(to.one, starts)]
    return [to.make.updated(to.all(value), to.all(new), places)]


def _updated_apart(to: Batched, value: Value, new: Value, starts: Sequence[Value]) -> list[Value]:
    """An update of all blocks, each at a place of its own, as a scatter that stays within."""
    make, rows = to.make, list[Value]()
    for start, size, count in zip(starts, make.shape_of(value), make.shape_of(new), strict=True):
        place = to.all(start)
        if element_kind(make.element_of(place))[1] < 32:  # it may not hold the last place
            place = make.convert(place, "i32")
        place = make.binary("minimum", make.binary("maximum", place, 0), size - count)
        rows.append(make.reshape(place, (to.count, 1)))
    dims = list(range(1, len(starts) + 1))
    numbers = stablehlo.ScatterDimensionNumbers.get(dims, [], [0], [0], dims, 1)
    given, scalar = to.all(value), make.tensor_type((), make.element_of(value))
    op = make.create(
        "stablehlo.scatter",
        [given, make.joined(rows, 1), to.all(new)],
        [given.type],
        {"scatter_dimension_numbers": numbers},
        regions=1,
    )
    block = new_block(op.regions[0], [scalar, scalar])
    make.inside(block).end([block.arguments[1]])
    return list(op.results)


def _windows(to: Batched, op: ir.Operation) -> list[Value] | None:
    said: dict[str, ir.Attribute] = {}
    for name in ("window_dimensions", "window_strides", "base_dilations", "window_dilations"):
        if name in op.attributes:
            said[name] = integers_attr([1, *integers(op.attributes[name])])
    if "padding" in op.attributes:
        said["padding"] = matrix_attr([(0, 0), *read_padding(op, len(to.wide(op.results[0])) - 1)])
    return _started(to, op, said)


def _gathered(to: Batched, op: ir.Operation) -> list[Value]:
    """Blocks walk together with those of the operand, or are more places in the only one."""
    numbers, (operand, indices) = IndexNumbers.of(op), op.operands
    sizes = integers(op.attributes["slice_sizes"])
    is_many = operand in to.many
    given = [to.all(operand) if is_many else to.one(operand), to.all(indices)]
    copy = _wider(to, op, given)
    numbers.widened(is_many).write(copy)
    copy.attributes["slice_sizes"] = integers_attr([1, *sizes] if is_many else sizes)
    return list(copy.results)


def _scattered(to: Batched, op: ir.Operation) -> list[Value]:
    copy = _wider(to, op, [*map(to.all, op.operands)])
    IndexNumbers.of(op).widened(True).write(copy)
    return list(copy.results)


def _called(to: Batched, op: ir.Operation) -> list[Value] | None:
    said = widened_call(op)
    return None if said is None else _widened(to, op, said)


_Said = Mapping[str, ir.Attribute]
_Rule = Callable[[Batched, ir.Operation], "Sequence[Value] | None"]

_RULES: Final[dict[str, _Rule]] = {
    "chlo.top_k": _widened,
    "stablehlo.bitcast_convert": _widened,
    "stablehlo.broadcast_in_dim": _spread,
    "stablehlo.cholesky": _widened,
    "stablehlo.concatenate": _concatenate,
    "stablehlo.custom_call": _called,
    "stablehlo.dot_general": _dot,
    "stablehlo.dynamic_slice": _dynamic_slice,
    "stablehlo.dynamic_update_slice": _updated,
    "stablehlo.fft": _widened,
    "stablehlo.gather": _gathered,
    "stablehlo.pad": _pad,
    "stablehlo.reduce": _along,
    "stablehlo.reduce_window": _windows,
    "stablehlo.reshape": _reshape,
    "stablehlo.reverse": _along,
    "stablehlo.scatter": _scattered,
    "stablehlo.slice": _slice,
    "stablehlo.sort": _sorted,
    "stablehlo.transpose": _transpose,
    "stablehlo.triangular_solve": _widened,
}
