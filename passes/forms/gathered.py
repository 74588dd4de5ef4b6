"""A gather whose rows products alone read: each product and the gather become one operation.

The shards of the table can then multiply the rows that they own, and the products are added up.
These are no larger than the rows, and often much smaller: the scores of keys in pages, or the sums
of bags.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from dtensor.dialect import build
from dtensor.dialect.mlir import Value, ir, made_by
from dtensor.dialect.names import DOT_NUMBERS, GATHER_NUMBERS, PRECISION, SLICE_SIZES
from dtensor.passes.builder import Builder, Operand
from dtensor.passes.forms.walked import Walks, labels_of, moved_walks
from dtensor.passes.ops.attributes import (
    dot_sides,
    element_of,
    is_marked,
    shape_of,
    splat_number,
    spread_dims,
)
from dtensor.passes.ops.contraction import dot_numbers
from dtensor.passes.ops.elements import element_kind, holds_floats
from dtensor.passes.ops.indexing import indexed_dims
from dtensor.passes.ops.known import never_infinite
from dtensor.passes.ops.numbers import nearly_known_integers
from dtensor.passes.rewriting.rewriting import Rewriting

Dims = list[list[int]]  # per dimension of a value, the dimensions of the gather that it walks
Pairs = list[tuple[int, int]]

_ALGORITHM = "algorithm"  # of a dot_general, which may treat its operands differently


def replace_products(gather: ir.Operation, function: Rewriting) -> None:
    """Let products with what is gathered stand for a gather and all that reads it.

    They stay as they are where something else than products reads what is gathered, where the
    program computes the indices of constants, for it is slices then, and where parts of a sum may
    be multiplied as they stand.
    """
    shape = shape_of(gather.results[0])
    dims = indexed_dims(gather, [*map(shape_of, gather.operands)])
    if dims.cut or dims.partly or not dims.picked or 0 in shape:
        return
    reading = _Reading(gather)
    if is_marked(gather) or not reading.follow(gather.results[0], [[r] for r in range(len(shape))]):
        return
    indexed = {r for *_, r in (*dims.batching, *dims.spread)}
    for product in reading.products:
        if product.other in reading.seen or not product.is_right(shape, indexed):
            return
    if nearly_known_integers(gather.operands[1]) is not None:
        return
    for product in reading.products:
        product.replace(gather, shape, indexed, function)


@dataclass(frozen=True)
class _Fill:
    """A select that puts one number in the place of rows, those that are not there perhaps.

    Attributes:
        mask: what it selects by.
        walked: the dimensions of the gather that the mask has.
        side: which of the operands of the select the rows are.
        number: what it puts in the place of others, repeated.
    """

    mask: Value
    walked: tuple[int, ...]
    side: int
    number: Value

    @property
    def is_nan(self) -> bool:
        """Whether the number is NaN."""
        return math.isnan(splat_number(self.number) or 0)

    def is_right(self, product: ir.Operation) -> bool:
        """Whether the select may come after a product: NaN times anything is NaN."""
        is_product = product.name == "stablehlo.multiply"
        same = element_of(product.results[0]) == element_of(self.number)
        return self.is_nan or (is_product and same)

    def of_product(self, make: Builder, shape: Sequence[int], other: Value) -> Operand:
        """What the product with the other operand is where the number stands."""
        if self.is_nan:
            return math.nan
        return make.binary("multiply", make.reshape(other, shape), make.reshape(self.number, shape))

    def filled(self, make: Builder, value: Value, place: dict[int, int], beyond: Operand) -> Value:
        """A value with `beyond` where the number stands; `place` says where its dimensions are.

        It need not have those of one element.
        """
        pairs = zip(self.walked, make.shape_of(self.mask), strict=True)
        kept = [place[r] for r, size in pairs if size > 1]
        shape = make.shape_of(value)
        mask = make.reshape(self.mask, [shape[d] for d in kept])
        mask = make.spread(mask, shape, kept)
        return make.select(mask, *((value, beyond) if self.side == 1 else (beyond, value)))


@dataclass
class _Product:
    """A product that reads what is gathered, in another shape perhaps.

    Attributes:
        op: a multiply, or a dot_general.
        side: which of its operands is gathered.
        dims: per dimension of that operand, the dimensions of the gather that it walks.
        fills: what stands in the place of rows, the innermost first.
        batching: pairs of dimensions of the two that the result has.
        summed: pairs of dimensions that it does not have.
    """

    op: ir.Operation
    side: int
    dims: Dims
    fills: tuple[_Fill, ...] = ()

    def __post_init__(self) -> None:
        self.batching: Pairs = [(d, d) for d in range(len(self.dims))]
        self.summed: Pairs = []
        if self.op.name == "stablehlo.dot_general":
            sides = dot_sides(self.op)
            own, other = sides[self.side], sides[1 - self.side]
            self.batching = list(zip(own[0], other[0], strict=True))
            self.summed = list(zip(own[1], other[1], strict=True))

    @property
    def other(self) -> Value:
        """The other operand as it is now: it may be a product that was written anew."""
        value: Value = self.op.operands[1 - self.side]
        return value

    def is_right(self, shape: Sequence[int], indexed: set[int]) -> bool:
        """Whether the result is no larger than what is gathered, and each shard can compute a part.

        Args:
            shape: of what is gathered.
            indexed: its dimensions that are those of the indices.
        """
        result = self.op.results[0]
        is_large = math.prod(shape_of(result)) > math.prod(shape)
        is_bool = element_kind(element_of(result))[0] == "bool"
        if is_large or is_bool or _ALGORITHM in self.op.attributes or never_infinite(self.other):
            return False
        batching = {r for k, _ in self.batching for r in self.dims[k]}
        if self._sums & indexed and not indexed <= batching | self._sums:
            return False
        return all(indexed.issuperset(f.walked) and f.is_right(self.op) for f in self.fills)

    @property
    def _sums(self) -> set[int]:
        """The dimensions of what is gathered that are summed."""
        return {r for k, _ in self.summed for r in self.dims[k]}

    def replace(
        self,
        gather: ir.Operation,
        shape: Sequence[int],
        indexed: set[int],
        function: Rewriting,
    ) -> None:
        """Write the gather and the product as one."""
        make, old = Builder(self.op, function.made), self.op.results[0]
        place, split = self._other_split(shape)
        batching, summed = (
            [(r, place[d] + n) for k, d in pairs for n, r in enumerate(self.dims[k])]
            for pairs in (self.batching, self.summed)
        )
        rows, columns = ({pair[side] for pair in (*batching, *summed)} for side in (0, 1))
        attributes = {name: gather.attributes[name] for name in (GATHER_NUMBERS, SLICE_SIZES)}
        attributes[DOT_NUMBERS] = dot_numbers(batching, summed)
        if PRECISION in self.op.attributes:
            precision = list(ir.ArrayAttr(self.op.attributes[PRECISION]))
            attributes[PRECISION] = ir.ArrayAttr.get(precision[:: -1 if self.side else 1])
        # Dimensions of the result: those of what is gathered, then ~d of the other operand.
        labels = [r for r, _ in batching] + [r for r in range(len(shape)) if r not in rows]
        labels += [~d for d in range(len(split)) if d not in columns]
        sizes = {label: shape[label] if label >= 0 else split[~label] for label in labels}
        other, sums = make.reshape(self.other, split), bool(self._sums & indexed)
        if sums:
            other = self._filled(make, other, dict([*batching, *summed]))
        fused = build.gather_dot(
            [*gather.operands, other],
            make.tensor_type([sizes[label] for label in labels], element_of(old)),
            attributes,
            loc=self.op.location,
            ip=ir.InsertionPoint(self.op),
        )
        function.made.append(fused)
        wanted = self._result_labels(place)
        labels = [label for label in labels if label in wanted]  # the others are of one element
        result = make.reshape(fused.results[0], [sizes[label] for label in labels])
        result = make.transpose(result, [labels.index(label) for label in wanted])
        if not sums:
            result = self._filled(make, result, {label: d for d, label in enumerate(wanted)})
        function.replace(self.op, make.reshape(result, shape_of(old)))

    def _filled(self, make: Builder, value: Value, place: dict[int, int]) -> Value:
        """A value with what stands in the place of rows; `place` says where its dimensions are."""
        for fill in self.fills:
            beyond = fill.of_product(make, make.shape_of(value), self.other)
            value = fill.filled(make, value, place, beyond)
        return value

    def _other_split(self, shape: Sequence[int]) -> tuple[list[int], list[int]]:
        """Where each dimension of the other operand begins once it is split, and its new shape."""
        mine = {d: k for k, d in (*self.batching, *self.summed)}
        place, split = [], list[int]()
        for d, size in enumerate(shape_of(self.other)):
            place.append(len(split))
            split += [shape[r] for r in self.dims[mine[d]]] if d in mine else [size]
        return place, split

    def _result_labels(self, place: Sequence[int]) -> list[int]:
        """The dimensions of the result as it was: of the gather, or ~d of the other operand."""
        taken = {k for k, _ in (*self.batching, *self.summed)}
        paired = {d for _, d in (*self.batching, *self.summed)}
        mine = [r for k, walked in enumerate(self.dims) if k not in taken for r in walked]
        others = [~start for d, start in enumerate(place) if d not in paired]
        batching = [r for k, _ in self.batching for r in self.dims[k]]
        return [*batching, *others, *mine] if self.side else [*batching, *mine, *others]


@dataclass
class _Reading:
    """What reads the result of a gather.

    Attributes:
        gather: the gather.
        products: the products at the end.
        moves: what stands in between.
        seen: what is gathered, in all its shapes.
    """

    gather: ir.Operation
    products: list[_Product] = field(default_factory=list)
    moves: list[ir.Operation] = field(default_factory=list)
    seen: set[Value] = field(default_factory=set)

    def follow(self, value: Value, dims: Dims, fills: tuple[_Fill, ...] = ()) -> bool:
        """Whether all that reads a value is products, or moves that only products read."""
        self.seen.add(value)
        uses = [(use.owner.operation, use.operand_number) for use in value.uses]
        return bool(uses) and all([self._reads(op, side, dims, fills) for op, side in uses])

    def _reads(self, op: ir.Operation, side: int, dims: Dims, fills: tuple[_Fill, ...]) -> bool:
        if op.block != self.gather.block or is_marked(op):
            return False  # a loop would gather in each turn
        match op.name:
            case "stablehlo.multiply" | "stablehlo.dot_general":
                self.products.append(_Product(op, side, dims, fills))
                return True
            case "stablehlo.transpose" | "stablehlo.reshape":
                moved = self._moved(op, dims)
            case "stablehlo.convert" if holds_floats(
                *map(element_of, (op.operands[0], op.results[0]))
            ):
                moved = dims
            case "stablehlo.select" if side > 0:
                fill = _fill(op, side, dims)
                moved = None if fill is None else dims
                fills += () if fill is None else (fill,)
            case _:
                return False
        self.moves.append(op)
        return moved is not None and self.follow(op.results[0], moved, fills)

    def _moved(self, op: ir.Operation, dims: Dims) -> Dims | None:
        sizes = shape_of(self.gather.results[0])
        given: Walks = [[(r, sizes[r]) for r in walked if sizes[r] != 1] for walked in dims]
        found = moved_walks(op, {op.operands[0]: given})
        return None if found is None else [labels_of([walked]) for walked in found]


def _fill(select: ir.Operation, side: int, dims: Dims) -> _Fill | None:
    """The number that a select puts in the place of rows; None if it puts anything else."""
    mask, other = select.operands[0], select.operands[3 - side]
    if splat_number(other) is None:
        return None
    spread = made_by("stablehlo.broadcast_in_dim", mask)
    places = list(range(len(shape_of(mask))))
    if spread is not None:
        mask, places = spread.operands[0], spread_dims(spread)
    sizes, full = shape_of(mask), shape_of(other)
    walked = tuple(r for d in places for r in dims[d])
    is_whole = [full[d] for d in places] == sizes and len(walked) == len(sizes)
    return _Fill(mask, walked, side, other) if is_whole else None
