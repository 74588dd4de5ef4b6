"""dtensor-opt as users meet it: never a traceback, never an abort, quiet pipes, quick starts."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pytest

from dtensor.dialect.mlir import ir
from dtensor.passes import registry
from dtensor.passes.base import Pass, PassState
from dtensor.passes.cxx import CXX_PASSES, MODULE
from dtensor.passes.pipeline import Pipeline
from dtensor.passes.pipeline_text import PipelineError
from dtensor.tools import dtensor_opt

ROOT = Path(__file__).resolve().parents[3]
TOOL = [sys.executable, "-m", "dtensor.tools.dtensor_opt"]
PROGRAM = (
    "func.func @main(%arg0: tensor<2xf32>) -> tensor<2xf32> {\n"
    "  %0 = stablehlo.tanh %arg0 : tensor<2xf32>\n"
    "  return %0 : tensor<2xf32>\n"
    "}\n"
)


def _run(*words: str, source: str = PROGRAM) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*TOOL, *words],
        cwd=ROOT,
        input=source,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )


@dataclass(frozen=True)
class BuggyPass(Pass):
    """Fails as a bug of ours would, while it works on an operation."""

    name: ClassVar[str] = "dtensor-buggy"

    def run(self, module: ir.Module, state: PassState) -> None:
        op = (
            next(iter(module.body.operations))
            .operation.regions[0]
            .blocks[0]
            .operations[0]
            .operation
        )
        raise KeyError(op.name)


@dataclass(frozen=True)
class BreakingPass(Pass):
    """Leaves an invalid module: an operation whose types do not agree."""

    name: ClassVar[str] = "dtensor-breaking"

    def run(self, module: ir.Module, state: PassState) -> None:
        op = next(iter(module.body.operations)).operation.regions[0].blocks[0].operations[0]
        op.results[0].set_type(ir.RankedTensorType.get([3], ir.F32Type.get()))


@dataclass(frozen=True)
class WarningPass(Pass):
    """Warns at the first operation."""

    name: ClassVar[str] = "dtensor-warning"

    def run(self, module: ir.Module, state: PassState) -> None:
        op = next(iter(module.body.operations)).operation.regions[0].blocks[0].operations[0]
        state.ledger.warn(op.operation, "look here")


@pytest.fixture(autouse=True)
def _faulty_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    for cls in (BuggyPass, BreakingPass, WarningPass):
        monkeypatch.setitem(registry.PASSES, cls.name, f"{__name__}:{cls.__name__}")
        monkeypatch.setitem(sys.modules, __name__, sys.modules[cls.__module__])


@pytest.fixture(name="file")
def _file(tmp_path: Path) -> Path:
    path = tmp_path / "step.mlir"
    path.write_text(PROGRAM)
    return path


def test_a_bug_of_ours_is_one_line_with_the_pass_and_the_place(
    file: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert dtensor_opt.run([str(file), "-p", "dtensor-buggy"]) == 1
    output, errors = capfd.readouterr()
    assert output == ""
    assert errors == (
        f"{file}:2:8: internal error, while running pass dtensor-buggy: KeyError: "
        "'stablehlo.tanh'; this is a bug in dtensor, not in your program: "
        "--debug shows the traceback, please report it\n"
    )


def test_debug_shows_the_traceback(file: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert dtensor_opt.run([str(file), "-p", "dtensor-buggy", "--debug"]) == 1
    errors = capfd.readouterr().err
    assert errors.startswith("Traceback (most recent call last):")
    assert "raise KeyError(op.name)" in errors


def test_verify_each_tells_which_pass_broke_the_module(
    file: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert dtensor_opt.run([str(file), "-p", "dtensor-breaking,cse", "--verify-each"]) == 1
    errors = capfd.readouterr().err
    assert f"{file}:2:8: error: " in errors
    assert "; pass dtensor-breaking left the module so" in errors


def test_warnings_of_passes_are_shown_with_a_caret(
    file: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert dtensor_opt.run([str(file), "-p", "dtensor-warning"]) == 0
    errors = capfd.readouterr().err
    line = "  %0 = stablehlo.tanh %arg0 : tensor<2xf32>"
    assert errors == f"{file}:2:8: warning: look here\n  {line}\n         ^\n"


@pytest.mark.parametrize("name", sorted(CXX_PASSES))
@pytest.mark.parametrize("form", ["{}", "func.func({})", "any({})"])
def test_no_cxx_pass_aborts_when_it_is_added(name: str, form: str) -> None:
    """In this process: an abort would take the test run with it."""
    text = form.format(name)
    if CXX_PASSES[name] == MODULE and form.startswith("func.func"):
        with pytest.raises(PipelineError, match=r"move it out of func\.func"):
            Pipeline.parse(text)
    else:
        assert Pipeline.parse(text).names == (name,)


def test_a_closed_pipe_is_quiet() -> None:
    many = "\n".join(f"func.func private @f{i}(tensor<4xf32>)" for i in range(5000))
    with subprocess.Popen(
        TOOL, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as tool:
        assert tool.stdin is not None
        assert tool.stdout is not None
        assert tool.stderr is not None
        tool.stdin.write(many.encode())
        tool.stdin.close()
        assert tool.stdout.readline() == b"module {\n"
        tool.stdout.close()
        assert tool.stderr.read() == b""
        assert tool.wait() == 0


def test_help_imports_neither_jax_nor_any_pass() -> None:
    program = (
        "import sys\n"
        "from dtensor.tools import dtensor_opt\n"
        "assert dtensor_opt.run(['--help']) == 0\n"
        "loaded = [m for m in sys.modules if m == 'jax' or m.startswith('dtensor.passes.')]\n"
        "print(loaded, file=sys.stderr)\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    allowed = {
        "base",
        "cxx",
        "form",
        "nesting",
        "pipeline",
        "pipelines",
        "pipeline_text",
        "registry",
    }
    assert set(eval(run.stderr)) <= {f"dtensor.passes.{name}" for name in allowed}


def test_every_registered_pass_is_listed_with_its_documentation() -> None:
    from dtensor.tools.opt_listing import listing

    text = listing()
    for name in registry.PASSES:
        assert f"\n  {name}\n      " in text
    assert "look here" not in text


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--machine", "h100"], "--machine is what a plan is made for, and no pass plans; give --"),
        (["--machine", "h100", "--dtensor-prepare", "--cse"], "--machine is what a plan is made f"),
        (
            ["--dtensor-lower", "keep-layouts=true"],
            "there is no file 'keep-layouts=true'; if it is an option of the pass, write "
            "--dtensor-lower='keep-layouts=true'",
        ),
    ],
)
def test_what_would_be_taken_for_something_else(
    words: list[str], said: str, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert dtensor_opt.run([str(file), *words]) == 1
    assert capsys.readouterr().err.startswith(f"dtensor-opt: error: {said}")


def test_the_command_exits_with_the_status_and_prints_the_module() -> None:
    good = _run("--cse")
    assert (good.returncode, good.stderr) == (0, "")
    assert "stablehlo.tanh" in good.stdout
    bad = _run(source="func.func @main() { dtensor.typo }")
    assert bad.returncode == 1
    assert bad.stdout == ""
    assert bad.stderr.startswith("<stdin>:1:21: error: ")
