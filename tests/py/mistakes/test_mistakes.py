"""Mistakes that users make, and the one sentence that each is answered with.

`mistakes.txt` is the table: what the user wrote, and below it, indented, the error. `...` stands
for what differs between machines and versions.
"""

from __future__ import annotations

import os
import re
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import AxisType, NamedSharding, PartitionSpec

import dtensor
from dtensor.tools import dtensor_opt

TABLE = Path(__file__).with_name("mistakes.txt")
OURS = tuple(str(Path(dtensor.__file__).parents[i]) + os.sep for i in (0, 1))
AT_LEAST = 300


class Mistake(NamedTuple):
    """Lines of Python, and the error they end in, `Type: sentence`."""

    written: str
    answer: str


def read_table() -> Iterator[Mistake]:
    written: list[str] = []
    for line in TABLE.read_text(encoding="utf-8").splitlines():
        if line.startswith("    "):
            yield Mistake("\n".join(written), line.strip())
            written = []
        elif line and not line.startswith("# "):
            written.append(line)


MISTAKES = list(read_table())


def environment(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    def set_variables(**variables: str) -> None:
        for name, value in variables.items():
            monkeypatch.setenv(name, value)

    return set_variables


class OptError(Exception):
    """What dtensor-opt wrote to stderr."""


@pytest.fixture
def names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> dict[str, Any]:
    """What the table's lines can speak of: dtensor's names, some arrays, layouts and programs."""
    mesh = dtensor.create_mesh([("x", 2), ("y", 4)])
    rows = dtensor.Layout(["x", None], mesh)
    a, b = (np.arange(n * 4, dtype=np.float32).reshape(n, 4) for n in (8, 4))
    module = (
        "func.func @main(%a: tensor<8x6xf32>) -> tensor<8x6xf32> {\n"
        "  return %a : tensor<8x6xf32>\n}\n"
    )

    def opt(text: str, *words: str) -> None:
        file = tmp_path / "program.mlir"
        file.write_text(text)
        capfd.readouterr()
        if dtensor_opt.run([str(file), *words]):
            raise OptError(capfd.readouterr().err.splitlines()[0].replace(f"{tmp_path}/", ""))

    def saved() -> Path:
        dtensor.name_based_save(mesh, str(tmp_path), {"w": dtensor.copy_to_mesh(a, rows)})
        return tmp_path

    own: dict[str, Any] = {name: getattr(dtensor, name) for name in dtensor.__all__}
    return {
        **own,
        "dtensor": dtensor,
        "jax": jax,
        "jnp": jnp,
        "lax": jax.lax,
        "np": np,
        "P": PartitionSpec,
        "NamedSharding": NamedSharding,
        "AxisType": AxisType,
        "jax_mesh": jax.make_mesh((2, 4), ("x", "y"), axis_types=(AxisType.Auto,) * 2),
        "mesh": mesh,
        "other": dtensor.create_mesh([("x", 4), ("y", 2)]),
        "rows": rows,
        "columns": dtensor.Layout([None, "y"], mesh),
        "a": a,
        "b": b,
        "x": dtensor.copy_to_mesh(a, rows),
        "whole": dtensor.copy_to_mesh(a, dtensor.Layout([None, None], mesh)),
        "matmul": lambda a, b: a @ b,
        "dense": lambda params, x: x @ params["w"] + params["b"],
        "params": {"w": np.ones((4, 8), np.float32), "b": np.ones(8, np.float32)},
        "module": module,
        "sharded": 'sdy.mesh @mesh = <["x"=2, "y"=4]>\n' + module,
        "opt": opt,
        "saved": saved,
        "folder": str(tmp_path / "nothing"),
        "setenv": environment(monkeypatch),
    }


def test_the_table_is_long_enough() -> None:
    assert len({mistake.written for mistake in MISTAKES}) == len(MISTAKES) >= AT_LEAST


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda m: m.written.replace("\n", "; "))
def test_a_mistake_is_answered_in_one_sentence(mistake: Mistake, names: dict[str, Any]) -> None:
    with pytest.raises(Exception) as caught:  # noqa: PT011 - the table has the type
        exec(compile(mistake.written, "mistake.py", "exec"), names)
    error = caught.value
    text = str(error)
    if isinstance(error, dtensor.PipelineError):  # below the sentence, the pipeline and a caret
        text = text.split("\n", 1)[0]
    name = type(error).__name__
    pattern = ".*".join(map(re.escape, mistake.answer.split("...")))
    assert re.fullmatch(pattern, f"{name}: {text}"), f"{name}: {text}"  # and one line: no DOTALL
    last = traceback.extract_tb(error.__traceback__)[-1].filename
    assert last == "mistake.py" or last.startswith(OURS), f"a traceback from the depths: {last}"
    assert error.__cause__ is None
    assert error.__context__ is None or error.__suppress_context__
