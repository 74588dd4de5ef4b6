"""The examples in docstrings print what they say, and each public function and class has one.

An example is a session of `>>>` lines. It imports nothing: `dtensor`, `jax`, `jnp` and `np` are
there, and `mesh`, of 2x4 CPU devices with the axes "x" and "y". It runs in an empty folder, where
no default mesh is set and no accelerator system is initialized. In its output, `...` stands for
anything.
"""

from __future__ import annotations

import ast
import doctest
import importlib
import inspect
from collections.abc import Iterator
from contextvars import Context
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dtensor
from dtensor.compiler.define_op import forget_registered
from dtensor.runtime.clients import config
from tests.py.docs.blocks import ROOT

PACKAGES = ("compiler", "dialect", "dtensor", "passes", "runtime", "tools")

# Public functions, classes and methods without an example, by the reason. Exceptions need none, as
# messages have pages of their own, nor do properties, which are read by their names.
NEED_NONE = {
    "what jax.Array has by this name, with the same arguments; DTensor shows one": """
        DTensor.addressable_data DTensor.all DTensor.any DTensor.argmax DTensor.argmin
        DTensor.argsort DTensor.astype DTensor.block_until_ready DTensor.clip DTensor.conj
        DTensor.conjugate DTensor.copy DTensor.copy_to_host_async DTensor.cumprod DTensor.cumsum
        DTensor.delete DTensor.devices DTensor.diagonal DTensor.dot DTensor.flatten
        DTensor.is_deleted DTensor.is_ready DTensor.max DTensor.mean DTensor.min DTensor.prod
        DTensor.ptp DTensor.ravel DTensor.repeat DTensor.reshape DTensor.round
        DTensor.searchsorted DTensor.sort DTensor.squeeze DTensor.std DTensor.sum
        DTensor.swapaxes DTensor.take DTensor.tolist DTensor.trace DTensor.transpose DTensor.var
    """,
    "called by the compiler, of which a program sees nothing": """
        CompileOptions.warn_inside Compiled.borders Compiled.bound Compiled.caller Compiled.moves
        DVariable.check_usable DVariable.stand_in DefinedOp.attribute DefinedOp.count_flops
        DefinedOp.is_meant DefinedOp.rule DefinedOp.sizes Layout.of Mesh.known_devices Mesh.of
    """,
    "an enumeration": "LayoutType",
    "always raises": "Layout.to_parted",
    "always False": "Mesh.use_xla_spmd",
    "needs a file, which docs/machines.md shows": "Machine.from_toml",
    "needs the compiler of a target, as docs/targets.md runs it": "Compiled.target_report",
    "what verify gives of a wrong program, as docs/verify.md shows it": "Difference",
    "deletes all arrays, and prints nothing": "shutdown_accelerator_system",
}


@dataclass(frozen=True)
class Example:
    """A docstring with a session.

    Attributes:
        file: where it stands, from the root of the repository.
        name: of what is documented, `Mesh.axis_size`.
        line: where the docstring begins, from 1.
        text: the docstring.
    """

    file: str
    name: str
    line: int
    text: str


def examples() -> Iterator[Example]:
    """Every docstring of the package that has a session."""
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            text = path.read_text(encoding="utf-8")
            if ">>> " in text:
                yield from _examples_in(ast.parse(text), str(path.relative_to(ROOT)), "")


def _examples_in(node: ast.AST, file: str, prefix: str) -> Iterator[Example]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ClassDef | ast.FunctionDef):
            name = f"{prefix}{child.name}"
            text = ast.get_docstring(child) or ""
            if ">>> " in text:
                yield Example(file, name, child.body[0].lineno, text)
            yield from _examples_in(child, file, f"{name}.")


def public() -> dict[str, Any]:
    """Every public function and class, and the methods of these, by name."""
    found: dict[str, Any] = {}
    for module in ("dtensor", "dtensor.random"):
        for name in importlib.import_module(module).__all__:
            value = getattr(importlib.import_module(module), name)
            if inspect.isclass(value) and not issubclass(value, Exception):
                found[name] = value
                found |= {f"{name}.{member}": work for member, work in methods(value)}
            elif inspect.isfunction(value):
                found[f"{module}.{name}".removeprefix("dtensor.")] = value
    return found


def methods(kind: type) -> Iterator[tuple[str, Any]]:
    """The public methods of a class, and those of the package that it inherits."""
    for name in sorted(dir(kind)):
        work = inspect.getattr_static(kind, name)
        work = work.__func__ if isinstance(work, classmethod) else work
        is_own = inspect.isfunction(work) and work.__module__.startswith("dtensor")
        if is_own and not name.startswith("_"):
            yield name, work


EXAMPLES = list(examples())


@pytest.mark.parametrize("example", EXAMPLES, ids=[f"{e.file}:{e.name}" for e in EXAMPLES])
def test_an_example_prints_what_it_says(
    example: Example, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(config, "chosen", None)
    mesh = dtensor.create_mesh([("x", 2), ("y", 4)])
    given = {"dtensor": dtensor, "jax": jax, "jnp": jnp, "np": np, "mesh": mesh}
    session = doctest.DocTestParser().get_doctest(
        example.text, given, example.name, example.file, example.line - 1
    )
    said: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    Context().run(runner.run, session, out=said.append)
    forget_registered()
    assert not said, "".join(said)


def test_public_functions_and_classes_have_an_example() -> None:
    first = {id(work): name for name, work in reversed(public().items())}  # inherited ones once
    found = public()
    without = {name for name in first.values() if ">>> " not in (found[name].__doc__ or "")}
    need_none = {name for names in NEED_NONE.values() for name in names.split()}
    assert without - need_none == set(), "write an example, or say in NEED_NONE why there is none"
    assert need_none - without == set(), "these have one, or are no longer there"


def test_a_session_imports_nothing() -> None:
    lines = [line for e in EXAMPLES for line in e.text.splitlines() if ">>> " in line]
    assert not [line for line in lines if "import " in line]
    assert len(EXAMPLES) > 150
