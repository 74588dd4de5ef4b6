"""Shardy's propagation barriers: which side learns from which; values against one device."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

import dtensor

MESH = dtensor.create_mesh([("x", 2), ("y", 4)])
RNG = np.random.default_rng(1)
WHOLE = "[{}, {}]"

# Reshapes cut axes and dots leave partial sums on both sides; a loop has a barrier of its own.
PROGRAM = """
sdy.mesh @mesh = <["x"=2, "y"=4]>
func.func @main(%a: tensor<8x12x{T}> {{sdy.sharding = #sdy.sharding<@mesh, {A}>}},
    %w: tensor<12x16x{T}>, %v: tensor<16x8x{T}>)
    -> (tensor<4x16x{T}> {{sdy.sharding = #sdy.sharding<@mesh, {R}>}}) {{
  %n = stablehlo.constant dense<3> : tensor<i32>
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %0 = stablehlo.dot_general %a, %w, contracting_dims = [1] x [0]
      : (tensor<8x12x{T}>, tensor<12x16x{T}>) -> tensor<8x16x{T}>
  %1 = sdy.propagation_barrier %0 allowed_direction={D} : tensor<8x16x{T}>
  %2:2 = stablehlo.while(%i = %zero, %c = %1) : tensor<i32>, tensor<8x16x{T}>
    cond {{
      %less = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %less : tensor<i1>
    }} do {{
      %next = stablehlo.add %i, %one : tensor<i32>
      %3 = sdy.propagation_barrier %c allowed_direction={E} : tensor<8x16x{T}>
      %4 = stablehlo.negate %3 : tensor<8x16x{T}>
      stablehlo.return %next, %4 : tensor<i32>, tensor<8x16x{T}>
    }}
  %5 = stablehlo.dot_general %2#1, %v, contracting_dims = [1] x [0]
      : (tensor<8x16x{T}>, tensor<16x8x{T}>) -> tensor<8x8x{T}>
  %6 = stablehlo.reshape %5 : (tensor<8x8x{T}>) -> tensor<4x16x{T}>
  return %6 : tensor<4x16x{T}>
}}
"""
DIRECTIONS = ["NONE", "FORWARD", "BACKWARD"]
PLACES = [WHOLE, '[{"x"}, {"y"}]', '[{"y"}, {?}]', '[{?}, {"y"}]', "[{?}, {?}]"]


@pytest.mark.sweep
@pytest.mark.parametrize("given", PLACES)
@pytest.mark.parametrize(("outer", "inner"), list(product(DIRECTIONS, DIRECTIONS)))
def test_values_are_those_of_one_device(outer: str, inner: str, given: str) -> None:
    a, w, v = (RNG.integers(-9, 9, s).astype(np.int32) for s in ((8, 12), (12, 16), (16, 8)))
    # Two of the five: each with each direction, and each pair of places with some directions.
    turn = PLACES.index(given) + 2 * DIRECTIONS.index(outer) + DIRECTIONS.index(inner)
    for asked in (PLACES[turn % 5], PLACES[(turn + 2) % 5]):
        text = PROGRAM.format(T="i32", D=outer, E=inner, A=given, R=asked)
        (result,) = dtensor.compile_mlir(text, mesh=MESH)(a, w, v)
        np.testing.assert_array_equal(result.to_jax(), (-(a @ w) @ v).reshape(4, 16))


CHAIN = """
sdy.mesh @mesh = <["x"=2, "y"=4]>
func.func @main(%a: tensor<8x16xf32> {A}, %b: tensor<8x16xf32>)
    -> (tensor<8x16xf32> {R}, tensor<8x16xf32>) {
  %0 = stablehlo.sine %a : tensor<8x16xf32>
  %1 = sdy.propagation_barrier %0 allowed_direction={D} : tensor<8x16xf32>
  %2 = stablehlo.cosine %1 : tensor<8x16xf32>
  %3 = sdy.propagation_barrier %2 allowed_direction={D} : tensor<8x16xf32>
  %4 = stablehlo.add %3, %b : tensor<8x16xf32>
  return %4, %0 : tensor<8x16xf32>, tensor<8x16xf32>
}
"""
SPLIT = '[{"x"}, {"y"}]'


@pytest.mark.parametrize(
    ("direction", "is_given", "others"),
    [
        ("FORWARD", "A", SPLIT),
        ("FORWARD", "R", WHOLE),
        ("BACKWARD", "A", WHOLE),
        ("BACKWARD", "R", SPLIT),
        ("NONE", "A", WHOLE),
        ("NONE", "R", WHOLE),
    ],
)
def test_layouts_pass_two_barriers_in_the_allowed_direction(
    direction: str, is_given: str, others: str
) -> None:
    text = CHAIN.replace("{D}", direction)
    for side in "AR":
        sharding = f"{{sdy.sharding = #sdy.sharding<@mesh, {SPLIT}>}}" if side == is_given else ""
        text = text.replace(f"{{{side}}}", sharding)
    compiled = dtensor.compile_mlir(text, mesh=MESH)
    (a, _), _ = compiled.in_layouts
    far, near = compiled.out_layouts
    found = (far if is_given == "A" else a).short()
    assert found == others
    assert (a if is_given == "A" else far).short() == SPLIT
    assert near.short() == a.short(), "what is before the first barrier agrees"
    x, y = (RNG.normal(size=(8, 16)).astype(np.float32) for _ in range(2))
    result, _ = compiled(x, y)
    np.testing.assert_allclose(result.to_jax(), np.cos(np.sin(x)) + y, rtol=1e-6, atol=1e-6)


def test_a_plan_with_a_barrier_counts_what_passes_it() -> None:
    text = CHAIN.replace("{D}", "NONE").replace("{R}", "")
    compiled = _with_argument(text, SPLIT)
    (record,) = [r for r in compiled.ledger["records"] if r["kind"] == "plan"]
    assert record["communication"] > 0.0
    assert compiled.wire_bytes > 0


def test_a_sharding_on_a_barrier_is_a_constraint_of_its_result() -> None:
    text = CHAIN.replace("{D} : tensor<8x16xf32>\n  %2", "{D} HERE : tensor<8x16xf32>\n  %2")
    text = text.replace("HERE", f"{{sdy.sharding = #sdy.sharding_per_value<[<@mesh, {SPLIT}>]>}}")
    compiled = _with_argument(text.replace("{D}", "FORWARD").replace("{R}", ""), WHOLE)
    assert compiled.out_layouts[0].short() == SPLIT


def _with_argument(text: str, layout: str) -> Any:
    sharding = f"{{sdy.sharding = #sdy.sharding<@mesh, {layout}>}}"
    return dtensor.compile_mlir(text.replace("{A}", sharding), mesh=MESH)
