"""The core rules and expanders by numbers: every label against the op on whole operands."""

from __future__ import annotations

import numpy as np
import pytest

from tests.py.passes.rule_oracle import check_rule, letters, op_module

BF16_EPS = 2.0**-8
F32_EPS = 2.0**-23


UNARY = [
    *("abs", "cbrt", "ceil", "cosine", "exponential", "exponential_minus_one", "floor"),
    *("log", "log_plus_one", "logistic", "negate", "round_nearest_afz", "round_nearest_even"),
    *("rsqrt", "sign", "sine", "sqrt", "tan", "tanh"),
]
BINARY = ["add", "atan2", "divide", "maximum", "minimum", "multiply", "power", "subtract"]
INTEGER = [
    *("add", "and", "divide", "maximum", "minimum", "multiply", "or", "power", "remainder"),
    *("shift_left", "shift_right_arithmetic", "shift_right_logical", "subtract", "xor"),
]


@pytest.mark.sweep
@pytest.mark.parametrize("element", ["f32", "bf16"])
@pytest.mark.parametrize("name", UNARY)
def test_float_unary(name: str, element: str) -> None:
    t = f"4x6x{element}"
    report = check_rule(
        op_module(f"a: {t}", f"stablehlo.{name} %a : tensor<{t}>", t),
        # vector and scalar code of one function may round differently
        tolerance=4 * F32_EPS if element == "f32" else BF16_EPS,
        max_pairs=4,
    )
    assert letters(report) == "ab"
    kinds = {("sum",): ("sum",), ("max",): ("min",), ("min",): ("max",)}
    assert dict(report.passes) == (kinds if name == "negate" else {})


CHLO_UNARY = [
    *("acos", "acosh", "asin", "asinh", "atan", "atanh", "bessel_i1e", "cosh", "digamma", "erf"),
    *("erf_inv", "erfc", "lgamma", "sinh", "square", "tan"),
]


@pytest.mark.sweep
@pytest.mark.parametrize("name", CHLO_UNARY)
def test_chlo_unary(name: str) -> None:
    t = "4x6xf32"
    report = check_rule(
        op_module(f"a: {t}", f"chlo.{name} %a : tensor<{t}> -> tensor<{t}>", t),
        tolerance=16 * F32_EPS,  # vector and scalar code of the expansion may round differently
        sizes=(2, 3),
        max_pairs=2,
    )
    assert (letters(report), report.passes) == ("ab", [])


@pytest.mark.parametrize("name", ["next_after", "polygamma", "zeta"])
def test_chlo_binary(name: str) -> None:
    t = "4x6xf32"
    types = f"tensor<{t}>, tensor<{t}> -> tensor<{t}>"
    report = check_rule(
        op_module(f"a: {t}, b: {t}", f"chlo.{name} %a, %b : {types}", t),
        tolerance=16 * F32_EPS,
        sizes=(2, 3),
        max_pairs=2,
    )
    assert (letters(report), report.passes) == ("ab", [])


def test_map() -> None:
    op = """"stablehlo.map"(%a, %b) <{dimensions = array<i64: 0, 1>}> ({
    ^bb0(%x: tensor<f32>, %y: tensor<f32>):
      %m = stablehlo.maximum %x, %y : tensor<f32>
      stablehlo.return %m : tensor<f32>
    }) : (tensor<4x6xf32>, tensor<4x6xf32>) -> tensor<4x6xf32>"""
    report = check_rule(op_module("a: 4x6xf32, b: 4x6xf32", op, "4x6xf32"))
    assert (letters(report), report.passes) == ("ab", [])


@pytest.mark.sweep
@pytest.mark.parametrize("element", ["f32", "bf16"])
@pytest.mark.parametrize("name", BINARY)
def test_float_binary(name: str, element: str) -> None:
    t = f"4x6x{element}"
    report = check_rule(
        op_module(f"a: {t}, b: {t}", f"stablehlo.{name} %a, %b : tensor<{t}>", t),
        tolerance=4 * F32_EPS if element == "f32" else BF16_EPS,
        max_pairs=8,
    )
    assert letters(report) == "ab"


@pytest.mark.sweep
@pytest.mark.parametrize("element", ["i32", "ui8"])
@pytest.mark.parametrize("name", INTEGER)
def test_integer_binary(name: str, element: str) -> None:
    t = f"4x6x{element}"
    report = check_rule(
        op_module(f"a: {t}, b: {t}", f"stablehlo.{name} %a, %b : tensor<{t}>", t), max_pairs=6
    )
    assert letters(report) == "ab"
    if name == "divide":  # truncation: the parts of a sum do not divide
        assert report.passes == []
    if name == "power":
        assert report.passes == ([(("prod", None), ("prod",))] if element == "ui8" else [])


@pytest.mark.parametrize("name", ["add", "multiply", "maximum", "minimum", "and", "or", "xor"])
def test_boolean_binary(name: str) -> None:
    t = "4x6xi1"
    report = check_rule(op_module(f"a: {t}, b: {t}", f"stablehlo.{name} %a, %b : tensor<{t}>", t))
    kinds = {r for _, results in report.passes for r in results}
    either, both = {"or"}, {"and"}
    assert (
        kinds
        == {
            **dict.fromkeys(("add", "maximum", "or"), either),
            **dict.fromkeys(("multiply", "minimum", "and"), both),
            "xor": set(),
        }[name]
    )


@pytest.mark.parametrize("element", ["i32", "i1", "ui32"])
def test_integer_not_swaps_and_with_or(element: str) -> None:
    t = f"4x6x{element}"
    report = check_rule(op_module(f"a: {t}", f"stablehlo.not %a : tensor<{t}>", t))
    assert dict(report.passes) == {("and",): ("or",), ("or",): ("and",)}


def test_integer_negate_does_not_swap_max_with_min() -> None:
    # a shard without a part holds the lowest integer, which is its own negative
    t = "4x6xi32"
    report = check_rule(op_module(f"a: {t}", f"stablehlo.negate %a : tensor<{t}>", t))
    assert report.passes == [(("sum",), ("sum",))]


@pytest.mark.parametrize("name", ["count_leading_zeros", "popcnt", "abs", "sign"])
def test_integer_unary(name: str) -> None:
    t = "4x6xi32"
    report = check_rule(op_module(f"a: {t}", f"stablehlo.{name} %a : tensor<{t}>", t))
    assert report.passes == []


BOOLEANS = "tensor<4x6xi1>"


def test_is_finite_and_compare() -> None:
    report = check_rule(
        op_module(
            "a: 4x6xf32", f"stablehlo.is_finite %a : (tensor<4x6xf32>) -> {BOOLEANS}", "4x6xi1"
        )
    )
    assert report.passes == []
    op = f"stablehlo.compare LT, %a, %b : (tensor<4x6xbf16>, tensor<4x6xbf16>) -> {BOOLEANS}"
    report = check_rule(op_module("a: 4x6xbf16, b: 4x6xbf16", op, "4x6xi1"))
    assert (letters(report), report.passes) == ("ab", [])


def test_complex_ops() -> None:
    c, f = "tensor<4x6xcomplex<f32>>", "tensor<4x6xf32>"
    for text in (
        op_module("a: 4x6xf32, b: 4x6xf32", f"stablehlo.complex %a, %b : {c}", "4x6xcomplex<f32>"),
        op_module("a: 4x6xcomplex<f32>", f"stablehlo.real %a : ({c}) -> {f}", "4x6xf32"),
        op_module("a: 4x6xcomplex<f32>", f"stablehlo.imag %a : ({c}) -> {f}", "4x6xf32"),
        op_module("a: 4x6xcomplex<f32>", f"chlo.conj %a : {c} -> {c}", "4x6xcomplex<f32>"),
    ):
        report = check_rule(text)
        assert [results for _, results in report.passes] == [("sum",)]


@pytest.mark.parametrize("predicate", ["4x6xi1", "i1"])
@pytest.mark.parametrize("element", ["f32", "bf16", "i32", "i1"])
def test_select(element: str, predicate: str) -> None:
    t = f"4x6x{element}"
    op = f"stablehlo.select %p, %a, %b : tensor<{predicate}>, tensor<{t}>"
    report = check_rule(op_module(f"p: {predicate}, a: {t}, b: {t}", op, t))
    assert letters(report) == "ab"
    assert all(operands[0] is None for operands, _ in report.passes)
    assert len(report.passes) == {"f32": 4, "bf16": 4, "i32": 6, "i1": 2}[element]


@pytest.mark.parametrize("bound", ["4x6xf32", "f32"])
def test_clamp(bound: str) -> None:
    op = (
        f"stablehlo.clamp %lo, %a, %hi : (tensor<{bound}>, tensor<4x6xf32>, tensor<{bound}>) "
        "-> tensor<4x6xf32>"
    )
    report = check_rule(op_module(f"lo: {bound}, a: 4x6xf32, hi: {bound}", op, "4x6xf32"))
    assert (letters(report), report.passes) == ("ab", [])


def test_reduce_precision_passes_no_parts() -> None:
    op = "stablehlo.reduce_precision %a, format = e5m10 : tensor<4x6xf32>"
    assert check_rule(op_module("a: 4x6xf32", op, "4x6xf32")).passes == []


CONVERSIONS = {
    ("bf16", "f32"): {"sum", "prod", "max", "min"},
    ("f16", "f32"): {"sum", "prod", "max", "min"},
    ("f32", "bf16"): set(),  # each part would be rounded before the sum
    ("f16", "bf16"): set(),
    ("f32", "f32"): {"sum", "prod", "max", "min"},
    ("f32", "i32"): set(),
    ("i32", "f32"): set(),
    ("i32", "i8"): {"sum", "prod", "and", "or"},  # exact modulo 2^8
    ("i8", "i32"): {"max", "min", "and", "or"},  # the sum of bytes wraps, that of words does not
    ("ui8", "i32"): {"max", "min", "and", "or"},
    ("i32", "ui32"): {"sum", "prod", "and", "or"},
    ("i32", "i1"): set(),
    ("i1", "i32"): {"and", "or"},
    ("i1", "f32"): set(),
}


@pytest.mark.parametrize(("before", "after"), CONVERSIONS)
def test_convert(before: str, after: str) -> None:
    op = f"stablehlo.convert %a : (tensor<4x6x{before}>) -> tensor<4x6x{after}>"
    report = check_rule(op_module(f"a: 4x6x{before}", op, f"4x6x{after}"))
    assert {kind for (kind,), _ in report.passes} == CONVERSIONS[before, after]


def test_bitcast_convert() -> None:
    for before, after, whole in (
        ("4x6xf32", "4x6xi32", "ab"),
        ("4x6xi32", "4x6x4xi8", "ab"),
        ("4x6x4xui8", "4x6xf32", "ab"),
    ):
        op = f"stablehlo.bitcast_convert %a : (tensor<{before}>) -> tensor<{after}>"
        report = check_rule(op_module(f"a: {before}", op, after))
        assert (letters(report), report.passes) == (whole, [])


def test_optimization_barrier_keeps_operands_apart() -> None:
    op = "stablehlo.optimization_barrier %a, %b : tensor<4x6xf32>, tensor<8xi32>"
    report = check_rule(op_module("a: 4x6xf32, b: 8xi32", op, "4x6xf32, 8xi32"))
    assert letters(report) == "abc"
    assert len(report.passes) == 4 + 6


# Contractions.

DOTS = {
    "matrix": ("4x6", "6x8", "4x8", "contracting_dims = [1] x [0]", "abc"),
    "batched": (
        "2x4x6",
        "2x8x6",
        "2x4x8",
        "batching_dims = [0] x [0], contracting_dims = [2] x [2]",
        "abcd",
    ),
    "two contracted": ("4x6x3", "3x8x6", "4x8", "contracting_dims = [1, 2] x [2, 0]", "abcd"),
    "outer": ("4", "6", "4x6", "contracting_dims = [] x []", "ab"),
    "inner": ("12", "12", "", "contracting_dims = [0] x [0]", "a"),
    "empty": ("4x0", "0x6", "4x6", "contracting_dims = [1] x [0]", "abc"),
}


@pytest.mark.sweep
@pytest.mark.parametrize("name", DOTS)
@pytest.mark.parametrize(
    ("element", "result"), [("f32", "f32"), ("bf16", "bf16"), ("bf16", "f32"), ("i32", "i32")]
)
def test_dot_general(name: str, element: str, result: str) -> None:
    left, right, out, dims, expected = DOTS[name]
    shapes = ((left, element), (right, element), (out, result))
    a, b, r = (f"{shape}x{e}".lstrip("x") for shape, e in shapes)
    op = f"stablehlo.dot_general %a, %b, {dims} : (tensor<{a}>, tensor<{b}>) -> tensor<{r}>"
    report = check_rule(
        op_module(f"a: {a}, b: {b}", op, r),
        tolerance=5 * BF16_EPS if result == "bf16" else 0,  # (shards + 1) roundings
    )
    assert letters(report) == expected
    either = [(("sum", None), ("sum",)), ((None, "sum"), ("sum",))]
    assert report.passes == (either if element == "i32" else [])  # floats may be infinite
    assert report.rule.flops == 2 * _products(left, right, dims)


def _products(left: str, right: str, dims: str) -> int:
    a, b = ([int(n) for n in s.split("x")] for s in (left, right))
    right_lists = [part.partition("]")[0] for part in dims.split(" x [")[1:]]
    kept = {int(n) for numbers in right_lists for n in numbers.split(",") if n}
    return int(np.prod(a) * np.prod([n for d, n in enumerate(b) if d not in kept]))


def test_a_dot_that_widens_integers_passes_no_parts() -> None:
    op = (
        "stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] "
        ": (tensor<4x6xi8>, tensor<6x8xi8>) -> tensor<4x8xi32>"
    )
    report = check_rule(op_module("a: 4x6xi8, b: 6x8xi8", op, "4x8xi32"))
    assert (letters(report), report.passes) == ("abc", [])


# Reductions.

REDUCERS = {
    "add": "sum",
    "maximum": "max",
    "minimum": "min",
    "multiply": "prod",
    "and": "and",
    "or": "or",
}


@pytest.mark.sweep
@pytest.mark.parametrize(
    ("combiner", "element"),
    [(c, e) for c in REDUCERS for e in ("i32", "i1")]
    + [(c, e) for c in list(REDUCERS)[:4] for e in ("f32", "bf16")],
)
def test_reduce(combiner: str, element: str) -> None:
    op = (
        f"stablehlo.reduce(%a init: %i) applies stablehlo.{combiner} across dimensions = [1] "
        f": (tensor<4x6x3x{element}>, tensor<{element}>) -> tensor<4x3x{element}>"
    )
    report = check_rule(
        op_module(f"a: 4x6x3x{element}, i: {element}", op, f"4x3x{element}"),
        tolerance=5 * BF16_EPS if element == "bf16" else 0,
    )
    kind = REDUCERS[combiner]
    if element == "i1":
        kind = {"sum": "or", "max": "or", "prod": "and", "min": "and"}.get(kind, kind)
    assert letters(report) == "abc"
    assert f"reduce {{b: {kind}}}" in str(report.rule)
    assert report.passes == [((kind, kind), (kind,))]


BODY = """"stablehlo.reduce"(%a, %b, %i, %j) <{dimensions = array<i64: 0>}> ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>, %u: tensor<f32>, %v: tensor<f32>):
    %p = stablehlo.NAME %u, %x : tensor<f32>
    %q = stablehlo.add %y, %v : tensor<f32>
    stablehlo.return RETURN : tensor<f32>, tensor<f32>
  }) : (tensor<6x4xf32>, tensor<6x4xf32>, tensor<f32>, tensor<f32>)
    -> (tensor<4xf32>, tensor<4xf32>)"""


@pytest.mark.parametrize(
    ("name", "returned", "expected"),
    [
        ("add", "%p, %q", "ab"),  # two sums, one with its operands swapped
        ("maximum", "%p, %q", "b"),  # two different reductions
        ("add", "%q, %p", "b"),  # crossed
    ],
)
def test_reduce_of_several_operands(name: str, returned: str, expected: str) -> None:
    op = BODY.replace("NAME", name).replace("RETURN", returned)
    zero = np.zeros((), np.float32)  # XLA drops other inits where one element is left to reduce
    report = check_rule(
        op_module("a: 6x4xf32, b: 6x4xf32, i: f32, j: f32", op, "4xf32, 4xf32"),
        inputs={2: zero, 3: zero},
    )
    if expected == "ab":
        assert letters(report) == "ab"
        assert report.passes == [(("sum",) * 4, ("sum",) * 2)]
    else:
        assert (letters(report), report.passes) == ("b", [])
        assert str(report.rule).startswith("[a order, b], [a order, b], [], [] ->")


def test_rank_zero() -> None:
    report = check_rule(op_module("a: f32, b: f32", "stablehlo.add %a, %b : tensor<f32>", "f32"))
    assert (report.labels, report.passes) == ([], [(("sum", "sum"), ("sum",))])


def test_empty_dimensions() -> None:
    t = "0x6xf32"
    report = check_rule(op_module(f"a: {t}, b: {t}", f"stablehlo.add %a, %b : tensor<{t}>", t))
    assert letters(report) == "ab"
