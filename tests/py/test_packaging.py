"""The wheel and the source archive: built here, installed in a clean environment, and run."""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from importlib import metadata
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS: dict[str, list[str]] = PROJECT["optional-dependencies"]

PROGRAM = """
import sys
import numpy as np
import dtensor
import jax
dtensor.initialize_accelerator_system("CPU", num_logical_cpu_devices=8)
mesh = dtensor.create_mesh([("x", 8)])
rows, columns = dtensor.Layout(["x", None], mesh), dtensor.Layout([None, "x"], mesh)
step = dtensor.jit(lambda a, b: a @ b, in_layouts=(columns, rows), out_layouts=rows)
a, b = np.ones((8, 16), np.float32), np.ones((16, 4), np.float32)
print(dtensor.__file__, [c.kind for c in step.lower(a, b).compile().collectives])
assert float(step(a, b).unpack()[0][0, 0]) == 16
"""


def run(*words: str | Path, cwd: Path) -> str:
    done = subprocess.run([str(word) for word in words], cwd=cwd, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def archives(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The wheel and the source archive, built without a network."""
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "hatchling", "build", "-d", folder, cwd=ROOT)
    (wheel,), (source,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    return wheel, source


def contents(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def test_the_wheel_holds_the_package_and_nothing_else(archives: tuple[Path, Path]) -> None:
    names = set(contents(archives[0]))
    assert {name.partition("/")[0] for name in names} == {
        "dtensor",
        f"dtensor_mlir-{PROJECT['version']}.dist-info",
    }
    sources = {
        path.relative_to(ROOT).as_posix()
        for folder in ("dtensor", *(f"dtensor/{p.name}" for p in (ROOT / "dtensor").iterdir()))
        for path in (ROOT / folder).rglob("*.py")
    }
    assert {name for name in names if name.endswith(".py")} == sources
    assert {"dtensor/py.typed", "dtensor/compiler/report/page.html"} <= names
    assert not [name for name in names if name.endswith((".sh", ".pyc"))]


def test_the_source_archive_makes_the_same_wheel(
    archives: tuple[Path, Path], tmp_path: Path
) -> None:
    wheel, source = archives
    with tarfile.open(source) as archive:
        archive.extractall(tmp_path, filter="data")
    (tree,) = tmp_path.iterdir()
    for name in ("README.md", "LICENSE", "docs/conf.py", "examples/mlp.py", "tests/py/conftest.py"):
        assert (tree / name).is_file(), f"the source archive lacks {name}"
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", tmp_path, cwd=tree)
    (again,) = tmp_path.glob("*.whl")
    assert contents(again) == contents(wheel)


@pytest.mark.slow
def test_the_wheel_runs_in_a_clean_environment(archives: tuple[Path, Path], tmp_path: Path) -> None:
    run(sys.executable, "-m", "venv", tmp_path / "venv", cwd=tmp_path)
    python = tmp_path / "venv" / "bin" / "python"
    # jax and what it needs are those of this environment, by a link to each: nothing is fetched,
    # and no editable dtensor comes along.
    (site,) = (tmp_path / "venv" / "lib").glob("python*/site-packages")
    for name in needed("jax"):
        for file in {f.parts[0] for f in metadata.files(name) or () if f.parts[0] not in ("..",)}:
            found = Path(str(metadata.distribution(name).locate_file(file)))
            if found.exists() and not (site / file).exists() and file != "__pycache__":
                (site / file).symlink_to(found)
    install = ["-m", "pip", "install", "--quiet", "--no-index", "--disable-pip-version-check"]
    run(python, *install, archives[0], cwd=tmp_path)
    printed = run(python, "-c", PROGRAM, cwd=tmp_path)
    assert printed.split()[0] == str(site / "dtensor" / "__init__.py")
    assert "reduce_scatter" in printed
    tools = tmp_path / "venv" / "bin"
    module = "func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> { return %a : tensor<4xf32> }"
    (tmp_path / "module.mlir").write_text(module, encoding="utf-8")
    assert "func.func @main" in run(tools / "dtensor-opt", "module.mlir", "--cse", cwd=tmp_path)
    assert "--verify" in run(tools / "dtensor-run", "--help", cwd=tmp_path)
    assert "--max-restarts" in run(tools / "dtensor-launch", "--help", cwd=tmp_path)


def needed(package: str) -> set[str]:
    """A package and all that it needs, without extras."""
    found: set[str] = set()
    waiting = [package]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            for line in metadata.requires(name) or ():
                if "extra ==" not in line and "python_version <" not in line:
                    waiting.append(re.split(r"[^\w.-]", line, maxsplit=1)[0])
    return found


def test_extras_take_no_other_jax() -> None:
    (supported,) = (d.removeprefix("jax") for d in PROJECT["dependencies"] if d.startswith("jax"))
    for extra, lines in EXTRAS.items():
        for line in lines:
            if re.match(r"jax\b(?!-)", line):
                assert line.partition("]")[2] == supported, f"extra {extra} has {line}"


def test_a_package_has_the_same_bounds_in_every_extra() -> None:
    bounds: dict[str, set[str]] = {}
    for line in (line for lines in EXTRAS.values() for line in lines):
        name = re.split(r"[^\w-]", line, maxsplit=1)[0]
        bounds.setdefault(name, set()).add(line.partition("]")[2] or line[len(name) :])
    assert {name: found for name, found in bounds.items() if len(found) > 1} == {}


def test_nothing_says_that_an_index_has_this_package() -> None:
    folders = ["compiler", "dialect", "passes", "runtime", "tools", "docs", "examples"]
    files = [f for folder in folders for f in (ROOT / folder).rglob("*")] + list(ROOT.glob("*.md"))
    for file in files:
        if file.suffix in (".py", ".md", ".ipynb"):
            text = file.read_text(encoding="utf-8")
            assert not re.search(r"pip install [^\n`]*dtensor", text), file
