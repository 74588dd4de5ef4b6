"""The values that merge dimensions, and what stands for those that are computed of them."""

from __future__ import annotations

import math
from typing import TypeAlias

from dtensor.dialect.mlir import Value, ir, maker_of, operation_of, users
from dtensor.passes.builder import Builder
from dtensor.passes.cuts.merged_dims import MergedDims, among, sizes_of, starts_of
from dtensor.passes.expansion.indices import index_element
from dtensor.passes.ops.attributes import elements_of, integer, integers, shape_of, splat_of
from dtensor.passes.ops.rows import IOTA
from dtensor.passes.ops.table import opdef
from dtensor.passes.rewriting.names import BROADCAST, DOT, REDUCE, RESHAPE, TRANSPOSE
from dtensor.passes.rewriting.rewriting import Rewriting

Apart: TypeAlias = tuple[Value, MergedDims]  # what was merged, and how

_DEEPEST = 3  # operations that are written anew for one that reads them
_NOT_ELEMENTWISE = frozenset((BROADCAST, TRANSPOSE, RESHAPE, DOT, REDUCE))


class Merges:
    """The values that merge dimensions so, and what stands for those that are computed of them.

    Attributes:
        apart: what each of them merges.
        written: what stands for what an operation gives, merged or not, in program order.
        parted: what reshapes part again, and what is computed of that element by element.
    """

    def __init__(self, function: Rewriting) -> None:
        self.function = function
        self.apart: dict[Value, Apart] = {}
        self.written: dict[Value, tuple[ir.Operation, Value]] = {}
        self.parted: set[Value] = set()

    def replace(self) -> None:
        """Let what was written stand for operations, unless more would have to be merged then."""
        left: dict[Value, int] = {}  # elements that are merged after all, if a value is not
        for result, (op, _) in reversed(self.written.items()):
            count = self._left(result, left)
            if count <= sum(map(elements_of, self._merged(op))):
                left[result] = count
        stands, now = self.apart.keys() - self.written.keys(), dict[Value, Value]()
        for result, (op, whole) in self.written.items():
            if result in left and stands >= set(self._merged(op)):
                stands.add(result)
                make = Builder(op, self.function.made)
                now[result] = make.reshape(now.get(whole, whole), shape_of(result))
                self.function.replace_value(result, now[result])

    def _left(self, value: Value, left: dict[Value, int]) -> int:
        """How many elements are merged, if a value is not: its own, unless all who read it do."""
        if value not in self.apart:
            return 0
        given = [list(op.results) for op in users(value)]
        known = [left.get(result) for results in given for result in results]
        count = sum(n for n in known if n is not None)
        return count + elements_of(value) if None in known or [] in given else count

    def _merged(self, op: ir.Operation) -> list[Value]:
        return [value for value in op.operands if value in self.apart]

    def say(self, result: Value, whole: Value, groups: MergedDims) -> None:
        """What an operation gives is `whole`, whose dimensions are merged then."""
        self.written[result] = operation_of(result), whole
        if any(len(group) > 1 for group in groups):
            self.apart[result] = whole, groups

    def of(
        self, value: Value, groups: MergedDims, make: Builder, deep: int = _DEEPEST
    ) -> Value | None:
        """A value before dimensions are merged as `groups` say; None if it is not known so.

        What is computed of others is computed of those, some operations `deep`; another value is
        taken apart if no layout leads to what is merged of it.
        """
        if value in self.apart:
            whole, own = self.apart[value]
            return self._parted(value, whole, own, groups, make)
        if all(len(group) == 1 for group in groups):
            return value
        sizes, splat, maker = sizes_of(groups), splat_of(value), maker_of(value)
        if splat is not None:
            type_ = make.tensor_type(sizes, make.element_of(value))
            return make.splat(splat, type_)
        if maker is not None and maker.name == BROADCAST:
            given, dims = maker.operands[0], integers(maker.attributes["broadcast_dimensions"])
            counts = zip(shape_of(given), dims, strict=True)
            own = tuple([(1,) if count == 1 else groups[d] for count, d in counts])
            found, to = self.of(given, own, make, deep), among(groups, dims, own)
            return None if found is None else make.broadcast(found, sizes, to)
        if maker is not None and maker.name == IOTA:
            dim = integer(maker.attributes["iota_dimension"])
            return counted(make, groups, dim, make.element_of(value))
        if maker is not None and deep and is_elementwise(maker):
            parts = [
                self.of(v, groups, make, deep - 1) if shape_of(v) else v for v in maker.operands
            ]
            known = [part for part in parts if part is not None]
            if len(known) == len(parts):
                (result,) = make.again(maker, known, [tuple(sizes)]).results
                return result
        return self._parted(value, value, self.groups(value), groups, make)

    def _parted(
        self, value: Value, whole: Value, own: MergedDims, groups: MergedDims, make: Builder
    ) -> Value | None:
        """A value that merges `own`, merged as `groups` say; None if a layout may lead to more."""
        count = self.function.shards.count
        fits = all(
            group == other or (len(group) == 1 and count((value, d)) == 1)
            for d, (group, other) in enumerate(zip(own, groups, strict=True))
        )
        return make.reshape(whole, sizes_of(groups)) if fits else None

    def groups(self, value: Value) -> MergedDims:
        found = self.apart.get(value)
        return found[1] if found is not None else tuple([(size,) for size in shape_of(value)])

    def is_uneven(self, dim: int, *values: Value) -> bool:
        """Whether a layout splits a dimension of one of these unevenly, or blocks of it were."""
        count = self.function.shards.count
        sizes = [(value, shape_of(value)[dim]) for value in values]
        return any(v in self.parted or size % count((v, dim)) for v, size in sizes)


def is_elementwise(op: ir.Operation) -> bool:
    """Whether each element is computed of those at its place, and of scalars.

    A map with a body names its dimensions, and is left out.
    """
    is_one = len(op.results) == 1 and not len(op.regions) and op.name not in _NOT_ELEMENTWISE
    if not is_one or not opdef(op.name).resizes:
        return False
    shape = shape_of(op.results[0])
    return bool(shape) and all(shape_of(value) in (shape, []) for value in op.operands)


def counted(make: Builder, groups: MergedDims, dim: int, element: str) -> Value:
    """What counts along a merged dimension, before it is merged: in integers, rounded once."""
    sizes, start, group = sizes_of(groups), starts_of(groups)[dim], groups[dim]
    counted = index_element(math.prod(group))
    parts = [
        make.times(make.iota(sizes, start + k, counted), math.prod(group[k + 1 :]))
        for k in range(len(group))
    ]
    return make.convert(make.combined("add", parts), element)
