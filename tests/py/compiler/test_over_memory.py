"""Plans that need more than a device of the machine has."""

from dataclasses import replace
from typing import Any

import pytest

from dtensor.compiler.explain import explain
from dtensor.dialect.errors import StrictError
from dtensor.passes.cost.machine import Machine
from tests.py.compiler.programs import compiled, main

# Per device: %a 4x16 floats, %w 16x64, %v 15x64 of which no axis of 2 or 4 divides the first
# dimension, the results 4x64 and 15x64.
TEXT = main(
    """(%a: tensor<8x16xf32> {dtensor.layout = #L[{"x"}, {}]#},
        %w: tensor<16x64xf32> {dtensor.layout = #L[{}, {}]#},
        %v: tensor<15x64xf32> {dtensor.layout = #L[{}, {"y"}]#})
        -> (tensor<8x64xf32> {dtensor.layout = #L[{"x"}, {}]#},
            tensor<15x64xf32> {dtensor.layout = #L[{}, {"y"}]#})""",
    """
    %0 = stablehlo.dot_general %a, %w, contracting_dims = [1] x [0]
        : (tensor<8x16xf32>, tensor<16x64xf32>) -> tensor<8x64xf32>
    %1 = stablehlo.tanh %v : tensor<15x64xf32>
    return %0, %1 : tensor<8x64xf32>, tensor<15x64xf32>""",
)
NEEDED = 4 * (4 * 16 + 16 * 64 + 15 * 16 + 4 * 64 + 15 * 16)


def records(memory_bytes: int, **options: Any) -> list[str]:
    machine = replace(Machine.of("h100"), name="small", memory_bytes=memory_bytes)
    result = compiled(TEXT, machine=machine, **options)
    return [record.text for record in result.ledger.of_kind("over_memory")]


def test_a_plan_that_fits_leaves_no_record() -> None:
    assert records(NEEDED) == []


def test_a_plan_that_does_not_fit_says_what_is_large_and_what_to_split() -> None:
    (text,) = records(NEEDED - 1)
    assert text.startswith("the plan needs about ")
    assert "per device, and one of small has " in text
    assert "the largest are argument 1 tensor<16x64xf32>" in text
    # The largest axis that is free, the longest dimension; the most that is saved first.
    first, second = text.split("; split ")[1].split("), ")[:2]
    assert first.startswith('dimension 1 of argument 1 tensor<16x64xf32> over "y" (saves ')
    assert second.startswith('dimension 1 of argument 2 tensor<15x16xf32> over "x" (saves ')


def test_it_comes_first_in_explanations() -> None:
    machine = replace(Machine.of("h100"), memory_bytes=NEEDED - 1)
    result = compiled(TEXT, machine=machine)
    assert explain([], [], result).startswith("over_memory: the plan needs about ")


def test_it_is_an_error_under_strict() -> None:
    with pytest.raises(
        StrictError, match=r"strict: the plan needs about .* per device, and one of"
    ):
        records(NEEDED - 1, strict=True)
    assert records(NEEDED, strict=True) == []
