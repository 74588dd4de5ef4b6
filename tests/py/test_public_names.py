"""Every public name has a docstring, a test that uses it, and a place in the documentation."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest

import dtensor

TESTS = Path(__file__).parent
DOCS = TESTS.parents[1] / "docs"
CONSTANTS = {
    "AUTO",
    "MATCH",
    "OPEN",
    "UNSHARDED",
}  # plain values: they carry no docstring of their own
MODULES = ["dtensor", "dtensor.random", "dtensor.tpu"]
CLASSES = "DTensor DTensorCheckpoint DTensorDataset DVariable Layout Lowered Mesh".split()


def public(module: str) -> list[tuple[str, str]]:
    names: list[str] = importlib.import_module(module).__all__
    return [(module, name) for name in names]


NAMES = [pair for module in MODULES for pair in public(module)]


def members() -> list[tuple[str, str]]:
    found = []
    for name in CLASSES:
        kind = getattr(dtensor, name)
        own = {k for base in kind.__mro__ for k in vars(base) if base.__module__[:7] == "dtensor"}
        found += [(name, member) for member in sorted(own) if not member.startswith("_")]
    return found


@cache
def words_of_tests() -> set[str]:
    """Every name and attribute that a test's code uses."""
    words: set[str] = set()
    for path in TESTS.rglob("*.py"):
        if path == Path(__file__):
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            match node:
                case ast.Attribute(attr=word) | ast.Name(id=word) | ast.keyword(arg=str(word)):
                    words.add(word)
                case ast.alias(name=word):
                    words.add(word.rpartition(".")[2])
                case ast.Constant(value=str(text)) if "dtensor" in text or text.isidentifier():
                    words.update(text.replace("(", " ").replace(".", " ").split())
    return words


@pytest.mark.parametrize(("module", "name"), NAMES)
def test_a_public_name_says_what_it_is(module: str, name: str) -> None:
    value = getattr(importlib.import_module(module), name)
    if name not in CONSTANTS:
        assert (value.__doc__ or "").strip(), f"{module}.{name} has no docstring"
        assert value.__doc__ != type(value).__doc__ or isinstance(value, type | ModuleType)


@pytest.mark.parametrize(("module", "name"), NAMES)
def test_a_public_name_is_tested(module: str, name: str) -> None:
    assert name in words_of_tests(), f"no test uses {module}.{name}"


@pytest.mark.parametrize(("module", "name"), NAMES)
def test_a_public_name_is_documented(module: str, name: str) -> None:
    # The API page has every name; a page that says what it is for has it too.
    pages = [page for page in DOCS.rglob("*.md") if page.name != "api.md"]
    text = "\n".join(page.read_text(encoding="utf-8") for page in pages)
    assert name in text, f"docs/ does not mention {module}.{name}"


@pytest.mark.parametrize(("kind", "member"), members())
def test_a_member_of_a_public_class_is_explained_and_tested(kind: str, member: str) -> None:
    value = getattr(getattr(dtensor, kind), member)
    if callable(value) or isinstance(value, property):
        assert (value.__doc__ or "").strip(), f"{kind}.{member} has no docstring"
    assert member in words_of_tests(), f"no test uses {kind}.{member}"


def test_the_lists_are_sorted_and_whole() -> None:
    for module in MODULES:
        names = importlib.import_module(module).__all__
        assert names == sorted(names)
    assert set(dtensor.__all__) <= set(dir(dtensor))


def test_threads_may_use_the_first_names_together() -> None:
    names = "jit auto_layouts DVariable DTensorCheckpoint Layout numpy create_mesh random".split()
    program = (
        "import sys, threading, dtensor\n"
        "names = sys.argv[1:]\n"
        "together, found = threading.Barrier(len(names)), []\n"
        "def use(name):\n"
        "    together.wait()\n"
        "    getattr(dtensor, name)\n"
        "    found.append(name)\n"
        "threads = [threading.Thread(target=use, args=(name,)) for name in names]\n"
        "for thread in threads: thread.start()\n"
        "for thread in threads: thread.join()\n"
        "assert set(found) == set(names), found\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program, *names], capture_output=True, text=True, timeout=300
    )
    assert ran.returncode == 0, ran.stderr
