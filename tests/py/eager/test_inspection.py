"""Questions about arrays, and relayouting one like another."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dtensor
from dtensor import LayoutError
from dtensor.compiler.relayout import relayout_like
from dtensor.runtime.clients.config import device_name
from dtensor.runtime.transfer import check_layout, is_dtensor
from tests.py.eager.support import MESH_2X4, MESH_3X2, assert_same, layout, message, placed

VALUES = np.arange(24, dtype=np.float32).reshape(6, 4)


def test_is_dtensor() -> None:
    assert is_dtensor(placed(VALUES, MESH_3X2))
    assert not any(map(is_dtensor, (VALUES, jnp.ones(3), 1.0, None, [placed(1.0, MESH_3X2)])))


def test_check_layout() -> None:
    x = placed(VALUES, MESH_3X2, "x", "y")
    check_layout(x, layout(MESH_3X2, "x", "y"))
    check_layout(x.to_jax(), layout(MESH_3X2, "x", "y"))
    expected = layout(MESH_3X2, "y", "x")
    text = message(lambda: check_layout(x, expected), LayoutError)
    assert text == (
        'Layout of tensor: [{"x"}, {"y"}], did not match expected layout: [{"y"}, {"x"}]; bring it '
        "there with dtensor.relayout(tensor, layout)"
    )
    text = message(lambda: check_layout(x, layout(MESH_2X4, "x", "y")), LayoutError)
    assert 'layout: [{"x"}, {"y"}] on mesh(x=2, y=4); bring' in text
    with pytest.raises(ValueError, match="a ndarray that lies on no mesh has no layout, and"):
        check_layout(VALUES, expected)


def test_no_array_has_priorities() -> None:
    asked = layout(MESH_3X2, "x@1", "y@2")
    check_layout(placed(VALUES, MESH_3X2, "x", "y"), asked)
    text = message(lambda: check_layout(placed(VALUES, MESH_3X2, "y", "x"), asked), LayoutError)
    assert asked.short() in text


def test_device_name() -> None:
    assert device_name() == "/job:localhost/replica:0/task:0/device:CUSTOM:0"


def test_relayout_like_follows_layout_and_mesh() -> None:
    x = placed(VALUES, MESH_3X2, "x", "y")
    model = placed(np.zeros((4, 8), bool), MESH_2X4, None, "y")
    like = relayout_like(x, model)
    assert like.layout == model.layout
    assert_same(like, VALUES)
    same = placed(np.zeros((2, 3)), MESH_3X2, "y", None)
    assert relayout_like(x, same, "name").layout == same.layout


def test_relayout_like_in_a_traced_function_needs_a_known_layout() -> None:
    x, model = placed(VALUES, MESH_3X2, "x", "y"), placed(VALUES, MESH_3X2, "y", None)
    made = dtensor.jit(lambda x: relayout_like(x * 2, model))(x)
    assert made.layout == model.layout
    assert_same(made, VALUES * 2)
    with pytest.raises(TypeError, match="relayout_like got a traced layout_tensor"):
        jax.jit(relayout_like)(VALUES, VALUES)


def test_relayout_like_needs_a_model_on_a_mesh_of_the_same_rank() -> None:
    x = placed(VALUES, MESH_3X2, "x", "y")
    text = message(lambda: relayout_like(x, VALUES), LayoutError)
    assert text.startswith("relayout_like got a layout_tensor of type ndarray, which lies on no")
    with pytest.raises(LayoutError, match="rank"):
        relayout_like(x, placed(VALUES[0], MESH_3X2))
