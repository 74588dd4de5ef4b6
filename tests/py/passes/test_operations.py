"""The table of operations: what each line says fits together."""

import pytest

from dtensor.dialect.context import make_context
from dtensor.dialect.layout import REDUCTIONS
from dtensor.dialect.mlir import ir
from dtensor.passes.ops.attributes import identity_of
from dtensor.passes.ops.elements import element_kind
from dtensor.passes.ops.reduction import Reduction, reductions_of
from dtensor.passes.ops.table import OPS, opdef

ELEMENTS = ("i1", "i8", "ui16", "i32", "ui64", "bf16", "f8E4M3FN", "f64", "complex<f32>")


def test_reductions_are_those_that_layouts_write() -> None:
    assert tuple(Reduction) == REDUCTIONS


@pytest.mark.parametrize("element", ELEMENTS)
def test_a_constant_of_an_identity_is_recognised(element: str) -> None:
    with make_context(), ir.Location.unknown():
        type_ = ir.RankedTensorType.get([3], ir.Type.parse(element))
        for reduction in reductions_of(element):
            attributes = {"value": reduction.identity_attr(type_)}
            constant = ir.Operation.create("stablehlo.constant", [type_], [], attributes)
            assert reduction in identity_of(constant)
    assert element_kind(element)[0] != "other"


@pytest.mark.parametrize("name", OPS)
def test_algorithms_have_names_of_their_own(name: str) -> None:
    names = [algorithm.name for algorithm in opdef(name).algorithms]
    assert names
    assert len(set(names)) == len(names)
    assert all(opdef(name).algorithm(found) is not None for found in names)
