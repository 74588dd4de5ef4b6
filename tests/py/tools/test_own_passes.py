"""Passes of users: registered by their packages, and named in pipelines."""

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest

from dtensor.dialect.errors import CompileError
from dtensor.dialect.mlir import ir, ops_of
from dtensor.passes import registry
from dtensor.passes.base import Pass, PassState
from dtensor.passes.pipeline import OwnStep, Pipeline
from dtensor.passes.registry import register_pass
from dtensor.tools import dtensor_opt

MODULE = "module { func.func @main() { return } }"
PLUGIN = '''
from dataclasses import dataclass
from typing import ClassVar
from dtensor.passes.base import Pass
from dtensor.passes.registry import register_pass


@register_pass
@dataclass(frozen=True)
class Greet(Pass):
    """Says who it greets."""

    name: ClassVar[str] = "greet"
    whom: str = "all"  # who it greets

    def run(self, module, state):
        print(f"hello {self.whom}")
'''


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    before, path = dict(registry.PASSES), list(sys.path)
    yield
    sys.path[:] = path
    registry.PASSES.clear()
    registry.PASSES.update(before)


def made(called: str, **fields: Any) -> type[Pass]:
    """A pass of this name with these options."""
    types = {key: type(value) for key, value in fields.items()}

    def run(self: Pass, module: ir.Module, state: PassState) -> None:
        pass

    space = {"name": called, "__annotations__": types, "run": run, **fields}
    return dataclass(frozen=True)(type("Made", (Pass,), space))


def test_a_later_pass_of_a_name_stands_for_it() -> None:
    for number in (1, 2):
        register_pass(made("of-mine", turns=number))
        (step,) = Pipeline.parse("of-mine").steps
        assert isinstance(step, OwnStep)
        assert vars(step.transformation) == {"turns": number}
    (step,) = Pipeline.parse("of-mine{turns=7}").steps
    assert isinstance(step, OwnStep)
    assert vars(step.transformation) == {"turns": 7}


@dataclass(frozen=True)
class Needs(Pass):
    name: ClassVar[str] = "needs"
    turns: int


class Plain(Pass):
    name = "plain"
    turns: int = 1


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (int, "<class 'int'> is no pass; derive a class from dtensor.passes.base.Pass"),
        (made("Of mine"), "Made.name is 'Of mine'; write it as 'count-collectives'"),
        (made("cse"), "Made.name is 'cse', which is one of dtensor's; rename it"),
        (made("dtensor-spmd"), "Made.name is 'dtensor-spmd', which is one of dtensor's; rename it"),
        (made("dtensor-lower"), "which is one of dtensor's; rename it"),
        (Needs, "option 'turns' of Needs has no default; give it one"),
        (Plain, "Plain is no dataclass; put @dataclass(frozen=True) before it"),
        (
            made("of-mine", turns=()),
            "option 'turns' of Made is of tuple; give int, bool, float, str",
        ),
    ],
)
def test_what_is_no_pass_is_refused(wrong: Any, told: str) -> None:
    with pytest.raises(CompileError) as refused:
        register_pass(wrong)
    assert told in str(refused.value)


@pytest.mark.parametrize("as_file", [True, False])
def test_dtensor_opt_imports_what_registers_passes(
    as_file: bool,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    name = "greets_as_file" if as_file else "greets_as_module"
    (tmp_path / f"{name}.py").write_text(PLUGIN)
    (tmp_path / "in.mlir").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    given = str(tmp_path / f"{name}.py") if as_file else name
    words = [str(tmp_path / "in.mlir"), "--greet=whom=you", "--load-pass-plugin", given]
    assert dtensor_opt.run([*words, "-o", str(tmp_path / "out.mlir")]) == 0
    assert capfd.readouterr() == ("hello you\n", "")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "registers no pass; put @register_pass of dtensor.passes.registry before it"),
        ("import nothing_such", "ModuleNotFoundError: No module named 'nothing_such'"),
        (None, "No such file or directory"),
        ("raise SystemExit(0)", "cannot import"),
    ],
)
def test_what_registers_nothing_is_refused(
    text: str | None, told: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "mine.py"
    if text is not None:
        path.write_text(text)
    assert dtensor_opt.run(["x.mlir", f"--load-pass-plugin={path}"]) == 1
    errors = capfd.readouterr().err
    assert told in errors
    assert errors.startswith("dtensor-opt: error: ")
    assert errors.count("\n") == 1


def test_a_file_imports_what_stands_beside_it_and_may_be_given_twice(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "greets_beside.py").write_text(PLUGIN)
    (tmp_path / "bundle.py").write_text("import greets_beside")
    (tmp_path / "in.mlir").write_text(MODULE)
    plugins = ["--load-pass-plugin=greets_beside"]
    plugins = [f"--load-pass-plugin={tmp_path / 'bundle.py'}", *2 * plugins]
    words = [str(tmp_path / "in.mlir"), *plugins, "--greet", "-o", str(tmp_path / "out.mlir")]
    assert dtensor_opt.run(words) == 0
    assert capfd.readouterr() == ("hello all\n", "")


BREAKING = """
sdy.mesh @mesh = <["x"=2]>
func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.sine %a : tensor<4xf32>
  return %0 : tensor<4xf32>
}
"""


def _raise() -> None:
    raise ValueError("boom")


def breaks(how: str) -> type[Pass]:
    """A pass that leaves a module that is none, or does not come back."""

    def run(self: Pass, module: ir.Module, state: PassState) -> None:
        function = next(op for op in ops_of(module.body) if op.name == "func.func")
        sine, end = ops_of(function.regions[0].blocks[0])
        {
            "type": lambda: sine.results[0].set_type(ir.RankedTensorType.parse("tensor<3xf32>")),
            "end": end.erase,
            "order": lambda: sine.move_after(end),
            "layout": lambda: sine.attributes.__setitem__("dtensor.results", ir.UnitAttr.get()),
            "entry": function.erase,
            "exit": lambda: sys.exit(0),
            "raise": _raise,
        }[how]()

    space = {"name": "breaks", "__annotations__": {}, "run": run}
    return dataclass(frozen=True)(type("Breaks", (Pass,), space))


@pytest.mark.parametrize(
    ("how", "told"),
    [
        ("type", "; pass breaks left the module so"),
        ("end", "; pass breaks left the module so"),
        ("order", "; pass breaks left the module so"),
        ("layout", "'dtensor.results': ...; pass breaks left the module so"),
        ("entry", "pass breaks erases the entry function; leave it there"),
        ("exit", "pass breaks ends the process (exit status 0); raise an error in it"),
        ("raise", "error: pass breaks fails: ValueError: boom; --debug shows the traceback"),
    ],
)
def test_a_pass_that_breaks_the_module_is_named(
    how: str, told: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    register_pass(breaks(how))
    (tmp_path / "in.mlir").write_text(BREAKING)
    words = [str(tmp_path / "in.mlir"), "-p", "dtensor-import,breaks,cse"]
    assert dtensor_opt.run([*words, "-o", str(tmp_path / "out.mlir")]) == 1
    errors = capfd.readouterr().err
    assert re.search(re.escape(told).replace(re.escape("..."), ".*"), errors), errors
    assert "bug in dtensor" not in errors


def test_passes_of_users_are_listed(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "listed.py").write_text(PLUGIN)
    words = ["--load-pass-plugin", str(tmp_path / "listed.py"), "--list-passes"]
    assert dtensor_opt.run(words) == 0
    printed = capfd.readouterr().out
    assert "\n  greet\n      Says who it greets.\n      whom : str = all who it greets\n" in printed
