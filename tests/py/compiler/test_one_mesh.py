"""A program runs on one mesh: layouts and shardings over other devices are refused."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest
from jax.sharding import NamedSharding, PartitionSpec

import dtensor

AXES = [("x", 2), ("y", 2)]
X = np.arange(32, dtype=np.float32).reshape(4, 8)


def first() -> dtensor.Mesh:
    return dtensor.create_mesh(AXES, devices=jax.devices()[:4])


def second() -> dtensor.Mesh:
    return dtensor.create_mesh(AXES, devices=jax.devices()[4:])


def rows(mesh: dtensor.Mesh) -> dtensor.Layout:
    return dtensor.Layout(["x", dtensor.UNSHARDED], mesh)


def jax_rows(ids: list[int]) -> NamedSharding:
    grid = np.array([jax.devices()[i] for i in ids]).reshape(2, 2)
    return NamedSharding(jax.sharding.Mesh(grid, ("x", "y")), PartitionSpec("x"))


@pytest.mark.parametrize("ids", [[4, 5, 6, 7], [3, 2, 1, 0]])
def test_a_sharding_of_jax_over_other_devices_is_refused(ids: list[int]) -> None:
    """They went to the devices of the program that stand at the same place, without a word."""
    sharding = jax_rows(ids)
    inner = jax.jit(lambda v: v + 1, out_shardings=sharding)
    message = (
        rf"test_one_mesh\.py:\d+: a sharding names devices \[{', '.join(map(str, ids))}\], but the "
        r"program runs on \[0, 1, 2, 3\] of mesh\(x=2, y=2\); use a mesh of the same devices in"
    )

    def constrained(v: Any) -> Any:
        return jax.lax.with_sharding_constraint(v, sharding) + 1

    for fn in (constrained, lambda v: inner(v) * 2):
        with pytest.raises(dtensor.LayoutError, match=message):
            dtensor.jit(fn, in_layouts=rows(first()))(X)
    same = jax_rows([0, 1, 2, 3])
    got = dtensor.jit(
        lambda v: jax.lax.with_sharding_constraint(v, same) + 1, in_layouts=rows(first())
    )(X)
    np.testing.assert_array_equal(got.to_jax(), X + 1)


def test_layouts_over_other_devices_are_refused() -> None:
    message = (
        r"a program runs on one mesh, but layouts name mesh\(x=2, y=2\) and "
        r"mesh\(x=2, y=2, device_ids=\[4, 5, 6, 7\]\)"
    )
    here, there = rows(first()), rows(second())
    text = "func.func @main(%a: tensor<4x8xf32>) -> tensor<4x8xf32> { return %a : tensor<4x8xf32> }"
    with pytest.raises(dtensor.LayoutError, match=message):
        dtensor.jit(lambda v: v + 1, in_layouts=here, out_layouts=there)
    inside = r"relayout to .* on mesh\(x=2, y=2, device_ids=.*\), in a program that runs on mesh\("
    with pytest.raises(dtensor.LayoutError, match=inside):
        dtensor.jit(lambda v: dtensor.relayout(v, there), in_layouts=here)(X)
    with pytest.raises(dtensor.LayoutError, match=message):
        dtensor.compile_mlir(text, in_layouts=here, out_layouts=there)


def test_a_result_goes_to_the_mesh_that_is_asked_for() -> None:
    """Its layout names the only mesh of the program; the argument is moved there."""
    argument = dtensor.copy_to_mesh(X, rows(first()))
    got = dtensor.jit(lambda v: v + 1, out_layouts=rows(second()))(argument)
    assert got.layout == rows(second())
    assert {s.device.id for s in got.to_jax().addressable_shards} == {4, 5, 6, 7}
    np.testing.assert_array_equal(got.to_jax(), X + 1)


MESHES = """
module {
  "dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2, "y"=2]>} : () -> ()
  "dtensor.mesh"() {sym_name = "other", mesh = #dtensor.mesh<["x"=2, "y"=2],
      device_ids = [4, 5, 6, 7]>} : () -> ()
  func.func @main(%a: tensor<4x8xf32> {dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {}]>})
      -> (tensor<4x8xf32> {dtensor.layout = #dtensor.layout<@other, [{"x"}, {}]>}) {
    return %a : tensor<4x8xf32>
  }
}
"""


def test_a_module_over_two_meshes_is_refused() -> None:
    message = r"meshes differ: @other is mesh\(x=2, y=2, device_ids=\[4, 5, 6, 7\], name=other\)"
    for mesh in (None, first()):
        with pytest.raises(dtensor.DTensorError, match=message):
            dtensor.compile_mlir(MESHES, mesh=mesh)


def test_the_mesh_of_a_call_gives_devices_to_a_module_that_names_none() -> None:
    lines = MESHES.splitlines()
    text = "\n".join([*lines[:3], *lines[5:]]).replace("@other", "@mesh")
    (got,) = dtensor.compile_mlir(text, mesh=second())(X)
    assert {s.device.id for s in got.to_jax().addressable_shards} == {4, 5, 6, 7}
    np.testing.assert_array_equal(got.to_jax(), X)


def test_a_shard_map_over_another_mesh_is_refused_with_its_line() -> None:
    other = jax.make_mesh((4,), ("z",), axis_types=(jax.sharding.AxisType.Auto,))
    spec = PartitionSpec("z")
    double = jax.shard_map(lambda a: a * 2, mesh=other, in_specs=spec, out_specs=spec)
    message = r"test_one_mesh.py:\d+:\d+: meshes differ: @mesh is mesh\(z=4\)"
    with pytest.raises(dtensor.DTensorError, match=message):
        dtensor.jit(double, in_layouts=rows(first())).lower(X).compile()
