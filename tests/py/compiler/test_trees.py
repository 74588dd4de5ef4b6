"""Where two trees differ, in words."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, NamedTuple

import jax
import numpy as np
import pytest

import dtensor
from dtensor.compiler.trees import Difference, Leaf, first_difference
from dtensor.dialect.layout import Layout
from dtensor.runtime.client import create_mesh

MESH = create_mesh([("x", 2), ("y", 4)])


class Pair(NamedTuple):
    w: Any
    b: Any


@pytest.mark.parametrize(
    ("given", "needed", "path", "found", "wanted"),
    [
        ((1,), (1, 1), "", "a tuple of 1", "a tuple of 2"),
        ([1, 1], (1, 1), "", "a list of 2", "a tuple of 2"),
        ({"a": [1, {"b": 1}]}, {"a": [1, {"c": 1}]}, "['a'][1]", "a dict with 'b'", "... 'c'"),
        ({"a": 1}, {"a": 1, "b": 1, "c": 1}, "", "a dict without 'b', 'c'", "... 'b', 'c'"),
        ({k: 1 for k in "abcdefg"}, {"a": 1}, "", "... 'b', 'c', 'd', 'e' and 2 more", "... more"),
        ({"a": None}, {"a": 1}, "['a']", "None", "one array"),
        ({"a": 1}, {"a": None}, "['a']", "a leaf of type int", "None"),
        (Pair(1, {}), Pair(1, 1), ".b", "a dict with no keys", "one array"),
        ((1, 1), Pair(1, 1), "", "a tuple of 2", "a Pair of 2"),
        (
            OrderedDict(b=1, a=1),
            OrderedDict(a=1, b=1),
            "",
            "a OrderedDict with 'b', 'a'",
            "a OrderedDict with 'a', 'b'",
        ),
    ],
)
def test_the_first_difference(given: Any, needed: Any, path: str, found: str, wanted: str) -> None:
    leaves = jax.tree.map(lambda _: Leaf(), needed)
    difference = first_difference(given, leaves, lambda _: False, lambda _: False)
    assert isinstance(difference, Difference)
    assert difference.path == path
    assert difference.found.endswith(found.removeprefix("..."))
    assert difference.needed.endswith(wanted.removeprefix("..."))


def test_what_fits_has_no_difference() -> None:
    tree = {"a": [Leaf(), None], "b": Pair(Leaf(), ())}
    given = {"a": [1, None], "b": Pair(2, ())}
    assert first_difference(given, tree, lambda _: False, lambda _: False) is None
    assert first_difference({"a": 1, "b": 2}, tree, lambda v: v in (1, 2), lambda _: False) is None


def test_a_program_with_a_variable_tells_where_a_call_differs() -> None:
    rows = Layout(["x", None], MESH)
    a = np.ones((4, 8), np.float32)
    v = dtensor.DVariable(dtensor.copy_to_mesh(a, rows))
    compiled = dtensor.jit(lambda p, a: p["v"] + p["w"] + a).lower({"v": v, "w": a}, a).compile()
    message = r"args\[0\]: compiled for a dict with 'w', called with a dict without 'w'"
    with pytest.raises(TypeError, match=message):
        compiled({"v": v}, a)
    with pytest.raises(TypeError, match="the keyword arguments: compiled for a dict without 'b'"):
        compiled({"v": v, "w": a}, a, b=a)
