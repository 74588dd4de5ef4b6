"""`dtensor.visualize` and what notebooks show of arrays."""

from __future__ import annotations

import io
import sys
import xml.etree.ElementTree as ElementTree
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import NamedSharding, PartitionSpec

import dtensor
from dtensor import Layout, LayoutError

MESH = dtensor.create_mesh([("x", 2), ("y", 4)])


def printed(capsys: pytest.CaptureFixture[str], *args: Any, **kwargs: Any) -> list[str]:
    dtensor.visualize(*args, **kwargs)
    return capsys.readouterr().out.splitlines()


def test_an_array_in_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    x = dtensor.copy_to_mesh(np.ones((4, 24), np.float32), Layout(["x", "y"], MESH))
    assert printed(capsys, x) == [
        'float32 4x24, [{"x"}, {"y"}] on mesh(x=2, y=4)',
        "↓ dimension 0: 4 over x (2)",
        "→ dimension 1: 24 over y (4)",
        "┌─────┬─────┬──────┬───────┬───────┐",
        "│     │ 0:6 │ 6:12 │ 12:18 │ 18:24 │",
        "├─────┼─────┼──────┼───────┼───────┤",
        "│  0:2│  0  │  1   │   2   │   3   │",
        "├─────┼─────┼──────┼───────┼───────┤",
        "│  2:4│  4  │  5   │   6   │   7   │",
        "└─────┴─────┴──────┴───────┴───────┘",
    ]


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_a_terminal_without_unicode(encoding: str, monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    monkeypatch.setattr(sys, "stdout", out)
    dtensor.visualize(Layout(["x", "y"], MESH))
    out.seek(0)
    text = out.read()
    assert text.isascii()
    assert "v dimension 0 over x (2)\n> dimension 1 over y (4)\n" in text


def test_a_terminal_gets_colors_one_for_each_shard(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLORTERM", "truecolor")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    text = "\n".join(printed(capsys, Layout(["y"], MESH)))
    assert len({part.partition("m")[0] for part in text.split("48;2;")[1:]}) == 4


def test_layouts_with_and_without_a_shape(capsys: pytest.CaptureFixture[str]) -> None:
    layout = Layout([None, "y"], MESH)
    lines = printed(capsys, layout, (3, 8))
    assert lines[0] == '3x8, [{}, {"y"}] on mesh(x=2, y=4)'
    assert "│  0:3│ 0, 4 │ 1, 5 │ 2, 6 │ 3, 7 │" in lines
    assert lines[-1] == "replicated over x"
    assert printed(capsys, layout)[2] == "→ dimension 1 over y (4)"


def test_meshes_variables_and_scalars(capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(capsys, MESH)[0] == "Mesh(x=2, y=4)"
    value = dtensor.copy_to_mesh(np.ones((2, 4)), Layout(["x", None], MESH))
    lines = printed(capsys, dtensor.DVariable(value))
    assert any("0-3" in line for line in lines)
    scalar = dtensor.copy_to_mesh(np.float32(1), Layout([], MESH))
    lines = printed(capsys, scalar)
    assert lines[0] == "float32 scalar, [] on mesh(x=2, y=4)"
    assert lines[-1] == "replicated: every device holds all of it"


def test_jax_arrays_of_any_sharding(capsys: pytest.CaptureFixture[str]) -> None:
    mesh = jax.make_mesh((2, 4), ("x", "y"))
    named = jax.device_put(np.ones((4, 8)), NamedSharding(mesh, PartitionSpec("x", "y")))
    assert printed(capsys, named)[0].endswith('4x8, [{"x"}, {"y"}] on mesh(x=2, y=4)')
    with dtensor.default_mesh(MESH):
        lines = printed(capsys, PartitionSpec("x"), (4, 8))
    assert lines == printed(capsys, Layout(["x", None], MESH), (4, 8))
    assert lines == printed(capsys, NamedSharding(mesh, PartitionSpec("x")), (4, 8))
    with pytest.raises(LayoutError, match="names axes, but no mesh is known; give a mesh"):
        dtensor.visualize(PartitionSpec("x"))
    strange = jax.make_mesh((2, 4), ("an axis", "y/z"))  # names that no mesh of dtensor's has
    other = jax.device_put(np.ones((4, 8)), NamedSharding(strange, PartitionSpec("an axis", "y/z")))
    for array, devices in ((jnp.ones((3, 4)), 1), (other, 8)):
        text = "".join(printed(capsys, array))
        assert all(f"CPU {device}" in text for device in range(devices))
    with pytest.raises(dtensor.LayoutError, match="dims was given with a sharding that is no lay"):
        dtensor.visualize(other, dims=(0,))


def test_the_dimensions_can_be_chosen(capsys: pytest.CaptureFixture[str]) -> None:
    lines = printed(capsys, Layout(["x", None, "y"], MESH), (2, 3, 8), dims=(2, 1))
    assert lines[1:3] == ["↓ dimension 2: 8 over y (4)", "→ dimension 1: 3, whole"]


def test_a_notebook_gets_html(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shown: list[str] = []
    kernel = SimpleNamespace(kernel=object())
    display = SimpleNamespace(display=shown.append, HTML=lambda text: text)
    ipython = SimpleNamespace(get_ipython=lambda: kernel, display=display)
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "rich", None)  # a notebook needs none
    dtensor.visualize(Layout(["x"], MESH))
    (html,) = shown
    assert ElementTree.fromstring(html).findtext("p/code") == '[{"x"}] on mesh(x=2, y=4)'
    assert capsys.readouterr().out == ""


def test_a_terminal_of_ipython_is_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ipython = SimpleNamespace(get_ipython=lambda: SimpleNamespace())
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    assert printed(capsys, MESH)[0] == "Mesh(x=2, y=4)"


def test_without_rich_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rich", None)
    with pytest.raises(dtensor.NotFoundError, match=r"of the extra tools, .* pip install rich"):
        dtensor.visualize(MESH)


def test_what_is_no_array_is_refused() -> None:
    with pytest.raises(
        TypeError, match=r"visualize got a value of type ndarray; give it a DTensor, a jax\.Array"
    ):
        dtensor.visualize(np.ones(3))
    with pytest.raises(TypeError, match="outside of traced functions"):
        jax.jit(dtensor.visualize)(1.0)
    with pytest.raises(dtensor.LayoutError, match="shape was given with a Mesh"):
        dtensor.visualize(MESH, (3,))


def test_an_array_in_a_notebook() -> None:
    x = dtensor.copy_to_mesh(np.arange(4, dtype=np.float32), Layout(["x"], MESH))
    root = ElementTree.fromstring(x._repr_html_())
    assert root.findtext("p/code") == 'float32 4, [{"x"}] on Mesh(x=2, y=4)'
    assert root.find("div/{http://www.w3.org/2000/svg}svg") is not None
    assert root.findtext("details/pre") == "[0:2] [0. 1.]\n[2:4] [2. 3.]"


def test_a_deleted_array_and_keys_in_a_notebook() -> None:
    x = dtensor.copy_to_mesh(np.ones(4), Layout(["x"], MESH))
    x.to_jax().delete()
    assert "deleted: its buffers were donated" in x._repr_html_()
    keys = dtensor.copy_to_mesh(jax.random.split(jax.random.key(0), 4), Layout(["x"], MESH))
    assert "key&lt;fry&gt;" in keys._repr_html_()
