"""Gather by numbers: every label against the op on whole operands.

Indices are negative, past the end and repeated wherever the op allows it.
"""

from __future__ import annotations

import numpy as np
import pytest

from tests.py.passes.indices import ALL, kinds, odd, reduced
from tests.py.passes.rule_oracle import NUMPY_TYPES, Array, Report, check_rule, letters, op_module


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


EMBEDDING = (
    "offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], index_vector_dim = 1"
)


@pytest.mark.sweep
@pytest.mark.parametrize("element", list(ALL))
def test_embedding_lookup_splits_vocabulary_width_and_batch(element: str) -> None:
    report = gather(
        f"12x4x{element}", "8x1xi32", f"8x4x{element}", EMBEDDING, "1, 4", odd((8, 1)), max_pairs=30
    )
    assert letters(report) == "abc"
    assert reduced(report) == {12: "or" if element == "i1" else "sum"}
    assert kinds(report) == ALL[element]


@pytest.mark.sweep
@pytest.mark.parametrize("element", ["i8", "ui8", "i64", "ui64", "ui32", "i16"])
def test_indices_of_any_integer_type_are_clamped_before_they_are_shared_out(element: str) -> None:
    values = odd((8,), element)
    if element.startswith("ui"):
        values[0] = np.iinfo(NUMPY_TYPES[element]).max
    else:
        values[0] = np.iinfo(NUMPY_TYPES[element]).min
        values[1] = np.iinfo(NUMPY_TYPES[element]).max
    report = gather(
        "12x4xf32",
        f"8x{element}",
        "8x4xf32",
        EMBEDDING,
        "1, 4",
        values,
        ", indices_are_sorted = false",
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


@pytest.mark.parametrize("element", ["i32", "ui8", "i64"])
def test_windows_of_several_elements_have_the_owners_of_their_elements(element: str) -> None:
    report = gather(
        "12x4xf32",
        f"8x1x{element}",
        "8x3x4xf32",
        "offset_dims = [1, 2], start_index_map = [0], index_vector_dim = 1",
        "3, 4",
        odd((8, 1), element),
    )
    assert letters(report) == "abc"
    assert reduced(report) == {12: "sum"}
    assert (~0, 1) in report.rule.why_whole


def test_windows_of_which_no_index_tells_the_first_element_stay_whole() -> None:
    report = gather(
        "12x4xf32",
        "8x1xi32",
        "8x3xf32",
        "offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0], "
        "index_vector_dim = 1",
        "1, 3",
        odd((8, 1)),
    )
    assert (0, 1) in report.rule.why_whole


def test_windows_of_two_dimensions_between_batching_dimensions() -> None:
    report = gather(
        "4x12x6x2xf32",
        "2x5x4xi32",
        "2x5x3x4x2xf32",
        "offset_dims = [0, 2, 4], collapsed_slice_dims = [], operand_batching_dims = [0], "
        "start_indices_batching_dims = [2], start_index_map = [1, 2], index_vector_dim = 0",
        "1, 2, 3, 2",
        odd((2, 5, 4)),
    )
    assert reduced(report) == {12: "sum", 6: "sum"}


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
