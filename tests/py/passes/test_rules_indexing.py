"""Gather and scatter by numbers: every label against the op on whole operands.

Indices are negative, past the end and repeated wherever the op allows it.
"""

from __future__ import annotations

import numpy as np
import pytest

from tests.py.passes.rule_oracle import (
    NUMPY_TYPES,
    Array,
    Report,
    check_rule,
    letters,
    op_module,
)

ODD = [-9, -1, 0, 3, 3, 5, 11, 12, 13, 700, 7, 3]  # for a dimension of 12 elements

ALL = {
    "f32": {"sum", "max", "min", "prod"},
    "bf16": {"sum", "max", "min", "prod"},
    "i32": {"sum", "max", "min", "prod", "and", "or"},
    "i1": {"and", "or"},
    "complex<f32>": {"sum", "prod"},
}


def kinds(report: Report) -> set[str | None]:
    return {kind for _, results in report.passes for kind in results}


def reduced(report: Report) -> dict[int, str]:
    return {f.size: f.reduction for f in report.rule.factors if f.reduction is not None}


def odd(shape: tuple[int, ...], element: str = "i32") -> Array:
    values = np.resize(np.array(ODD, np.int64), shape)
    return values.astype(NUMPY_TYPES[element])


def gather(
    operand: str,
    indices: str,
    result: str,
    numbers: str,
    sizes: str,
    values: Array | None,
    flags: str = "",
    max_pairs: int = 12,
) -> Report:
    op = (
        f'"stablehlo.gather"(%a, %i) <{{dimension_numbers = #stablehlo.gather<{numbers}>, '
        f"slice_sizes = array<i64: {sizes}>{flags}}}> : "
        f"(tensor<{operand}>, tensor<{indices}>) -> tensor<{result}>"
    )
    return check_rule(
        op_module(f"a: {operand}, i: {indices}", op, result),
        inputs=None if values is None else {1: values},
        max_pairs=max_pairs,
    )


EMBEDDING = "offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1"


@pytest.mark.parametrize("element", list(ALL))
def test_embedding_lookup_splits_vocabulary_width_and_batch(element: str) -> None:
    report = gather(
        f"12x4x{element}", "8x1xi32", f"8x4x{element}", EMBEDDING, "1, 4", odd((8, 1)), max_pairs=30
    )
    assert letters(report) == "abc"
    assert reduced(report) == {12: "or" if element == "i1" else "sum"}
    assert kinds(report) == ALL[element]


@pytest.mark.parametrize("element", ["i8", "ui8", "i64", "ui64", "ui32", "i16"])
def test_indices_of_any_integer_type_are_clamped_before_they_are_shared_out(element: str) -> None:
    values = odd((8,), element)
    if element.startswith("ui"):
        values[0] = np.iinfo(NUMPY_TYPES[element]).max
    else:
        values[0] = np.iinfo(NUMPY_TYPES[element]).min
        values[1] = np.iinfo(NUMPY_TYPES[element]).max
    report = gather(
        "12x4xf32", f"8x{element}", "8x4xf32", EMBEDDING, "1, 4", values, ", indices_are_sorted = false"
    )
    assert letters(report) == "abc"


def test_a_vocabulary_larger_than_the_index_type_is_clamped_to_what_the_type_holds() -> None:
    values = np.array([-128, -1, 0, 100, 127, 64], np.int8)
    gather("200x2xf32", "6xi8", "6x2xf32", EMBEDDING, "1, 2", values)


def test_points_with_two_indexed_dimensions_have_two_owners() -> None:
    values = np.stack([odd((8,)), np.array([-1, 0, 5, 7, 6, 3, 99, 2], np.int32)], 1)
    report = gather(
        "12x6xf32",
        "8x2xi32",
        "8xf32",
        "collapsed_slice_dims = [0, 1], start_index_map = [0, 1], index_vector_dim = 1",
        "1, 1",
        values,
        max_pairs=60,
    )
    assert letters(report) == "abc"
    assert reduced(report) == {12: "sum", 6: "sum"}


def test_components_may_stand_in_another_order_and_dimension() -> None:
    values = np.stack([np.array([-1, 0, 5, 7, 6, 3, 99, 2], np.int32), odd((8,))], 0)
    gather(
        "12x6x4xf32",
        "2x8xi32",
        "4x8xf32",
        "offset_dims = [0], collapsed_slice_dims = [0, 1], start_index_map = [1, 0], "
        "index_vector_dim = 0",
        "1, 1, 4",
        values,
        max_pairs=40,
    )


def test_take_along_axis_walks_batching_dimensions_together() -> None:
    report = gather(
        "4x6x12xf32",
        "6x4x3x1xi32",
        "6x4x3xf32",
        "collapsed_slice_dims = [2], operand_batching_dims = [0, 1], "
        "start_indices_batching_dims = [1, 0], start_index_map = [2], index_vector_dim = 3",
        "1, 1, 1",
        odd((6, 4, 3, 1)),
        max_pairs=60,
    )
    assert letters(report) == "abcd"
    assert reduced(report) == {12: "sum"}


def test_a_kept_window_of_one_element_has_owners_too() -> None:
    report = gather(
        "12x4xf32",
        "8x1xi32",
        "8x1x4xf32",
        "offset_dims = [1, 2], start_index_map = [0], index_vector_dim = 1",
        "1, 4",
        odd((8, 1)),
    )
    assert reduced(report) == {12: "sum"}


def test_windows_of_several_elements_stay_whole() -> None:
    report = gather(
        "12x4xf32",
        "8x1xi32",
        "8x3x4xf32",
        "offset_dims = [1, 2], start_index_map = [0], index_vector_dim = 1",
        "3, 4",
        odd((8, 1)),
    )
    assert letters(report) == "ab"
    assert (0, 0) in report.rule.why_whole


def test_a_window_of_one_element_that_is_not_indexed_stays_whole() -> None:
    report = gather(
        "12x4xf32",
        "8x1xi32",
        "8xf32",
        "collapsed_slice_dims = [0, 1], start_index_map = [0], index_vector_dim = 1",
        "1, 1",
        odd((8, 1)),
    )
    assert (0, 1) in report.rule.why_whole


def test_full_windows_with_an_index_start_at_zero_wherever_it_points() -> None:
    report = gather(
        "12x4xf32",
        "8x2xi32",
        "8x4xf32",
        "offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0, 1], "
        "index_vector_dim = 1",
        "1, 4",
        np.stack([odd((8,)), odd((8,))], 1),
        max_pairs=30,
    )
    assert letters(report) == "abc"


def test_scalar_index_and_empty_dimensions() -> None:
    numbers = "offset_dims = [0], collapsed_slice_dims = [0], start_index_map = [0]"
    report = gather("12x4xf32", "1xi32", "4xf32", numbers, "1, 4", np.array([7], np.int32))
    assert letters(report) == "ab"
    gather("12x4xf32", "i32", "4xf32", numbers, "1, 4", np.array(-3, np.int32))
    gather("12x0xf32", "8x1xi32", "8x0xf32", EMBEDDING, "1, 0", odd((8, 1)))
    gather("12x4xf32", "0x1xi32", "0x4xf32", EMBEDDING, "1, 4", odd((0, 1)))
    gather("1x4xf32", "8x1xi32", "8x4xf32", EMBEDDING, "1, 4", odd((8, 1)))


def test_infinities_of_other_owners_do_not_leak() -> None:
    table = np.full((12, 4), np.inf, np.float32)
    op = (
        f'"stablehlo.gather"(%a, %i) <{{dimension_numbers = #stablehlo.gather<{EMBEDDING}>, '
        "slice_sizes = array<i64: 1, 4>}> : (tensor<12x4xf32>, tensor<8x1xi32>) -> tensor<8x4xf32>"
    )
    table[3] = 2.0
    text = op_module("a: 12x4xf32, i: 8x1xi32", op, "8x4xf32")
    check_rule(text, inputs={0: table, 1: odd((8, 1))}, max_pairs=0)


# Scatter.

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
    max_pairs: int = 12,
) -> Report:
    """`body`: an op on (old, new); None overwrites."""
    element = operand.rpartition("x")[2]
    t = f"tensor<{element}>"
    inner = "stablehlo.return %new : " + t
    if body is not None:
        inner = f"%s = {body} %old, %new : {t}\n  stablehlo.return %s : {t}"
    op = (
        f'"stablehlo.scatter"(%a, %i, %u) <{{scatter_dimension_numbers = '
        f"#stablehlo.scatter<{numbers}>{flags}}}> ({{\n^bb0(%old: {t}, %new: {t}):\n  {inner}\n}}) : "
        f"(tensor<{operand}>, tensor<{indices}>, tensor<{updates}>) -> tensor<{operand}>"
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
        max_pairs=30,
    )
    booleans = {"sum": "or", "max": "or", "prod": "and", "min": "and"}
    expected = booleans.get(reduction, reduction) if element == "i1" else reduction
    assert letters(report) == "abc"
    assert reduced(report) == {rows: expected}
    assert kinds(report) == {expected}
    assert next(f for f in report.rule.factors if f.reduction).partial_operands == (0,)


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
        "12x4xi32", "8x1xi32", "8x4xi32", ROWS, values, body=None, flags=flags, max_pairs=30
    )
    assert sorted(f.size for f in report.rule.factors) == [4, 12]
    assert kinds(report) == (ALL["i32"] if flags else set())
    assert (1, 0) in report.rule.why_whole


def test_one_overwriting_update_passes_parts() -> None:
    numbers = (
        "update_window_dims = [0], inserted_window_dims = [0], "
        "scatter_dims_to_operand_dims = [0]"
    )
    report = scatter("12x4xf32", "1xi32", "4xf32", numbers, np.array([5], np.int32), body=None)
    assert kinds(report) == ALL["f32"]


def test_a_body_that_is_no_combiner_keeps_the_updates_whole() -> None:
    report = scatter(
        "12x4xf32", "8x1xi32", "8x4xf32", ROWS, odd((8, 1)), body="stablehlo.subtract"
    )
    assert sorted(f.size for f in report.rule.factors) == [4, 12]
    assert report.passes == []


def test_scattered_points_and_batching_dimensions() -> None:
    values = np.stack([odd((8,)), np.array([-1, 0, 5, 7, 6, 3, 99, 2], np.int32)], 1)
    report = scatter(
        "12x6xf32",
        "8x2xi32",
        "8xf32",
        "inserted_window_dims = [0, 1], scatter_dims_to_operand_dims = [0, 1], index_vector_dim = 1",
        values,
        max_pairs=60,
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
        max_pairs=60,
    )
    assert letters(report) == "abcd"


def test_windows_of_several_elements_keep_the_scattered_dimension_whole() -> None:
    numbers = (
        "update_window_dims = [1, 2], scatter_dims_to_operand_dims = [0], index_vector_dim = 1"
    )
    report = scatter("12x4xf32", "8x1xi32", "8x3x4xf32", numbers, odd((8, 1)))
    assert sorted(f.size for f in report.rule.factors) == [4, 8]
    report = scatter("12x4xf32", "8x1xi32", "8x1x4xf32", numbers, odd((8, 1)))
    assert sorted(f.size for f in report.rule.factors) == [4, 8, 12]


def test_full_windows_with_an_index_are_written_whole_or_not_at_all() -> None:
    numbers = (
        "update_window_dims = [1], inserted_window_dims = [0], "
        "scatter_dims_to_operand_dims = [0, 1], index_vector_dim = 1"
    )
    second = np.array([0, 0, 1, 0, -1, 0, 0, 3], np.int32)
    values = np.stack([odd((8,)), second], 1)
    report = scatter("12x4xf32", "8x2xi32", "8x4xf32", numbers, values, max_pairs=30)
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
        op_module(arguments, op, "12x4xf32, 12x4xf32"), inputs={2: odd((8, 1))}, max_pairs=30
    )
    assert letters(report) == "abc"
    factor = next(f for f in report.rule.factors if f.reduction)
    assert factor.partial_operands == (0, 1)
    assert report.passes == [(("sum", "sum", None, "sum", "sum"), ("sum", "sum"))]


def test_scatter_with_empty_dimensions() -> None:
    scatter("0x4xf32", "8x1xi32", "8x4xf32", ROWS, odd((8, 1)))
    scatter("12x0xf32", "8x1xi32", "8x0xf32", ROWS, odd((8, 1)))
    scatter("12x4xf32", "0x1xi32", "0x4xf32", ROWS, odd((0, 1)))
