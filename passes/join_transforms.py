"""Fourier transforms of one dimension after another, as one of several dimensions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from dtensor.dialect.functions import functions
from dtensor.dialect.mlir import Value, ir, made_by, operation_of, reader_of, replace_op
from dtensor.passes.base import Pass, PassState
from dtensor.passes.builder import Builder
from dtensor.passes.creation import integers_attr
from dtensor.passes.ops.attributes import integers
from dtensor.passes.ops.four_steps import LENGTH, TRANSFORM, TYPE, transform_kind
from dtensor.passes.ops.transform_rows import Kind
from dtensor.passes.program import walk

_TRANSPOSE = "stablehlo.transpose"
_MOST_DIMS = 3  # dimensions that one transform may have


@dataclass(frozen=True)
class JoinTransformsPass(Pass):
    """Joins transforms of one dimension after another, where a device has every dimension whole.

    `dtensor-split-transforms` writes them apart, so that one dimension may be split while another
    is transformed. Where none was, one operation does the same in fewer passes over the array.
    """

    name: ClassVar[str] = "dtensor-join-transforms"

    def run(self, module: ir.Module, state: PassState) -> None:
        """Rewrite every function in place."""
        for function in functions(module):
            for op in [op for op, name, _ in walk(function) if name == TRANSFORM]:
                joined: ir.Operation | None = op
                while joined is not None:
                    joined = _joined_forwards(joined) or _joined_back(joined)
        state.forget_ir()


@dataclass(frozen=True)
class _Columns:
    """A complex transform of another dimension than the last, which is last meanwhile."""

    given: Value
    transform: ir.Operation
    result: ir.Operation
    dim: int

    @classmethod
    def of(cls, transform: ir.Operation | None) -> _Columns | None:
        """The transform between two transposes that undo one another, and nobody else reads."""
        if transform is None or len(_lengths(transform)) > 1:
            return None
        before = made_by(_TRANSPOSE, transform.operands[0])
        after = reader_of(transform.results[0])
        if before is None or after is None or after.name != _TRANSPOSE:
            return None
        order = integers(before.attributes["permutation"])
        dim = order[-1]
        swapped = list(range(len(order)))
        swapped[dim], swapped[-1] = swapped[-1], swapped[dim]
        is_swap = order == swapped == integers(after.attributes["permutation"])
        return cls(before.operands[0], transform, after, dim) if is_swap else None


def _lengths(transform: ir.Operation) -> list[int]:
    return integers(transform.attributes[LENGTH])


def _joined_forwards(op: ir.Operation) -> ir.Operation | None:
    """What was transformed along the last dimensions, and is along the one before them."""
    columns = _Columns.of(op)
    if columns is None or transform_kind(op) is not Kind.FFT:
        return None
    rows = made_by(TRANSFORM, columns.given)
    if rows is None or transform_kind(rows) not in (Kind.FFT, Kind.RFFT):
        return None
    is_only = reader_of(rows.results[0]) is not None
    return _joined(columns, rows, rows.operands[0], columns.result) if is_only else None


def _joined_back(op: ir.Operation) -> ir.Operation | None:
    """What was transformed back along a dimension, and is along those behind it."""
    turned = made_by(_TRANSPOSE, op.operands[0])
    if turned is None or transform_kind(op) not in (Kind.IFFT, Kind.IRFFT):
        return None
    columns = _Columns.of(made_by(TRANSFORM, turned.operands[0]))
    if columns is None or transform_kind(columns.transform) is not Kind.IFFT:
        return None
    is_only = reader_of(turned.results[0]) is not None
    return _joined(columns, op, columns.given, op) if is_only else None


def _joined(
    columns: _Columns, rows: ir.Operation, given: Value, last: ir.Operation
) -> ir.Operation | None:
    """One transform for two, if their dimensions are neighbours: it stands for the last of them."""
    lengths = [*_lengths(columns.transform), *_lengths(rows)]
    rank = len(ir.RankedTensorType(given.type).shape)
    if columns.dim != rank - len(lengths) or len(lengths) > _MOST_DIMS:
        return None
    made: list[ir.Operation] = []
    attributes = {TYPE: rows.attributes[TYPE], LENGTH: integers_attr(lengths)}
    Builder(last, made).value(TRANSFORM, [given], last.results[0].type, attributes)
    value = last.operands[0]
    replace_op(last, made[0].results)
    while value != given:
        dead = operation_of(value)
        value = dead.operands[0]
        dead.erase()
    return made[0]
