"""Operations that a user defines: a signature in factors, and what is said of them.

A signature is written as `jax.custom_partitioning`'s and Shardy's rules are:
`... m k, ... k n -> ... m n`. It stands on the operation as `dtensor.op`, so that text says it too.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from dtensor.dialect.attributes import entries_of
from dtensor.dialect.callbacks import target_of
from dtensor.dialect.diagnostics import did_you_mean, error
from dtensor.dialect.errors import CompileError
from dtensor.dialect.mlir import ir
from dtensor.dialect.names import DEFINED
from dtensor.passes.creation import integers_attr
from dtensor.passes.ops.attributes import integer
from dtensor.passes.ops.reduction import Reduction, reductions_of
from dtensor.passes.ops.rule import OpInfo, OpRule, RuleBuilder

_FACTOR = re.compile(r"[A-Za-z][A-Za-z0-9_]*\Z")
_MANY = "..."  # any number of dimensions, the same ones wherever it stands
_UNNAMED = "_"  # a dimension that must be whole

Side = tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Definition:
    """What is known of an operation by name.

    Attributes:
        name: target of a custom call, or name of a composite.
        signature: the factors of each operand and result: `b q d, b k d -> b q d`.
        whole: factors whose dimensions must be whole.
        reduce: factors that no result, or not every one, has; and how the parts combine that
            shards of them give: `sum`, `max`, `min`, `prod`, `and` or `or`.
        linear: each entry says that parts of a sum in these operands, together, give parts of the
            results; the other operands are then complete.
        flops: floating-point operations as products of factors, `4 b q k d + b q`; empty for none.

    Raises:
        CompileError: one of them is not of this form, or they contradict each other.
    """

    name: str
    signature: str
    whole: tuple[str, ...] = ()
    reduce: tuple[tuple[str, str], ...] = ()
    linear: tuple[tuple[int, ...], ...] = ()
    flops: str = ""

    @property
    def version(self) -> int:
        """The version of the composites that it makes; 0 if it makes none."""
        return 0

    def is_meant(self, op: ir.Operation) -> bool:
        """Whether a custom call or composite of this name is not another definition's."""
        version = integer(op.attributes["version"]) if "version" in op.attributes else 0
        return 0 in (version, self.version) or version == self.version

    def __post_init__(self) -> None:
        if not (isinstance(self.name, str) and self.name):
            raise CompileError(f"an operation is defined by its name, a string, not {self.name!r}")
        if not isinstance(self.signature, str):
            raise self._wrong(f"the signature is {self.signature!r}", "it must be a string")
        if not isinstance(self.flops, str):
            raise self._wrong(f"flops is {self.flops!r}", "write products, `4 b q k d + b q`")
        if self.signature.count("->") != 1:
            raise self._wrong(f"'{self.signature}' has no '->'", "write `b m, b n -> b m n`")
        for tensor in (*self.operands, *self.results):
            for factor in tensor:
                self._check_written(factor, tensor)
        self._check_factors()
        for group in self.linear:
            for operand in group:
                if not 0 <= operand < len(self.operands):
                    have = f"the signature has {len(self.operands)} operands"
                    raise self._wrong(f"linear names operand {operand}", have)
        _ = self._terms

    def _check_written(self, factor: str, tensor: tuple[str, ...]) -> None:
        if factor not in (_MANY, _UNNAMED) and _FACTOR.match(factor) is None:
            remedy = "a factor is a name; '...' is any number of dimensions and '_' a whole one"
            raise self._wrong(f"'{factor}' is no factor", remedy)
        if factor != _UNNAMED and tensor.count(factor) > 1:
            raise self._wrong(f"'{factor}' is twice in '{' '.join(tensor)}'", "name it once")

    def _check_factors(self) -> None:
        reduced = dict(self.reduce)
        for what, names in (("whole", self.whole), ("reduce", tuple(reduced))):
            for factor in names:
                if factor not in self.factors:
                    hint = did_you_mean(factor, self.factors)
                    raise self._wrong(f"{what} names '{factor}'", f"no operand has it{hint}")
        for factor, kind in reduced.items():
            if kind not in list(Reduction):
                known = ", ".join(Reduction)
                raise self._wrong(f"reduce combines '{factor}' by '{kind}'", f"there are {known}")
            if factor in self.whole:
                raise self._wrong(f"'{factor}' is whole and reduced", "name it in one of them")
            if all(factor in result for result in self.results):
                raise self._wrong(f"reduce names '{factor}'", "every result has it: no parts")

    def _wrong(self, found: str, remedy: str) -> CompileError:
        return CompileError(f"operation '{self.name}': {found}; {remedy}")

    @cached_property
    def operands(self) -> Side:
        """The factors of each operand."""
        return _side(self.signature.partition("->")[0])

    @cached_property
    def results(self) -> Side:
        """The factors of each result."""
        return _side(self.signature.partition("->")[2])

    @cached_property
    def factors(self) -> tuple[str, ...]:
        """The names of the operands' factors, in order, each once."""
        named = [f for tensor in self.operands for f in tensor if f not in (_MANY, _UNNAMED)]
        return tuple(dict.fromkeys(named))

    @cached_property
    def _terms(self) -> list[list[str]]:
        """The products of which the number of operations is the sum."""
        terms = [term.split() for term in self.flops.split("+")] if self.flops else []
        known = (*self.factors, *(f for tensor in self.results for f in tensor), _MANY)
        for term in terms:
            for word in term or [""]:
                if word not in known and not _is_number(word):
                    remedy = "write products of numbers and factors, `4 b q k d + b q`"
                    raise self._wrong(f"flops has '{word}'", remedy)
        return terms

    # On an operation.

    def attribute(self) -> ir.Attribute:
        """As it stands on an operation; the current context makes it."""
        text = ir.StringAttr.get
        entries: dict[str, ir.Attribute] = {"signature": text(self.signature)}
        if self.whole:
            entries["whole"] = ir.ArrayAttr.get([text(factor) for factor in self.whole])
        if self.reduce:
            entries["reduce"] = ir.DictAttr.get({f: text(kind) for f, kind in self.reduce})
        if self.linear:
            groups = [integers_attr(group) for group in self.linear]
            entries["linear"] = ir.ArrayAttr.get(groups)
        if self.flops:
            entries["flops"] = text(self.flops)
        return ir.DictAttr.get(entries)

    def rule(self, op: OpInfo) -> OpRule:
        """The rule of one operation.

        Raises:
            LocatedError: it has other operands, results or sizes than the signature.
        """
        sizes = self.sizes(op)
        builder = RuleBuilder(op)
        reduced = dict(self.reduce)
        for factor in sizes:
            places = [_places(factor, side, op_shapes) for side, op_shapes in self._sides(op)]
            missing = len({k for k, _ in places[1]}) < len(op.result_shapes)
            reason = self._why_whole(factor, bool(places[0]), missing and factor not in reduced)
            slots = [*places[0], *((~k, d) for k, d in places[1])]
            if reason is not None:
                for slot, d in slots:
                    builder.whole(slot, d, reason)
                continue
            reduction = self._reduction(op, factor)
            builder.share(*slots, size=sizes[factor], reduction=reduction)
        for group in self.linear:
            if all(Reduction.SUM in reductions_of(e) for e in op.result_elements):
                parts = [k in group for k in range(len(op.operand_shapes))]
                builder.passes_each([Reduction.SUM], parts)
        return builder.build()

    def count_flops(self, op: OpInfo) -> float:
        """Floating-point operations of one operation, of global or local shapes."""
        if not self._terms:
            return 0.0
        sizes = self.sizes(op)
        many = math.prod(size for factor, size in sizes.items() if factor.startswith(_MANY))

        def value(word: str) -> float:
            if word == _MANY:
                return float(many)
            return float(sizes[word]) if word in sizes else float(word)

        return sum(math.prod(map(value, term)) for term in self._terms)

    def sizes(self, op: OpInfo) -> dict[str, int]:
        """The size of each factor in elements; those of `...` are `...0`, the last, `...1`, ...

        Raises:
            LocatedError: the shapes are not those of the signature.
        """
        sizes: dict[str, int] = {}
        for what, (side, shapes) in zip(("operand", "result"), self._sides(op), strict=True):
            if len(side) != len(shapes):
                found = f"has {len(shapes)} {what}s"
                error(op.operation, f"'{self.name}' {found}; its signature has {len(side)}")
            for k, (tensor, shape) in enumerate(zip(side, shapes, strict=True)):
                written = _spread(tensor, len(shape))
                if written is None:
                    error(
                        op.operation,
                        f"'{self.name}': {what} {k} has rank {len(shape)}; its signature is "
                        f"'{' '.join(tensor)}'",
                    )
                for factor, size in zip(written, shape, strict=True):
                    if factor != _UNNAMED and sizes.setdefault(factor, size) != size:
                        error(
                            op.operation,
                            f"'{self.name}': factor '{factor}' has {sizes[factor]} elements, and "
                            f"{size} in {what} {k}; name the dimensions apart",
                        )
        return sizes

    def _sides(
        self, op: OpInfo
    ) -> tuple[tuple[Side, tuple[tuple[int, ...], ...]], tuple[Side, tuple[tuple[int, ...], ...]]]:
        return (self.operands, op.operand_shapes), (self.results, op.result_shapes)

    def _why_whole(self, factor: str, is_given: bool, misses_result: bool) -> str | None:
        if factor in self.whole:
            return f"is whole by the definition of '{self.name}'"
        if not is_given:
            return "is made by the call"
        if misses_result:
            return f"is not in every result, and '{self.name}' says no reduction of it"
        return None

    def _reduction(self, op: OpInfo, factor: str) -> Reduction | None:
        kind = dict(self.reduce).get(factor)
        if kind is None:
            return None
        reduction = Reduction.named(kind)
        for element in op.result_elements:
            if reduction not in reductions_of(element):
                known = ", ".join(reductions_of(element)) or "nothing"
                what = f"parts of {element} combine by {known}; name one, or the factor in whole="
                error(op.operation, f"'{self.name}' reduces '{factor}' by {kind}, but {what}")
        return reduction


def definition_of(op: OpInfo) -> Definition | None:
    """The definition that an operation carries; None for one that was not defined.

    Raises:
        LocatedError: `dtensor.op` is not of its form.
    """
    if DEFINED not in op.operation.attributes:
        return None
    found = op.operation.attributes[DEFINED]
    name = target_of(op.operation)
    try:
        return _read(name, entries_of(found))
    except (CompileError, ValueError, KeyError, TypeError) as wrong:
        text = str(wrong) if isinstance(wrong, CompileError) else f"{found} is no definition"
        error(op.operation, f"{DEFINED}: {text}")


def _read(name: str, entries: Mapping[str, ir.Attribute]) -> Definition:
    reduce = entries_of(entries["reduce"]) if "reduce" in entries else {}
    return Definition(
        name,
        ir.StringAttr(entries["signature"]).value,
        _texts(entries.get("whole")),
        tuple([(factor, ir.StringAttr(kind).value) for factor, kind in reduce.items()]),
        _groups(entries.get("linear")),
        ir.StringAttr(entries["flops"]).value if "flops" in entries else "",
    )


def _texts(attribute: ir.Attribute | None) -> tuple[str, ...]:
    entries = () if attribute is None else ir.ArrayAttr(attribute)
    return tuple([ir.StringAttr(entry).value for entry in entries])


def _groups(attribute: ir.Attribute | None) -> tuple[tuple[int, ...], ...]:
    if attribute is None:
        return ()
    return tuple([tuple(ir.DenseI64ArrayAttr(group)) for group in ir.ArrayAttr(attribute)])


def _side(text: str) -> Side:
    return tuple([tuple(tensor.split()) for tensor in text.split(",")])


def _is_number(word: str) -> bool:
    try:
        return math.isfinite(float(word))
    except ValueError:
        return False


def _spread(tensor: tuple[str, ...], rank: int) -> list[str] | None:
    """The factor of each dimension of a tensor of this rank; None if the rank does not fit."""
    if _MANY not in tensor:
        return list(tensor) if len(tensor) == rank else None
    at = tensor.index(_MANY)
    many = rank - len(tensor) + 1
    names = [f"{_MANY}{i}" for i in reversed(range(many))]
    return [*tensor[:at], *names, *tensor[at + 1 :]] if many >= 0 else None


def _places(factor: str, side: Side, shapes: tuple[tuple[int, ...], ...]) -> list[tuple[int, int]]:
    """The tensors and dimensions of one side that have a factor."""
    found = []
    for k, (tensor, shape) in enumerate(zip(side, shapes, strict=True)):
        written = _spread(tensor, len(shape)) or []
        found += [(k, d) for d, name in enumerate(written) if name == factor]
    return found
