"""Windows and convolutions by numbers: every label against the op on whole operands."""

from __future__ import annotations

import pytest

from tests.py.passes.rule_oracle import Report, check_rule, letters, op_module


def factor_sizes(report: Report) -> list[int]:
    return sorted(factor.size for factor in report.rule.factors if factor.kind.is_local)


def reduce_window(
    operand: str, result: str, body: str, attributes: str, max_pairs: int = 12
) -> Report:
    element = operand.rpartition("x")[2]
    t = f"tensor<{element}>"
    op = (
        f'"stablehlo.reduce_window"(%a, %i) <{{{attributes}}}> ({{\n^bb0(%x: {t}, %y: {t}):\n'
        f"  %s = stablehlo.{body} %x, %y : {t}\n  stablehlo.return %s : {t}\n}}) : "
        f"(tensor<{operand}>, {t}) -> tensor<{result}>"
    )
    text = op_module(f"a: {operand}, i: {element}", op, result)
    return check_rule(text, max_pairs=max_pairs)


CUMULATIVE = (
    "window_dimensions = array<i64: 1, 6, 1>, padding = dense<[[0, 0], [5, 0], [0, 0]]> : "
    "tensor<3x2xi64>"
)


@pytest.mark.sweep
@pytest.mark.parametrize("element", ["f32", "bf16", "i32", "i1"])
@pytest.mark.parametrize("body", ["add", "maximum", "minimum", "multiply"])
def test_cumulative_sums_and_maxima(body: str, element: str) -> None:
    t = f"4x6x2x{element}"
    report = reduce_window(t, t, body, CUMULATIVE)
    assert factor_sizes(report) == [2, 4]
    assert (0, 1) in report.rule.why_whole
    names = {"add": "sum", "maximum": "max", "minimum": "min", "multiply": "prod"}
    booleans = {"add": "or", "maximum": "or", "minimum": "and", "multiply": "and"}
    kind = (booleans if element == "i1" else names)[body]
    assert report.passes == [((kind, kind), (kind,))]


def test_pooling_whose_windows_tile_the_dimension() -> None:
    attributes = "window_dimensions = array<i64: 1, 3, 2>, window_strides = array<i64: 1, 3, 2>"
    report = reduce_window("4x12x8xf32", "4x4x4xf32", "maximum", attributes, max_pairs=40)
    assert factor_sizes(report) == [4, 4, 4]


@pytest.mark.parametrize(
    ("result", "attributes"),
    [
        (5, "window_dimensions = array<i64: 1, 3>, window_strides = array<i64: 1, 2>"),  # overlap
        (4, "window_dimensions = array<i64: 1, 2>, window_strides = array<i64: 1, 3>"),  # gaps
        (2, "window_dimensions = array<i64: 1, 5>, window_strides = array<i64: 1, 5>"),  # a rest
        (
            4,
            "window_dimensions = array<i64: 1, 3>, window_strides = array<i64: 1, 3>, "
            "padding = dense<[[0, 0], [1, -1]]> : tensor<2x2xi64>",
        ),
        (
            5,
            "window_dimensions = array<i64: 1, 2>, window_strides = array<i64: 1, 2>, "
            "window_dilations = array<i64: 1, 2>",
        ),
        (23, "window_dimensions = array<i64: 1, 1>, base_dilations = array<i64: 1, 2>"),
        (
            7,
            "window_dimensions = array<i64: 1, 3>, window_strides = array<i64: 1, 3>, "
            "base_dilations = array<i64: 1, 2>",
        ),
    ],
)
def test_other_windows_keep_their_dimension_whole(result: int, attributes: str) -> None:
    report = reduce_window("4x12xf32", f"4x{result}xf32", "add", attributes)
    assert factor_sizes(report) == [4]
    assert (0, 1) in report.rule.why_whole


def test_several_operands_with_one_body() -> None:
    t, f = "4x6x2xf32", "tensor<f32>"
    op = (
        f'"stablehlo.reduce_window"(%a, %b, %i, %j) <{{{CUMULATIVE}}}> ({{\n'
        f"^bb0(%x: {f}, %y: {f}, %u: {f}, %v: {f}):\n"
        f"  %s = stablehlo.add %x, %u : {f}\n  %t = stablehlo.add %y, %v : {f}\n"
        f"  stablehlo.return %s, %t : {f}, {f}\n}}) : "
        f"(tensor<{t}>, tensor<{t}>, {f}, {f}) -> (tensor<{t}>, tensor<{t}>)"
    )
    report = check_rule(op_module(f"a: {t}, b: {t}, i: f32, j: f32", op, f"{t}, {t}"))
    assert factor_sizes(report) == [2, 4]
    assert report.passes == [(("sum",) * 4, ("sum",) * 2)]


def select_and_scatter(operand: str, source: str, attributes: str, scatter: str) -> Report:
    t = "tensor<f32>"
    op = (
        f'"stablehlo.select_and_scatter"(%a, %s, %i) <{{{attributes}}}> ({{\n'
        f"^bb0(%x: {t}, %y: {t}):\n"
        f"  %p = stablehlo.compare GE, %x, %y : ({t}, {t}) -> tensor<i1>\n"
        f"  stablehlo.return %p : tensor<i1>\n}}, {{\n^bb0(%x: {t}, %y: {t}):\n"
        f"  %q = stablehlo.{scatter} %x, %y : {t}\n  stablehlo.return %q : {t}\n}}) : "
        f"(tensor<{operand}>, tensor<{source}>, {t}) -> tensor<{operand}>"
    )
    return check_rule(op_module(f"a: {operand}, s: {source}, i: f32", op, operand), max_pairs=30)


def test_gradient_of_max_pooling() -> None:
    tiled = "window_dimensions = array<i64: 1, 3>, window_strides = array<i64: 1, 3>"
    report = select_and_scatter("4x12xf32", "4x4xf32", tiled, "add")
    assert factor_sizes(report) == [4, 4]
    assert report.passes == [((None, "sum", "sum"), ("sum",))]
    overlapping = "window_dimensions = array<i64: 1, 3>, window_strides = array<i64: 1, 1>"
    report = select_and_scatter("4x12xf32", "4x10xf32", overlapping, "add")
    assert factor_sizes(report) == [4]
    report = select_and_scatter("4x12xf32", "4x4xf32", tiled, "subtract")
    assert report.passes == []


def convolution(
    lhs: str, rhs: str, result: str, dims: str, window: str = "{}", groups: str = "1, 1"
) -> Report:
    feature, batch = groups.split(", ")
    op = (
        f"stablehlo.convolution(%a, %b) dim_numbers = {dims}, window = {window} "
        f"{{feature_group_count = {feature} : i64, batch_group_count = {batch} : i64}} : "
        f"(tensor<{lhs}>, tensor<{rhs}>) -> tensor<{result}>"
    )
    return check_rule(op_module(f"a: {lhs}, b: {rhs}", op, result), max_pairs=30)


IMAGE = "[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]"


@pytest.mark.parametrize("element", ["f32", "bf16", "i32"])
def test_convolution_splits_batch_and_features(element: str) -> None:
    report = convolution(
        f"4x5x7x8x{element}", f"3x3x8x6x{element}", f"4x5x7x6x{element}", IMAGE,
        "{pad = [[1, 1], [1, 1]]}",
    )  # fmt: skip
    assert factor_sizes(report) == [4, 6, 8]
    assert [f.size for f in report.rule.factors if f.reduction == "sum"] == [8]
    either = [(("sum", None), ("sum",)), ((None, "sum"), ("sum",))]
    assert report.passes == (either if element == "i32" else [])  # floats may be infinite
    assert {(0, 1), (0, 2), (1, 0), (1, 1)} <= set(report.rule.why_whole)


def test_convolution_that_widens_integers_passes_no_parts() -> None:
    report = convolution("4x5x8xi8", "1x8x6xi8", "4x5x6xi32", "[b, 0, f]x[0, i, o]->[b, 0, f]")
    assert report.passes == []
    assert factor_sizes(report) == [4, 5, 6, 8]


def test_patches_and_pointwise_windows_split_space() -> None:
    report = convolution(
        "2x12x8x4xf32",
        "3x1x4x6xf32",
        "2x4x8x6xf32",
        IMAGE,
        "{stride = [3, 1], reverse = [true, false]}",
    )
    assert factor_sizes(report) == [2, 4, 4, 6, 8]
    report = convolution("2x12x8x4xf32", "3x1x4x6xf32", "2x12x4x6xf32", IMAGE,
        "{stride = [1, 2], pad = [[1, 1], [0, 0]]}")  # fmt: skip
    assert factor_sizes(report) == [2, 4, 6]
    report = convolution("2x4x8x4xf32", "1x1x4x6xf32", "2x7x8x6xf32", IMAGE,
        "{lhs_dilate = [2, 1]}")  # fmt: skip
    assert factor_sizes(report) == [2, 4, 6, 8]


@pytest.mark.parametrize(
    ("lhs", "rhs", "result", "sizes"),
    [
        ("2x5x8", "3x1x8", "2x3x8", [2, 8]),  # depthwise
        ("2x5x8", "3x1x24", "2x3x24", [2, 8]),  # depthwise, three results per channel
        ("2x5x24", "3x3x8", "2x3x8", [2, 8]),  # three channels per group, one result each
        ("2x5x24", "3x3x16", "2x3x16", [2, 8]),  # several on both sides
    ],
)
def test_grouped_features(lhs: str, rhs: str, result: str, sizes: list[int]) -> None:
    report = convolution(
        f"{lhs}xf32", f"{rhs}xf32", f"{result}xf32", "[b, 0, f]x[0, i, o]->[b, 0, f]", groups="8, 1"
    )
    assert factor_sizes(report) == sizes


@pytest.mark.parametrize(
    ("lhs", "rhs", "result", "sizes"),
    [
        ("8x5x6", "3x6x8", "1x3x8", [6, 8]),  # the gradient of a depthwise kernel
        ("16x5x6", "3x6x8", "2x3x8", [6, 8]),
        ("8x5x6", "3x6x24", "1x3x24", [6, 8]),
        ("16x5x6", "3x6x16", "2x3x16", [6, 8]),
    ],
)
def test_grouped_batches(lhs: str, rhs: str, result: str, sizes: list[int]) -> None:
    report = convolution(
        f"{lhs}xf32", f"{rhs}xf32", f"{result}xf32", "[b, 0, f]x[0, i, o]->[b, 0, f]", groups="1, 8"
    )
    assert factor_sizes(report) == sizes


def test_convolution_without_space_is_a_product() -> None:
    report = convolution("4x8xf32", "8x6xf32", "4x6xf32", "[b, f]x[i, o]->[b, f]")
    assert letters(report) == "abc"
