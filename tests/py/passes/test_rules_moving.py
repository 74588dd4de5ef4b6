"""Rules and expanders of ops that move, cut or make elements, by numbers."""

from __future__ import annotations

import numpy as np
import pytest

from tests.py.passes.rule_oracle import NUMPY_TYPES, Array, check_rule, letters, op_module


@pytest.mark.parametrize("element", ["f32", "bf16", "i32", "i1"])
def test_transpose(element: str) -> None:
    op = (
        f"stablehlo.transpose %a, dims = [2, 0, 1] : (tensor<4x6x3x{element}>) "
        f"-> tensor<3x4x6x{element}>"
    )
    assert letters(check_rule(op_module(f"a: 4x6x3x{element}", op, f"3x4x6x{element}"))) == "abc"


@pytest.mark.parametrize(
    ("before", "dims", "after", "expected"),
    [
        ("4", "1", "3x4x2", "abc"),
        ("1x4", "0, 1", "6x4", "ab"),
        ("4x6", "1, 0", "6x4", "ab"),
        ("", "", "4x6", "ab"),
        ("1", "0", "1", ""),
        ("0x4", "0, 1", "0x4", "ab"),
    ],
)
def test_broadcast_in_dim(before: str, dims: str, after: str, expected: str) -> None:
    a = f"{before}xf32".lstrip("x")
    op = f"stablehlo.broadcast_in_dim %a, dims = [{dims}] : (tensor<{a}>) -> tensor<{after}xf32>"
    assert letters(check_rule(op_module(f"a: {a}", op, f"{after}xf32"))) == expected


@pytest.mark.parametrize(
    ("before", "after", "rule"),
    [
        ("6x4", "24", "[a:(1)6, a:(6)4] -> [a]"),
        ("24", "4x6", "[a] -> [a:(1)4, a:(4)6]"),
        ("6x4", "4x6", "[a:(1)6, a:(6)4] -> [a:(1)4, a:(4)6]"),
        ("4x6x3", "4x18", "[a, b:(1)6, b:(6)3] -> [a, b]"),
        ("4x1x6", "1x4x6x1", "[a, *, b] -> [*, a, b, *]"),
        ("12x5", "3x4x5", "[a, b] -> [a:(1)3, a:(3)4, b]"),
        ("1x1", "", "[*, *] -> []"),
        ("0x4", "0x2x2", "[*, *] -> [*, *, *]"),
    ],
)
def test_reshape(before: str, after: str, rule: str) -> None:
    b, a = f"{before}xi32", f"{after}xi32".lstrip("x")
    report = check_rule(
        op_module(f"a: {b}", f"stablehlo.reshape %a : (tensor<{b}>) -> tensor<{a}>", a),
        max_pairs=24,
    )
    assert str(report.rule) == rule


def test_a_digit_that_straddles_a_reshape_boundary_is_no_label() -> None:
    op = "stablehlo.reshape %a : (tensor<24xi32>) -> tensor<6x4xi32>"
    labels = check_rule(op_module("a: 24xi32", op, "6x4xi32")).labels
    assert ("a", 6, 4) in labels  # the columns
    assert ("a", 2, 3) in labels  # two blocks of rows
    assert ("a", 3, 4) not in labels  # half in the rows, half in the columns


def test_reverse() -> None:
    op = "stablehlo.reverse %a, dims = [1] : tensor<4x6xf32>"
    report = check_rule(op_module("a: 4x6xf32", op, "4x6xf32"))
    assert letters(report) == "a"
    assert not report.rule.factors[1].kind.is_local


# Cutting.


@pytest.mark.sweep
@pytest.mark.parametrize(
    ("shape", "cut", "after", "rule"),
    [
        (  # k of a fused qkv
            "4x18",
            "0:4, 6:12",
            "4x6",
            "[a, 3 b] -> [a, b] or [a, b window] -> [a, b:(1)6 window]",
        ),
        (
            "4x18",
            "0:4, 6:18",
            "4x12",
            "[a, 3 b] -> [a, 2 b] or [a, b window] -> [a, b:(1)12 window]",
        ),
        ("24", "8:20", "12", "[6 a] -> [3 a] or [a window] -> [a:(1)12 window]"),
        ("24", "0:24:2", "12", "[a] -> [a:(1)12]"),
        ("24", "1:24:2", "12", "[a] -> [a:(1)12]"),
        ("24", "13:24:2", "6", "[2 a] -> [a:(1)6] or [a] -> [*] reduce {a: sum}"),
        ("16", "5:6", "1", "[*] -> [*] or [a] -> [*] reduce {a: sum}"),
        (
            "16",
            "6:8",
            "2",
            "[8 a] -> [a] or [a window] -> [a:(1)2 window] or [a] -> [*] reduce {a: sum}",
        ),
        ("24", "4:24", "20", "[6 a] -> [5 a] or [a window] -> [a:(1)20 window]"),
        ("24", "5:24", "19", "[*] -> [*]"),
        ("24", "1:24", "23", "[a:(1)24 window] -> [a window]"),
        ("24", "2:22", "20", "[a:(1)24 window] -> [a window]"),
        ("24", "3:3", "0", "[*] -> [*]"),
        ("0x4", "0:0, 0:4", "0x4", "[a, b] -> [a, b]"),
        ("7x4", "0:7:2, 0:4", "4x4", "[*, a] -> [*, a]"),
    ],
)
@pytest.mark.parametrize("element", ["f32", "i32"])
def test_slice(shape: str, cut: str, after: str, rule: str, element: str) -> None:
    a, r = f"{shape}x{element}", f"{after}x{element}"
    op = f"stablehlo.slice %a [{cut}] : (tensor<{a}>) -> tensor<{r}>"
    assert str(check_rule(op_module(f"a: {a}", op, r)).rule) == rule


@pytest.mark.sweep
@pytest.mark.parametrize(
    ("shape", "low", "high", "interior", "after", "rule"),
    [
        (
            "4x6",
            "0, 6",
            "0, 12",
            "0, 0",
            "4x24",
            "[a, b], [] -> [a, 4 b] or [a, b window], [] -> [a, b:(1)24 window]",
        ),
        ("4x6", "0, 1", "0, 0", "0, 0", "4x7", "[a, *], [] -> [a, *]"),
        ("12", "0", "1", "1", "24", "[a:(1)12], [] -> [a]"),
        ("12", "1", "0", "1", "24", "[a:(1)12], [] -> [a]"),
        ("6", "13", "0", "1", "24", "[a:(1)6], [] -> [2 a]"),
        ("24", "-12", "0", "0", "12", "[2 a], [] -> [a] or [a window], [] -> [a:(1)12 window]"),
        ("24", "-12", "12", "0", "24", "[2 a], [] -> [2 a] or [a window], [] -> [a window]"),
        ("4", "0", "-3", "1", "4", "[2 a:(1)2], [] -> [a]"),
        ("0x4", "6, 0", "6, 0", "0, 0", "12x4", "[*, a], [] -> [*, a]"),
        ("6", "-6", "0", "0", "0", "[*], [] -> [*]"),
        ("1x4", "0, 0", "0, 0", "3, 0", "1x4", "[a, b], [] -> [a, b]"),
    ],
)
@pytest.mark.parametrize("element", ["f32", "i32"])
def test_pad(
    shape: str, low: str, high: str, interior: str, after: str, rule: str, element: str
) -> None:
    a, r = f"{shape}x{element}", f"{after}x{element}"
    op = (
        f"stablehlo.pad %a, %v, low = [{low}], high = [{high}], interior = [{interior}] "
        f": (tensor<{a}>, tensor<{element}>) -> tensor<{r}>"
    )
    report = check_rule(op_module(f"a: {a}, v: {element}", op, r))
    assert str(report.rule) == rule
    assert (("sum", "sum"), ("sum",)) in report.passes


@pytest.mark.parametrize(
    ("shapes", "dim", "after", "rule"),
    [
        (
            ["4x6", "4x6", "4x12"],
            1,
            "4x24",
            "[a, b], [a, b], [a, 2 b] -> [a, 4 b] or "
            "[a, b:(1)6 window], [a, b:(1)6 window], [a, b:(1)12 window] -> [a, b window]",
        ),
        (["4x6", "3x6"], 0, "7x6", "[*, a], [*, a] -> [*, a]"),
        (["0x6", "4x6"], 0, "4x6", "[*, b], [a, b] -> [a, b]"),
        (["4x6"], 0, "4x6", "[a, b] -> [a, b]"),
    ],
)
def test_concatenate(shapes: list[str], dim: int, after: str, rule: str) -> None:
    names = [f"a{i}" for i in range(len(shapes))]
    operands = ", ".join(f"%{n}" for n in names)
    types = ", ".join(f"tensor<{s}xf32>" for s in shapes)
    op = f"stablehlo.concatenate {operands}, dim = {dim} : ({types}) -> tensor<{after}xf32>"
    arguments = ", ".join(f"{n}: {s}xf32" for n, s in zip(names, shapes, strict=True))
    assert str(check_rule(op_module(arguments, op, f"{after}xf32")).rule) == rule


# Values from nowhere.


@pytest.mark.sweep
@pytest.mark.parametrize("element", ["i32", "f32", "bf16", "ui8", "complex<f32>"])
@pytest.mark.parametrize("dim", [0, 1])
def test_iota(dim: int, element: str) -> None:
    t = f"12x6x{element}"
    report = check_rule(op_module("", f"stablehlo.iota dim = {dim} : tensor<{t}>", t), max_pairs=40)
    assert report.rule.is_free
    assert letters(report) == "ab"


def dense(values: Array) -> str:
    return str(values.tolist()).replace("True", "true").replace("False", "false")


@pytest.mark.parametrize("element", ["i32", "f32", "i1", "bf16"])
def test_dense_constant(element: str) -> None:
    values = np.arange(24).reshape(4, 6).astype(NUMPY_TYPES[element])
    if element == "bf16":
        values = values.astype(np.float32)
    t = f"4x6x{element}"
    report = check_rule(
        op_module("", f"stablehlo.constant dense<{dense(values)}> : tensor<{t}>", t), max_pairs=24
    )
    assert (letters(report), report.passes, report.rule.is_free) == ("ab", [], True)


SPLATS = {
    ("0.0", "f32"): {"sum"},
    ("1.0", "bf16"): {"prod"},
    ("0xFF800000", "f32"): {"max"},
    ("0x7F800000", "f32"): {"min"},
    ("2.5", "f32"): set(),
    ("0", "i32"): {"sum", "or"},
    ("0", "ui8"): {"sum", "or", "max"},
    ("-1", "i8"): {"and"},
    ("255", "ui8"): {"and", "min"},
    ("-128", "i8"): {"max"},
    ("true", "i1"): {"and"},
    ("false", "i1"): {"or"},
    ("(0.0, 0.0)", "complex<f32>"): {"sum"},
    ("(0.0, 1.0)", "complex<f32>"): set(),
}


@pytest.mark.parametrize(("value", "element"), SPLATS)
def test_splat_constant(value: str, element: str) -> None:
    t = f"4x6x{element}"
    report = check_rule(op_module("", f"stablehlo.constant dense<{value}> : tensor<{t}>", t))
    assert {kind for _, (kind,) in report.passes} == SPLATS[value, element]
    assert letters(report) == "ab"
