"""Passes of users: registered by their packages, and named in pipelines."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest

from dtensor.dialect.errors import CompileError
from dtensor.dialect.mlir import ir
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
    before = dict(registry.PASSES)
    yield
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


def test_passes_of_users_are_listed(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "listed.py").write_text(PLUGIN)
    words = ["--load-pass-plugin", str(tmp_path / "listed.py"), "--list-passes"]
    assert dtensor_opt.run(words) == 0
    printed = capfd.readouterr().out
    assert "\n  greet\n      Says who it greets.\n      whom : str = all who it greets\n" in printed
