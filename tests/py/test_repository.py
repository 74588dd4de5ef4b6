"""The shape of the repository itself: links, file sizes, docstrings, paths, start-up imports."""

import ast
import re
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path

import pytest

import dtensor
from dtensor.dialect.context import make_context

ROOT = Path(__file__).resolve().parents[2]
SOURCE_FOLDERS = ["compiler", "dialect", "passes", "runtime", "tools"]
SOURCES = sorted(
    path.relative_to(ROOT).as_posix()
    for folder in [*SOURCE_FOLDERS, "benchmarks", "dtensor", "examples", "tests/py"]
    for path in (ROOT / folder).rglob("*.py")
    if not any(parent.is_symlink() for parent in path.parents)
)
TEXTS = sorted(
    path.relative_to(ROOT).as_posix()
    for pattern in ["*.md", "*.toml", "Makefile", ".ci/run", "docs/**/*.md", "tools/*.sh"]
    for path in ROOT.glob(pattern)
)
MACHINE_PATH = re.compile(r"(?<![\w.$}])/(?:home|root|tmp|work|Users)/\w")


@pytest.mark.parametrize("folder", SOURCE_FOLDERS)
def test_each_source_folder_is_linked_into_the_package(folder: str) -> None:
    link = ROOT / "dtensor" / folder
    assert link.is_symlink(), f"{link} must be a link; `git config core.symlinks` may be false"
    assert link.readlink().as_posix() == f"../{folder}"
    assert (link / "__init__.py").is_file()


def test_nothing_but_the_source_folders_is_linked() -> None:
    links = [path.name for path in (ROOT / "dtensor").iterdir() if path.is_symlink()]
    assert sorted(links) == SOURCE_FOLDERS


def test_the_package_under_test_is_this_checkout() -> None:
    assert Path(dtensor.__file__).parent == ROOT / "dtensor"
    assert (ROOT / "dtensor" / "py.typed").is_file()


def test_the_version_is_the_same_in_both_places() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert dtensor.__version__ == project["version"]


# Each test looks at all files: a test for each file and question would be a third of all tests.


@cache
def _text(source: str) -> str:
    return (ROOT / source).read_text(encoding="utf-8")


@cache
def _nodes(source: str) -> list[ast.AST]:
    """The module, and all that is in it."""
    return list(ast.walk(ast.parse(_text(source))))


def test_source_files_stay_short() -> None:
    lines = {source: len(_text(source).splitlines()) for source in SOURCES}
    long = {source: count for source, count in lines.items() if count > 500}
    assert not long, "a file is one idea, split it"


def test_modules_have_a_docstring() -> None:
    without = [source for source in SOURCES if not ast.get_docstring(ast.parse(_text(source)))]
    assert not without, "these need a first line that says what they are for"


MAPPED = ("", "cuts", "forms", "ops", "planning", "propagation", "relayout", "rewriting", "uneven")


@pytest.mark.parametrize("package", MAPPED, ids=lambda p: p or "passes")
def test_packages_of_many_files_say_what_is_where(package: str) -> None:
    folder = ROOT / "passes" / package
    said = ast.get_docstring(ast.parse((folder / "__init__.py").read_text(encoding="utf-8"))) or ""
    there = [path.name + "/" * path.is_dir() for path in folder.iterdir() if path.name[0] != "_"]
    assert not sorted(name for name in there if f"`{name}`" not in said), "say it in __init__.py"


def test_no_path_of_one_machine() -> None:
    texts = [s for s in SOURCES if not s.startswith("tests/")] + TEXTS
    found = {text: MACHINE_PATH.findall(_text(text)) for text in texts}
    assert not {text: paths for text, paths in found.items() if paths}, "exist on one machine"


@pytest.mark.parametrize("module", ["dtensor.passes.registry", "dtensor.tools.dtensor_opt"])
def test_starting_a_tool_does_not_import_jax(module: str) -> None:
    program = f"import sys, {module}; sys.exit('jax' in sys.modules and 'jax was imported')"
    run = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr


COMPILER_SOURCES = [s for s in SOURCES if s.split("/")[0] in SOURCE_FOLDERS]


@cache
def _calls(source: str) -> list[tuple[str, ast.Call]]:
    """The calls of methods and of what modules hold, as `(text before the parenthesis, call)`."""
    calls = [node for node in _nodes(source) if isinstance(node, ast.Call)]
    return [(ast.unparse(c.func), c) for c in calls if isinstance(c.func, ast.Attribute)]


def test_one_file_reads_modules_and_one_runs_cxx_passes() -> None:
    found: dict[str, set[str]] = {}
    for source in COMPILER_SOURCES:
        for name, _ in _calls(source):
            what = re.search(r"\b(Module|Operation|PassManager)\.parse(File)?$", name)
            if what is not None:
                found.setdefault(what[1], set()).add(source)
    assert found == {"Module": {"dialect/modules.py"}, "PassManager": {"passes/pipeline.py"}}


def test_operations_are_made_in_their_place() -> None:
    # One that is in no block dies with its handle, and may write into values that went before.
    made = 0
    for source in COMPILER_SOURCES:
        for name, call in _calls(source):
            is_created = name == "ir.Operation.create"
            is_cloned = name.endswith(".clone") and not name.endswith("ctx.clone")
            if is_created or is_cloned:
                made += 1
                where = f"{source}:{call.lineno}"
                has_place = "ip" in [k.arg for k in call.keywords]
                assert has_place, f"{where}: give {name} its place, ip="
    assert made


# Passes that match the form of certain operations and rewrite it, and what reads no table: jax's
# own module is checked where the compiler is not.
MATCHES = {"passes/rewriting/names.py", "runtime/splicing.py"}
# A table of its own: what XLA computes again for each reader.
MATCHES |= {"passes/reports/memory.py"}
OPERATION = re.compile(r"(?:stablehlo|chlo)\.[a-z_]+\Z")


def _listed(node: ast.AST) -> list[str]:
    """The operations that a collection names, or that one is made of by `f"stablehlo.{name}"`."""
    if isinstance(node, ast.GeneratorExp | ast.ListComp | ast.SetComp | ast.DictComp):
        made = ast.unparse(node.key if isinstance(node, ast.DictComp) else node.elt)
        over = ast.unparse(node.generators[0].iter)
        return re.findall(r"\w+", over) if "stablehlo." in made else []
    parts = node.keys if isinstance(node, ast.Dict) else getattr(node, "elts", [])
    texts = [part.value for part in parts if isinstance(part, ast.Constant)]
    return [t for t in texts if isinstance(t, str) and OPERATION.match(t)]


def test_facts_of_operations_stand_in_their_table() -> None:
    for source in COMPILER_SOURCES:
        if source.startswith("passes/ops/") or source in MATCHES:
            continue
        for node in _nodes(source):
            listed = _listed(node)
            where = f"{source}:{getattr(node, 'lineno', 0)}"
            assert len(listed) < 3, f"{where} lists {listed}; say it in their OpDef"


def test_operations_are_called_by_their_names() -> None:
    # What matches a name that no operation has matches nothing, and nobody is told.
    with make_context() as context:
        for source in COMPILER_SOURCES:
            for node in _nodes(source):
                text = node.value if isinstance(node, ast.Constant) else None
                if isinstance(text, str) and OPERATION.match(text) and not text.endswith("_"):
                    is_known = context.is_registered_operation(text)
                    assert is_known, f"{source}: there is no operation {text}"
