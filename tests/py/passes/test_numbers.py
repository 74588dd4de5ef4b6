"""Integers that a program computes of constants, as XLA computes them."""

from typing import Any

import jax
import numpy as np
import pytest

from dtensor.compiler.mlir_frontend import compile_mlir
from dtensor.dialect.context import make_context, parse_module
from dtensor.dialect.layout import Layout
from dtensor.dialect.mlir import ir, terminator
from dtensor.passes.functions import main_function
from dtensor.passes.ops.numbers import known_integers
from dtensor.runtime.client import create_mesh

LEAST = -(1 << 31)
SUM = """%z = stablehlo.constant dense<5> : tensor<i32>
    %r = stablehlo.reduce(%a init: %z) applies stablehlo.{} across dimensions = [1]
      : (tensor<2x3xi32>, tensor<i32>) -> tensor<2xi32>"""
TABLE = (
    "    %a = stablehlo.constant dense<[[1, -2, 3], [2147483647, 1, 4]]> : tensor<2x3xi32>\n    "
)
KNOWN = {
    "quotients go towards zero": f"""\
    %a = stablehlo.constant dense<[-7, 7, -7, {LEAST}, {LEAST}]> : tensor<5xi32>
    %b = stablehlo.constant dense<[2, -2, -2, 2, -1]> : tensor<5xi32>
    %r = stablehlo.divide %a, %b : tensor<5xi32>""",
    "so do those of unsigned ones": """\
    %a = stablehlo.constant dense<[4000000000, 7]> : tensor<2xui32>
    %b = stablehlo.constant dense<[3, 8]> : tensor<2xui32>
    %r = stablehlo.divide %a, %b : tensor<2xui32>""",
    "remainders have the sign of what is divided": f"""\
    %a = stablehlo.constant dense<[-7, 7, {LEAST}]> : tensor<3xi32>
    %b = stablehlo.constant dense<[4, -4, -1]> : tensor<3xi32>
    %r = stablehlo.remainder %a, %b : tensor<3xi32>""",
    "sums of a row wrap around": TABLE + SUM.format("add"),
    "truth values choose": """\
    %p = stablehlo.constant dense<[true, false, true]> : tensor<3xi1>
    %n = stablehlo.not %p : tensor<3xi1>
    %r = stablehlo.convert %n : (tensor<3xi1>) -> tensor<3xi32>""",
}
UNKNOWN = {
    "what is divided by zero": """\
    %a = stablehlo.constant dense<[7, 7]> : tensor<2xi32>
    %b = stablehlo.constant dense<[1, 0]> : tensor<2xi32>
    %r = stablehlo.divide %a, %b : tensor<2xi32>""",
    "the largest of a row": TABLE + SUM.format("maximum"),
    "what is out of range": """\
    %a = stablehlo.constant dense<[3.0e9, 1.0]> : tensor<2xf32>
    %r = stablehlo.convert %a : (tensor<2xf32>) -> tensor<2xi32>""",
    "an order of all numbers": """\
    %a = stablehlo.constant dense<[-0.0, 0.0]> : tensor<2xf32>
    %b = stablehlo.constant dense<0.0> : tensor<2xf32>
    %p = stablehlo.compare LT, %a, %b, TOTALORDER : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xi1>
    %r = stablehlo.convert %p : (tensor<2xi1>) -> tensor<2xi32>""",
    "integers of less than a byte": """\
    %r = stablehlo.constant dense<[1, 2]> : tensor<2xi4>""",
}


def text(body: str) -> str:
    type_ = body.rsplit(" ", 1)[1]
    return f"func.func @main() -> {type_} {{\n{body}\n    return %r : {type_}\n}}\n"


def known(body: str) -> Any:
    with make_context(), ir.Location.unknown():
        module = parse_module(text(body))
        end = terminator(main_function(module).regions[0].blocks[0])
        return known_integers(end.operands[0])


@pytest.mark.parametrize("body", KNOWN.values(), ids=KNOWN)
def test_integers_are_what_xla_computes(body: str) -> None:
    mesh = create_mesh([("x", 1)], devices=jax.devices()[:1])
    (result,) = compile_mlir(text(body), mesh=mesh, out_layouts=Layout([None], mesh))()
    np.testing.assert_array_equal(known(body), np.asarray(result))


@pytest.mark.parametrize("body", UNKNOWN.values(), ids=UNKNOWN)
def test_some_are_left_to_xla(body: str) -> None:
    assert known(body) is None
