"""`dtensor.compile_mlir`: StableHLO text, bytecode or a file."""

from pathlib import Path
from typing import Any

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest

from dtensor.compiler.mlir_frontend import compile_mlir
from dtensor.dialect.context import make_context, parse_module
from dtensor.dialect.errors import CompileError, LayoutError
from dtensor.dialect.layout import UNSHARDED, Layout
from dtensor.dialect.mlir import bytecode_of, ir, stablehlo
from dtensor.runtime.client import create_mesh
from tests.py.passes.on_mesh import SLOW

MESH = create_mesh([("x", 2), ("y", 4)])
ROWS = Layout(["x", UNSHARDED], MESH)
SOURCE = """
module {
  func.func public @main(%a: tensor<4x8xf32>, %b: tensor<4x8xf32>) -> tensor<4x8xf32> {
    %c = stablehlo.add %a, %b : tensor<4x8xf32>
    return %c : tensor<4x8xf32>
  }
}
"""
A = np.arange(32, dtype=np.float32).reshape(4, 8)


@pytest.mark.parametrize("form", ["text", "bytes of text", "bytecode", "file", "bytecode file"])
def test_every_form_of_a_module(form: str, tmp_path: Path) -> None:
    with make_context():
        bytecode = bytecode_of(parse_module(SOURCE))
    path = tmp_path / "add.mlir"
    path.write_bytes(bytecode if "bytecode" in form else SOURCE.encode())
    forms: dict[str, str | bytes | Path] = {
        "text": SOURCE,
        "bytes of text": SOURCE.encode(),
        "bytecode": bytecode,
    }
    source = forms.get(form, path)
    compiled = compile_mlir(source, mesh=MESH, in_layouts=[ROWS, None], out_layouts=ROWS)
    (result,) = compiled(A, A)
    assert result.layout == ROWS
    np.testing.assert_array_equal(np.asarray(result.to_jax()), 2 * A)
    assert compiled.in_layouts[0][0] == ROWS


@pytest.mark.parametrize("form", ["bytes", "file", "text"])
@pytest.mark.parametrize("version", ["least", "present", "jax.export"])
def test_portable_artifacts(form: str, version: str, tmp_path: Path) -> None:
    with make_context():
        if version == "jax.export":
            arrays = [jax.ShapeDtypeStruct(A.shape, A.dtype)] * 2
            artifact = jax.export.export(jax.jit(jnp.add))(*arrays).mlir_module_serialized
        else:
            versions = stablehlo.get_minimum_version(), stablehlo.get_current_version()
            wanted = versions[version == "present"]
            artifact = stablehlo.serialize_portable_artifact(parse_module(SOURCE), wanted)
        text = str(ir.Module.parse(artifact))
    path = tmp_path / "add.mlir"
    path.write_bytes(artifact)
    forms: dict[str, str | bytes | Path] = {"bytes": artifact, "file": path, "text": text}
    assert b"vhlo" in artifact or "vhlo.func" in text
    compiled = compile_mlir(forms[form], mesh=MESH, in_layouts=[ROWS, None], out_layouts=ROWS)
    (result,) = compiled(A, A)
    np.testing.assert_array_equal(result.to_jax(), 2 * A)


def test_an_artifact_that_is_cut_off_is_refused() -> None:
    with make_context():
        version = stablehlo.get_current_version()
        artifact = stablehlo.serialize_portable_artifact(parse_module(SOURCE), version)
    with pytest.raises(CompileError, match="<bytes>:1:1: "):
        compile_mlir(artifact[:-20], mesh=MESH)


def test_a_shape_that_is_a_constant_operand_costs_nothing() -> None:
    program = """
    func.func @main(%a: tensor<4x8xf32>) -> tensor<8x12xf32> {
      %shape = stablehlo.constant dense<[8, 4]> : tensor<2xi32>
      %b = stablehlo.dynamic_reshape %a, %shape
        : (tensor<4x8xf32>, tensor<2xi32>) -> tensor<8x4xf32>
      %zero = stablehlo.constant dense<0.0> : tensor<f32>
      %none = stablehlo.constant dense<0> : tensor<2xi64>
      %high = stablehlo.constant dense<[0, 8]> : tensor<2xi64>
      %c = stablehlo.dynamic_pad %b, %zero, %none, %high, %none
        : (tensor<8x4xf32>, tensor<f32>, tensor<2xi64>, tensor<2xi64>, tensor<2xi64>)
        -> tensor<8x12xf32>
      return %c : tensor<8x12xf32>
    }
    """
    compiled = compile_mlir(program, in_layouts=ROWS)
    (result,) = compiled(A)
    assert compiled.wire_bytes == 0
    assert result.layout == ROWS
    np.testing.assert_array_equal(result.to_jax(), np.pad(A.reshape(8, 4), ((0, 0), (0, 8))))


def test_older_operations_run_where_their_data_is() -> None:
    program = """
    func.func @main(%a: tensor<4x8xf32>, %b: tensor<8x3xf32>, %i: tensor<2x5xi32>)
        -> (tensor<3x4xf32>, tensor<4x2x5xf32>, tensor<8xf32>) {
      %0 = stablehlo.einsum %a, %b, config = "ij,jk->ki"
        : (tensor<4x8xf32>, tensor<8x3xf32>) -> tensor<3x4xf32>
      %1 = "stablehlo.torch_index_select"(%a, %i) {dim = 1 : i64, batch_dims = 0 : i64}
        : (tensor<4x8xf32>, tensor<2x5xi32>) -> tensor<4x2x5xf32>
      %2 = "stablehlo.unary_einsum"(%a) {einsum_config = "ij->j"}
        : (tensor<4x8xf32>) -> tensor<8xf32>
      return %0, %1, %2 : tensor<3x4xf32>, tensor<4x2x5xf32>, tensor<8xf32>
    }
    """
    b = np.arange(24, dtype=np.float32).reshape(8, 3)
    places = np.array([[0, 7, 3, 3, 1], [5, 2, 6, 4, 0]], np.int32)
    compiled = compile_mlir(program, mesh=MESH, in_layouts=[ROWS, None, None])
    product, taken, columns = compiled(A, b, places)
    np.testing.assert_array_equal(product.to_jax(), (A @ b).T)
    np.testing.assert_array_equal(taken.to_jax(), A[:, places])
    np.testing.assert_array_equal(columns.to_jax(), A.sum(0))
    assert not [r for r in compiled.ledger["records"] if r["kind"] == "fallback"]


@pytest.mark.parametrize("layout", [None, ["x", None], [None, "y"], [("y", "x"), None]])
@pytest.mark.parametrize("is_known", [False, True])
def test_a_scatter_of_several_arrays(layout: Any, is_known: bool) -> None:
    places = np.array([5, 0, 5, 9, 2], np.int32)
    rows = (
        "constant dense<[5, 0, 5, 9, 2]> : tensor<5xi32>" if is_known else "abs %i : tensor<5xi32>"
    )
    program = f"""
    func.func @main(%a: tensor<10x8xf32>, %b: tensor<10x8xi32>, %i: tensor<5xi32>,
        %u: tensor<5x8xf32>, %v: tensor<5x8xi32>) -> (tensor<10x8xf32>, tensor<10x8xi32>) {{
      %j = stablehlo.{rows}
      %0:2 = "stablehlo.scatter"(%a, %b, %j, %u, %v) <{{
        scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1],
          inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>
      }}> ({{
      ^bb0(%c: tensor<f32>, %d: tensor<i32>, %e: tensor<f32>, %f: tensor<i32>):
        %s = stablehlo.add %c, %e : tensor<f32>
        %m = stablehlo.maximum %d, %f : tensor<i32>
        stablehlo.return %s, %m : tensor<f32>, tensor<i32>
      }}) : (tensor<10x8xf32>, tensor<10x8xi32>, tensor<5xi32>, tensor<5x8xf32>, tensor<5x8xi32>)
        -> (tensor<10x8xf32>, tensor<10x8xi32>)
      return %0#0, %0#1 : tensor<10x8xf32>, tensor<10x8xi32>
    }}
    """
    rng = np.random.default_rng(0)
    a, u = (rng.normal(size=(n, 8)).astype(np.float32) for n in (10, 5))
    b, v = (rng.integers(0, 9, size=(n, 8)).astype(np.int32) for n in (10, 5))
    given = None if layout is None else Layout(layout, MESH)
    run = compile_mlir(program, mesh=MESH, in_layouts=[given, given, None, None, given])
    added, largest = run(a, b, places, u, v)
    np.add.at(a, places, u)
    np.maximum.at(b, places, v)
    np.testing.assert_allclose(np.asarray(added.to_jax()), a, rtol=1e-6)
    np.testing.assert_array_equal(np.asarray(largest.to_jax()), b)


@pytest.mark.parametrize("batch", [32, 30])
def test_batch_norm_of_a_split_batch(batch: int) -> None:
    """Shards send sums of one number per feature, of batches that do not divide too."""
    shape, feature = (batch, 3, 5), (1, 3, 1)
    wide, narrow = f"tensor<{batch}x3x5xf32>", "tensor<3xf32>"
    attributes = "{epsilon = 0.25 : f32, feature_index = 1 : i64}"
    program = f"""
    func.func @main(%x: {wide}, %g: {wide}, %s: {narrow}, %o: {narrow})
        -> ({wide}, {narrow}, {narrow}, {wide}, {narrow}, {narrow}, {wide}) {{
      %y:3 = "stablehlo.batch_norm_training"(%x, %s, %o) {attributes}
        : ({wide}, {narrow}, {narrow}) -> ({wide}, {narrow}, {narrow})
      %d:3 = "stablehlo.batch_norm_grad"(%x, %s, %y#1, %y#2, %g) {attributes}
        : ({wide}, {narrow}, {narrow}, {narrow}, {wide}) -> ({wide}, {narrow}, {narrow})
      %z = "stablehlo.batch_norm_inference"(%x, %s, %o, %o, %s) {attributes}
        : ({wide}, {narrow}, {narrow}, {narrow}, {narrow}) -> {wide}
      return %y#0, %y#1, %y#2, %d#0, %d#1, %d#2, %z
        : {wide}, {narrow}, {narrow}, {wide}, {narrow}, {narrow}, {wide}
    }}
    """
    random = np.random.default_rng(0)
    x, g = (random.normal(size=shape).astype(np.float32) for _ in range(2))
    s, o = (random.uniform(1, 2, 3).astype(np.float32) for _ in range(2))

    def training(x: Any, s: Any, o: Any) -> Any:
        mean, variance = x.mean((0, 2)), x.var((0, 2))
        centred = (x - mean.reshape(feature)) / jnp.sqrt(variance.reshape(feature) + 0.25)
        return centred * s.reshape(feature) + o.reshape(feature), mean, variance

    wanted, pull = jax.vjp(lambda *given: training(*given)[0], x, s, o)
    given = (x - o.reshape(feature)) / np.sqrt(s.reshape(feature) + 0.25)
    rest = given * s.reshape(feature) + o.reshape(feature)
    layout = Layout(["y", UNSHARDED, UNSHARDED], MESH)
    compiled = compile_mlir(
        program, mesh=MESH, in_layouts=[layout, layout, None, None], options=SLOW
    )
    found = compiled(x, g, s, o)
    for have, want in zip(found, (wanted, *training(x, s, o)[1:], *pull(g), rest), strict=True):
        np.testing.assert_allclose(have.to_jax(), want, rtol=1e-5, atol=1e-5)
    assert {c.kind for c in compiled.collectives} == {"all_reduce"}
    assert not [r for r in compiled.ledger["records"] if r["kind"] == "fallback"]


def test_the_mesh_comes_from_the_layouts() -> None:
    (result,) = compile_mlir(SOURCE, in_layouts=ROWS)(A, A)
    assert result.mesh == MESH


def test_what_it_refuses(tmp_path: Path) -> None:
    with pytest.raises(LayoutError, match="in_layouts has 1 entries for the 2 arguments of @main"):
        compile_mlir(SOURCE, in_layouts=[ROWS])
    with pytest.raises(
        LayoutError, match=r"result\[0\] cannot have the layout .*: dimension 0 is cut"
    ):
        compile_mlir(SOURCE, out_layouts=Layout([(2, "x"), UNSHARDED], MESH))
    with pytest.raises(CompileError, match="name the entry function @main"):
        compile_mlir("module {}", mesh=MESH)
    with pytest.raises(CompileError, match="tensors of known shape"):
        compile_mlir(SOURCE.replace("4x8", "?x8"), mesh=MESH)
    path = tmp_path / "odd.mlir"
    path.write_text(SOURCE.replace("stablehlo.add", "stablehlo.ad"))
    with pytest.raises(CompileError, match=r"odd\.mlir:4:10: "):
        compile_mlir(path, mesh=MESH)
    with pytest.raises(FileNotFoundError):
        compile_mlir(tmp_path / "none.mlir", mesh=MESH)


def test_a_module_that_calls_python_is_refused() -> None:
    shape = jax.ShapeDtypeStruct((4, 8), np.float32)
    lowered = jax.jit(lambda a: jax.pure_callback(np.sin, shape, a)).lower(A)
    with pytest.raises(CompileError, match="calls Python functions, which a file cannot hold"):
        compile_mlir(lowered.as_text(), mesh=MESH)


def test_sixty_four_bits_that_jax_would_halve_are_refused() -> None:
    with pytest.raises(CompileError, match=r"args\[0\] has element type f64, but jax's 64"):
        compile_mlir(SOURCE.replace("f32", "f64"), in_layouts=[ROWS, ROWS])
    with jax.enable_x64(True):
        (c,) = compile_mlir(SOURCE.replace("f32", "f64"), in_layouts=[ROWS, ROWS])(
            A.astype(np.float64), A.astype(np.float64)
        )
        assert c.dtype == np.float64
        np.testing.assert_array_equal(
            np.concatenate([np.asarray(s) for s in c.unpack()[::4]]), A + A
        )


def test_a_transform_of_another_length_than_its_rows_is_refused() -> None:
    """XLA's library ends the process."""
    program = """
    func.func @main(%a: tensor<4x8xcomplex<f32>>) -> tensor<4x8xcomplex<f32>> {
      %0 = stablehlo.fft %a, type = FFT, length = [7]
        : (tensor<4x8xcomplex<f32>>) -> tensor<4x8xcomplex<f32>>
      return %0 : tensor<4x8xcomplex<f32>>
    }
    """
    said = r"3:12: stablehlo.fft of length \[7\] reads \[7\] elements .* found \[4, 8\]"
    with pytest.raises(CompileError, match=said):
        compile_mlir(program, mesh=MESH)


def test_equations_that_take_diagonals() -> None:
    program = """
    func.func @main(%a: tensor<8x4x8xf32>, %b: tensor<8x4x8xf32>)
        -> (tensor<8x4xf32>, tensor<f32>, tensor<4x4xf32>) {
      %0 = "stablehlo.unary_einsum"(%a) {einsum_config = "iji->ij"}
        : (tensor<8x4x8xf32>) -> tensor<8x4xf32>
      %1 = "stablehlo.unary_einsum"(%a) {einsum_config = "iji->"}
        : (tensor<8x4x8xf32>) -> tensor<f32>
      %2 = stablehlo.einsum %a, %b, config = "iji,iki->jk"
        : (tensor<8x4x8xf32>, tensor<8x4x8xf32>) -> tensor<4x4xf32>
      return %0, %1, %2 : tensor<8x4xf32>, tensor<f32>, tensor<4x4xf32>
    }
    """
    a = np.arange(8 * 4 * 8, dtype=np.float32).reshape(8, 4, 8) % 7
    split = Layout(["x", UNSHARDED, "y"], MESH)
    found = compile_mlir(program, mesh=MESH, in_layouts=[split, None])(a, a[::-1])
    wanted = (
        np.einsum("iji->ij", a),
        np.einsum("iji->", a),
        np.einsum("iji,iki->jk", a, a[::-1]),
    )
    for value, expected in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(value.to_jax(), expected)


def test_a_loop_that_never_runs() -> None:
    """What cannot be moved there cannot, however seldom it would be."""
    program = """
    func.func @main(%a: tensor<16x4xf32>, %i: tensor<i32>) -> tensor<1x2xf32> {
      %zero = stablehlo.constant dense<0> : tensor<i32>
      %0 = stablehlo.dynamic_slice %a, %i, %i, sizes = [1, 2]
        : (tensor<16x4xf32>, tensor<i32>, tensor<i32>) -> tensor<1x2xf32>
      %1:2 = stablehlo.while(%n = %zero, %w = %0) : tensor<i32>, tensor<1x2xf32> cond {
        %p = stablehlo.compare LT, %n, %zero : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %p : tensor<i1>
      } do {
        %one = stablehlo.constant dense<1> : tensor<i32>
        %next = stablehlo.add %n, %one : tensor<i32>
        %g = stablehlo.reverse %w, dims = [1] : tensor<1x2xf32>
        %h = stablehlo.maximum %g, %0 : tensor<1x2xf32>
        stablehlo.return %next, %h : tensor<i32>, tensor<1x2xf32>
      }
      return %1#1 : tensor<1x2xf32>
    }
    """
    a = np.arange(64, dtype=np.float32).reshape(16, 4)
    layouts = [Layout(["x", "y"], MESH), None]
    (found,) = compile_mlir(program, mesh=MESH, in_layouts=layouts)(a, np.int32(1))
    np.testing.assert_array_equal(found.to_jax(), a[1:2, 1:3])


def test_tuples_at_the_border_are_arrays_by_themselves() -> None:
    program = """
    func.func private @main(%a: tuple<tensor<4x8xf32>, tensor<8xf32>>)
        -> tuple<tensor<4x8xf32>, tensor<4xf32>> {
      %zero = stablehlo.constant dense<0.0> : tensor<f32>
      %0 = stablehlo.get_tuple_element %a[0]
        : (tuple<tensor<4x8xf32>, tensor<8xf32>>) -> tensor<4x8xf32>
      %1 = stablehlo.get_tuple_element %a[1]
        : (tuple<tensor<4x8xf32>, tensor<8xf32>>) -> tensor<8xf32>
      %2 = stablehlo.broadcast_in_dim %1, dims = [1] : (tensor<8xf32>) -> tensor<4x8xf32>
      %3 = stablehlo.add %0, %2 : tensor<4x8xf32>
      %4 = stablehlo.reduce(%3 init: %zero) applies stablehlo.add across dimensions = [1]
        : (tensor<4x8xf32>, tensor<f32>) -> tensor<4xf32>
      %5 = stablehlo.tuple %3, %4 : tuple<tensor<4x8xf32>, tensor<4xf32>>
      return %5 : tuple<tensor<4x8xf32>, tensor<4xf32>>
    }
    """
    file = b"\xef\xbb\xbf" + program.encode()  # as some editors begin a file
    whole, sums = compile_mlir(file, mesh=MESH, in_layouts=[ROWS, Layout(["y"], MESH)])(A, A[1])
    np.testing.assert_array_equal(whole.to_jax(), A + A[1])
    np.testing.assert_array_equal(sums.to_jax(), (A + A[1]).sum(1))
