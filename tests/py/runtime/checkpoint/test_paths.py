"""A checkpoint is there when it is whole: every step of a save may be the last one."""

import contextlib
import os
import shutil
import threading
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from dtensor.dialect.errors import CheckpointError
from dtensor.dialect.mesh import Mesh
from dtensor.runtime.checkpoint import paths
from dtensor.runtime.checkpoint.named import list_checkpoint, name_based_restore, name_based_save
from dtensor.runtime.checkpoint.paths import latest_checkpoint
from tests.py.runtime.checkpoint.arrays import mesh_8, put, ramp, whole


class Ended(BaseException):
    """The process ends here, as far as the files can tell."""


def save(path: Path, number: float, mesh: Mesh | None = None) -> None:
    mesh = mesh or mesh_8()
    name_based_save(mesh, path, {"a": put(ramp(8) + number, ["z"], mesh)})


def value(path: Path) -> float:
    tensor = put(ramp(8), ["z"], mesh_8())
    return float(whole(name_based_restore(mesh_8(), path, {"a": tensor})["a"])[0])


def test_a_save_that_ends_at_any_step_leaves_the_old_or_the_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "c"
    save(path, 1)
    steps = 0
    found = []
    while True:
        left = steps

        def ending(call: Callable[..., Any]) -> Callable[..., Any]:
            def wrapped(*args: Any, **kwargs: Any) -> Any:
                nonlocal left
                if left == 0:
                    raise Ended
                left -= 1
                return call(*args, **kwargs)

            return wrapped

        with monkeypatch.context() as patch:
            patch.setattr(os, "rename", ending(os.rename))
            patch.setattr(shutil, "rmtree", ending(shutil.rmtree))
            patch.setattr(os, "fsync", ending(os.fsync))
            try:
                save(path, steps + 2)
            except Ended:
                found.append(value(path))
                assert latest_checkpoint(tmp_path) == str(path)
                assert found[-1] in (found[-2] if len(found) > 1 else 1, steps + 2)
                steps += 1
                continue
        break
    assert value(path) == steps + 2
    assert steps >= 5  # the loop went through all of them
    assert any(now == before for before, now in pairwise(found))
    assert any(now != before for before, now in pairwise(found))
    assert [child.name for child in tmp_path.iterdir()] == ["c"]


def test_a_first_save_that_was_interrupted_is_no_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def end(*_: object) -> None:
        raise Ended

    with monkeypatch.context() as patch:
        patch.setattr(paths, "commit", end)
        with pytest.raises(Ended):
            save(tmp_path / "c", 1)
    assert latest_checkpoint(tmp_path) is None
    with pytest.raises(CheckpointError, match=r"no checkpoint at .*/c: its first save was interr"):
        value(tmp_path / "c")
    (left,) = tmp_path.iterdir()
    with pytest.raises(CheckpointError, match="is what is left of a save that was interrupted"):
        value(left)
    save(tmp_path / "c", 2)
    assert value(tmp_path / "c") == 2
    assert [child.name for child in tmp_path.iterdir()] == ["c"]


def test_what_is_no_checkpoint_is_named(tmp_path: Path) -> None:
    save(tmp_path / "many" / "ckpt-1", 1)
    (tmp_path / "file").write_text("x")
    (tmp_path / "empty").mkdir()
    (tmp_path / "orbax").mkdir()
    (tmp_path / "orbax" / "_CHECKPOINT_METADATA").write_text("{}")
    for name, match in [
        ("file", "file is a file; a checkpoint is a folder"),
        ("empty", "empty is not a checkpoint: it has no dtensor.json"),
        ("orbax", "is a checkpoint that orbax wrote without dtensor; read it with orbax"),
        ("many", r"many holds checkpoints \(ckpt-1\) and is none; use latest_checkpoint\('"),
        ("many/ckpt-2", "there is no checkpoint at .*/ckpt-2; there are ckpt-1"),
        ("away/c", "there is no checkpoint at .*: .*/away does not exist"),
    ]:
        with pytest.raises(CheckpointError, match=match):
            list_checkpoint(tmp_path / name)
    for path, match in [
        (None, "is a string or a Path, not None; there is no checkpoint yet"),
        (3, "is a string or a Path, not 3"),
        ("", "is a text that is not empty"),
        ("gs://bucket/c", "'gs://bucket/c' is a URL; save to a local or mounted file system"),
    ]:
        with pytest.raises(CheckpointError, match=match):
            list_checkpoint(path)


def test_other_files_are_never_replaced(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    save(home / "c", 1)  # into an existing folder is fine
    (tmp_path / "file").write_text("x")
    for path in (home, tmp_path / "file"):
        with pytest.raises(CheckpointError, match="exists and is not a checkpoint; it is left as"):
            save(path, 2)
    with pytest.raises(CheckpointError, match="has a reserved ending; choose another name"):
        save(tmp_path / "c.dtensor-new", 2)
    assert value(home / "c") == 1
    assert (tmp_path / "file").read_text() == "x"


def test_an_empty_folder_may_become_a_checkpoint(tmp_path: Path) -> None:
    save(tmp_path, 1)
    assert value(tmp_path) == 1


def test_a_folder_that_cannot_be_written_is_one_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(CheckpointError, match=r"cannot be written: .*/file is not a folder"):
        save(tmp_path / "file" / "c", 1)


def test_orbax_failing_to_write_is_one_error_and_keeps_the_old(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dtensor.runtime.checkpoint import backend

    def full(self: object, *_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    save(tmp_path / "c", 1)
    monkeypatch.setattr(backend.orbax().Checkpointer, "save", full)
    with pytest.raises(CheckpointError, match="No space left on device; what was there before is"):
        save(tmp_path / "c", 2)
    assert value(tmp_path / "c") == 1
    assert os.listdir(tmp_path) == ["c"]


def test_the_latest_checkpoint_is_the_one_saved_last(tmp_path: Path) -> None:
    assert latest_checkpoint(tmp_path / "none yet") is None
    assert latest_checkpoint(tmp_path) is None
    for name in ("b", "a", "c", "b"):
        save(tmp_path / name, 1)
    assert latest_checkpoint(str(tmp_path)) == str(tmp_path / "b")
    (tmp_path / "file").write_text("x")
    with pytest.raises(CheckpointError, match="is a file; give the folder that holds checkpoints"):
        latest_checkpoint(tmp_path / "file")
    os.truncate(tmp_path / "a" / "dtensor.json", 9)
    with pytest.raises(CheckpointError, match=r"checkpoint .*/a is damaged"):
        latest_checkpoint(tmp_path)


def test_a_path_that_is_being_saved_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "c"
    save(path, 1)
    folder = paths.begin(path)
    (folder / "begun").write_text("x")
    with pytest.raises(CheckpointError, match="/c is being saved by another thread or process"):
        save(path, 2)
    assert (folder / "begun").is_file()
    assert value(path) == 1
    paths.release(path)  # as at the end of its process
    save(path, 3)
    assert value(path) == 3
    assert os.listdir(tmp_path) == ["c"]


def test_saves_of_several_threads_to_one_path_leave_a_whole_one(tmp_path: Path) -> None:
    path = tmp_path / "c"
    done: list[float] = []

    def run(number: int) -> None:
        with contextlib.suppress(CheckpointError):
            save(path, number)
            done.append(number)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert value(path) in done
    assert os.listdir(tmp_path) == ["c"]


def test_a_link_stays_one_and_what_it_points_to_is_replaced(tmp_path: Path) -> None:
    save(tmp_path / "c", 1)
    (tmp_path / "link").symlink_to(tmp_path / "c")
    for number in (2, 3):
        save(tmp_path / "link", number)
        assert value(tmp_path / "c") == number
    assert sorted(os.listdir(tmp_path)) == ["c", "link"]
    assert (tmp_path / "link").is_symlink()


def test_what_cannot_be_removed_does_not_fail_a_save_that_is_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    save(tmp_path / "c", 1)
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "rmtree", refused)
        save(tmp_path / "c", 2)
        assert value(tmp_path / "c") == 2
    save(tmp_path / "c", 3)
    assert value(tmp_path / "c") == 3
    assert os.listdir(tmp_path) == ["c"]


@pytest.mark.parametrize("name", ["a\0b", "n" * 300], ids=["null", "long"])
def test_a_path_that_no_file_can_have_is_an_error(tmp_path: Path, name: str) -> None:
    for use in (save, lambda path, _: list_checkpoint(path)):
        with pytest.raises(CheckpointError, match="cannot be used: "):
            use(tmp_path / name, 1)
