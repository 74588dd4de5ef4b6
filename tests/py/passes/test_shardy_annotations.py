"""Modules that Shardy or jax annotated: on operations, as groups; against one device."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from jax.experimental.layout import Layout as DeviceLayout
from jax.experimental.layout import with_layout_constraint

import dtensor

MESH = dtensor.create_mesh([("x", 2), ("y", 4)])
A = np.random.default_rng(1).normal(size=(8, 16)).astype(np.float32)
B = np.random.default_rng(2).normal(size=(8, 16)).astype(np.float32)

# Annotated on operations alone, as a dump of Shardy's is.
ON_OPERATIONS = """
sdy.mesh @mesh = <["x"=2, "y"=4]>
func.func @main(%a: tensor<8x16xf32>, %b: tensor<16x12xf32>) -> tensor<8x12xf32> {
  %0 = stablehlo.tanh %a {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"x"}, {}]>]>}
      : tensor<8x16xf32>
  %1 = stablehlo.dot_general %0, %b, contracting_dims = [1] x [0]
      {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"x"}, {"y"}]>]>}
      : (tensor<8x16xf32>, tensor<16x12xf32>) -> tensor<8x12xf32>
  return %1 : tensor<8x12xf32>
}
"""


def test_shardings_on_operations_seed_propagation() -> None:
    compiled = dtensor.compile_mlir(ON_OPERATIONS, mesh=MESH)
    b = np.random.default_rng(3).normal(size=(16, 12)).astype(np.float32)
    (result,) = compiled(A, b)
    assert result.layout.short() == '[{"x"}, {"y"}]'
    assert not compiled.collectives
    np.testing.assert_allclose(result.to_jax(), np.tanh(A) @ b, rtol=1e-5, atol=1e-5)


# What jax.experimental.shard_alike of jax 0.10 becomes.
ALIKE = """
sdy.mesh @mesh = <["x"=2, "y"=4]>
func.func @main(%a: tensor<8x16xf32>, %b: tensor<8x16xf32>)
    -> (tensor<8x16xf32>, tensor<8x16xf32>) {
  %0 = stablehlo.negate %a : tensor<8x16xf32>
  %1 = stablehlo.add %b, %b : tensor<8x16xf32>
  sdy.sharding_group %0 group_id=0 : tensor<8x16xf32>
  sdy.sharding_group %1 group_id=0 : tensor<8x16xf32>
  %2 = stablehlo.add %0, %0 : tensor<8x16xf32>
  return %2, %1 : tensor<8x16xf32>, tensor<8x16xf32>
}
"""


@pytest.mark.parametrize("specs", [["x", "y"], ["y", dtensor.UNSHARDED], [dtensor.UNSHARDED, "x"]])
def test_values_that_shall_be_alike_are(specs: list[str]) -> None:
    layout = dtensor.Layout(specs, MESH)
    compiled = dtensor.compile_mlir(ALIKE, mesh=MESH, in_layouts=[layout, None])
    one, other = compiled(A, B)
    assert one.layout == other.layout == layout
    np.testing.assert_array_equal(one.to_jax(), -2 * A)
    np.testing.assert_array_equal(other.to_jax(), B * 2)


def test_a_constraint_of_the_device_layout_keeps_shards() -> None:
    def transposed(a: Any) -> Any:
        return with_layout_constraint(a * 2, DeviceLayout((1, 0))) + 1

    layout = dtensor.Layout(["x", "y"], MESH)
    compiled = dtensor.jit(transposed, in_layouts=layout)
    result = compiled(A)
    assert result.layout == layout
    np.testing.assert_array_equal(result.to_jax(), A * 2 + 1)
