"""dtensor-run runs a module, and says whether it is right, by its exit status too."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.py import fresh

ROOT = Path(__file__).resolve().parents[3]
LAYER = ROOT / "docs" / "examples" / "layer.mlir"


def run(*words: object) -> subprocess.CompletedProcess[str]:
    return fresh.run(["-m", "dtensor.tools.dtensor_run", *map(str, words)], env=os.environ)


def test_a_module_runs_on_given_arguments_and_its_results_are_kept(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    batch, weight = (rng.normal(size=s).astype(np.float32) for s in ((64, 128), (128, 32)))
    np.save(tmp_path / "batch.npy", batch)
    np.save(tmp_path / "weight.npy", weight * 0.1)
    done = run(LAYER, tmp_path / "batch.npy", tmp_path / "weight.npy", "-o", tmp_path, "--verify")
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.splitlines()
    assert first == "layer on mesh(x=4): 3 values of 3 operations are those of one device"
    assert second.startswith('result[0]: float32 64x32, [{"x"}, {}]; from -')
    result = np.load(tmp_path / "result_0.npy")
    np.testing.assert_allclose(result, np.tanh(batch @ weight * 0.1), rtol=0, atol=1e-5)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([LAYER, "x.npy"], "1 files for the 2 arguments"),
        (["none.mlir"], "dtensor-run: error: none.mlir: No such file or directory"),
        (
            [LAYER, "--verfy"],
            "arguments: --verfy; did you mean '--verify'?; see dtensor-run --help",
        ),
        ([LAYER, "--mesh", "x:2"], "--mesh 'x:2': 'x:2' is no axis; the form is x=2,y=4"),
        ([], "the following arguments are required: FILE; see dtensor-run --help"),
        ([LAYER, LAYER, LAYER], "layer.mlir is no .npy file of numbers; write one with numpy.save"),
        ([LAYER, "--seed", "-1"], "--seed -1 is negative; give a number of 0 or more"),
        ([LAYER, "--mesh", "x=4096"], "4,096 logical CPU devices were asked for, and jax has at"),
    ],
)
def test_what_cannot_be_run_is_one_line(words: list[object], said: str) -> None:
    done = run(*words)
    assert done.returncode == 1
    assert said in done.stderr
    assert done.stderr.count("\n") == 1


PLAIN = """func.func @main(%a: tensor<6x5xf32>) -> tensor<5x6xf32> {
  %0 = stablehlo.transpose %a, dims = [1, 0] : (tensor<6x5xf32>) -> tensor<5x6xf32>
  return %0 : tensor<5x6xf32>
}
"""


def test_layouts_of_a_module_without_a_mesh_name_that_of_the_command_line(tmp_path: Path) -> None:
    file = tmp_path / "laid.mlir"
    layout = '{dtensor.layout = #dtensor.layout<@mesh, [{"x"}, {"y"}]>}'
    file.write_text(PLAIN.replace("%a: tensor<6x5xf32>", f"%a: tensor<6x5xf32> {layout}"))
    done = run(file, "--mesh", "x=3,y=5")
    assert done.stdout.startswith('result[0]: float32 5x6, [{"y"}, {"x"}]; from -'), done.stderr


def test_a_module_without_a_mesh_runs_on_that_of_the_command_line(tmp_path: Path) -> None:
    file = tmp_path / "plain.mlir"
    file.write_text(PLAIN)
    done = run(file, "--mesh", "x=3,y=2", "--verify", "--device-type", "cpu")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("plain on mesh(x=3, y=2): 1 values of 1 operations are those of")
    piped = subprocess.run(
        [sys.executable, "-m", "dtensor.tools.dtensor_run", "-", "--mesh", "x=3,y=2"],
        input=PLAIN,
        capture_output=True,
        text=True,
        check=True,
    )
    assert piped.stdout.startswith("result[0]: float32 5x6, [{}, {}]; from -")


def test_options_stand_anywhere_among_the_files(tmp_path: Path) -> None:
    file, values = tmp_path / "plain.mlir", np.arange(30, dtype=np.float32).reshape(6, 5)
    file.write_text(PLAIN)
    np.save(tmp_path / "a.npy", values)
    done = run(file, "--mesh", "x=3,y=2", tmp_path / "a.npy", "-o", tmp_path)
    assert done.returncode == 0, done.stderr
    np.testing.assert_array_equal(np.load(tmp_path / "result_0.npy"), values.T)


MESH = '"dtensor.mesh"() {sym_name = "mesh", mesh = #dtensor.mesh<["x"=2]>} : () -> ()\n'
TYPO = """func.func @main(%a: tensor<8xf32> {dtensor.loyout = #dtensor.layout<@mesh, [{"x"}]>})
    -> tensor<8xf32> {
  return %a : tensor<8xf32>
}
"""


ADDED = """func.func @main(%a: tensor<8xf32>) -> tensor<8xf32> {
  %0 = arith.addf %a, %a : tensor<8xf32>
  return %0 : tensor<8xf32>
}
"""
LONG = """
func.func @main(%a: tensor<99999999999x99999999999xf32>) -> tensor<f32> {
  %0 = stablehlo.constant dense<0.0> : tensor<f32>
  return %0 : tensor<f32>
}
"""


TYPES = """func.func @main(%flags: tensor<6xi1>, %small: tensor<6xui8>, %c: tensor<6xcomplex<f32>>,
    %which: tensor<i32>, %flag: tensor<i1>) -> (tensor<6xcomplex<f32>>, tensor<6xui8>) {
  %0 = stablehlo.add %small, %small : tensor<6xui8>
  %1 = "stablehlo.case"(%which) ({
    stablehlo.return %small : tensor<6xui8>
  }, {
    stablehlo.return %0 : tensor<6xui8>
  }) : (tensor<i32>) -> tensor<6xui8>
  %2 = "stablehlo.if"(%flag) ({
    stablehlo.return %1 : tensor<6xui8>
  }, {
    stablehlo.return %small : tensor<6xui8>
  }) : (tensor<i1>) -> tensor<6xui8>
  %3 = stablehlo.multiply %c, %c : tensor<6xcomplex<f32>>
  %4 = stablehlo.select %flags, %3, %c : tensor<6xi1>, tensor<6xcomplex<f32>>
  return %4, %2 : tensor<6xcomplex<f32>>, tensor<6xui8>
}
"""


def test_arguments_of_other_types(tmp_path: Path) -> None:
    """Random ones, and given ones: a case takes its last branch for a number that none has."""
    file = tmp_path / "types.mlir"
    file.write_text(TYPES)
    done = run(file, "--mesh", "x=3", "--verify", "--seed", "3")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "result[0]: complex64 6, [{}]\nresult[1]: uint8 6, [{}]; from " in done.stdout
    flags, small = np.arange(6) % 2 == 0, np.arange(6, dtype=np.uint8)
    values = (1 + small - 2j).astype(np.complex64)
    for which, flag, times in [
        (0, True, 1),
        (1, True, 2),
        (-1, True, 2),
        (7, True, 2),
        (1, False, 1),
    ]:
        given = (flags, small, values, np.int32(which), np.bool_(flag))
        names = [tmp_path / f"{k}.npy" for k in range(len(given))]
        for name, value in zip(names, given, strict=True):
            np.save(name, value)
        done = run(file, *names, "--mesh", "x=3", "--verify", "-o", tmp_path)
        assert done.returncode == 0, done.stdout + done.stderr
        np.testing.assert_array_equal(np.load(tmp_path / "result_1.npy"), small * times)
    wanted = np.where(flags, values * values, values)
    np.testing.assert_array_equal(np.load(tmp_path / "result_0.npy"), wanted)


@pytest.mark.parametrize(
    ("source", "said"),
    [
        (MESH + TYPO, "m.mlir:2:17: argument 0: unknown attribute 'dtensor.loyout'"),
        (MESH + "\0" + TYPO, "byte 79 is neither UTF-8 text nor MLIR bytecode"),
        (MESH[:30], "expected"),
        (MESH + ADDED, "m.mlir:3:8: XLA does not compile arith.addf; write it in StableHLO"),
        ("", "m.mlir:1:1: the module has no function; name the entry function @main"),
        (
            MESH + "func.func private @main(tensor<8xf32>)",
            "m.mlir:2:1: @main has no body; write what it computes",
        ),
        (
            MESH + LONG,
            "args[0] has type tensor<99999999999x99999999999xf32>, whose elements no 64 bits",
        ),
    ],
)
def test_what_a_module_says_wrong_is_one_line(tmp_path: Path, source: str, said: str) -> None:
    (tmp_path / "m.mlir").write_text(source, encoding="utf-8")
    done = run(tmp_path / "m.mlir")
    assert done.returncode == 1
    assert said in done.stderr
    assert done.stderr.count("\n") == 1
