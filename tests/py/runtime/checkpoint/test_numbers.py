"""Numbers of the program where the checkpoint has arrays, and the other way round."""

from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from dtensor.dialect.errors import CheckpointError
from dtensor.dialect.layout import Layout
from dtensor.runtime.checkpoint.checkpoint import DTensorCheckpoint
from dtensor.runtime.checkpoint.named import name_based_restore
from dtensor.runtime.variables.variable import DVariable
from tests.py.runtime.checkpoint.arrays import mesh_8, put, whole


def restored(tmp_path: Path, saved: dict[str, Any], fresh: dict[str, Any]) -> dict[str, Any]:
    path = DTensorCheckpoint(mesh_8(), t=saved).write(tmp_path / "c")
    DTensorCheckpoint(mesh_8(), t=fresh).read(path).assert_consumed()
    return fresh


def test_a_number_takes_the_value_of_an_array_and_stays_a_number(tmp_path: Path) -> None:
    saved = {
        "step": put(np.int32(7), [], mesh_8()),
        "rate": jnp.float32(0.5),
        "scale": np.int32(3),
        "done": np.bool_(True),
    }
    found = restored(tmp_path, saved, {"step": 0, "rate": 1.0, "scale": 1.0, "done": False})
    assert {name: (type(v), v) for name, v in found.items()} == {
        "step": (int, 7),
        "rate": (float, 0.5),
        "scale": (float, 3.0),
        "done": (bool, True),
    }


def test_an_array_takes_the_value_of_a_number_and_stays_an_array(tmp_path: Path) -> None:
    mesh = mesh_8()
    variable = DVariable(np.int32(0), layout=Layout([], mesh))
    fresh = {
        "step": put(np.int32(0), [], mesh),
        "rate": jnp.bfloat16(1),
        "scale": np.float32(1),
        "v": variable,
    }
    found = restored(tmp_path, {"step": 7, "rate": 0.5, "scale": 3, "v": 9}, fresh)
    assert found["step"].layout == Layout([], mesh)
    assert found["step"].dtype == np.int32
    assert int(whole(found["step"])) == 7
    assert found["rate"].dtype == jnp.bfloat16
    assert float(found["rate"]) == 0.5
    assert type(found["scale"]) is np.float32
    assert found["scale"] == 3
    assert found["v"] is variable
    assert int(variable) == 9


def test_what_cannot_take_the_place_of_the_other_says_what_to_hold(tmp_path: Path) -> None:
    mesh = mesh_8()
    saved = {"n": 1, "r": 0.5, "s": "text", "big": 2**40, "a": np.ones(8, np.float32)}
    saved["f"] = np.float32(0.5)
    path = DTensorCheckpoint(mesh, saved).write(tmp_path / "c")
    cases = [
        ("a", 1, "an array of float32[8], but 1 is to be replaced, a number; hold an array of flo"),
        ("f", 1, "an array of float32[], but 1 is to be replaced, a number; hold an array of floa"),
        ("f", "x", "an array of float32[], but 'x' is to be replaced, a text; hold an array of f"),
        ("f", True, "an array of float32[], but True is to be replaced, a number"),
        ("n", np.ones(8, np.int32), "the number 1, but an array of int32[8] is needed; hold a num"),
        (
            "n",
            np.bool_(True),
            "the number 1, but an array of bool[] is needed; hold a number there",
        ),
        ("r", np.int32(1), "the number 0.5, but an array of int32[] is needed; hold a number"),
        ("s", np.int32(1), "the text 'text', but an array of int32[] is needed; hold a text"),
        ("big", np.int32(1), "the number 1099511627776, but an array of int32[] is needed"),
    ]
    for name, fresh, message in cases:
        with pytest.raises(CheckpointError) as caught:
            DTensorCheckpoint(mesh, {name: fresh}).read(path)
        assert f"'{name}' of checkpoint {path} is {message}" in str(caught.value)
    with pytest.raises(CheckpointError, match="is the number 1, but an array is needed; hold a nu"):
        name_based_restore(mesh, path, {"n": Layout([], mesh)})


def test_a_missing_number_lists_the_arrays_too(tmp_path: Path) -> None:
    path = DTensorCheckpoint(mesh_8(), steps=np.int32(1), n=2).write(tmp_path / "c")
    with pytest.raises(CheckpointError) as caught:
        DTensorCheckpoint(mesh_8(), step=1).read(path)
    sentence = "has no value 'step'; did you mean 'steps'?; it has 'n', 'steps'"
    assert sentence in str(caught.value)
