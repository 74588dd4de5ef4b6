"""Scatter by numbers: every label against the op on whole operands.

Indices are negative, past the end and repeated wherever the op allows it.
"""

from __future__ import annotations

import numpy as np
import pytest

from tests.py.passes.indices import ALL, kinds, odd, reduced
from tests.py.passes.rule_oracle import NUMPY_TYPES, Array, Report, check_rule, letters, op_module

BODIES = {
    "sum": "stablehlo.add",
    "max": "stablehlo.maximum",
    "min": "stablehlo.minimum",
    "prod": "stablehlo.multiply",
    "and": "stablehlo.and",
    "or": "stablehlo.or",
}


def scatter(
    operand: str,
    indices: str,
    updates: str,
    numbers: str,
    values: Array | None,
    *,
    body: str | None = "stablehlo.add",
    flags: str = "",
    max_pairs: int = 6,
) -> Report:
    """`body`: an op on (old, new); None overwrites."""
    element = operand.rpartition("x")[2]
    t = f"tensor<{element}>"
    inner = "stablehlo.return %new : " + t
    if body is not None:
        inner = f"%s = {body} %old, %new : {t}\n  stablehlo.return %s : {t}"
    op = (
        f'"stablehlo.scatter"(%a, %i, %u) <{{scatter_dimension_numbers = '
        f"#stablehlo.scatter<{numbers}>{flags}}}> ({{\n^bb0(%old: {t}, %new: {t}):\n"
        f"  {inner}\n}}) : (tensor<{operand}>, tensor<{indices}>, tensor<{updates}>) "
        f"-> tensor<{operand}>"
    )
    return check_rule(
        op_module(f"a: {operand}, i: {indices}, u: {updates}", op, operand),
        inputs=None if values is None else {1: values},
        max_pairs=max_pairs,
    )


ROWS = (
    "update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], "
    "index_vector_dim = 1"
)


@pytest.mark.sweep
@pytest.mark.parametrize("element", ["f32", "bf16", "i32", "i1"])
@pytest.mark.parametrize("reduction", list(BODIES))
def test_scatter_of_rows(reduction: str, element: str) -> None:
    if reduction in ("and", "or") and element in ("f32", "bf16"):
        return
    rows = 6 if reduction == "prod" else 8  # the products of more stop being exact in bf16
    report = scatter(
        f"12x4x{element}",
        f"{rows}x1xi32",
        f"{rows}x4x{element}",
        ROWS,
        odd((rows, 1)),
        body=BODIES[reduction],
        max_pairs=12 if element == "f32" else 4,
    )
    booleans = {"sum": "or", "max": "or", "prod": "and", "min": "and"}
    expected = booleans.get(reduction, reduction) if element == "i1" else reduction
    assert letters(report) == "abc"
    assert reduced(report) == {rows: expected}
    assert kinds(report) == {expected}
    assert next(f for f in report.rule.factors if f.reduction).partial_operands == (0,)


@pytest.mark.sweep
@pytest.mark.parametrize("element", ["i8", "ui8", "i64", "ui64", "ui32"])
def test_scatter_drops_what_is_out_of_range_in_any_index_type(element: str) -> None:
    values = odd((8,), element)
    values[0] = np.iinfo(NUMPY_TYPES[element]).max
    values[1] = np.iinfo(NUMPY_TYPES[element]).min
    scatter("12x4xf32", f"8x{element}", "8x4xf32", ROWS, values)


def test_a_shard_as_long_as_the_index_type_reaches_still_drops_foreign_updates() -> None:
    values = np.array([0, 3, 255, 254, 200, 128], np.uint8)
    scatter("512x2xf32", "6xui8", "6x2xf32", ROWS, values)


@pytest.mark.parametrize("flags", ["", ", indices_are_sorted = true, unique_indices = true"])
def test_overwriting_scatter_splits_rows_but_not_updates(flags: str) -> None:
    values = np.array([[0], [2], [3], [5], [8], [11], [12], [40]], np.int32)
    report = scatter(
        "12x4xi32", "8x1xi32", "8x4xi32", ROWS, values, body=None, flags=flags, max_pairs=12
    )
    assert sorted(f.size for f in report.rule.factors) == [4, 12]
    assert kinds(report) == (ALL["i32"] if flags else set())
    assert (1, 0) in report.rule.why_whole


def test_one_overwriting_update_passes_parts() -> None:
    numbers = (
        "update_window_dims = [0], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0]"
    )
    report = scatter("12x4xf32", "1xi32", "4xf32", numbers, np.array([5], np.int32), body=None)
    assert kinds(report) == ALL["f32"]


@pytest.mark.parametrize("flags", ["", ", unique_indices = true"])
def test_a_body_that_is_no_combiner_keeps_the_updates_whole(flags: str) -> None:
    values = np.array([[0], [2], [3], [5], [8], [11], [12], [40]], np.int32)
    report = scatter(
        "12x4xf32", "8x1xi32", "8x4xf32", ROWS, values, body="stablehlo.subtract", flags=flags
    )
    assert sorted(f.size for f in report.rule.factors) == [4, 12]
    assert report.passes == []


def test_scattered_points_and_batching_dimensions() -> None:
    values = np.stack([odd((8,)), np.array([-1, 0, 5, 7, 6, 3, 99, 2], np.int32)], 1)
    report = scatter(
        "12x6xf32",
        "8x2xi32",
        "8xf32",
        "inserted_window_dims = [0, 1], scatter_dims_to_operand_dims = [0, 1], "
        "index_vector_dim = 1",
        values,
        max_pairs=20,
    )
    assert letters(report) == "abc"
    report = scatter(
        "4x12x6xf32",
        "6x4x3x1xi32",
        "6x4x3xf32",
        "inserted_window_dims = [1], input_batching_dims = [0, 2], "
        "scatter_indices_batching_dims = [1, 0], scatter_dims_to_operand_dims = [1], "
        "index_vector_dim = 3",
        odd((6, 4, 3, 1)),
        max_pairs=20,
    )
    assert letters(report) == "abcd"


@pytest.mark.sweep
@pytest.mark.parametrize("element", ["i32", "ui8", "i64"])
def test_windows_of_several_elements_are_written_by_the_owners_of_these(element: str) -> None:
    numbers = (
        "update_window_dims = [1, 2], scatter_dims_to_operand_dims = [0], index_vector_dim = 1"
    )
    values = odd((8, 1), element)
    report = scatter("12x4xf32", f"8x1x{element}", "8x3x4xf32", numbers, values, max_pairs=20)
    assert sorted(f.size for f in report.rule.factors) == [4, 8, 12]
    assert (2, 1) in report.rule.why_whole
    report = scatter("12x4xf32", "8x1xi32", "8x1x4xf32", numbers, odd((8, 1)))
    assert sorted(f.size for f in report.rule.factors) == [4, 8, 12]


def test_full_windows_with_an_index_are_written_whole_or_not_at_all() -> None:
    numbers = (
        "update_window_dims = [1], inserted_window_dims = [0], "
        "scatter_dims_to_operand_dims = [0, 1], index_vector_dim = 1"
    )
    second = np.array([0, 0, 1, 0, -1, 0, 0, 3], np.int32)
    values = np.stack([odd((8,)), second], 1)
    report = scatter("12x4xf32", "8x2xi32", "8x4xf32", numbers, values, max_pairs=12)
    assert letters(report) == "abc"


def test_scatter_of_several_tensors_at_once() -> None:
    types = ["12x4xf32", "12x4xf32", "8x1xi32", "8x4xf32", "8x4xf32"]
    t = "tensor<f32>"
    op = (
        f'"stablehlo.scatter"(%a, %b, %i, %u, %v) <{{scatter_dimension_numbers = '
        f"#stablehlo.scatter<{ROWS}>}}> ({{\n"
        f"^bb0(%a0: {t}, %b0: {t}, %a1: {t}, %b1: {t}):\n"
        f"  %x = stablehlo.add %a0, %a1 : {t}\n  %y = stablehlo.add %b1, %b0 : {t}\n"
        f"  stablehlo.return %x, %y : {t}, {t}\n}}) : "
        f"({', '.join(f'tensor<{x}>' for x in types)}) -> (tensor<12x4xf32>, tensor<12x4xf32>)"
    )
    arguments = ", ".join(f"{n}: {x}" for n, x in zip("abiuv", types, strict=True))
    report = check_rule(
        op_module(arguments, op, "12x4xf32, 12x4xf32"), inputs={2: odd((8, 1))}, max_pairs=12
    )
    assert letters(report) == "abc"
    factor = next(f for f in report.rule.factors if f.reduction)
    assert factor.partial_operands == (0, 1)
    assert report.passes == [(("sum", "sum", None, "sum", "sum"), ("sum", "sum"))]


def test_scatter_with_empty_dimensions() -> None:
    scatter("0x4xf32", "8x1xi32", "8x4xf32", ROWS, odd((8, 1)))
    scatter("12x0xf32", "8x1xi32", "8x0xf32", ROWS, odd((8, 1)))
    scatter("12x4xf32", "0x1xi32", "0x4xf32", ROWS, odd((0, 1)))
