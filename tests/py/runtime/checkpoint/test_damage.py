"""A damaged checkpoint is one clear error that names what is damaged, and never other values."""

import gc
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from dtensor.dialect.errors import CheckpointError
from dtensor.dialect.layout import Layout
from dtensor.runtime.checkpoint.named import name_based_restore, name_based_save
from tests.py.runtime.checkpoint.arrays import mesh_2x4, mesh_8, put, ramp, whole

LARGE = ramp(2048, 2048)  # 2 MiB a shard: more than the files whose bytes are compared
SMALL = ramp(24, dtype=np.int32)


@pytest.fixture(autouse=True)
def clear_up() -> Iterator[None]:
    yield
    gc.collect()  # what orbax began and did not end would be an error here


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("good") / "c"
    mesh = mesh_2x4()
    arrays = {"large": put(LARGE, ["x", "y"], mesh), "small": put(SMALL, [None], mesh)}
    name_based_save(mesh, path, arrays)
    return path


def error_of(path: Path, names: tuple[str, ...] = ("large", "small")) -> str:
    layouts = {"large": Layout(["z", None], mesh_8()), "small": Layout(["z"], mesh_8())}
    with pytest.raises(CheckpointError) as caught:
        name_based_restore(mesh_8(), path, {name: layouts[name] for name in names})
    message = str(caught.value)
    assert "\n" not in message
    assert message.startswith(f"checkpoint {path} is damaged (")
    return message


def linked(good: Path, copy: Path) -> Path:
    """A copy of the checkpoint that costs no bytes, until `rewrite` gives a file its own."""
    return shutil.copytree(good, copy, copy_function=os.link)


def rewrite(file: Path, data: bytes | bytearray) -> None:
    file.unlink()
    file.write_bytes(data)


def copies(good: Path, tmp_path: Path) -> list[tuple[Path, Path]]:
    """For each file of the checkpoint: a copy of the checkpoint, and the file in the copy."""
    files = sorted(file.relative_to(good) for file in good.rglob("*") if file.is_file())
    assert len(files) > 8
    result = []
    for number, file in enumerate(files):
        copy = linked(good, tmp_path / f"{number}")
        result.append((copy, copy / file))
    return result


def is_harmless(path: Path) -> bool:
    """Whether the right values come back; if not, it is an error, and no other values."""
    layouts = {"large": Layout(["z", None], mesh_8()), "small": Layout(["z"], mesh_8())}
    try:
        found = name_based_restore(mesh_8(), path, layouts)
    except CheckpointError as error:
        said = str(error)
    else:
        np.testing.assert_array_equal(whole(found["large"]), LARGE)
        np.testing.assert_array_equal(whole(found["small"]), SMALL)
        return True
    assert "\n" not in said
    assert "damaged" in said or "no checkpoint" in said or "is not" in said
    return False


def test_no_truncated_or_missing_file_gives_other_values(good: Path, tmp_path: Path) -> None:
    harmless = []
    for copy, file in copies(good, tmp_path):
        data = file.read_bytes()
        for keep in (len(data) - 1, len(data) // 2, 0):
            rewrite(file, data[:keep])
            if is_harmless(copy):
                harmless.append(file.name)
        file.unlink()
        is_harmless(copy)
    assert not {"metadata", "_METADATA"} & set(harmless)  # the descriptions of dtensor, of orbax


@pytest.mark.long
def test_no_flipped_bit_gives_other_values(good: Path, tmp_path: Path) -> None:
    for copy, file in copies(good, tmp_path):
        data = file.read_bytes()
        for place in {0, 1, len(data) // 3, len(data) // 2, len(data) - 1}:
            changed = bytearray(data)
            changed[place] ^= 1 << (place % 8)
            rewrite(file, changed)
            is_harmless(copy)


def test_elements_that_changed_are_never_given(good: Path, tmp_path: Path) -> None:
    copy = linked(good, tmp_path / "c")
    part = LARGE[1024, 1024:].tobytes()[:64]
    (file,) = [f for f in copy.rglob("*") if f.is_file() and part in f.read_bytes()]
    data = bytearray(file.read_bytes())
    data[data.find(part)] ^= 1
    rewrite(file, data)
    said = error_of(copy)
    assert re.search(r'is damaged \(.*"large/.*Digest mismatch.*\); restore another one$', said)
    small = name_based_restore(mesh_8(), copy, {"small": Layout(["z"], mesh_8())})["small"]
    np.testing.assert_array_equal(whole(small), SMALL)


def test_arrays_that_orbax_cannot_read_are_named(good: Path, tmp_path: Path) -> None:
    copy = linked(good, tmp_path / "c")
    metadata = copy / "1" / "arrays" / "_METADATA"
    rewrite(metadata, metadata.read_bytes().replace(b"large", b"lerge"))
    assert "is damaged ('large' is not among the arrays in " in error_of(copy)
