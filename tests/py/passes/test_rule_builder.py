"""Statements of a rule that the operation does not bear out are refused where they are made."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import pytest

from dtensor.dialect.context import make_context, parse_module
from dtensor.dialect.diagnostics import LocatedError
from dtensor.dialect.mlir import ops_of
from dtensor.passes.ops.rule import OpInfo, RuleBuilder

PROGRAM = """
func.func @main(%a: tensor<2x3x4xf32>, %b: tensor<2x4x5xf32>) -> tensor<2x3x5xf32> {
  %0 = stablehlo.dot_general %a, %b, batching_dims = [0] x [0], contracting_dims = [2] x [1]
      : (tensor<2x3x4xf32>, tensor<2x4x5xf32>) -> tensor<2x3x5xf32>
  return %0 : tensor<2x3x5xf32>
}
"""
WRONG = "the rule of stablehlo.dot_general, [2, 3, 4], [2, 4, 5] -> [2, 3, 5], is wrong: "


@pytest.fixture
def builder() -> Iterator[RuleBuilder]:
    with make_context():
        module = parse_module(PROGRAM, "dot.mlir")
        op = OpInfo.of(ops_of(ops_of(module.body)[0].regions[0].blocks[0])[0])
        assert op is not None
        yield RuleBuilder(op)


def carry_twice(builder: RuleBuilder) -> None:
    builder.share((0, 1), (~0, 1))
    builder.share((0, 1))


@pytest.mark.parametrize(
    ("state", "problem"),
    [
        (
            lambda b: b.share((0, 1), (1, 1)),
            "dimension 1 of operand 1 has 4 elements, which share a factor of 3",
        ),
        (
            lambda b: b.share((0, 0), (0, 2)),
            "dimension 2 of operand 0 has 4 elements, which share a factor of 2",
        ),
        (
            lambda b: b.share((0, 1), size=2),
            "dimension 1 of operand 0 has 3 elements, which share a factor of 2",
        ),
        (
            lambda b: b.share((0, 0), size=0),
            "dimension 0 of operand 0 has 2 elements, which share a factor of 0",
        ),
        (lambda b: b.factor(-1), "a factor of -1 elements; give as many as a dimension has"),
        (
            lambda b: b.carry(0, 1, b.factor(4)),
            "dimension 1 of operand 0 has 3 elements, which are not 1 times digits of a factor of "
            "4, 1 before them",
        ),
        (
            lambda b: b.carry(0, 2, b.factor(2), outer=3),
            "dimension 2 of operand 0 has 4 elements, which are not 3 times digits of a factor",
        ),
        (carry_twice, "dimension 1 of operand 0 carries two factors; give it one"),
        (lambda b: b.share((0, 9)), "dimension 9 of operand 0 is not there"),
        (lambda b: b.share((0, -1)), "dimension -1 of operand 0 is not there"),
        (lambda b: b.share((2, 0)), "dimension 0 of operand 2 is not there"),
        (lambda b: b.share((~1, 0)), "dimension 0 of result 1 is not there"),
        (lambda b: b.carry(0, 0, 7), "factor 7 of 0; make it by factor()"),
    ],
)
def test_a_wrong_statement_is_refused(
    builder: RuleBuilder, state: Callable[[RuleBuilder], object], problem: str
) -> None:
    with pytest.raises(LocatedError, match=re.escape(f"dot.mlir:3:8: {WRONG}{problem}")):
        state(builder)


def test_multiples_of_a_size_that_is_given_and_digits_of_a_factor_are_right(
    builder: RuleBuilder,
) -> None:
    builder.share((0, 2), (0, 0), size=2)
    builder.carry(1, 1, builder.factor(12), before=3)
    builder.carry(1, 0, builder.factor(1), outer=2)
    assert str(builder.build()) == "[a, *, a:(1)4], [2 c, b:(3)4, *] -> [*, *, *]"
