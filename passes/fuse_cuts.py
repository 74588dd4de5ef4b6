"""Chains of slices, pads and concatenations that give back the size they began with.

A roll is two slices put together the other way round, a stencil slices what it padded. The values
in between have awkward sizes, which no mesh axis divides; the whole chain is one `dtensor.splice`
of values that it divides.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from dtensor.dialect.build import splice
from dtensor.dialect.mlir import ir
from dtensor.passes.base import Pass, PassState
from dtensor.passes.functions import main_function
from dtensor.passes.ops.attributes import integer, integers
from dtensor.passes.program import walk

Value = ir.Value[Any]
SLICE, PAD, CONCATENATE = "stablehlo.slice", "stablehlo.pad", "stablehlo.concatenate"
CUTS = frozenset((SLICE, PAD, CONCATENATE))


@dataclass(frozen=True)
class FuseCutsPass(Pass):
    """Writes chains of slices, pads and concatenations as one `dtensor.splice`.

    Along one dimension such a chain puts stretches of some values together. It becomes one
    operation if at least half of the result comes from values that are as long as the result; a
    chain that changes nothing is dropped.
    """

    name: ClassVar[str] = "dtensor-fuse-cuts"

    def run(self, module: ir.Module, state: PassState) -> None:
        """Rewrite `@main` in place."""
        found = [item for item in walk(main_function(module)) if item[1] in CUTS]
        if not found:
            return
        fuser = _Fuser()
        for op, _, scope in found:
            fuser.fuse(op, scope.number)
        for op in reversed([*fuser.made, *(op for op, _, _ in found)]):
            if not any(True for _ in op.results[0].uses):
                op.erase()
        state.forget_ir()


@dataclass(frozen=True, slots=True)
class _Source:
    """A value, with other dimensions cut as the operations say.

    Attributes:
        value: the value; a scalar fills whatever asks for it.
        cuts: slices and pads that are still to be applied, but for the dimension at hand.
    """

    value: Value
    cuts: tuple[ir.Operation, ...] = ()


@dataclass(frozen=True, slots=True)
class _Piece:
    """`count` elements of a source, from `start` on."""

    source: _Source
    start: int
    count: int

    @property
    def fills(self) -> bool:
        """Whether it repeats a scalar."""
        return not _shape(self.source.value)


class _Fuser:
    """Rewrites one function.

    Attributes:
        made: the slices and pads that were made, in order.
    """

    def __init__(self) -> None:
        self.made: list[ir.Operation] = []
        self._pieces: dict[tuple[Value, int], tuple[_Piece, ...]] = {}
        self._values: dict[tuple[_Source, int, int], Value] = {}

    def fuse(self, op: ir.Operation, scope: int) -> Value:
        """Replace an operation along every dimension that it cuts; the value of its result."""
        result: Value = op.results[0]
        for dim in list(_cut_dims(op)):
            pieces = self.pieces(result, dim)
            value = self._fused(op, pieces, dim, scope)
            if value is not None:
                result.replace_all_uses_with(value)
                return value
        return result

    def _fused(
        self, op: ir.Operation, pieces: Sequence[_Piece], dim: int, scope: int
    ) -> Value | None:
        """The value put together from pieces; None if the operation is better left alone."""
        size = _shape(op.results[0])[dim]
        same = [p for p in pieces if not p.fills and _shape(p.source.value)[dim] == size]
        if any(p.source.value == op.results[0] for p in same):
            return None
        if 2 * sum(p.count for p in same) < max(size, 1):
            return None
        if len(pieces) == 1:
            return self._value(pieces[0].source, dim, op, scope)
        first = [p.source for p in same]
        sources = list(dict.fromkeys([*first, *(p.source for p in pieces)]))
        operands = [self._value(source, dim, op, scope) for source in sources]
        rows = [(sources.index(p.source), 0 if p.fills else p.start, p.count) for p in pieces]
        return splice(operands, dim, rows, loc=op.location, ip=ir.InsertionPoint(op))

    def _value(self, source: _Source, dim: int, before: ir.Operation, scope: int) -> Value:
        """A source with its cuts applied; they are fused along their own dimensions in turn."""
        if not source.cuts:
            return source.value
        key = (source, dim, scope)
        found = self._values.get(key)
        if found is None:
            inner = _Source(source.value, source.cuts[:-1])
            value = self._value(inner, dim, before, scope)
            op = _without(source.cuts[-1], value, dim, before)
            self.made.append(op)
            found = self._values[key] = self.fuse(op, scope)
        return found

    def pieces(self, value: Value, dim: int) -> tuple[_Piece, ...]:
        """What a value consists of along a dimension."""
        key = (value, dim)
        found = self._pieces.get(key)
        if found is None:
            made = _maker(value)
            pieces = None if made is None else self._of(made, dim)
            if pieces is None:
                pieces = [_Piece(_Source(value), 0, _shape(value)[dim])]
            found = self._pieces[key] = tuple(_merged(pieces))
        return found

    def _of(self, op: ir.Operation, dim: int) -> list[_Piece] | None:
        if op.name == SLICE:
            return self._of_slice(op, dim)
        if op.name == PAD:
            return self._of_pad(op, dim)
        if op.name == CONCATENATE and integer(op.attributes["dimension"]) == dim:
            return [piece for value in op.operands for piece in self.pieces(value, dim)]
        return None

    def _of_slice(self, op: ir.Operation, dim: int) -> list[_Piece] | None:
        start, limit, stride = (
            integers(op.attributes[name])[dim]
            for name in ("start_indices", "limit_indices", "strides")
        )
        if stride != 1:
            return None
        kept = _range(self.pieces(op.operands[0], dim), start, limit)
        return self._cut_elsewhere(op, dim, kept)

    def _of_pad(self, op: ir.Operation, dim: int) -> list[_Piece] | None:
        low, high, interior = _padding(op, dim)
        if interior:
            return None
        inner, fill = self.pieces(op.operands[0], dim), op.operands[1]
        size = _shape(op.operands[0])[dim]
        kept = _range(inner, max(-low, 0), size - max(-high, 0))
        kept = self._cut_elsewhere(op, dim, kept)
        if any(p.fills and p.source.value != fill for p in kept):
            return None
        ends = [_Piece(_Source(fill), 0, max(edge, 0)) for edge in (low, high)]
        return [ends[0], *kept, ends[1]]

    def _cut_elsewhere(self, op: ir.Operation, dim: int, pieces: Sequence[_Piece]) -> list[_Piece]:
        """Pieces that still have to be cut by `op` along the other dimensions."""
        if not any(d != dim for d in _cut_dims(op)):
            return list(pieces)
        return [
            p
            if p.fills
            else _Piece(_Source(p.source.value, (*p.source.cuts, op)), p.start, p.count)
            for p in pieces
        ]


def _shape(value: Value) -> list[int]:
    return list(ir.RankedTensorType(value.type).shape)


def _maker(value: Value) -> ir.Operation | None:
    owner = value.owner
    return None if isinstance(owner, ir.Block) else owner.operation


def _padding(op: ir.Operation, dim: int) -> tuple[int, int, int]:
    low, high, interior = (
        integers(op.attributes[name])[dim]
        for name in ("edge_padding_low", "edge_padding_high", "interior_padding")
    )
    return low, high, interior


def _cut_dims(op: ir.Operation) -> Iterator[int]:
    """The dimensions along which a slice, a pad or a concatenation does something."""
    if op.name == CONCATENATE:
        yield integer(op.attributes["dimension"])
        return
    before, after = _shape(op.operands[0]), _shape(op.results[0])
    for d, (size, kept) in enumerate(zip(before, after, strict=True)):
        if size != kept or (op.name == PAD and _padding(op, d) != (0, 0, 0)):
            yield d


def _range(pieces: Sequence[_Piece], start: int, limit: int) -> list[_Piece]:
    """The pieces of elements `start` to `limit`."""
    kept, place = [], 0
    for piece in pieces:
        low, high = max(start, place), min(limit, place + piece.count)
        if low < high:
            kept.append(_Piece(piece.source, piece.start + low - place, high - low))
        place += piece.count
    return kept


def _merged(pieces: Sequence[_Piece]) -> list[_Piece]:
    """The pieces with those joined that follow one another in their source."""
    found: list[_Piece] = []
    for piece in pieces:
        last = found[-1] if found else None
        if not piece.count:
            continue
        if last is not None and last.source == piece.source:
            if piece.fills or last.start + last.count == piece.start:
                found[-1] = _Piece(last.source, last.start, last.count + piece.count)
                continue
        found.append(piece)
    return found


def _without(op: ir.Operation, value: Value, dim: int, before: ir.Operation) -> ir.Operation:
    """A slice or a pad of another value, which leaves one dimension as it is."""
    old, shape = _shape(op.results[0]), _shape(value)
    old[dim] = shape[dim]
    changes = (
        {"start_indices": 0, "limit_indices": shape[dim], "strides": 1}
        if op.name == SLICE
        else {"edge_padding_low": 0, "edge_padding_high": 0, "interior_padding": 0}
    )
    attributes: dict[str, ir.Attribute] = {}
    for name, number in changes.items():
        numbers = integers(op.attributes[name])
        numbers[dim] = number
        attributes[name] = ir.DenseI64ArrayAttr.get(numbers)
    element = ir.RankedTensorType(value.type).element_type
    return ir.Operation.create(
        op.name,
        results=[ir.RankedTensorType.get(old, element, loc=op.location)],
        operands=[value, *list(op.operands)[1:]],
        attributes=attributes,
        loc=op.location,
        ip=ir.InsertionPoint(before),
    )
