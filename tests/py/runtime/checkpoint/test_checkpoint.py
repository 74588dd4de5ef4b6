"""DTensorCheckpoint: variables, arrays, trees and objects, saved and put back in place."""

import os
from collections import namedtuple
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from dtensor.dialect.errors import CheckpointError, MeshError
from dtensor.runtime.checkpoint.checkpoint import DTensorCheckpoint
from dtensor.runtime.checkpoint.named import list_checkpoint, name_based_restore
from dtensor.runtime.checkpoint.series import latest_checkpoint
from dtensor.runtime.variables.variable import DVariable
from tests.py.runtime.checkpoint.arrays import mesh_2x4, mesh_8, put, ramp, whole


class Layer:
    def __init__(self, mesh: Any, scale: float = 1) -> None:
        self.kernel = DVariable(put(ramp(8, 12) * scale, ["x", "y"], mesh))
        self.bias = put(ramp(12) * scale, [None], mesh)
        self.units = 12
        self.activation = jnp.tanh
        self.parent: object = self


class Model:
    def __init__(self, mesh: Any, scale: float = 1) -> None:
        self.layers = [Layer(mesh, scale), Layer(mesh, scale + 1)]
        self.name = "model"


def test_variables_are_assigned_and_keep_their_layouts(tmp_path: Path) -> None:
    mesh, other = mesh_2x4(), mesh_8()
    model = Model(mesh)
    path = DTensorCheckpoint(mesh, model=model).write(tmp_path / "c")
    assert list(list_checkpoint(path)) == [
        f"model/layers/{i}/{name}" for i in (0, 1) for name in ("kernel", "bias")
    ]
    fresh = Model(mesh, 5)
    kernel = fresh.layers[1].kernel
    DTensorCheckpoint(mesh, model=fresh).read(path)
    assert fresh.layers[1].kernel is kernel
    np.testing.assert_array_equal(whole(kernel.value()), ramp(8, 12) * 2)
    np.testing.assert_array_equal(whole(fresh.layers[0].bias), ramp(12))
    elsewhere = DVariable(put(np.zeros((8, 12), np.float32), ["z", None], other))
    DTensorCheckpoint(other, {"model/layers/0/kernel": elsewhere}).read(path)
    assert elsewhere.layout.mesh == other
    np.testing.assert_array_equal(whole(elsewhere.value()), ramp(8, 12))


def test_attributes_that_are_set_later_are_saved_too(tmp_path: Path) -> None:
    mesh = mesh_2x4()
    checkpoint: Any = DTensorCheckpoint(mesh, w=DVariable(put(ramp(8), ["x"], mesh)))
    checkpoint.v = DVariable(put(ramp(8), ["y"], mesh))
    checkpoint.step = 3
    path = checkpoint.save(tmp_path / "c")
    checkpoint.v.assign(put(ramp(8) + 1, ["y"], mesh))
    checkpoint.step = 4
    checkpoint.restore(path).assert_consumed()
    np.testing.assert_array_equal(whole(checkpoint.v.value()), ramp(8))
    assert checkpoint.step == 3
    with pytest.raises(CheckpointError, match="cannot hold 'save', which is its own; use another"):
        checkpoint.save = 1


def test_a_root_puts_its_names_at_the_top(tmp_path: Path) -> None:
    mesh = mesh_2x4()
    checkpoint = DTensorCheckpoint(mesh, root=Layer(mesh), extra={"a": put(ramp(4), ["y"], mesh)})
    assert list(list_checkpoint(checkpoint.write(tmp_path / "c"))) == ["kernel", "bias", "extra/a"]


def test_a_training_state_comes_back_as_it_was(tmp_path: Path) -> None:
    mesh = mesh_8()

    def state(scale: float, count: int) -> dict[str, Any]:
        params = {"w": put(ramp(8, 3) * scale, ["z", None], mesh).to_jax()}
        optimizer = optax.adam(1e-3)
        moments = optimizer.init(params)
        for _ in range(count):
            _, moments = optimizer.update(params, moments, params)
        return {
            "params": params,
            "moments": moments,
            "step": count,
            "rate": 0.1 * scale,
            "done": count > 1,
            "run": f"run {count}",
            "key": jax.random.key(count),
            "mean": np.float32(scale),
            "rows": np.full(3, scale, np.float32),
            "nothing": None,
        }

    before = state(1, 3)
    path = DTensorCheckpoint(mesh, **before).write(tmp_path / "c")
    checkpoint = DTensorCheckpoint(mesh, **state(2, 0))
    status = checkpoint.read(path)
    assert status.assert_consumed() is status
    after = {name: getattr(checkpoint, name) for name in before}
    assert str(jax.tree.structure(after)) == str(jax.tree.structure(before))
    for old, new in zip(jax.tree.leaves(before), jax.tree.leaves(after), strict=True):
        assert type(old) is type(new)
        if isinstance(old, jax.Array):
            assert old.sharding.is_equivalent_to(new.sharding, old.ndim)
            assert old.dtype == new.dtype
            if jnp.issubdtype(old.dtype, jax.dtypes.prng_key):
                old, new = jax.random.key_data(old), jax.random.key_data(new)
        np.testing.assert_array_equal(np.asarray(old), np.asarray(new))


Pair = namedtuple("Pair", ["left", "right"])


def test_dicts_and_lists_change_in_place_and_tuples_are_made_anew(tmp_path: Path) -> None:
    mesh = mesh_8()

    def tree(start: float) -> dict[Any, Any]:
        arrays = [put(ramp(8) + start + i, ["z"], mesh) for i in range(4)]
        return {"a": [arrays[0]], 3: Pair(arrays[1], (arrays[2],)), "e/f": {"g": arrays[3]}}

    path = DTensorCheckpoint(mesh, tree=tree(0)).write(tmp_path / "c")
    assert list(list_checkpoint(path)) == [
        "tree/a/0", "tree/3/left", "tree/3/right/0", "tree/e/f/g",
    ]  # fmt: skip
    target = tree(100)
    inner = target["a"]
    DTensorCheckpoint(mesh, tree=target).read(path)
    assert target["a"] is inner
    assert isinstance(target[3], Pair)
    found = [inner[0], target[3].left, target[3].right[0], target["e/f"]["g"]]
    assert [float(whole(array)[0]) for array in found] == [0, 1, 2, 3]


def test_checkpoints_are_numbered_and_old_ones_removed(tmp_path: Path) -> None:
    mesh = mesh_8()
    checkpoint = DTensorCheckpoint(mesh, a=put(ramp(8), ["z"], mesh))
    assert checkpoint.save(tmp_path / "ckpt") == f"{tmp_path}/ckpt-1"
    assert checkpoint.save(tmp_path / "ckpt") == f"{tmp_path}/ckpt-2"
    assert checkpoint.save(tmp_path / "ckpt", max_to_keep=2) == f"{tmp_path}/ckpt-3"
    assert sorted(os.listdir(tmp_path)) == ["ckpt-2", "ckpt-3"]
    assert latest_checkpoint(tmp_path) == f"{tmp_path}/ckpt-3"
    later = DTensorCheckpoint(mesh, a=put(ramp(8), ["z"], mesh))
    assert later.save_counter == 0
    later.restore(latest_checkpoint(tmp_path))
    assert later.save_counter == 3
    unrelated = DTensorCheckpoint(mesh, a=put(ramp(8), ["z"], mesh))
    assert unrelated.save(tmp_path / "ckpt") == f"{tmp_path}/ckpt-4"  # never onto another
    assert unrelated.save(tmp_path / "ckpt", max_to_keep=1) == f"{tmp_path}/ckpt-5"
    assert os.listdir(tmp_path) == ["ckpt-5"]
    for number in (0, -1, True, 1.5):
        with pytest.raises(CheckpointError, match=r"max_to_keep is .*; it is a positive number or"):
            unrelated.save(tmp_path / "ckpt", max_to_keep=number)  # type: ignore[arg-type]


def test_nothing_changes_unless_all_can_be_read(tmp_path: Path) -> None:
    mesh = mesh_8()
    variable = DVariable(put(ramp(8), ["z"], mesh))
    path = DTensorCheckpoint(mesh, v=variable, n=1).write(tmp_path / "c")
    changed = DVariable(put(ramp(8) + 9, ["z"], mesh))
    checkpoint = DTensorCheckpoint(mesh, v=changed, more=put(ramp(8), ["z"], mesh), n=2)
    with pytest.raises(CheckpointError, match="has no array 'more'; it has 'v'"):
        checkpoint.read(path)
    assert float(whole(changed.value())[0]) == 9
    checkpoint = DTensorCheckpoint(mesh, v=changed, m=2)
    with pytest.raises(CheckpointError, match="has no value 'm'; it has 'n', 'v'"):
        checkpoint.read(path)


def test_the_status_says_what_was_not_taken(tmp_path: Path) -> None:
    mesh = mesh_8()
    a, b = put(ramp(8), ["z"], mesh), put(ramp(8), [None], mesh)
    path = DTensorCheckpoint(mesh, a=a, b=b, n=1).save(tmp_path / "c")
    status = DTensorCheckpoint(mesh, a=a).restore(path)
    assert (status.restored, status.unused) == (("a",), ("b", "n"))
    assert status.expect_partial() is status.assert_existing_objects_matched() is status
    with pytest.raises(CheckpointError, match="also has 'b', 'n', which nothing took"):
        status.assert_consumed()


def test_bf16_variables_round_and_come_back_wide(tmp_path: Path) -> None:
    mesh = mesh_8()
    variable = DVariable(put(ramp(8) + 1 / 3, ["z"], mesh))
    variable.save_as_bf16 = True
    path = DTensorCheckpoint(mesh, v=variable).write(tmp_path / "c")
    assert "float32 as bfloat16" in repr(list_checkpoint(path))
    rounded = (ramp(8) + 1 / 3).astype(jnp.bfloat16).astype(np.float32)
    DTensorCheckpoint(mesh, v=variable).read(path)
    np.testing.assert_array_equal(whole(variable.value()), rounded)
    restored = name_based_restore(mesh, path, {"v": variable.layout})["v"]
    assert restored.dtype == np.float32


def test_what_cannot_be_a_checkpoint_is_one_error(tmp_path: Path) -> None:
    mesh = mesh_8()
    a = put(ramp(8), ["z"], mesh)
    cases: list[tuple[dict[str, Any], str]] = [
        ({"f": print}, "'f' is of type builtin_function_or_method, which cannot be saved; a ch"),
        (
            {"t": [jnp.tanh]},
            r"dicts, .*; of an equinox module give eqx.filter\(module, eqx.is_array\)",
        ),
        ({"t": {"b": [object()]}}, "'t/b/0' is of type object, which cannot be saved"),
        ({"c": 1j}, "'c' is of type complex, which cannot be saved"),
        ({"a": np.arange(3)}, "'a' is int64, which jax uses only with jax.config.update"),
        (
            {"a": np.array(["x"])},
            "'a' cannot be saved: ndarray has element type <U1, ",
        ),
        ({"t": {1: a, "1": a}}, "two things would have the name 't/1' in the checkpoint; rename"),
        ({"t": {"a/b": a, "a": {"b": a}}}, "two things would have the name 't/a/b'"),
        ({"a": put(ramp(8), ["x"], mesh_2x4())}, "'a' is on mesh.x=2, y=4., but the checkpoint"),
        ({"a": put(ramp(8), ["x"], mesh_2x4()).to_jax()}, "'a' is laid out over several devices"),
        ({"save_counter": a}, "cannot hold 'save_counter', which is its own; use another name"),
        ({"mesh": a}, "multiple values|cannot hold 'mesh'"),
        ({"a": []}, "the checkpoint holds no array, and nothing else to save"),
        ({"a": None}, "the checkpoint holds no array"),
        ({}, "the checkpoint holds no array"),
    ]
    for arguments, match in cases:
        with pytest.raises((CheckpointError, TypeError), match=match):
            DTensorCheckpoint(mesh, **arguments).save(tmp_path / "c")
    with pytest.raises(MeshError, match="expected a Mesh, got NoneType"):
        DTensorCheckpoint(None)  # type: ignore[arg-type]
    assert not list(tmp_path.iterdir())
    checkpoint = DTensorCheckpoint(mesh, a=a)
    with pytest.raises(CheckpointError, match="saved or restored in a traced function"):
        jax.jit(lambda x: checkpoint.save(tmp_path / "c"))(1)
    with pytest.raises(CheckpointError, match="saved or restored in a traced function"):
        jax.jit(lambda x: checkpoint.restore(tmp_path / "c"))(1)


def test_values_of_another_kind_are_errors(tmp_path: Path) -> None:
    mesh = mesh_8()
    a = put(ramp(8), ["z"], mesh)
    path = DTensorCheckpoint(mesh, a=a, n=1).write(tmp_path / "c")
    with pytest.raises(
        CheckpointError, match=r"value 'n' of .* is 1, but one of type str is neede"
    ):
        DTensorCheckpoint(mesh, n="x").read(path)
    checkpoint = DTensorCheckpoint(mesh, n=0.5)
    checkpoint.read(path)
    assert checkpoint.n == 1  # type: ignore[attr-defined]


def test_donated_arrays_can_be_restored_but_not_saved(tmp_path: Path) -> None:
    mesh = mesh_8()
    variable = DVariable(put(ramp(8), ["z"], mesh))
    arrays: dict[str, Any] = {"d": put(ramp(8), ["z"], mesh), "key": jax.random.key(1)}
    path = DTensorCheckpoint(mesh, t=arrays, v=variable).write(tmp_path / "c")
    arrays["d"].to_jax().delete()
    checkpoint = DTensorCheckpoint(mesh, t=arrays, v=variable)
    with pytest.raises(CheckpointError, match="'t/d' is deleted: its buffers were donated"):
        checkpoint.write(tmp_path / "c")
    checkpoint.read(path)
    np.testing.assert_array_equal(whole(arrays["d"]), ramp(8))
    scalar = jnp.float32(3) * 1
    path = DTensorCheckpoint(mesh, s=scalar).write(tmp_path / "c")
    scalar.delete()
    checkpoint = DTensorCheckpoint(mesh, s=scalar)
    with pytest.raises(CheckpointError, match="'s' is deleted: its buffers were donated"):
        checkpoint.write(tmp_path / "c")
    checkpoint.read(path)
    assert float(checkpoint.s) == 3  # type: ignore[attr-defined]


def test_a_checkpoint_says_what_it_holds(tmp_path: Path) -> None:
    mesh = mesh_2x4()
    checkpoint = DTensorCheckpoint(mesh, Layer(mesh), step=3)
    assert repr(checkpoint) == "DTensorCheckpoint(mesh(x=2, y=4), root, step, save_counter=0)"
    checkpoint.save(tmp_path / "c")
    assert repr(checkpoint).endswith("step, save_counter=1)")
