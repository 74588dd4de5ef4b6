"""What is computed of dimensions that a reshape merged, computed of them before that.

`x.reshape(-1)` of rows that are not divided into shards, but split all the same, would have padding
within: it is put together first. `jnp.vdot(x, y)`, `jnp.linalg.norm`, `x.reshape(-1, n) @ w` and
the like need no merged dimensions; nor do lookups and sums at places (`table[tokens.ravel()]`), and
the largest of all are among those of each row. So the reshape moves behind what is computed of it,
until a reduction, a product or another reshape ends it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

from dtensor.dialect.mlir import Value, ir, maker_of, operation_of, stablehlo, users
from dtensor.dialect.names import DOT_NUMBERS, RELAYOUT
from dtensor.passes.builder import Builder
from dtensor.passes.creation import integers_attr
from dtensor.passes.cuts.merged_dims import (
    MergedDims,
    among,
    merged_from,
    parted_as,
    sizes_of,
    starts_of,
    with_units,
)
from dtensor.passes.cuts.names import (
    BROADCAST,
    DOT,
    GATHER,
    REDUCE,
    RESHAPE,
    SCATTER,
    TOP_K,
    TRANSPOSE,
)
from dtensor.passes.cuts.rewriting import Rewriting
from dtensor.passes.expansion.indices import index_element
from dtensor.passes.forms.walked import is_marked
from dtensor.passes.ops.attributes import (
    dot_sides,
    integer,
    integers,
    shape_of,
    splat_of,
)
from dtensor.passes.ops.batched import copied
from dtensor.passes.ops.indexing import IndexNumbers
from dtensor.passes.ops.rows import IOTA
from dtensor.passes.ops.table import opdef

Apart: TypeAlias = tuple[Value, MergedDims]  # what was merged, and how

_NOT_ELEMENTWISE = frozenset((BROADCAST, TRANSPOSE, RESHAPE, DOT, REDUCE))


def keep_apart(function: Rewriting) -> None:
    """Compute of dimensions before they are merged, where one would be padded within."""
    if not function.shards.is_uneven(function.named(RELAYOUT)):
        return
    merges = _Merges(function)
    for op, name, _ in function.ops.visits:
        if is_marked(op):
            continue
        if name == RESHAPE:
            merges.reshape(op)
        elif merges.apart and any(value in merges.apart for value in op.operands):
            _WRITERS.get(name, _Merges.elementwise)(merges, op)
        elif not merges.parted.isdisjoint(op.operands) and _is_elementwise(op):
            merges.parted.add(op.results[0])
    merges.replace()


class _Merges:
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
            if count <= sum(map(_elements, self._merged(op))):
                left[result] = count
        stands, now = self.apart.keys() - self.written.keys(), dict[Value, Value]()
        for result, (op, whole) in self.written.items():
            if result in left and stands >= set(self._merged(op)):
                stands.add(result)
                make = Builder(op, self.function.made)
                now[result] = make.reshape(now.get(whole, whole), shape_of(result))
                self.function.stand(result, now[result])

    def _left(self, value: Value, left: dict[Value, int]) -> int:
        """How many elements are merged, if a value is not: its own, unless all who read it do."""
        if value not in self.apart:
            return 0
        given = [list(op.results) for op in users(value)]
        known = [left.get(result) for results in given for result in results]
        count = sum(n for n in known if n is not None)
        return count + _elements(value) if None in known or [] in given else count

    def _merged(self, op: ir.Operation) -> list[Value]:
        return [value for value in op.operands if value in self.apart]

    def reshape(self, op: ir.Operation) -> None:
        """Dimensions are merged, or parted again."""
        value, result = op.operands[0], op.results[0]
        sizes = shape_of(result)
        if value not in self.apart:
            groups = merged_from(shape_of(value), sizes)
            if groups is not None and self._is_padded_within(value, groups):
                self.apart[result] = value, groups
            return
        whole, groups = self.apart[value]
        again = (
            with_units(groups, sizes)
            or merged_from(shape_of(whole), sizes)
            or parted_as(groups, sizes)
        )
        if again is not None:
            make = Builder(op, self.function.made)
            self._say(result, make.reshape(whole, sizes_of(again)), again)
            if result not in self.apart:
                self.parted.add(result)

    def _is_padded_within(self, value: Value, groups: MergedDims) -> bool:
        """Whether layouts split a dimension unevenly that is merged behind another."""
        if value in self.parted:
            return any(len(group) > 1 for group in groups)
        dim = 0
        for group in groups:
            for k, size in enumerate(group):
                if math.prod(group[:k]) > 1 and size % self.function.shards.count((value, dim + k)):
                    return True
            dim += len(group)
        return False

    def _say(self, result: Value, whole: Value, groups: MergedDims) -> None:
        """What an operation gives is `whole`, whose dimensions are merged then."""
        self.written[result] = operation_of(result), whole
        if any(len(group) > 1 for group in groups):
            self.apart[result] = whole, groups

    def _of(self, value: Value, groups: MergedDims, make: Builder) -> Value | None:
        """A value before dimensions are merged as `groups` say; None if it is not known so."""
        apart = self.apart.get(value)
        if apart is not None:
            return apart[0] if apart[1] == groups else None
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
            found, to = self._of(given, own, make), among(groups, dims, own)
            return None if found is None else make.broadcast(found, sizes, to)
        if maker is not None and maker.name == IOTA:
            dim = integer(maker.attributes["iota_dimension"])
            return _counted(make, groups, dim, make.element_of(value))
        if maker is not None and len(maker.operands) == 1 and _is_elementwise(maker):
            found = self._of(maker.operands[0], groups, make)
            return (
                None if found is None else copied(make, maker, [found], [tuple(sizes)]).results[0]
            )
        return None

    def elementwise(self, op: ir.Operation) -> None:
        """Each element is computed of those at its place."""
        if not _is_elementwise(op):
            return
        make = Builder(op, self.function.made)
        groups = next(self.apart[v][1] for v in op.operands if v in self.apart)
        values = [self._of(v, groups, make) if shape_of(v) else v for v in op.operands]
        known = [value for value in values if value is not None]
        if len(known) == len(values):
            new = copied(make, op, known, [tuple(sizes_of(groups))])
            self._say(op.results[0], new.results[0], groups)

    def broadcast(self, op: ir.Operation) -> None:
        """A dimension that is kept is merged from the same ones."""
        whole, groups = self.apart[op.operands[0]]
        dims = integers(op.attributes["broadcast_dimensions"])
        before, after = shape_of(op.operands[0]), shape_of(op.results[0])
        if any(before[k] != after[d] and groups[k] != (1,) for k, d in enumerate(dims)):
            return
        new: list[tuple[int, ...]] = [(size,) for size in after]
        for k, d in enumerate(dims):
            if before[k] == after[d]:
                new[d] = groups[k]
        make = Builder(op, self.function.made)
        spread = make.broadcast(whole, sizes_of(new), among(new, dims, groups))
        self._say(op.results[0], spread, tuple(new))

    def transpose(self, op: ir.Operation) -> None:
        """Dimensions move together with those that they were merged with."""
        whole, groups = self.apart[op.operands[0]]
        order = integers(op.attributes["permutation"])
        moved = tuple([groups[d] for d in order])
        make = Builder(op, self.function.made)
        turned = make.transpose(whole, among(groups, order, moved))
        self._say(op.results[0], turned, moved)

    def reduce(self, op: ir.Operation) -> None:
        """Of a merged dimension, all are reduced that it was merged from."""
        count, make = len(op.results), Builder(op, self.function.made)
        values, starts = op.operands[:count], op.operands[count:]
        groups = next((self.apart[value][1] for value in values if value in self.apart), None)
        if groups is None:
            return
        found = [self._of(value, groups, make) for value in values]
        known = [value for value in found if value is not None]
        if len(known) < count:
            return
        dims = integers(op.attributes["dimensions"])
        left = tuple([group for d, group in enumerate(groups) if d not in dims])
        gone = integers_attr(among(groups, dims, [groups[d] for d in dims]))
        shapes = [tuple(sizes_of(left))] * count
        new = copied(make, op, [*known, *starts], shapes, {"dimensions": gone})
        for result, whole in zip(op.results, new.results, strict=True):
            self._say(result, whole, left)

    def largest(self, op: ir.Operation) -> None:
        """The largest of a merged dimension are among those of its rows.

        Of equal ones the first is taken of each row, and then the first row.
        """
        whole, groups = self.apart[op.operands[0]]
        make, others, last = Builder(op, self.function.made), groups[:-1], groups[-1]
        taken, width = shape_of(op.results[0])[-1], last[-1]
        if len(last) > 1 and taken >= width:
            return
        rows = (*others, last[:-1], (taken,)) if len(last) > 1 else (*others, (taken,))
        best = copied(make, op, [whole], [tuple(sizes_of(rows))] * 2)
        if len(last) > 1:
            values, index = best.results
            row = _counted(make, rows, len(others), make.element_of(index))
            place = make.binary("add", index, make.times(row, width))
            shape = (*sizes_of(others), math.prod(last[:-1]) * taken)
            best = copied(make, op, [make.reshape(values, shape)], [(*shape[:-1], taken)] * 2)
            places = make.along_last(make.reshape(place, shape), best.results[1])
        else:
            places = best.results[1]
        left = (*others, (taken,))
        self._say(op.results[0], best.results[0], left)
        self._say(op.results[1], places, left)

    def indexed(self, op: ir.Operation) -> None:
        """What is read or added at places has their dimensions, merged or not."""
        given, numbers = op.operands, IndexNumbers.of(op)
        is_read, indices = op.name == GATHER, given[1]
        if len(op.results) > 1 or numbers.beside or given[0] in self.apart:
            return
        slices = op.results[0] if is_read else given[2]
        own = [d for d in range(len(shape_of(indices))) if d != numbers.vector_dim]
        theirs = [d for d in range(len(shape_of(slices))) if d not in numbers.windows]
        of_slices, of_indices = list(self._groups(slices)), list(self._groups(indices))
        for d, e in zip(own, theirs, strict=True):
            of_indices[d] = of_slices[e] = max(of_indices[d], of_slices[e], key=len)
        vectors = of_indices[numbers.vector_dim : numbers.vector_dim + 1]
        if any(len(group) > 1 for group in (*vectors, *[of_slices[d] for d in numbers.windows])):
            return
        make = Builder(op, self.function.made)
        found = [given[0], self._of(indices, tuple(of_indices), make)]
        if not is_read:
            found.append(self._of(slices, tuple(of_slices), make))
        known = [value for value in found if value is not None]
        if len(known) < len(found):
            return
        groups = tuple(of_slices) if is_read else self._groups(op.results[0])
        new = copied(make, op, known, [tuple(sizes_of(groups))])
        windows = among(of_slices, numbers.windows, [(1,)] * len(numbers.windows))
        vector_dim = len(sizes_of(of_indices[: numbers.vector_dim]))
        replace(numbers, windows=windows, vector_dim=vector_dim).write(new)
        self._say(op.results[0], new.results[0], groups)

    def dot(self, op: ir.Operation) -> None:
        """What both sides share is merged from the same ones on both."""
        sides, make = dot_sides(op), Builder(op, self.function.made)
        groups = [list(self._groups(value)) for value in op.operands]
        for one, other in ((0, 1), (1, 0)):
            for mine, others in zip(sides[one], sides[other], strict=True):
                for d, e in zip(mine, others, strict=True):
                    if len(groups[one][d]) > 1:
                        groups[other][e] = groups[one][d]
        values = [
            self._of(value, tuple(of), make) for value, of in zip(op.operands, groups, strict=True)
        ]
        left, right = values
        if left is None or right is None:
            return

        def places(side: int, which: int) -> list[int]:
            dims, of = sides[side][which], groups[side]
            return among(of, dims, [of[d] for d in dims])

        numbers = stablehlo.DotDimensionNumbers.get(
            places(0, 0), places(1, 0), places(0, 1), places(1, 1)
        )
        shared = [groups[0][d] for d in sides[0][0]]
        free = [
            group
            for of, (batch, summed) in zip(groups, sides, strict=True)
            for d, group in enumerate(of)
            if d not in batch and d not in summed
        ]
        result = (*shared, *free)
        new = copied(make, op, [left, right], [tuple(sizes_of(result))], {DOT_NUMBERS: numbers})
        self._say(op.results[0], new.results[0], result)

    def _groups(self, value: Value) -> MergedDims:
        found = self.apart.get(value)
        return found[1] if found is not None else tuple([(size,) for size in shape_of(value)])


_WRITERS: dict[str, Callable[[_Merges, ir.Operation], None]] = {
    BROADCAST: _Merges.broadcast,
    TRANSPOSE: _Merges.transpose,
    REDUCE: _Merges.reduce,
    TOP_K: _Merges.largest,
    GATHER: _Merges.indexed,
    SCATTER: _Merges.indexed,
    DOT: _Merges.dot,
}


def _is_elementwise(op: ir.Operation) -> bool:
    """Whether each element is computed of those at its place, and of scalars.

    A map with a body names its dimensions, and is left out.
    """
    is_one = len(op.results) == 1 and not len(op.regions) and op.name not in _NOT_ELEMENTWISE
    if not is_one or not opdef(op.name).resizes:
        return False
    shape = shape_of(op.results[0])
    return bool(shape) and all(shape_of(value) in (shape, []) for value in op.operands)


def _elements(value: Value) -> int:
    return math.prod(shape_of(value))


def _counted(make: Builder, groups: MergedDims, dim: int, element: str) -> Value:
    """What counts along a merged dimension, before it is merged: in integers, rounded once."""
    sizes, start, group = sizes_of(groups), starts_of(groups)[dim], groups[dim]
    counted = index_element(math.prod(group))
    parts = [
        make.times(make.iota(sizes, start + k, counted), math.prod(group[k + 1 :]))
        for k in range(len(group))
    ]
    return make.convert(make.combined("add", parts), element)
