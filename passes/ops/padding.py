"""What operations make of elements beyond the end of a dimension.

A dimension that its mesh axes do not divide is longer inside the program than the user's. What
stands beyond its end is anything, NaN included, and must not reach an element before the end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from dtensor.dialect.attributes import index_attr
from dtensor.dialect.mlir import Value, ir
from dtensor.dialect.names import SIZE
from dtensor.passes.builder import Builder
from dtensor.passes.creation import Shape, integers_attr
from dtensor.passes.expansion.indices import signed_index
from dtensor.passes.ops.loops import numbered
from dtensor.passes.ops.reduction import Reduction
from dtensor.passes.ops.rule import FactorKind, OpInfo, OpRule


class Fill(Enum):
    """What operands must hold beyond the end of a dimension, for the elements before it."""

    ANY = "anything"
    IDENTITY = "the identity of the factor's reduction"
    INIT = "the init value that goes with the operand"


class Along(NamedTuple):
    """A dimension that can be longer together with others.

    Attributes:
        slot: the operand, or `~result`.
        dim: the dimension.
        scale: what its length is in proportion to.
        fill: what it must hold beyond its end, if it is of an operand.
        times: of how many elements shards have a multiple, where it is split as others are.
        together: whether the others grow with it, even those that divide as they are.
    """

    slot: int
    dim: int
    scale: int = 1
    fill: Fill | Reduction = Fill.ANY
    times: int = 1
    together: bool = False


TiedDims = tuple[Along, ...]
Ties = Callable[[OpInfo], Sequence[TiedDims]]
PART = 8  # of a dimension is little


def is_little_apart(op: OpInfo, tie: TiedDims) -> bool:
    """Whether the dimensions of a tie are in no proportion, and the last is so but for little."""
    size, difference = _proportion(op, tie)
    return 0 < PART * difference <= size


def in_proportion(op: OpInfo, tie: TiedDims) -> bool:
    """Whether the lengths of a tie are in proportion as they are, and some may stay so."""
    return _proportion(op, tie)[1] == 0 and not tie[0].together


def goes_in_steps(op: OpInfo, tie: TiedDims) -> bool:
    """Whether the lengths of a tie are in proportion, but for a part of a step at the end."""
    return _proportion(op, tie)[1] < max(tie[0].scale, tie[-1].scale)


def _proportion(op: OpInfo, tie: TiedDims) -> tuple[int, int]:
    """The length of the first dimension of a tie, and by how much the last is out of proportion."""
    one, other = tie[0], tie[-1]
    size = op.shape(one.slot)[one.dim] * other.scale
    return size, abs(op.shape(other.slot)[other.dim] * one.scale - size)


def little_apart(find: Ties, plain: bool = False) -> Ties:
    """Those of some ties that are little out of proportion, but for which all could grow together.

    What is in no proportion is split alike, and what shards lack is fetched in halos. With `plain`
    dimensions with gaps or a stride are left out.
    """
    return lambda op: [
        tie
        for tie in find(op)
        if is_little_apart(op, tie) and not (plain and any(along.scale != 1 for along in tie))
    ]


def in_reach(find: Ties) -> Ties:
    """Those of some ties that are little out of proportion, or in one that is not 1 to 1.

    Halos are enough for either, so that what divides need not grow with what does not.
    """
    return lambda op: [
        tie
        for tie in find(op)
        if is_little_apart(op, tie) or (in_proportion(op, tie) and tie[0].scale != tie[-1].scale)
    ]


@dataclass
class Grown:
    """An operation some of whose dimensions have become longer.

    One that is applied to another number of rows is written anew alike: with `has_end` false there
    is nothing beyond the end of a dimension, and it may have become shorter too.

    Attributes:
        operation: the operation; its types are those of the longer dimensions already.
        rule: its rule in the true sizes.
        operands: what its operands have become, in elements.
        results: what its results have become, in elements.
        has_end: whether what is longer holds anything beyond its true end.
        made: operations created for it.
        instead: by number, the values that stand for its results from now on, where others do.
    """

    operation: ir.Operation
    rule: OpRule
    operands: tuple[Shape, ...]
    results: tuple[Shape, ...]
    has_end: bool = True
    made: list[ir.Operation] = field(default_factory=list)
    instead: dict[int, Value] = field(default_factory=dict)

    @property
    def info(self) -> OpInfo:
        """The operation in its true sizes."""
        return self.rule.info_of(self.operation)

    def set_integers(self, name: str, numbers: Sequence[int]) -> None:
        """Write `array<i64: ...>`."""
        self.operation.attributes[name] = integers_attr(numbers)

    def deny(self, *names: str) -> None:
        """Say that what these attributes promise does not hold of what is beyond the end."""
        for name in names if self.has_end else ():
            if name in self.operation.attributes:
                self.operation.attributes[name] = ir.BoolAttr.get(False)

    def say_size(self, dim: int) -> None:
        """Say how many elements operand 0 has in truth along a dimension that is longer."""
        if self.grows(0, dim):
            self.operation.attributes[SIZE] = index_attr(self.true_operand(0)[dim])

    def grows(self, k: int, dim: int) -> bool:
        """Whether a dimension of operand `k` has become longer."""
        return self.operands[k][dim] != self.true_operand(k)[dim]

    def true_operand(self, k: int) -> Shape:
        """The true shape of operand `k`."""
        return self.rule.info.operand_shapes[k]

    def true_result(self, k: int) -> Shape:
        """The true shape of result `k`."""
        return self.rule.info.result_shapes[k]

    def keep_within(self, k: int, last: Sequence[int], dim: int | None = None) -> None:
        """Let no index in operand `k` exceed `last`: what is beyond it, is beyond the true end.

        `last` is the largest index, or one per element along `dim`, the dimension that holds the
        components of an index.
        """
        builder, value, bounds = self._bounds(k, last, dim)
        self.operation.operands[k] = builder.binary("minimum", value, bounds)

    def drop_beyond(self, k: int, last: Sequence[int], dim: int | None) -> None:
        """Make indices in operand `k` that exceed `last` negative; arguments as `keep_within`."""
        builder, value = Builder(self.operation, self.made), self.operation.operands[k]
        element = signed_index(builder.element_of(value))
        self.operation.operands[k] = builder.convert(value, element)
        builder, value, bounds = self._bounds(k, last, dim)
        is_beyond = builder.compare("GT", value, bounds)
        self.operation.operands[k] = builder.select(is_beyond, -1, value)

    def set_beyond(self, k: int, dim: int, index: int) -> None:
        """Let indices in operand `k` beyond the true end of a dimension be `index`."""
        if not self.has_end:
            return
        builder, value = Builder(self.operation, self.made), self.operation.operands[k]
        value = builder.convert(value, signed_index(builder.element_of(value)))
        place = builder.iota(builder.shape_of(value), dim, "i32")
        is_true = builder.compare("LT", place, self.true_operand(k)[dim])
        self.operation.operands[k] = builder.select(is_true, value, index)

    def _bounds(self, k: int, last: Sequence[int], dim: int | None) -> tuple[Builder, Value, Value]:
        """The indices in operand `k`, and `last` for each of them."""
        builder, value = Builder(self.operation, self.made), self.operation.operands[k]
        shape, element = builder.read_type(value.type)
        numbers = [min(n, int(Reduction.MIN.identity(element))) for n in last]
        if dim is None:
            return builder, value, builder.constant_like(numbers[0], value)
        return builder, value, builder.broadcast(numbered(builder, numbers, element), shape, [dim])


def passing(rule: OpRule, factor: int) -> Fill | None:
    """Each element reads those of its own index, along the dimensions that a factor walks."""
    if rule.factors[factor].kind is not FactorKind.PASS_THROUGH:
        return None
    results = {k for k, _ in rule.dims_of_factor[factor] if k < 0}
    return Fill.ANY if len(results) == len(rule.results) else None


def reducing(rule: OpRule, factor: int) -> Fill | None:
    """As `passing`; along a reduced dimension the identity changes nothing."""
    is_reduced = rule.factors[factor].kind is FactorKind.REDUCTION
    return Fill.IDENTITY if is_reduced else passing(rule, factor)


def indexing(rule: OpRule, factor: int) -> Fill | None:
    """As `passing`; along an indexed dimension only indices within the true size are read."""
    is_indexed = rule.factors[factor].reduction is not None
    return Fill.ANY if is_indexed else passing(rule, factor)


def as_it_stands(op: Grown) -> None:
    """The operation says nothing of sizes."""


@dataclass(frozen=True)
class Padding:
    """How an operation copes with elements beyond the end of a dimension.

    Attributes:
        holds: what operands must hold there, along the dimensions of a factor; None where the
            operation must not see them.
        refit: writes anew what the operation says of sizes.
        ties: dimensions that no factor walks along, or not at equal indices, and that can yet grow
            together; None if there are none.
        alike: dimensions that need not grow together to be split alike, if one of them is; None if
            there are none.
        moves: a dimension whose axes go to one of others while it is computed along, if they
            divide that, and these others; None if there is none.
        reads: dimensions of operands that may be longer by themselves; None if there are none.
        regroups: whether dimensions are regrouped, so that a longer major dimension makes another
            one longer in proportion.
    """

    holds: Callable[[OpRule, int], Fill | None] = passing
    refit: Callable[[Grown], None] = as_it_stands
    ties: Ties | None = None
    alike: Ties | None = None
    moves: Callable[[OpInfo], Sequence[Along]] | None = None
    reads: Callable[[OpInfo], Sequence[Along]] | None = None
    regroups: bool = False


def sized(dim_of: Callable[[OpInfo], int]) -> Padding:
    """Of an op that may read more along a dimension, and looks at what it says is its own alone."""
    return Padding(
        refit=lambda op: op.say_size(dim_of(op.info)),
        ties=lambda op: [(Along(0, dim_of(op)),)],
    )


ANY = Padding()
IDENTITY = Padding(reducing)
