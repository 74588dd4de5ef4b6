"""What is known of one operation: its rule, its algorithms, and what planning may do with it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from dtensor.dialect.axes import AxisRef
from dtensor.dialect.layout import Layout
from dtensor.dialect.mlir import Value, ir
from dtensor.dialect.names import DIM
from dtensor.passes.creation import Shape
from dtensor.passes.expansion.context import Expander, LocalOp
from dtensor.passes.ops.accuracy import Accuracy, rounded
from dtensor.passes.ops.attributes import integer
from dtensor.passes.ops.padding import Padding
from dtensor.passes.ops.rule import OpInfo, OpRule, element_bytes, read_once

Anew = Callable[[ir.Operation, list[ir.Operation]], Sequence[Value]]


class Traffic(NamedTuple):
    """What an algorithm sends over one set of mesh axes.

    Attributes:
        axes: the mesh axes, the first major.
        wire_bytes: bytes that each device sends, on a ring.
        collectives: how many collectives send them.
        what: tells apart what ops send of an operand: of two ops that read one value in one layout,
            and send the same at first, the second need not. It has the dimension, how many elements
            come from below and from above, then what stands around. Empty where each op sends for
            itself.
        slot: which operand that is.
    """

    axes: tuple[AxisRef, ...]
    wire_bytes: float
    collectives: int
    what: tuple[int, ...] = ()
    slot: int = 0


@dataclass(frozen=True)
class Placed:
    """One op, its global shapes and attributes, with the layouts that it reads and writes."""

    op: OpInfo
    operands: tuple[Layout, ...]
    results: tuple[Layout, ...]

    def layout(self, slot: int) -> Layout:
        """The layout of operand `slot`, or of result `~slot`."""
        return self.operands[slot] if slot >= 0 else self.results[~slot]

    def shard(self, slot: int) -> Shape:
        """The shape of a shard of operand `slot`, or of result `~slot`."""
        return self.layout(slot).local_shape(self.op.shape(slot))

    def row_bytes(self, slot: int, dim: int) -> float:
        """Bytes of a shard of operand `slot`, or result `~slot`, per element along a dimension."""
        op = self.op
        element = op.operand_elements[slot] if slot >= 0 else op.result_elements[~slot]
        rows = [n for d, n in enumerate(self.shard(slot)) if d != dim]
        return math.prod(rows) * element_bytes(element)


def always(placed: Placed) -> bool:
    """Applies to every layout that the op's rule allows."""
    return True


def is_cut(dim: Callable[[OpInfo], int]) -> Callable[[Placed], bool]:
    """Applies where a dimension of operand 0 is split into contiguous shards."""

    def applies(placed: Placed) -> bool:
        word = placed.operands[0].dims[dim(placed.op)]
        return word.split > 1 and word.is_contiguous

    return applies


def is_whole(dim: Callable[[OpInfo], int]) -> Callable[[Placed], bool]:
    """Applies where a dimension of operand 0 is not split."""
    return lambda placed: placed.operands[0].dims[dim(placed.op)].split == 1


@read_once
def named_dim(op: OpInfo) -> int:
    """The dimension that one of dtensor's own operations names."""
    return integer(op.attribute(DIM))


def comparisons(op: OpInfo, dim: int) -> float:
    """N log2 n of each row of n elements: what it takes to order them."""
    shape = op.operand_shapes[0]
    return math.prod(shape) * math.log2(max(shape[dim] if shape else 1, 2))


def sends_nothing(placed: Placed) -> tuple[Traffic, ...]:
    """No communication inside the op."""
    return ()


def no_more(placed: Placed) -> float:
    """No floating-point operations but those of the op."""
    return 0.0


@dataclass(frozen=True)
class Algorithm:
    """One way to compute an op on shards.

    Attributes:
        name: how the IR names it, in `dtensor.algorithm`.
        expand: makes the op of one device; None if local types are all it needs.
        applies: whether it computes the op in these layouts.
        comm_bytes: what it sends; `passes.cost` makes seconds of it.
        more_flops: floating-point operations of each device besides its share of those of the op.
        weight: how many times what it sends counts beside what others send: of an algorithm that
            takes more collectives, and more for XLA to compile, more than once.
    """

    name: str
    expand: Expander | None = None
    applies: Callable[[Placed], bool] = always
    comm_bytes: Callable[[Placed], tuple[Traffic, ...]] = sends_nothing
    more_flops: Callable[[Placed], float] = no_more
    weight: float = 1.0


def one_per_element(op: OpInfo) -> float:
    """One floating-point operation per element of the first result."""
    return float(math.prod(op.result_shapes[0])) if op.result_shapes else 0.0


def unknown_flops(op: OpInfo) -> float:
    """None are counted where nothing is known."""
    return 0.0


def nothing_known(operation: ir.Operation) -> tuple[object, ...]:
    """The rule reads types and attributes alone."""
    return ()


def says(*names: str) -> Callable[[ir.Operation], tuple[object, ...]]:
    """The rule reads what these attributes of dtensor say, where they are there."""
    return lambda op: tuple([op.attributes[name] for name in names if name in op.attributes])


def no_rule(op: OpInfo) -> OpRule | None:
    """Every value is whole."""
    return None


LOCAL = Algorithm("local")
"""The op is right on each shard as it stands, once its types are local."""


def local(expand: Expander) -> Algorithm:
    """As LOCAL, once `expand` has adapted what the op says of whole dimensions."""
    return Algorithm("local", expand)


BY_DEVICE, BY_RUN = "device", "run"


@dataclass(frozen=True)
class OpDef:
    """One operation.

    Attributes:
        rule: which dimensions move together, and which parts pass; None about an op of which
            nothing is known.
        algorithms: the ways to compute it on shards; `algorithm_of` chooses.
        flops: floating-point operations of an op of these shapes, global or local.
        fuses: whether XLA fuses it with its neighbours, so that its operands and results need not
            go through memory.
        costly: whether XLA computes it once, rather than again in each fusion that reads it.
        in_place: whether its result is written over its first operand, if that is read no more.
        rematerialisable: whether it may be computed again wherever a result is needed, if it
            reads nothing but scalars.
        must_divide: whether a large one must not be left undivided over an axis that could
            divide it.
        is_product: whether it multiplies matrices, for which devices have units of their own.
        padding: how it copes with elements beyond the end of uneven dimensions; None where it must
            not see any.
        moves_only: whether each element of its results is an element of an operand: no flops.
        resizes: whether it may be computed in another size where that is asked for: every element
            is computed by itself.
        varies: `BY_DEVICE` or `BY_RUN` if another one may get other results from equal operands.
        refused: why a program must not say it; empty if it may.
        settle: at import brings what an op says to the one form that all that read it take; None
            where there is but one.
        anew: writes the op as others that propagation knows better, puts these into a list, and
            returns what stands for each result; nothing where the op stays. None if it always does.
        accuracy: how far two right ways to compute it may lie apart, unless it only moves.
        known: what the rule reads besides types and StableHLO's attributes, such as what
            `ops.known` says of operands; ops share a rule only where it is equal.
    """

    rule: Callable[[OpInfo], OpRule | None]
    algorithms: tuple[Algorithm, ...] = (LOCAL,)
    flops: Callable[[OpInfo], float] = one_per_element
    fuses: bool = False
    costly: bool = False
    in_place: bool = False
    rematerialisable: bool = False
    must_divide: bool = False
    is_product: bool = False
    moves_only: bool = False
    resizes: bool = False
    varies: str = ""
    refused: str = ""
    settle: Callable[[ir.Operation], None] | None = None
    anew: Anew | None = None
    accuracy: Callable[[OpInfo], Accuracy] = rounded
    padding: Padding | None = None
    known: Callable[[ir.Operation], tuple[object, ...]] = nothing_known

    def count_flops(self, op: OpInfo) -> float:
        """Floating-point operations of an op of these shapes, global or local."""
        return 0.0 if self.moves_only else self.flops(op)

    def algorithm(self, name: str) -> Algorithm | None:
        """The algorithm of that name."""
        return next((found for found in self.algorithms if found.name == name), None)


UNKNOWN = OpDef(no_rule, flops=unknown_flops)
"""An operation of which nothing is known: it is right on whole values."""


def algorithm_of(
    definition: OpDef, placed: Placed, price: Callable[[Algorithm], float] | None = None
) -> Algorithm | None:
    """The algorithm that computes the op in these layouts; None if none does.

    Args:
        definition: what is known of the op.
        placed: the op and its layouts.
        price: seconds of what an algorithm sends and computes more than another. The first that
            applies is taken; if it communicates, the cheapest of those that apply and do.
    """
    found = (algorithm for algorithm in definition.algorithms if algorithm.applies(placed))
    first = next(found, None)
    if price is None or first is None or first.comm_bytes is sends_nothing:
        return first
    others = [algorithm for algorithm in found if algorithm.comm_bytes is not sends_nothing]
    if not others:
        return first
    return min((first, *others), key=price)


def placed_of(local: LocalOp) -> Placed:
    """The op that is being expanded."""
    read = local.ctx.element_of
    info = OpInfo(
        local.operation,
        local.name,
        local.operand_shapes,
        local.result_shapes,
        tuple([read(value) for value in local.operands]),
        tuple([read(value) for value in local.operation.results]),
    )
    return Placed(info, local.operand_layouts, local.result_layouts)
