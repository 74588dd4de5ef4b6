"""What a rule says about one op: which dimensions move together, and what may stay partial.

A rule speaks of *factors*, as an einsum does (`ij,jk->ik`), and never of a mesh. Splitting factor
`j` over a mesh axis splits every dimension that carries `j`; if `j` is a reduction factor, the
results become partial over the axis. Propagation, choice, cost and most expansions derive from it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property
from typing import Any, NamedTuple, NoReturn, Self, TypeVar

from dtensor.dialect.diagnostics import error
from dtensor.dialect.ends import Ends, Folds
from dtensor.dialect.mlir import ir
from dtensor.passes.ops.reduction import Reduction, reductions_of

Read = TypeVar("Read")


def element_bytes(element: str) -> float:
    """Size of one element in bytes: `f32` 4, `i1` 1, `complex<f64>` 16, `i4` 0.5."""
    if element.startswith("complex<"):
        return 2 * element_bytes(element[8:-1])
    if element == "i1" or element.startswith("f8"):
        return 1.0
    digits = "".join(c for c in element.lstrip("ubisf") if c.isdigit())
    return int(digits) / 8 if digits else 4.0


class FactorKind(Enum):
    """What splitting a factor asks of an op.

    PASS_THROUGH, REDUCTION and OWNED are right on each shard by themselves; the other kinds need
    an algorithm of the op that says so.
    """

    PASS_THROUGH = "pass-through"  # every shard by itself
    REDUCTION = "reduction"  # the shards' results are parts
    OWNED = "owned"  # a reduction: few elements are read, and whoever has them gives them
    WINDOW = "window"  # each result element reads a window of elements
    SCAN = "scan"  # each result element reads all elements before it
    ORDER = "order"  # the elements are compared with each other: sort, top_k, argmax
    TRANSFORM = "transform"  # each result element reads all: fft

    @property
    def is_local(self) -> bool:
        """Whether a shard needs nothing of the others."""
        return self in (FactorKind.PASS_THROUGH, FactorKind.REDUCTION, FactorKind.OWNED)


@dataclass(frozen=True, slots=True)
class Window:
    """How a window walks along one dimension; the fields are those of StableHLO.

    Attributes:
        ends: what stands in the padding, if it is neither zeros nor init values.
        folds: what windows beyond the first and the last one add to the results of others.
    """

    size: int
    stride: int
    low: int
    high: int
    base_dilation: int
    dilation: int
    ends: Ends | None = None
    folds: Folds | None = None

    @property
    def reach(self) -> int:
        """Elements from the first that the window reads to the last, both included."""
        return (self.size - 1) * self.dilation + 1

    @property
    def overlap(self) -> int:
        """How many elements a window shares with the next one."""
        return max(self.reach - self.stride, 0)

    @property
    def is_bare(self) -> bool:
        """Whether all is as StableHLO has it: zeros or init values around, and no results folded.

        Of a dimension that has become longer the ends may be all that tells so.
        """
        return self.ends is None and self.folds is None

    def padding(self, elements: int, steps: int) -> tuple[int, int]:
        """The padding with which so many windows walk over a dimension of so many elements."""
        places = (elements - 1) * self.base_dilation + 1 if elements else 0
        return self.low, (steps - 1) * self.stride + self.reach - self.low - places

    def tiles(self, elements: int) -> bool:
        """Whether the windows over a dimension of so many elements are its blocks, in order."""
        return (
            self.is_bare
            and self.stride == self.size
            and elements % self.size == 0
            and self.low == self.high == 0
            and (self.base_dilation == 1 or elements <= 1)
            and (self.dilation == 1 or self.size == 1)
        )


class WindowDim(NamedTuple):
    """A dimension over which windows overlap, are padded or leave gaps.

    Attributes:
        operand: the dimension of operand 0.
        steps: `(operand or ~result, dimension)` that has an element for each place of the window.
        row: which window of the op it is.
        window: how the window walks.
    """

    operand: int
    steps: tuple[int, int]
    row: int
    window: Window

    @property
    def may_spare(self) -> bool:
        """Whether a shard may compute results besides its own: they are one place apart."""
        window = self.window
        apart = window.stride if self.steps[0] < 0 else window.dilation
        return apart == 1 and window.is_bare


@dataclass(frozen=True, slots=True)
class Factor:
    """One independent loop dimension of an op.

    Attributes:
        size: number of iterations, in elements.
        reduction: None if every result that lacks the factor is the same on every shard of it;
            otherwise the reduction that combines the shards' results.
        partial_operands: operands that hold a part while the factor is split, and the identity
            of the reduction elsewhere (an init value; the operand of a scatter-add).
        kind: what splitting it asks of the op.
        window: how a WINDOW walks along the operand's dimension.
        counts: whether an iteration depends on its place, as one that indices name: each shard
            computes its own of it, but nobody may count from another place on.
    """

    size: int
    reduction: Reduction | None = None
    partial_operands: tuple[int, ...] = ()
    kind: FactorKind = FactorKind.PASS_THROUGH
    window: Window | None = None
    counts: bool = False


@dataclass(frozen=True, slots=True)
class DimMap:
    """Which digits of which factor one tensor dimension walks through.

    The dimension has `outer * size` elements; its minor `size` elements are the digits of the
    factor that have the weight `before` digits ahead of them. An ordinary dimension is
    `DimMap(f, 1, factor size)`. After a reshape `[6, 4] -> [24]` dimension 1 of the operand is
    `DimMap(f, before=6, size=4)`. A slice that keeps 2 of 6 equal blocks has `outer=6` on its
    operand and `outer=2` on its result.
    """

    factor: int
    before: int
    size: int
    outer: int = 1

    def to_factor(self, major: int) -> int | None:
        """The blocks of the factor ahead of what stands behind `major` blocks of the dimension."""
        return None if major % self.outer else major // self.outer * self.before

    def to_dim(self, major: int) -> int | None:
        """The blocks of the dimension ahead of what stands behind `major` blocks of the factor."""
        return None if major % self.before else self.outer * (major // self.before)


@dataclass(frozen=True, slots=True)
class PartialPass:
    """A way to compute on parts: reductions of operands and results; None stands for complete."""

    operands: tuple[Reduction | None, ...]
    results: tuple[Reduction | None, ...]


@dataclass(frozen=True)
class OpRule:
    """The rule of one op with given types and attributes.

    Attributes:
        factors: the factors, numbered by position.
        operands: per operand, per dimension, its digits; None: the dimension must be whole.
        results: likewise for results.
        passes: the ways in which the op maps parts to parts.
        why_whole: `(operand or ~result, dimension) -> reason` for dimensions that must be whole.
        flops: floating-point operations of the whole (global) op; its OpDef counts them.
        is_free: whether the op reads nothing and may be computed wherever it is needed; its
            OpDef says so.
        op: the op that it is the rule of; rules are shared by equal ops.
        others: other ways to read the op, which some algorithm of it takes.
    """

    factors: tuple[Factor, ...]
    operands: tuple[tuple[DimMap | None, ...], ...]
    results: tuple[tuple[DimMap | None, ...], ...]
    passes: tuple[PartialPass, ...] = ()
    why_whole: Mapping[tuple[int, int], str] = field(default_factory=dict, hash=False)
    flops: float = 0.0
    is_free: bool = False
    op: OpInfo | None = field(default=None, compare=False, repr=False)
    others: tuple[OpRule, ...] = ()

    def of(self, op: OpInfo | None) -> OpRule:
        """The rule of an equal op; of None, one to be kept while ops may be erased."""
        return replace(self, op=op, others=tuple([other.of(op) for other in self.others]))

    @cached_property
    def dims_of_factor(self) -> tuple[tuple[tuple[int, int], ...], ...]:
        """Per factor, the `(operand or ~result, dimension)` pairs that carry it."""
        found: list[list[tuple[int, int]]] = [[] for _ in self.factors]
        slots = *enumerate(self.operands), *((~k, dims) for k, dims in enumerate(self.results))
        for slot, dims in slots:
            for d, m in enumerate(dims):
                if m is not None:
                    found[m.factor].append((slot, d))
        return tuple(map(tuple, found))

    def map_of(self, slot: int, dim: int) -> DimMap | None:
        """The digits of a dimension of operand `slot`, or of result `~slot`."""
        return (self.operands[slot] if slot >= 0 else self.results[~slot])[dim]

    def has_all(self, slot: int, dim: int) -> bool:
        """Whether a dimension has all iterations of a factor, and nothing else."""
        m = self.map_of(slot, dim)
        return m is not None and (m.before, m.outer, m.size) == (1, 1, self.factors[m.factor].size)

    def passed_on(self, slot: int, dim: int) -> int | None:
        """The factor of which a dimension has all iterations, each computed by itself, if any.

        None if they depend on their places.
        """
        m = self.map_of(slot, dim) if self.has_all(slot, dim) else None
        if m is None:
            return None
        factor = self.factors[m.factor]
        is_each = factor.kind is FactorKind.PASS_THROUGH and not factor.counts
        return m.factor if is_each else None

    @property
    def info(self) -> OpInfo:
        """The op that it is the rule of, where it is one of an op."""
        assert self.op is not None
        return self.op

    def info_of(self, operation: ir.Operation) -> OpInfo:
        """An equal op that shares the rule, in the sizes of which that speaks."""
        return replace(self.info, operation=operation)

    def __str__(self) -> str:
        def one(dims: tuple[DimMap | None, ...]) -> str:
            return "[" + ", ".join(_map_text(m, self.factors) for m in dims) + "]"

        text = ", ".join(map(one, self.operands)) + " -> " + ", ".join(map(one, self.results))
        reduced = [
            f"{_letter(i)}: {f.reduction}" for i, f in enumerate(self.factors) if f.reduction
        ]
        text += f" reduce {{{', '.join(reduced)}}}" if reduced else ""
        return " or ".join([text, *map(str, self.others)])


def _letter(factor: int) -> str:
    return chr(ord("a") + factor) if factor < 26 else f"f{factor}"


def _map_text(m: DimMap | None, factors: Sequence[Factor]) -> str:
    if m is None:
        return "*"
    text = _letter(m.factor)
    if m.size != factors[m.factor].size:
        text += f":({m.before}){m.size}"
    kind = factors[m.factor].kind
    text += "" if kind.is_local else f" {kind.value}"
    return f"{m.outer} {text}" if m.outer != 1 else text


@dataclass(frozen=True)
class OpInfo:
    """What a rule may look at: one op, its shapes and its attributes."""

    operation: ir.Operation
    name: str
    operand_shapes: tuple[tuple[int, ...], ...]
    result_shapes: tuple[tuple[int, ...], ...]
    operand_elements: tuple[str, ...]  # element types as written: "f32", "i1", "complex<f32>"
    result_elements: tuple[str, ...]

    @classmethod
    def of(cls, operation: ir.Operation) -> Self | None:
        """What the types of an op say; None if not all of them are tensors."""
        operands, results = _types(operation.operands), _types(operation.results)
        if operands is None or results is None:
            return None
        return cls(
            operation,
            operation.name,
            tuple(tuple(t.shape) for t in operands),
            tuple(tuple(t.shape) for t in results),
            tuple(str(t.element_type) for t in operands),
            tuple(str(t.element_type) for t in results),
        )

    @cached_property
    def read(self) -> dict[object, Any]:
        """What was read of the op, by what reads it: see `read_once`."""
        return {}

    def shape(self, slot: int) -> tuple[int, ...]:
        """The shape of operand `slot`, or of result `~slot`."""
        return self.operand_shapes[slot] if slot >= 0 else self.result_shapes[~slot]

    def attribute(self, name: str) -> ir.Attribute:
        """The attribute `name` of the op.

        Raises:
            KeyError: the op does not have it.
        """
        return self.operation.attributes[name]

    def has(self, name: str) -> bool:
        """Whether the op has the attribute `name`."""
        return name in self.operation.attributes


def read_once(reader: Callable[[OpInfo], Read]) -> Callable[[OpInfo], Read]:
    """The reader, which reads each op once: hundreds of strategies ask for the same."""

    def read(op: OpInfo) -> Read:
        if reader not in op.read:
            op.read[reader] = reader(op)
        found: Read = op.read[reader]
        return found

    return read


def _types(values: Any) -> list[ir.RankedTensorType] | None:
    types = [value.type for value in values]
    if not all(isinstance(type_, ir.RankedTensorType) for type_ in types):
        return None
    return [ir.RankedTensorType(type_) for type_ in types]


def _place_text(slot: int, dim: int) -> str:
    what = f"operand {slot}" if slot >= 0 else f"result {~slot}"
    return f"dimension {dim} of {what}"


class RuleBuilder:
    """Builds a rule by statements about dimensions; what is not said stays whole."""

    def __init__(self, op: OpInfo) -> None:
        self.op = op
        self._factors: list[Factor] = []
        self._operands: list[list[DimMap | None]] = [[None] * len(s) for s in op.operand_shapes]
        self._results: list[list[DimMap | None]] = [[None] * len(s) for s in op.result_shapes]
        self._passes: list[PartialPass] = []
        self._why: dict[tuple[int, int], str] = {}

    def everywhere(self, dim: int) -> list[tuple[int, int]]:
        """A dimension of all operands and results."""
        results = [(~k, dim) for k in range(len(self._results))]
        return [*((k, dim) for k in range(len(self._operands))), *results]

    def factor(
        self,
        size: int,
        reduction: Reduction | None = None,
        partial_operands: Sequence[int] = (),
        kind: FactorKind | None = None,
        window: Window | None = None,
        counts: bool = False,
    ) -> int:
        """A new factor of `size` elements; its number."""
        if size < 0:
            self._refuse(f"a factor of {size} elements; give as many as a dimension has")
        if kind is None:
            kind = FactorKind.PASS_THROUGH if reduction is None else FactorKind.REDUCTION
        self._factors.append(Factor(size, reduction, tuple(partial_operands), kind, window, counts))
        return len(self._factors) - 1

    def share(
        self,
        *places: tuple[int, int],
        size: int | None = None,
        reduction: Reduction | None = None,
        partial_operands: Sequence[int] = (),
        kind: FactorKind | None = None,
        window: Window | None = None,
        counts: bool = False,
    ) -> None:
        """A new factor that dimensions carry, each an `(operand or ~result, dimension)`.

        Its size is that of the first of them, unless another is given, of which each is then a
        multiple. Where an algorithm computes it with the places of the elements, they may differ.
        """
        is_given = size is not None
        if size is None:
            size = self._size(*places[0])
        factor = self.factor(size, reduction, partial_operands, kind, window, counts)
        is_local = self._factors[factor].kind.is_local
        for slot, dim in places:
            found = self._size(slot, dim)
            if is_local and found != size and not (is_given and size and found % size == 0):
                where = _place_text(slot, dim)
                self._refuse(f"{where} has {found} elements, which share a factor of {size}")
            self._carry(slot, dim, DimMap(factor, 1, found))

    def carry(self, slot: int, dim: int, factor: int, before: int = 1, outer: int = 1) -> None:
        """Dimension `dim` of operand `slot`, or of result `~slot`, carries the factor.

        Raises:
            LocatedError: there is no such place or factor, it carries one already, or its elements
                are not `outer` times digits of the factor.
        """
        if not 0 <= factor < len(self._factors):
            self._refuse(f"factor {factor} of {len(self._factors)}; make it by factor()")
        elements, size = self._size(slot, dim), self._factors[factor].size
        if elements % outer or size % (before * (elements // outer) or 1):
            digits = f"{outer} times digits of a factor of {size}, {before} before them"
            self._refuse(
                f"{_place_text(slot, dim)} has {elements} elements, which are not {digits}"
            )
        self._carry(slot, dim, DimMap(factor, before, elements // outer, outer))

    def _carry(self, slot: int, dim: int, digits: DimMap) -> None:
        dims = self._operands[slot] if slot >= 0 else self._results[~slot]
        if dims[dim] is not None:
            self._refuse(f"{_place_text(slot, dim)} carries two factors; give it one")
        dims[dim] = digits

    def _size(self, slot: int, dim: int) -> int:
        """The elements of a dimension of operand `slot`, or of result `~slot`."""
        shapes, k = (self.op.operand_shapes, slot) if slot >= 0 else (self.op.result_shapes, ~slot)
        if k >= len(shapes) or not 0 <= dim < len(shapes[k]):
            self._refuse(f"{_place_text(slot, dim)} is not there")
        return shapes[k][dim]

    def _refuse(self, problem: str) -> NoReturn:
        op = self.op
        sides = " -> ".join(
            ", ".join(str(list(shape)) for shape in shapes)
            for shapes in (op.operand_shapes, op.result_shapes)
        )
        error(op.operation, f"the rule of {op.name}, {sides}, is wrong: {problem}")

    def whole(self, tensor: int, dim: int, reason: str) -> None:
        """Dimension `dim` of operand `tensor` (of result `~tensor` if negative) must be whole."""
        self._why[tensor, dim] = reason

    def owned(self, dim: int) -> bool:
        """Shards of a dimension of operand 0 give what they own, and zero (false) for the others.

        So the result is a sum (an "or") of theirs; whether shards of its elements can be added.
        """
        element = self.op.result_elements[0]
        owner = Reduction.SUM.on(element)
        if owner not in reductions_of(element):
            self.whole(0, dim, f"shards of {element} cannot be added")
            return False
        self.share((0, dim), reduction=owner, kind=FactorKind.OWNED)
        return True

    def passes(
        self, operands: Sequence[Reduction | None], results: Sequence[Reduction | None]
    ) -> None:
        """The op maps these parts to those parts; None stands for a complete value."""
        self._passes.append(PartialPass(tuple(operands), tuple(results)))

    def passes_each(self, kinds: Sequence[Reduction], parts: Sequence[bool]) -> None:
        """For each reduction in `kinds`: operands marked True partial, the results partial too."""
        for kind in kinds:
            self.passes(
                [kind if part else None for part in parts], [kind] * len(self.op.result_shapes)
            )

    def build(self) -> OpRule:
        """The rule."""
        return OpRule(
            tuple(self._factors),
            tuple(map(tuple, self._operands)),
            tuple(map(tuple, self._results)),
            tuple(self._passes),
            why_whole=self._why,
            op=self.op,
        )
