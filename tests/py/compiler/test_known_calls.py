"""Calls like those before, which are found again without asking each argument."""

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import jax
import numpy as np
import pytest

from dtensor import DTensor, Layout, copy_to_mesh, create_mesh, jit

MESH = create_mesh([("x", 2), ("y", 3)])
ROWS, COLUMNS = Layout(["x", None], MESH), Layout([None, "y"], MESH)
VALUES = np.arange(24, dtype=np.float32).reshape(4, 6)


def array(layout: Layout = ROWS, factor: int = 1) -> DTensor:
    return copy_to_mesh(VALUES * factor, layout)


def values(x: DTensor) -> np.ndarray[Any, Any]:
    return np.asarray(x.to_jax())


def python_calls(call: Callable[[], Any]) -> int:
    """How many functions written in Python a call enters."""
    entered = []

    def note(frame: FrameType, event: str, arg: Any) -> None:
        if event == "call":
            entered.append(frame.f_code.co_qualname)

    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
    return len(entered)


@pytest.mark.parametrize("stage", ["jit", "compiled"])
def test_no_python_is_called_for_each_array(stage: str) -> None:
    def step(xs: list[jax.Array]) -> list[jax.Array]:
        return [x + 1 for x in xs]

    calls = []
    for count in (1, 16):
        xs = [array() for _ in range(count)]
        run: Any = jit(step)
        if stage == "compiled":
            run = run.lower(xs).compile()
        run(xs)
        calls.append(python_calls(lambda run=run, xs=xs: run(xs)))  # type: ignore[misc]
    assert calls[0] == calls[1] < 16


def test_arguments_by_position_are_not_taken_for_those_by_keyword() -> None:
    @jit
    def step(*xs: Any, **named: Any) -> Any:
        if named:
            return xs[0] - named["k"]
        return xs[0][0] * xs[1]["k"]

    a, b = array(), array(factor=3)
    for _ in range(2):
        np.testing.assert_array_equal(values(step(a, k=b)), VALUES - VALUES * 3)
        np.testing.assert_array_equal(values(step((a,), {"k": b})), VALUES * VALUES * 3)


def test_layouts_types_and_structures_alternate() -> None:
    @jit
    def step(tree: Any) -> Any:
        return jax.tree.map(lambda x: x * 2, tree)

    trees: list[Any] = [
        [array(ROWS), array(COLUMNS)],
        [array(COLUMNS), array(ROWS)],
        (array(ROWS), array(COLUMNS)),
        {"a": array(ROWS), "b": None},
        {"a": array(ROWS), "c": None},
        [copy_to_mesh(VALUES.astype(np.int32), ROWS)],
    ]
    for _ in range(3):
        for tree in trees:
            result = step(tree)
            assert str(jax.tree.structure(result)) == str(jax.tree.structure(tree))
            for given, made in zip(jax.tree.leaves(tree), jax.tree.leaves(result), strict=True):
                np.testing.assert_array_equal(np.asarray(made), np.asarray(given) * 2)
    assert len(step._programs) == len(trees)


class Pair:
    """A node of jax's trees that looks like a DTensor to whoever asks for its type only."""

    def __init__(self, first: Any, second: Any) -> None:
        self.first, self.second = first, second
        self._type = getattr(first, "_type", None)


jax.tree_util.register_pytree_node(
    Pair, lambda pair: ((pair.first, pair.second), None), lambda _, children: Pair(*children)
)


@pytest.mark.parametrize("stage", ["jit", "compiled"])
def test_a_node_of_a_registered_class_is_opened_each_time(stage: str) -> None:
    def step(x: Any) -> Any:
        return x.first - x.second if isinstance(x, Pair) else x * 5

    run: Any = jit(step)
    a, b = array(), array(factor=4)
    pairs = run.lower(Pair(a, b)).compile() if stage == "compiled" else run
    for _ in range(3):
        np.testing.assert_array_equal(values(run(a)), VALUES * 5)
        np.testing.assert_array_equal(values(pairs(Pair(a, b))), VALUES - VALUES * 4)
        np.testing.assert_array_equal(values(pairs(Pair(b, a))), VALUES * 4 - VALUES)


def test_a_setting_of_jax_that_changes_is_seen() -> None:
    step = jit(lambda x: x + np.float64(1) / 3)
    x = copy_to_mesh(np.arange(4, dtype=np.int32), Layout(["x"], MESH))
    for _ in range(2):
        assert step(x).dtype == np.float32
        with jax.enable_x64(True):
            assert step(x).dtype == np.float64


def test_a_deleted_array_of_a_known_call_is_named() -> None:
    step = jit(lambda tree: tree["a"] + tree["b"])
    a, b = array(), array(factor=2)
    step({"a": a, "b": b})
    b.to_jax().delete()
    with pytest.raises(RuntimeError, match=r"argument tree\['b'\] is deleted"):
        step({"a": a, "b": b})
