"""Layouts by name."""

import jax
import numpy as np
import pytest

from dtensor.compiler.layouts import layouts_by_name
from dtensor.dialect.errors import LayoutError
from dtensor.dialect.layout import UNSHARDED, Layout
from dtensor.dialect.mesh import Mesh
from dtensor.runtime.client import create_mesh
from dtensor.runtime.transfer import place

MESH = Mesh({"data": 2, "model": 4})
TREE = {
    "embed": np.zeros((16, 8)),
    "layers": [{"attn": {"wq": jax.ShapeDtypeStruct((8, 12), np.float32), "bias": np.zeros(12)}}],
    "scale": 1.0,
}
COLUMNS = Layout([UNSHARDED, "model"], MESH)


def test_the_first_rule_that_matches_wins_and_the_rest_is_replicated() -> None:
    rules = [("attn/wq$", [UNSHARDED, "model"]), ("embed|wq", ["model", UNSHARDED])]
    assert layouts_by_name(TREE, rules, MESH) == {
        "embed": Layout(["model", UNSHARDED], MESH),
        "layers": [{"attn": {"wq": COLUMNS, "bias": Layout.replicated(MESH, 1)}}],
        "scale": Layout.replicated(MESH, 0),
    }
    assert layouts_by_name(TREE, dict(rules), MESH) == layouts_by_name(TREE, rules, MESH)


def test_paths_count_list_elements() -> None:
    layouts = layouts_by_name(TREE, [("^layers/0/attn/wq$", COLUMNS)], MESH)
    assert layouts["layers"][0]["attn"]["wq"] == COLUMNS


def test_dtensors_are_leaves() -> None:
    mesh = create_mesh([("data", 2), ("model", 4)])
    tree = {"w": place(np.zeros((4, 4)), Layout.replicated(mesh, 2))}
    assert layouts_by_name(tree, [("^w$", ["model", UNSHARDED])], mesh) == {
        "w": Layout(["model", UNSHARDED], mesh)
    }


def test_a_rule_that_matches_nothing_is_an_error_that_names_it() -> None:
    with pytest.raises(
        LayoutError, match=r"rule 'atn/wq' matches no leaf; the leaves are 'embed', 'layers/0/attn/"
    ):
        layouts_by_name(TREE, [("embed", ["model", UNSHARDED]), ("atn/wq", COLUMNS)], MESH)


def test_a_rule_behind_another_is_an_error_that_says_so() -> None:
    with pytest.raises(LayoutError, match="rule 'wq' has no effect: earlier rules took the 1 leav"):
        layouts_by_name(TREE, [("attn/w", COLUMNS), ("wq", COLUMNS)], MESH)


def test_a_layout_that_does_not_fit_names_rule_and_leaf() -> None:
    with pytest.raises(
        LayoutError,
        match=r"rule 'embed' for 'embed': a tensor of shape \[16, 8\] .*: layout has 1 dimensions",
    ):
        layouts_by_name(TREE, [("embed", ["model"])], MESH)
    with pytest.raises(LayoutError, match="rule 'e' for 'embed': layout names axis \"mdl\""):
        layouts_by_name(TREE, [("e", ["mdl", UNSHARDED])], MESH)
    with pytest.raises(LayoutError, match="dimension 0 has 7 elements, not divisible by the 12"):
        layouts_by_name({"a": np.zeros(7)}, [("a", [(3, "model")])], MESH)
