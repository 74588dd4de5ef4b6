"""The identity of a reduction, read back from its constant, for every type of integers."""

import functools
import operator
from collections.abc import Callable

import pytest

from dtensor.dialect.context import make_context
from dtensor.dialect.mlir import ir
from dtensor.passes.ops.reduction import Reduction

COMBINE: dict[str, Callable[[int, int], int]] = {
    "sum": operator.add,
    "prod": operator.mul,
    "max": max,
    "min": min,
    "and": operator.and_,
    "or": operator.or_,
}


@pytest.mark.parametrize("reduction", COMBINE)
@pytest.mark.parametrize("width", [2, 4, 8, 16, 32, 64])
@pytest.mark.parametrize("is_signed", [True, False])
def test_an_identity_changes_no_integer(reduction: str, width: int, is_signed: bool) -> None:
    low, high = (-(1 << (width - 1)), (1 << (width - 1)) - 1) if is_signed else (0, 2**width - 1)
    with make_context(), ir.Location.unknown():
        element = ir.Type.parse(f"{'i' if is_signed else 'ui'}{width}")
        attribute = Reduction.named(reduction).identity_attr(ir.RankedTensorType.get([3], element))
        assert isinstance(attribute, ir.DenseElementsAttr)
        identity = int(str(attribute.get_splat_value()).partition(" ")[0])
    assert low <= identity <= high
    for value in (low, low + 1, 0, 1, high - 1, high):
        assert functools.reduce(COMBINE[reduction], (value, identity)) == value


@pytest.mark.parametrize("element", ["f16", "bf16", "f32", "f64", "f8E5M2", "complex<f32>"])
def test_a_sum_of_negative_zeros_stays_one(element: str) -> None:
    """-0 + -0 is -0, and 0 + -0 is 0: so the identity of a sum is -0, in both parts."""
    with make_context(), ir.Location.unknown():
        tensor = ir.RankedTensorType.get([3], ir.Type.parse(element))
        text = str(Reduction.SUM.identity_attr(tensor))
    assert text.count("-0.000000e+00") == (2 if "complex" in element else 1)
