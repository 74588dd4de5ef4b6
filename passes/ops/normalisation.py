"""The batch_norm operations as sums and what is computed of them element by element.

Each takes all of a batch at once; written so, shards of a batch send a few numbers per feature.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from dtensor.dialect.mlir import Value, ir
from dtensor.passes.builder import Builder
from dtensor.passes.ops.attributes import integer, shape_of
from dtensor.passes.ops.opdef import UNKNOWN, OpDef
from dtensor.passes.ops.reduction import Reduction

_WIDER = {"bf16": "f32", "f16": "f32"}


class _Norm:
    """One operation, computed in float32 where its elements are narrower."""

    def __init__(self, op: ir.Operation, made: list[ir.Operation]) -> None:
        self.make = make = Builder(op, made)
        self.element = make.element_of(op.operands[0])
        wide = _WIDER.get(self.element, self.element)
        self.operands = [make.convert(value, wide) for value in op.operands]
        self.feature = integer(op.attributes["feature_index"])
        self.shape = shape_of(op.operands[0])
        self.epsilon = ir.FloatAttr(op.attributes["epsilon"]).value
        self.count = math.prod(size for d, size in enumerate(self.shape) if d != self.feature)

    def inference(self) -> list[Value]:
        """Normalised with the statistics that are given."""
        x, scale, offset, mean, variance = self.operands
        return [self._scaled(self._centred(x, mean), scale, offset, variance)]

    def training(self) -> list[Value]:
        """Normalised with its own statistics, which are results too."""
        x, scale, offset = self.operands
        mean = self.make.over(self._sum(x), self.count)
        centred = self._centred(x, mean)
        square = self.make.binary("multiply", centred, centred)
        variance = self.make.over(self._sum(square), self.count)
        return [self._scaled(centred, scale, offset, variance), mean, variance]

    def gradient(self) -> list[Value]:
        """The gradients of operand, scale and offset."""
        make = self.make
        x, scale, mean, variance, given = self.operands
        deviation, centred = self._deviation(variance), self._centred(x, mean)
        total = self._sum(given)
        along = self._sum(make.binary("multiply", given, centred))
        share = make.binary("divide", along, make.binary("multiply", deviation, deviation))
        rest = make.binary("subtract", make.times(given, self.count), self._spread(total))
        rest = make.binary("subtract", rest, make.binary("multiply", centred, self._spread(share)))
        factor = make.over(make.binary("divide", scale, deviation), self.count)
        return [
            make.binary("multiply", rest, self._spread(factor)),
            make.binary("divide", along, deviation),
            total,
        ]

    def _scaled(self, centred: Value, scale: Value, offset: Value, variance: Value) -> Value:
        factor = self._spread(self.make.binary("divide", scale, self._deviation(variance)))
        product = self.make.binary("multiply", centred, factor)
        return self.make.binary("add", product, self._spread(offset))

    def _deviation(self, variance: Value) -> Value:
        sum_ = self.make.binary("add", variance, self.epsilon)
        return self.make.unary("sqrt", sum_)

    def _centred(self, x: Value, mean: Value) -> Value:
        return self.make.binary("subtract", x, self._spread(mean))

    def _spread(self, value: Value) -> Value:
        return self.make.broadcast(value, self.shape, [self.feature])

    def _sum(self, value: Value) -> Value:
        """Over all dimensions but that of the features."""
        for d in reversed(range(len(self.shape))):
            if d != self.feature:
                value = self.make.reduced(value, d, Reduction.SUM)
        return value


def _normalised(values: Callable[[_Norm], list[Value]]) -> OpDef:
    """An operation whose results are these values, in its own element type."""

    def anew(op: ir.Operation, made: list[ir.Operation]) -> list[Value]:
        norm = _Norm(op, made)
        return [norm.make.convert(value, norm.element) for value in values(norm)]

    return replace(UNKNOWN, anew=anew)


INFERENCE = _normalised(_Norm.inference)
TRAINING = _normalised(_Norm.training)
GRADIENT = _normalised(_Norm.gradient)
