"""Priorities of Shardy's annotations: who spreads first, beside Shardy's own propagation."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest

import dtensor
from tests.py.passes.run_passes import after

MESH = dtensor.create_mesh([("a", 2), ("b", 2), ("c", 2)])

# Who gives what: `@name` stands for the priority of that annotation.
PROGRAMS: dict[str, tuple[str, Callable[..., Any]]] = {
    "rows of the batch against columns of the weight": (
        """func.func @main(
    %x: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"a"}@one, {?}]>},
    %y: tensor<8x16xf32>,
    %w: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{?}, {"a"}@two]>})
    -> tensor<8x4xf32> {
  %0 = stablehlo.add %x, %y : tensor<8x16xf32>
  %1 = stablehlo.dot_general %0, %w, contracting_dims = [1] x [0]
      : (tensor<8x16xf32>, tensor<16x4xf32>) -> tensor<8x4xf32>
  return %1 : tensor<8x4xf32>
}""",
        lambda x, y, w: (x + y) @ w,
    ),
    "an argument against a result": (
        """func.func @main(
    %x: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"a"}@one, {}]>},
    %y: tensor<8x16xf32>, %z: tensor<8x16xf32>)
    -> (tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"a"}@two]>}) {
  %0 = stablehlo.add %x, %y : tensor<8x16xf32>
  %1 = stablehlo.multiply %0, %z : tensor<8x16xf32>
  return %1 : tensor<8x16xf32>
}""",
        lambda x, y, z: (x + y) * z,
    ),
    "two axes that want one dimension": (
        """func.func @main(
    %x: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"a"}@one, {}]>},
    %y: tensor<8x16xf32>, %z: tensor<8x16xf32>)
    -> (tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"b"}@two, {}]>}) {
  %0 = stablehlo.add %x, %y : tensor<8x16xf32>
  %1 = stablehlo.multiply %0, %z : tensor<8x16xf32>
  return %1 : tensor<8x16xf32>
}""",
        lambda x, y, z: (x + y) * z,
    ),
    "constraints": (
        """func.func @main(%x: tensor<8x16xf32>, %y: tensor<8x16xf32>) -> tensor<8x16xf32> {
  %0 = sdy.sharding_constraint %x <@mesh, [{"a"}@one, {?}]> : tensor<8x16xf32>
  %1 = sdy.sharding_constraint %y <@mesh, [{?}, {"a"}@two]> : tensor<8x16xf32>
  %2 = stablehlo.add %0, %1 : tensor<8x16xf32>
  %3 = stablehlo.tanh %2 : tensor<8x16xf32>
  return %3 : tensor<8x16xf32>
}""",
        lambda x, y: np.tanh(x + y),
    ),
    "operations": (
        """func.func @main(%x: tensor<8x16xf32>, %y: tensor<8x16xf32>, %w: tensor<16x4xf32>)
    -> tensor<8x4xf32> {
  %0 = stablehlo.add %x, %x
      {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{?}, {"a"}@one]>]>} : tensor<8x16xf32>
  %1 = stablehlo.add %0, %y : tensor<8x16xf32>
  %2 = stablehlo.dot_general %1, %w, contracting_dims = [1] x [0]
      {sdy.sharding = #sdy.sharding_per_value<[<@mesh, [{"a"}@two, {?}]>]>}
      : (tensor<8x16xf32>, tensor<16x4xf32>) -> tensor<8x4xf32>
  return %2 : tensor<8x4xf32>
}""",
        lambda x, y, w: (2 * x + y) @ w,
    ),
    "three axes of a matmul": (
        """func.func @main(
    %x: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"a"}@one, {"b"}@two]>},
    %w: tensor<16x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{?}@two, {"a"}@two]>},
    %bias: tensor<4xf32>) -> tensor<8x4xf32> {
  %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0]
      : (tensor<8x16xf32>, tensor<16x4xf32>) -> tensor<8x4xf32>
  %1 = stablehlo.broadcast_in_dim %bias, dims = [1] : (tensor<4xf32>) -> tensor<8x4xf32>
  %2 = stablehlo.add %0, %1 : tensor<8x4xf32>
  return %2 : tensor<8x4xf32>
}""",
        lambda x, w, bias: x @ w + bias,
    ),
}
MODULE = 'sdy.mesh @mesh = <["a"=2, "b"=2, "c"=2]>\n'


def written(name: str, one: str, two: str) -> str:
    """The text of a program whose annotations have these priorities."""
    return MODULE + PROGRAMS[name][0].replace("@one", one).replace("@two", two)


def of_shardy(text: str) -> list[str]:
    """The layouts of arguments and results to which Shardy's propagation comes."""
    with after("sdy-user-priority-propagate", text, MESH) as (module, _):
        text = str(module)
    (signature,) = re.findall(r"func\.func @main\((.*)\) \{\n", text)
    found = []
    for value in re.split(r"(?=%arg)|->", signature):
        if "tensor" in value:
            rank = value[: value.index("f32")].count("x")
            dims = re.search(r"#sdy\.sharding<@mesh, (\[.*?\])", value)
            whole = "[" + ", ".join(["{}"] * rank) + "]"
            found.append(re.sub(r"(, )?\?", "", dims.group(1)) if dims else whole)
    return found


@pytest.mark.parametrize("first", ["one", "two"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_layouts_are_those_of_shardy(name: str, first: str) -> None:
    text = written(name, *(("p0", "p3") if first == "one" else ("p3", "p0")))
    compiled = dtensor.compile_mlir(text, mesh=MESH)
    layouts = jax.tree.leaves((compiled.in_layouts, compiled.out_layouts))
    assert [layout.short() for layout in layouts] == of_shardy(text)


@pytest.mark.sweep
@pytest.mark.parametrize("one", ["p0", "p1", "p2"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_values_are_those_of_one_device(name: str, one: str) -> None:
    compiled = dtensor.compile_mlir(written(name, one, "p1"), mesh=MESH)
    rng = np.random.default_rng(5)
    shapes = re.findall(r"%\w+: tensor<([\dx]+)xf32>", PROGRAMS[name][0].split("->")[0])
    arrays: list[Any] = [
        rng.normal(size=[int(size) for size in shape.split("x")]).astype(np.float32)
        for shape in shapes
    ]
    (result,) = compiled(*arrays)
    expected = PROGRAMS[name][1](*arrays)
    np.testing.assert_allclose(result.to_jax(), expected, rtol=1e-5, atol=1e-5)  # order of sums


def test_explain_says_in_which_order() -> None:
    text = written("rows of the batch against columns of the weight", "p2", "p0")
    told = dtensor.compile_mlir(text, mesh=MESH).explain()
    assert "to communicate; spread by priority, p0 first, then p2" in told


@pytest.mark.parametrize(("batch", "weight"), [("a", "a@1"), ("a@1", "a")])
def test_layouts_in_python_have_priorities(batch: str, weight: str) -> None:
    layouts = dtensor.Layout([batch, None], MESH), dtensor.Layout([None, weight], MESH)
    rng = np.random.default_rng(6)
    x, w = (rng.normal(size=s).astype(np.float32) for s in [(8, 64), (64, 12)])
    result = dtensor.jit(lambda x, w: x @ w, in_layouts=layouts)(x, w)
    first = dtensor.Layout(["a", None] if batch == "a" else [None, "a"], MESH)
    assert result.layout == first
    np.testing.assert_allclose(result.to_jax(), x @ w, rtol=1e-5, atol=1e-5)  # order of sums
    assert dtensor.copy_to_mesh(x, layouts[0]).layout == layouts[0].closed()
    assert repr(layouts[0]) == f"Layout(['{batch}', UNSHARDED], Mesh(a=2, b=2, c=2))"
