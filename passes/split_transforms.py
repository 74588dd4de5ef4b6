"""Fourier transforms of several dimensions, one dimension after another.

Of one that is transformed no axis may split; of several at once, none at all. One after another
each has its axis elsewhere while it is transformed, which moves a share of the array, not all.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from dtensor.dialect.mlir import Value, ir, replace_op
from dtensor.passes.base import Pass, PassState
from dtensor.passes.builder import Builder
from dtensor.passes.functions import main_function
from dtensor.passes.ops.attributes import integers
from dtensor.passes.ops.four_steps import LENGTH, TRANSFORM, transform_attributes, transform_kind
from dtensor.passes.ops.transform_rows import Kind, half

_TIMES_PADDING = 4  # of so many elements one of padding is little


@dataclass(frozen=True)
class SplitTransformsPass(Pass):
    """Writes a Fourier transform of several dimensions as transforms of one dimension each.

    Only where fewer arrays are transformed than there are devices: more of them are divided among
    the devices as they stand. Where no dimension divides to which the axes of another could go,
    the last one is longer by a few zeros meanwhile.
    """

    name: ClassVar[str] = "dtensor-split-transforms"

    def run(self, module: ir.Module, state: PassState) -> None:
        """Rewrite `@main` in place."""
        devices = state.mesh.size if state.mesh is not None else 1
        for op in state.operations(main_function(module)).named(TRANSFORM):
            lengths = integers(op.attributes[LENGTH])
            batch = ir.RankedTensorType(op.operands[0].type).shape[: -len(lengths)]
            if len(lengths) < 2 or math.prod(batch) >= devices or 0 in lengths:
                continue
            made: list[ir.Operation] = []
            replace_op(op, [SplitTransform(op, devices, made).transformed(lengths)])
            for each in made:
                state.ledger.add_op(each)
            state.forget_ir()


class SplitTransform(Builder):
    """Makes the transforms that stand for one.

    Args:
        op: the transform.
        devices: by how many a dimension is to divide that is not transformed.
        made: takes what is created.
    """

    def __init__(self, op: ir.Operation, devices: int, made: list[ir.Operation]) -> None:
        super().__init__(op, made)
        self.op = op
        self.devices = devices
        self.kind = transform_kind(op)

    def transformed(self, lengths: Sequence[int]) -> Value:
        """The last dimension first; of inverse transforms last, so that one undoes the other."""
        value: Value = self.op.operands[0]
        rank = len(self.shape_of(value))
        dims = list(range(rank - len(lengths), rank))
        if self.kind not in (Kind.IFFT, Kind.IRFFT):
            dims.reverse()
        for d in dims:
            value = self.along(value, d)
        return value

    def along(self, value: Value, dim: int) -> Value:
        """One of the dimensions transformed; all but the last are between complex numbers."""
        shape = self.shape_of(value)
        if dim == len(shape) - 1:
            length = (
                self.shape_of(self.op.results[0])[dim] if self.kind is Kind.IRFFT else shape[dim]
            )
            sizes = [*shape[:-1], length] if self.kind is Kind.IRFFT else None
            return self.last(value, self.kind, length, sizes)
        order = list(range(len(shape)))
        order[dim], order[-1] = order[-1], order[dim]
        value = self.transpose(self._divisible(value, dim), order)
        value = self.last(value, self.kind.between_complex, shape[dim], None)
        return self.cut(self.transpose(value, order), len(shape) - 1, 0, shape[-1])

    def _divisible(self, value: Value, dim: int) -> Value:
        """With zeros behind the last dimension, if else no dimension but `dim` divides.

        The axes of `dim` go there while it is transformed.
        """
        shape = self.shape_of(value)
        others = [size for d, size in enumerate(shape) if d != dim]
        missing = -shape[-1] % self.devices
        if any(size % self.devices == 0 for size in others) or missing * _TIMES_PADDING > shape[-1]:
            return value
        return self.lengthened(value, len(shape) - 1, 0, shape[-1] + missing)

    def last(self, value: Value, kind: Kind, length: int, shape: list[int] | None) -> Value:
        """A transform of the last dimension."""
        element = self.element_of(self.op.results[0])
        if shape is None:
            shape = list(self.shape_of(value))
            shape[-1] = half(length) if kind is Kind.RFFT else shape[-1]
            if self.kind is Kind.IRFFT:
                element = self.element_of(value)
        return self.value(
            TRANSFORM, [value], self.tensor_type(shape, element), transform_attributes(kind, length)
        )
