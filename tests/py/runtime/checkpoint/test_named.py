"""Saving and restoring arrays by name: any layout, mesh and element type, and what is refused."""

import json
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from jax.sharding import NamedSharding, PartitionSpec

from dtensor.dialect.errors import CheckpointError, LayoutError, MeshError
from dtensor.dialect.layout import Layout
from dtensor.runtime.checkpoint.named import (
    list_checkpoint,
    name_based_restore,
    name_based_save,
    sharded_save,
)
from dtensor.runtime.client import create_mesh
from dtensor.runtime.placement import jax_mesh
from dtensor.runtime.variables.variable import DVariable
from tests.py.runtime.checkpoint.arrays import BF16, bits, mesh_2x4, mesh_8, put, ramp, whole

# Meshes to save from and to restore on, and layouts on the second.
MESHES: dict[str, tuple[list[tuple[str, int]], list[tuple[str, int]], list[list[Any]]]] = {
    "2x4 to 8": ([("x", 2), ("y", 4)], [("z", 8)], [["z", None], [None, "z"]]),
    "3x2 to 6": ([("x", 3), ("y", 2)], [("z", 6)], [["z", None], [None, "z"]]),
    "4x2 to one device": ([("x", 4), ("y", 2)], [("z", 1)], [[None, None]]),
    "8 to 2x4": ([("x", 8), ("y", 1)], [("a", 2), ("b", 4)], [["b", "a"], [("b", "a"), None]]),
}


@pytest.mark.parametrize("meshes", MESHES)
def test_each_layout_restores_into_each_other_layout_and_mesh(meshes: str, tmp_path: Path) -> None:
    before, after, layouts = MESHES[meshes]
    old, new = create_mesh(before), create_mesh(after)
    values = ramp(24, 48)
    saved = {
        "both": put(values, ["x", "y"], old),
        "rows": put(values, ["x", None], old),
        "columns": put(values, [None, "y"], old),
        "whole": put(values, [None, None], old),
    }
    name_based_save(old, tmp_path / "c", saved)
    for specs in layouts:
        layout = Layout(specs, new)
        restored = name_based_restore(new, tmp_path / "c", dict.fromkeys(saved, layout))
        assert list(restored) == list(saved)
        for tensor in restored.values():
            assert tensor.layout == layout
            assert [shard.shape for shard in tensor.unpack()] == [
                layout.local_shape(values.shape)
            ] * new.size
            np.testing.assert_array_equal(whole(tensor), values)
    same = name_based_restore(old, tmp_path / "c", saved)
    for name, tensor in saved.items():
        assert same[name].layout == tensor.layout
        np.testing.assert_array_equal(whole(same[name]), values)


DTYPES = (
    "bool int2 int4 int8 int16 int32 uint2 uint4 uint8 uint16 uint32 float4_e2m1fn float8_e3m4 "
    "float8_e4m3 float8_e4m3b11fnuz float8_e4m3fn float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz "
    "float8_e8m0fnu bfloat16 float16 float32 complex64"
).split()


def test_every_element_type_of_jax_comes_back_bit_for_bit(tmp_path: Path) -> None:
    mesh, other = mesh_2x4(), mesh_8()
    arrays = {}
    for name in DTYPES:
        dtype = getattr(jnp, name, None) or getattr(ml_dtypes, name)
        values = np.array([0, 1, -1, 0.5, 3, -2, 6, 1.5] * 2).reshape(8, 2)
        values = np.abs(values) if name.startswith(("u", "b", "float8_e8")) else values
        if name == "complex64":
            values = values + 1j * values.T.reshape(8, 2)
        with np.errstate(invalid="ignore"):
            arrays[name] = put(values.astype(dtype), ["y", "x"], mesh)
    name_based_save(mesh, tmp_path / "c", arrays)
    targets = dict.fromkeys(arrays, Layout(["z", None], other))
    for name, tensor in name_based_restore(other, tmp_path / "c", targets).items():
        assert tensor.dtype == arrays[name].dtype
        np.testing.assert_array_equal(bits(whole(tensor)), bits(whole(arrays[name])), name)


def test_nan_and_minus_zero_keep_their_bits(tmp_path: Path) -> None:
    mesh = mesh_8()
    values = np.array([np.nan, -0.0, np.inf, -np.nan] * 4, np.float32)
    values[4:8].view(np.uint32)[:] = [0x7FC00001, 0xFF800001, 1, 0x80000000]
    name_based_save(mesh, tmp_path / "c", {"a": put(values, ["z"], mesh)})
    found = name_based_restore(mesh, tmp_path / "c", {"a": Layout([None], mesh)})["a"]
    np.testing.assert_array_equal(whole(found).view(np.uint32), values.view(np.uint32))


def test_scalars_empty_arrays_and_odd_names(tmp_path: Path) -> None:
    mesh, other = mesh_2x4(), mesh_8()
    names = ["a/b", "a.b", "a", "a%2Fb", "..", "/", " ", "ä€", "w" * 300, "[0]", 'say "so"\n']
    arrays = {name: put(np.float32(i), [], mesh) for i, name in enumerate(names)}
    arrays["empty"] = put(np.zeros((0, 8), np.int32), [None, "y"], mesh)
    name_based_save(mesh, tmp_path / "c", arrays)
    targets = {name: Layout([None] * tensor.ndim, other) for name, tensor in arrays.items()}
    restored = name_based_restore(other, tmp_path / "c", targets)
    assert [restored[name].item() for name in names] == list(range(len(names)))
    assert restored["empty"].shape == (0, 8)
    assert restored["empty"].dtype == np.int32


def test_only_empty_arrays_are_a_checkpoint_too(tmp_path: Path) -> None:
    mesh = mesh_8()
    name_based_save(mesh, tmp_path / "c", {"e": put(np.zeros((0,)), [None], mesh)})
    assert name_based_restore(mesh, tmp_path / "c", {"e": Layout([None], mesh)})["e"].shape == (0,)


def test_parts_of_axes_and_jax_arrays_are_layouts_too(tmp_path: Path) -> None:
    mesh = mesh_8()
    values = ramp(4, 6)
    part = Layout.parse('#dtensor.layout<@mesh, [{"z":(1)4}, {"z":(4)2}]>', mesh)
    array = jax.device_put(values, NamedSharding(jax_mesh(mesh), PartitionSpec()))
    name_based_save(mesh, tmp_path / "c", {"a": array})
    sharding = NamedSharding(jax_mesh(mesh_2x4()), PartitionSpec("y", "x"))
    shape = jax.ShapeDtypeStruct((4, 6), np.float32, sharding=sharding)
    found = name_based_restore(mesh, tmp_path / "c", {"a": part})["a"]
    assert found.layout == part
    np.testing.assert_array_equal(whole(found), values)
    found = name_based_restore(mesh_2x4(), tmp_path / "c", {"a": shape})["a"]
    assert found.layout == Layout(["y", "x"], mesh_2x4())
    np.testing.assert_array_equal(whole(found), values)


def test_arrays_on_no_mesh_are_saved_once_and_come_back_whole(tmp_path: Path) -> None:
    mesh = mesh_8()
    arrays: dict[str, Any] = {"host": ramp(4, 6), "device": jnp.arange(3)}
    arrays["key"] = jax.random.key(3)
    name_based_save(mesh, tmp_path / "c", arrays)
    likes = {**arrays, "host": jax.ShapeDtypeStruct((4, 6), np.float32)}
    found = name_based_restore(mesh, tmp_path / "c", likes)
    assert all(tensor.layout.is_fully_replicated() for tensor in found.values())
    np.testing.assert_array_equal(found["host"].numpy(), arrays["host"])
    np.testing.assert_array_equal(found["device"].numpy(), arrays["device"])
    np.testing.assert_array_equal(
        jax.random.key_data(found["key"].to_jax()), jax.random.key_data(arrays["key"])
    )


def test_some_names_of_a_checkpoint_can_be_restored_alone(tmp_path: Path) -> None:
    mesh = mesh_8()
    arrays = {name: put(ramp(8) + i, ["z"], mesh) for i, name in enumerate("abc")}
    name_based_save(mesh, tmp_path / "c", arrays)
    restored = name_based_restore(mesh, tmp_path / "c", {"c": arrays["a"], "a": arrays["a"]})
    assert list(restored) == ["c", "a"]
    np.testing.assert_array_equal(whole(restored["c"]), ramp(8) + 2)


def test_variables_saved_as_bf16_come_back_as_float32(tmp_path: Path) -> None:
    mesh = mesh_8()
    values = np.array([1, 1 + 2**-7, 1 + 2**-12, 3e38, -2, 0, 5, 6], np.float32)
    narrow, plain = DVariable(put(values, ["z"], mesh)), DVariable(put(values, ["z"], mesh))
    narrow.save_as_bf16 = True
    name_based_save(mesh, tmp_path / "c", {"narrow": narrow, "plain": plain})
    saved = list_checkpoint(tmp_path / "c")["narrow"]
    assert saved.dtype == np.float32
    assert (saved.stored, saved.nbytes) == (BF16, 16)
    targets = {"narrow": narrow, "plain": plain}
    restored = name_based_restore(mesh, tmp_path / "c", targets)
    rounded = values.astype(BF16).astype(np.float32)
    assert restored["narrow"].dtype == np.float32
    np.testing.assert_array_equal(whole(restored["narrow"]), rounded)
    np.testing.assert_array_equal(whole(restored["plain"]), values)
    as_stored = put(values.astype(BF16), ["z"], mesh)
    found = name_based_restore(mesh, tmp_path / "c", {"narrow": as_stored})["narrow"]
    assert found.dtype == BF16


def test_saving_again_replaces_the_checkpoint(tmp_path: Path) -> None:
    mesh = mesh_8()
    name_based_save(mesh, tmp_path / "c", {"old": put(ramp(8), ["z"], mesh)})
    name_based_save(mesh, str(tmp_path / "c"), {"new": put(ramp(8) + 1, ["z"], mesh)})
    assert list(list_checkpoint(tmp_path / "c")) == ["new"]
    assert [path.name for path in tmp_path.iterdir()] == ["c"]


def test_sharded_save_takes_lists(tmp_path: Path) -> None:
    mesh = mesh_8()
    a, b = put(ramp(8), ["z"], mesh), put(ramp(2, 8), [None, "z"], mesh)
    sharded_save(mesh, tmp_path / "deep" / "c", ["a", "b"], ["", None], [a, b])
    restored = name_based_restore(mesh, tmp_path / "deep" / "c", {"b": b})
    np.testing.assert_array_equal(whole(restored["b"]), ramp(2, 8))


def test_sharded_save_refuses_slices_and_lists_that_do_not_fit(tmp_path: Path) -> None:
    mesh = mesh_8()
    a = put(ramp(8), ["z"], mesh)
    for names, slices, tensors, match in [
        (["a"], ["8 0,4"], [a], "was asked for the slice '8 0,4'; arrays are saved whole"),
        (
            ["a", "b"],
            ["", ""],
            [a],
            "got 2 different names, 2 slices and 1 tensors; give one of each",
        ),
        (["a", "a"], ["", ""], [a, a], "got 1 different names, 2 slices and 2 tensors"),
        ([], [], [], "by name, in a dict that is not empty"),
    ]:
        with pytest.raises(CheckpointError, match=match):
            sharded_save(mesh, tmp_path / "c", names, slices, tensors)
    assert not list(tmp_path.iterdir())


def test_a_layout_of_another_mesh_than_the_one_given_says_which_to_give(tmp_path: Path) -> None:
    mesh, other = mesh_8(), mesh_2x4()
    name_based_save(mesh, tmp_path / "c", {"a": put(ramp(8), ["z"], mesh)})
    said = (
        r"'a' is to be restored on mesh\(x=2, y=4\), but the mesh given is mesh\(z=8\); give the "
        "mesh of the layouts"
    )
    for like in (Layout(["x"], other), put(ramp(8), ["x"], other)):
        with pytest.raises(CheckpointError, match=said):
            name_based_restore(mesh, tmp_path / "c", {"a": like})
        found = name_based_restore(other, tmp_path / "c", {"a": like})["a"]
        assert found.layout == Layout(["x"], other)


def bad_saves() -> dict[str, Any]:
    mesh = mesh_8()
    a = put(ramp(8), ["z"], mesh)
    donated = put(ramp(8) + 5, ["z"], mesh)
    donated.to_jax().delete()
    return {
        "'a' is of type object, which cannot be saved; a checkpoint takes DTensors": {
            "a": object()
        },
        "'a' is on mesh.x=2, y=4., but the checkpoint is of mesh.z=8.; copy it": {
            "a": put(ramp(8), ["x"], mesh_2x4())
        },
        "'a' is laid out over several devices, but not over mesh.z=8.; copy it": {
            "a": put(ramp(8), ["x"], mesh_2x4()).to_jax()
        },
        "the name of an array is a text that is not empty, not 3": {3: a},
        "the name of an array is a text that is not empty, not ''": {"": a},
        "arrays are given by name, in a dict that is not empty; this one is of type list": [3],
        "that is not empty; this one is of type dict, and empty": {},
        "'a' is deleted: its buffers were donated": {"a": donated},
    }


def test_what_cannot_be_saved_is_one_error_and_leaves_no_file(tmp_path: Path) -> None:
    for match, arrays in bad_saves().items():
        with pytest.raises(CheckpointError, match=match):
            name_based_save(mesh_8(), tmp_path / "c", arrays)
    with pytest.raises(MeshError, match="expected a Mesh, got str"):
        name_based_save("mesh", tmp_path / "c", {"a": ramp(8)})  # type: ignore[arg-type]
    assert not list(tmp_path.iterdir())


def test_what_does_not_fit_is_one_error(tmp_path: Path) -> None:
    mesh = mesh_8()
    saved = {"kernel": put(ramp(8, 6), ["z", None], mesh), "bias": put(ramp(8), [None], mesh)}
    name_based_save(mesh, tmp_path / "c", saved)
    cases: list[tuple[dict[str, Any], str]] = [
        (
            {"kernal": Layout([], mesh)},
            "no array 'kernal'; did you mean 'kernel'.; it has 'kernel', ",
        ),
        ({"q": Layout([], mesh), "r": Layout([], mesh)}, "has no array 'q', 'r'; it has "),
        (
            {"kernel": put(ramp(8, 3), ["z", None], mesh)},
            r"array 'kernel' of checkpoint .*/c has shape \[8, 6\], but \[8, 3\] is needed",
        ),
        (
            {"bias": put(ramp(8, dtype=np.int32), ["z"], mesh)},
            "'bias' .* is float32, but int32 is needed; restore it as float32 and convert it then",
        ),
        ({"bias": put(ramp(8, dtype=BF16), ["z"], mesh)}, "is float32, but bfloat16 is needed"),
        ({"kernel": Layout(["z"], mesh)}, "layout has 1 dimensions but the tensor has rank 2"),
        (
            {"bias": Layout([None], mesh, partial={"sum": "z"})},
            "no array can have the layout .*partial over axes",
        ),
        (
            {"bias": Layout(["x"], mesh_2x4())},
            "'bias' is to be restored on mesh.x=2, y=4., but the mesh given",
        ),
        ({"bias": "x"}, "'bias' is of type str; give an array, a variable, a jax.ShapeDtypeStruct"),
        ({}, "by name, in a dict that is not empty"),
    ]
    for target, match in cases:
        with pytest.raises((CheckpointError, LayoutError), match=match) as caught:
            name_based_restore(mesh, tmp_path / "c", target)
        assert "\n" not in str(caught.value)


def test_saving_and_restoring_inside_a_traced_function_are_errors(tmp_path: Path) -> None:
    mesh = mesh_8()
    layout = Layout(["z"], mesh)
    with pytest.raises(
        CheckpointError, match="saved or restored in a traced function, where there"
    ):
        jax.jit(lambda x: name_based_save(mesh, tmp_path / "c", {"x": x}))(1.0)
    with pytest.raises(CheckpointError, match="saved or restored in a traced function"):
        jax.jit(lambda x: name_based_restore(mesh, tmp_path / "c", {"x": layout}))(1.0)
    with pytest.raises(CheckpointError, match="saved or restored in a traced function"):
        jax.vmap(lambda x: name_based_save(mesh, tmp_path / "c", {"x": x}))(jnp.zeros(3))


def test_a_missing_orbax_is_one_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise ImportError(f"No module named '{name}'")

    monkeypatch.setattr("importlib.import_module", missing)
    with pytest.raises(CheckpointError, match=r"orbax-checkpoint, .* pip install 'orbax-"):
        name_based_save(mesh_8(), tmp_path / "c", {"a": put(ramp(8), ["z"], mesh_8())})


def test_a_checkpoint_lists_what_it_holds(tmp_path: Path) -> None:
    mesh = mesh_2x4()
    arrays = {
        "w": put(ramp(16, 24), ["x", "y"], mesh),
        "b": put(ramp(24, dtype=np.int32), [None], mesh),
    }
    name_based_save(mesh, tmp_path / "c", arrays)
    info = list_checkpoint(tmp_path / "c")
    assert list(info) == ["w", "b"]
    assert info["w"].shape == (16, 24)
    assert info["w"].dtype == np.float32
    assert info["w"].layout == arrays["w"].layout
    assert (info.mesh, info.clients, info.nbytes) == (mesh, 1, 16 * 24 * 4 + 24 * 4)
    head, *rows = repr(info).splitlines()
    assert head.startswith(
        f"checkpoint {tmp_path}/c: 2 arrays, 1,632 bytes, from mesh(x=2, y=4) by 1"
    )
    assert rows == [
        "  name  shape     dtype    layout when saved",
        '  w     [16, 24]  float32  [{"x"}, {"y"}]',
        "  b     [24]      int32    [{}]",
    ]
    with pytest.raises(KeyError):
        info["c"]


def test_a_later_format_is_an_error(tmp_path: Path) -> None:
    import zlib

    mesh = mesh_8()
    name_based_save(mesh, tmp_path / "c", {"a": put(ramp(8), ["z"], mesh)})
    record = tmp_path / "c" / "1" / "dtensor" / "metadata"
    body = json.loads(record.read_text())["checkpoint"] | {"format": 4}
    crc = zlib.crc32(json.dumps(body, sort_keys=True).encode())
    record.write_text(json.dumps({"crc32": crc, "checkpoint": body}))
    with pytest.raises(CheckpointError, match="has format 4, this dtensor reads 3; install the"):
        list_checkpoint(tmp_path / "c")
