"""jax's meshes, NamedShardings and PartitionSpecs wherever a mesh or a layout is taken."""

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AbstractMesh, AxisType, NamedSharding
from jax.sharding import PartitionSpec as P

import dtensor
import dtensor.numpy as dnp
from dtensor import Layout, LayoutError, MeshError, copy_to_mesh, jit, relayout
from dtensor.compiler.calls import spread_layouts
from dtensor.runtime.shardings import as_layout, as_mesh

MESH = dtensor.create_mesh([("x", 2), ("y", 4)])
JAX_MESH = jax.make_mesh((2, 4), ("x", "y"), axis_types=(AxisType.Auto,) * 2)
EXPLICIT = jax.make_mesh((2, 4), ("x", "y"), axis_types=(AxisType.Explicit,) * 2)
X = np.arange(96, dtype=np.float32).reshape(8, 12) / 100
ROWS = Layout(["x", None], MESH)


def layer(params: Any, x: Any) -> Any:
    return jnp.tanh(x @ params["w"] + params["b"])


PARAMS = {
    "w": np.linspace(-1, 1, 192, dtype=np.float32).reshape(12, 16),
    "b": np.ones(16, np.float32),
}


def test_as_mesh() -> None:
    assert as_mesh(MESH) is MESH
    assert as_mesh(JAX_MESH) == as_mesh(EXPLICIT) == MESH
    assert as_mesh(AbstractMesh((2, 4), ("x", "y"))) == MESH
    with pytest.raises(MeshError, match=r"expected a Mesh, got tuple; make one with dtensor.c"):
        as_mesh((2, 4))
    with pytest.raises(MeshError, match="names of axes must be identifiers; rename its axes"):
        as_mesh(jax.make_mesh((8,), ("a b",), axis_types=(AxisType.Auto,)))


@pytest.mark.parametrize(
    ("spec", "entries"),
    [
        (P(), [None, None]),
        (P("x"), ["x", None]),
        (P(None, ("x", "y")), [None, ("x", "y")]),
        (P(P.UNCONSTRAINED, "y"), ["?", "y"]),
    ],
)
def test_as_layout(spec: P, entries: list[Any]) -> None:
    wanted = Layout(entries, MESH)
    assert as_layout(spec, 2, MESH) == wanted
    assert as_layout(NamedSharding(JAX_MESH, spec), 2) == wanted
    if P.UNCONSTRAINED not in spec:  # which jax has for axes of type Auto
        assert as_layout(NamedSharding(EXPLICIT, spec), 2, MESH) == wanted
    abstract = AbstractMesh((2, 4), ("x", "y"), axis_types=(AxisType.Auto,) * 2)
    assert as_layout(NamedSharding(abstract, spec), 2, MESH) == wanted
    assert as_layout(wanted, 2) is wanted


@pytest.mark.parametrize(
    ("layout", "message"),
    [
        (P("x", None, "y"), r"w: .* has 3 entries but the array has rank 2; give at most one"),
        (P("z"), r"w: .*'z'.* on mesh\(x=2, y=4\): .*z"),
        (P("x", "x"), r"w: .* on mesh\(x=2, y=4\): "),
        (P("x", unreduced={"y"}), "w: .* has unreduced axes; no array that is given or asked for"),
        (NamedSharding(jax.make_mesh((8,), ("z",)), P("z")), r"w: .* is not a sharding over mesh"),
        ("x", r"w holds 'x'; its leaves are Layouts, PartitionSpecs or NamedShardings, or None"),
    ],
)
def test_what_is_no_layout_is_refused(layout: Any, message: str) -> None:
    with pytest.raises(LayoutError, match=message):
        as_layout(layout, 2, MESH, "w")


@pytest.mark.sweep
@pytest.mark.parametrize("mesh", [MESH, JAX_MESH, EXPLICIT])
@pytest.mark.parametrize(
    "in_layouts",
    [
        (None, P("x")),
        ({"w": P(None, "y"), "b": P("y")}, P("x")),
        (P(), P(("x", "y"))),
        P(),
        (P(), NamedSharding(JAX_MESH, P("y"))),
        (None, ROWS),
    ],
)
def test_jit_takes_specs_as_prefixes(mesh: Any, in_layouts: Any) -> None:
    if mesh is EXPLICIT and in_layouts == P():
        in_layouts = [P(), P()]  # a list is a tuple
    program = jit(layer, in_layouts=in_layouts, out_layouts=P(None, "x"), mesh=mesh)
    found = program(PARAMS, X)
    assert found.layout == Layout([None, "x"], MESH)
    np.testing.assert_allclose(found.to_jax(), jax.jit(layer)(PARAMS, X), rtol=1e-5)


def test_the_mesh_of_a_named_sharding_is_that_of_the_program() -> None:
    program = jit(layer, in_layouts=(None, NamedSharding(JAX_MESH, P("x"))), out_layouts=P("x"))
    assert program(PARAMS, X).layout == ROWS
    opened = jit(layer, in_layouts=(None, P("x", P.UNCONSTRAINED)), mesh=MESH)
    assert opened(PARAMS, X).layout == ROWS
    with pytest.raises(LayoutError, match=r"in_layouts\[0\] is a dict without 'b', but the"):
        jit(layer, in_layouts=({"w": P()}, P()), mesh=MESH)(PARAMS, X)
    with pytest.raises(LayoutError, match=r"in_layouts: .* names axes, but no mesh is known"):
        spread_layouts(P("x"), jax.tree_util.tree_structure(0), [1], None, "in_layouts")


def test_batches_restored_arrays_and_devices_are_laid_out_by_shardings(tmp_path: Path) -> None:
    named = NamedSharding(JAX_MESH, P("x"))
    for layouts in (P("x"), named, ROWS):
        data = dtensor.DTensorDataset(X, mesh=MESH, layouts=layouts, global_batch_size=4)
        assert [batch.layout for batch in data] == [ROWS, ROWS]
    pair: Any = dtensor.DTensorDataset(
        {"x": X, "n": np.arange(8)},
        mesh=MESH,
        layouts={"x": P("x", "y"), "n": P(("x", "y"))},
        global_batch_size=8,
        batch_dim="x",
    )
    batch = next(iter(pair))
    assert batch["x"].layout == Layout(["x", "y"], MESH)
    assert batch["n"].layout == Layout([("x", "y")], MESH)
    other = NamedSharding(jax.make_mesh((8,), ("q",), axis_types=(AxisType.Auto,)), P("q"))
    with pytest.raises(LayoutError, match="the dataset's mesh is"):
        dtensor.DTensorDataset(X, mesh=MESH, layouts=other, global_batch_size=8)

    keys = copy_to_mesh(jax.random.split(jax.random.key(0), 8), Layout(["x"], MESH))
    dtensor.name_based_save(MESH, tmp_path / "n", {"a": X, "k": keys})
    restore = dtensor.name_based_restore
    for name, spec, wanted in (("a", P("x"), ROWS), ("k", P("y"), Layout(["y"], MESH))):
        for given in (spec, NamedSharding(JAX_MESH, spec)):
            assert restore(MESH, tmp_path / "n", {name: given})[name].layout == wanted
    with pytest.raises(LayoutError, match="layout has 3 dimensions but the tensor has rank 2"):
        restore(MESH, tmp_path / "n", {"a": P("x", None, "y")})
    with pytest.raises(dtensor.CheckpointError, match=r"'a' is to be restored on mesh\(q=8\), but"):
        restore(MESH, tmp_path / "n", {"a": other})

    placed = copy_to_mesh(X, ROWS)
    columns = Layout([None, "y"], MESH)
    assert dnp.sin(placed, device=P(None, "y")).layout == columns
    assert placed.to_device(P(None, "y")).layout == columns
    with dtensor.default_mesh(MESH):
        assert dnp.asarray(X, device=P(None, "y")).layout == columns


def test_a_named_sharding_on_another_mesh_moves_arrays_there() -> None:
    other = jax.make_mesh((8,), ("q",), axis_types=(AxisType.Auto,))
    there = NamedSharding(other, P("q"))
    wanted = Layout(["q", None], dtensor.create_mesh([("q", 8)]))
    placed = copy_to_mesh(X, ROWS)
    for moved in (relayout(placed, there), copy_to_mesh(placed, there)):
        assert moved.layout == wanted
        np.testing.assert_array_equal(moved.to_jax(), X)
    assert relayout(placed.to_jax(), there).sharding.is_equivalent_to(there, 2)
    with dtensor.default_mesh(MESH):
        assert copy_to_mesh(X, there).layout == relayout(X, there).layout == wanted
    dtensor.check_layout(moved, there)
    with pytest.raises(LayoutError, match="did not match expected layout"):
        dtensor.check_layout(placed, there)
    with pytest.raises(LayoutError, match=r"but layout= says \[{\"q\"}, {}\] of mesh\(q=8\)"):
        dtensor.DVariable(placed, layout=there)


def test_arrays_are_placed_by_shardings() -> None:
    placed = copy_to_mesh(X, NamedSharding(JAX_MESH, P("x")))
    assert placed.layout == ROWS
    moved = relayout(placed, P(None, "y"))
    assert moved.layout == Layout([None, "y"], MESH)
    assert relayout(placed, NamedSharding(EXPLICIT, P(None, "y"))).layout == moved.layout
    array = relayout(placed.to_jax(), P("y"))
    assert array.sharding == NamedSharding(JAX_MESH, P("y", None))
    np.testing.assert_array_equal(array, X)
    kept = relayout(placed, P(P.UNCONSTRAINED, "y"))
    assert kept.layout == Layout([None, "y"], MESH)  # open is whole where nobody chooses
    packed = dtensor.pack(placed.unpack(), NamedSharding(JAX_MESH, P("x")))
    assert packed.layout == ROWS
    assert dtensor.from_jax(array, JAX_MESH).layout == Layout(["y", None], MESH)
    with dtensor.default_mesh(JAX_MESH):
        assert copy_to_mesh(X, P("x")).layout == ROWS
        assert dtensor.call_with_layout(jnp.ones, P("y"), (8, 3)).layout.short() == '[{"y"}, {}]'


def test_layouts_by_name_takes_specs() -> None:
    rules: Any = [("w$", P(None, "y")), ("b$", NamedSharding(JAX_MESH, P("y")))]
    found = dtensor.layouts_by_name(PARAMS, rules, JAX_MESH)
    assert found == {"w": Layout([None, "y"], MESH), "b": Layout(["y"], MESH)}
    short = dtensor.layouts_by_name(PARAMS, [("w", P("x"))], MESH)
    assert short["w"] == Layout(["x", None], MESH)
    with pytest.raises(LayoutError, match=r"rule 'b' for 'b': .* has 2 entries but the array"):
        dtensor.layouts_by_name(PARAMS, [("b", P("x", "y"))], MESH)


def test_compile_mlir_takes_specs() -> None:
    module = """
    func.func @main(%x: tensor<4x6xf32>, %y: tensor<6x4xf32>) -> tensor<6x4xf32> {
      %0 = stablehlo.transpose %x, dims = [1, 0] : (tensor<4x6xf32>) -> tensor<6x4xf32>
      %1 = stablehlo.add %0, %y : tensor<6x4xf32>
      return %1 : tensor<6x4xf32>
    }
    """
    x = np.arange(24, dtype=np.float32).reshape(4, 6)
    cases: list[Any] = [(JAX_MESH, [P("y"), None]), (None, [NamedSharding(EXPLICIT, P("y")), P()])]
    for mesh, layouts in cases:
        program = dtensor.compile_mlir(module, mesh=mesh, in_layouts=layouts, out_layouts=P("x"))
        (found,) = program(x, x.T)
        assert found.layout == Layout(["x", None], MESH)
        np.testing.assert_array_equal(found.to_jax(), 2 * x.T)


def test_a_constraint_may_be_a_sharding() -> None:
    def product(x: Any) -> Any:
        return relayout(relayout(x @ x.T, P("y")), NamedSharding(JAX_MESH, P(None, "x")))

    found = jit(product, mesh=MESH)(X)
    assert found.layout == Layout([None, "x"], MESH)
    np.testing.assert_allclose(found.to_jax(), X @ X.T, rtol=1e-6)


def test_bare_specs_of_an_inner_function_name_axes_of_the_outer_mesh() -> None:
    inner = jit(lambda x: x @ x.T, in_layouts=P("x"), out_layouts=P(None, "y"))
    program = jit(lambda x: inner(x) + 1, mesh=MESH)
    found = program(X)
    assert found.layout == Layout([None, "y"], MESH)
    np.testing.assert_allclose(found.to_jax(), X @ X.T + 1, rtol=1e-6)

    def made() -> Any:
        return dtensor.call_with_layout(jnp.ones, P(None, "y"), (6, 8)) * 2

    assert jit(made, mesh=MESH)().layout == Layout([None, "y"], MESH)


def test_datasets_and_checkpoints_take_meshes_of_jax(tmp_path: Path) -> None:
    rows = NamedSharding(JAX_MESH, P("x", None))
    dataset = dtensor.DTensorDataset(
        X, mesh=JAX_MESH, layouts=as_layout(rows, 2), global_batch_size=8, batch_dim="x"
    )
    (batch,) = dataset
    assert batch.layout == ROWS
    checkpoint = dtensor.DTensorCheckpoint(JAX_MESH, x=batch)
    checkpoint.save(str(tmp_path / "c"))
    assert checkpoint.mesh == MESH


def test_variables_and_pictures_take_what_jax_has(
    capsys: pytest.CaptureFixture[str],
) -> None:
    rows = NamedSharding(JAX_MESH, P("x"))
    x = dtensor.copy_to_mesh(np.ones((8, 6), np.float32), rows)
    dtensor.check_layout(x, rows)
    dtensor.check_layout(x, P("x", None))
    with pytest.raises(LayoutError, match="did not match expected layout"):
        dtensor.check_layout(x, P(None, "y"))
    variables = [dtensor.DVariable(value, layout=rows) for value in (x, np.ones((8, 6)))]
    variables.append(dtensor.DVariable(lambda: jnp.ones((8, 6)), layout=rows))
    variables.append(dtensor.DVariable(x, layout=P("x")))
    assert all(v.layout == x.layout for v in variables)
    dtensor.barrier(JAX_MESH)
    dtensor.visualize(rows, (8, 6))
    dtensor.visualize(x.layout, (8, 6))
    dtensor.visualize(JAX_MESH)
    first, second = capsys.readouterr().out.split("8x6")[1:]
    assert second.startswith(first.rstrip())
