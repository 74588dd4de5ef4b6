"""A checkpoint is there when it is whole: every step of a save may be the last one."""

import contextlib
import os
import shutil
import threading
from pathlib import Path
from typing import Any

import orbax.checkpoint as ocp
import pytest

from dtensor.dialect.errors import CheckpointError
from dtensor.dialect.mesh import Mesh
from dtensor.runtime.checkpoint import backend, files
from dtensor.runtime.checkpoint.checkpoint import DTensorCheckpoint
from dtensor.runtime.checkpoint.named import list_checkpoint, name_based_restore, name_based_save
from dtensor.runtime.checkpoint.series import latest_checkpoint, replaced
from dtensor.runtime.variables.variable import DVariable
from tests.py.runtime.checkpoint.arrays import mesh_8, put, ramp, whole


class Ended(BaseException):
    """The process ends here, as far as the files can tell."""


def save(path: Path, number: float, mesh: Mesh | None = None) -> None:
    mesh = mesh or mesh_8()
    name_based_save(mesh, path, {"a": put(ramp(8) + number, ["z"], mesh)})


def value(path: Path) -> float:
    tensor = put(ramp(8), ["z"], mesh_8())
    return float(whole(name_based_restore(mesh_8(), path, {"a": tensor})["a"])[0])


@pytest.mark.parametrize("step", ["to_json", "manager"])  # test_killed.py has the others
def test_a_save_that_ends_early_leaves_the_old_one(
    step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def end(*_: object, **__: object) -> None:
        raise Ended

    path = tmp_path / "c"
    save(path, 1)
    with monkeypatch.context() as patch:
        owner: Any = {"to_json": files, "manager": backend}[step]
        patch.setattr(owner, step, end)
        with pytest.raises(Ended):
            save(path, 2)
    assert value(path) == 1
    assert latest_checkpoint(tmp_path) == str(path)
    save(path, 3)
    assert value(path) == 3
    assert len(os.listdir(path)) == 1


def test_a_first_save_that_was_interrupted_is_no_checkpoint(tmp_path: Path) -> None:
    left = tmp_path / "c" / "1.orbax-checkpoint-tmp"
    left.mkdir(parents=True)
    assert latest_checkpoint(tmp_path) is None
    with pytest.raises(CheckpointError, match=r"/c is not a whole checkpoint"):
        value(tmp_path / "c")
    save(tmp_path / "c", 2)
    assert value(tmp_path / "c") == 2
    assert os.listdir(tmp_path / "c") == ["2"]  # what the interrupted one left is gone


def test_folders_of_others_with_numbers_for_names_are_left_alone(tmp_path: Path) -> None:
    for folder in ("data/1", "ckpt-7"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "notes.txt").write_text("mine")
    with pytest.raises(CheckpointError, match="data exists and is not a checkpoint; it is left as"):
        save(tmp_path / "data", 1)
    checkpoint = DTensorCheckpoint(mesh_8(), a=put(ramp(8), ["z"], mesh_8()))
    assert checkpoint.save(tmp_path / "ckpt", max_to_keep=1) == f"{tmp_path}/ckpt-8"
    assert checkpoint.save(tmp_path / "ckpt", max_to_keep=1) == f"{tmp_path}/ckpt-9"
    assert sorted(os.listdir(tmp_path)) == ["ckpt-7", "ckpt-9", "data"]
    with pytest.raises(CheckpointError, match="ckpt-9 exists and is not a checkpoint"):
        save(tmp_path / "ckpt-9", 1)  # one of a series is not replaced


def test_saving_goes_on_in_the_background(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    handler = backend.orbax().JsonCheckpointHandler
    real = handler.finalize
    go_on = threading.Event()

    def slow(*arguments: Any) -> Any:
        assert go_on.wait(60)
        return real(*arguments)

    monkeypatch.setattr(handler, "finalize", slow)
    mesh = mesh_8()
    variable = DVariable(put(ramp(8), ["z"], mesh))
    checkpoint = DTensorCheckpoint(mesh, v=variable)
    path = checkpoint.save(tmp_path / "c", wait=False)
    variable.assign(put(ramp(8) + 5, ["z"], mesh))  # not what is saved
    assert latest_checkpoint(tmp_path) is None
    go_on.set()
    checkpoint.wait()
    assert latest_checkpoint(tmp_path) == path
    checkpoint.save(tmp_path / "c", wait=False)
    checkpoint.restore(path)  # waits for the second one
    assert float(whole(variable.value())[0]) == 0
    assert latest_checkpoint(tmp_path) == f"{tmp_path}/c-2"


def test_what_fails_in_the_background_is_an_error_when_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    mesh = mesh_8()
    checkpoint = DTensorCheckpoint(mesh, a=put(ramp(8), ["z"], mesh))
    with monkeypatch.context() as patch:
        patch.setattr(backend.orbax().JsonCheckpointHandler, "finalize", full)
        checkpoint.save(tmp_path / "c", wait=False)
        with pytest.raises(CheckpointError, match=r"c-1 could not be written: .*No space left"):
            checkpoint.wait()
    assert checkpoint.save(tmp_path / "c") == f"{tmp_path}/c-2"


def test_checksums_can_be_left_out(tmp_path: Path) -> None:
    mesh = mesh_8()
    a = put(ramp(8), ["z"], mesh)
    name_based_save(mesh, tmp_path / "c", {"a": a}, checksums=False)
    DTensorCheckpoint(mesh, a=a, checksums=False).write(tmp_path / "d")
    for name in "cd":
        assert value(tmp_path / name) == 0
        description = tmp_path / name / "1" / "arrays" / "_METADATA"
        assert '"use_zarr3": false' in description.read_text()


def test_what_is_no_checkpoint_is_named(tmp_path: Path) -> None:
    save(tmp_path / "many" / "ckpt-1", 1)
    (tmp_path / "file").write_text("x")
    (tmp_path / "empty").mkdir()
    (tmp_path / "orbax").mkdir()
    (tmp_path / "orbax" / "_CHECKPOINT_METADATA").write_text("{}")
    for name, match in [
        ("file", "file is not a whole checkpoint of dtensor's: it has no dtensor/metadata"),
        ("empty", "empty is not a whole checkpoint of dtensor's"),
        ("orbax", "orbax is not a whole checkpoint of dtensor's"),
        ("many", r"many holds checkpoints \(ckpt-1\) and is none; use latest_checkpoint\('"),
        ("many/ckpt-2", "there is no checkpoint at .*/ckpt-2; there are ckpt-1"),
        ("away/c", "there is no checkpoint at .*/away/c$"),
    ]:
        with pytest.raises(CheckpointError, match=match):
            list_checkpoint(tmp_path / name)
    for path, match in [
        (None, "is a Path or a text that is not empty, not None; there is no checkpoint yet"),
        (3, "is a Path or a text that is not empty, not 3"),
        ("", "is a Path or a text that is not empty"),
        ("ftp://host/c", "path 'ftp://host/c' cannot be used: a URL begins with gs://, s3:// or"),
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
    assert value(home / "c") == 1
    assert (tmp_path / "file").read_text() == "x"


def test_an_empty_folder_may_become_a_checkpoint(tmp_path: Path) -> None:
    save(tmp_path, 1)
    assert value(tmp_path) == 1


def test_a_folder_that_cannot_be_written_is_one_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(CheckpointError, match=r"could not be written: .*Not a directory"):
        save(tmp_path / "file" / "c", 1)


def test_orbax_failing_to_write_is_one_error_and_keeps_the_old(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: object, *_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    save(tmp_path / "c", 1)
    monkeypatch.setattr(backend.orbax().CheckpointManager, "save", full)
    with pytest.raises(CheckpointError, match="No space left on device; what was there before is"):
        save(tmp_path / "c", 2)
    assert value(tmp_path / "c") == 1
    assert os.listdir(tmp_path / "c") == ["1"]


def test_the_latest_checkpoint_is_the_one_saved_last(tmp_path: Path) -> None:
    assert latest_checkpoint(tmp_path / "none yet") is None
    assert latest_checkpoint(tmp_path) is None
    for name in ("b", "a", "c", "b"):
        save(tmp_path / name, 1)
    assert latest_checkpoint(str(tmp_path)) == str(tmp_path / "b")
    (tmp_path / "file").write_text("x")
    with pytest.raises(CheckpointError, match="is a file; give the folder that holds checkpoints"):
        latest_checkpoint(tmp_path / "file")
    os.truncate(tmp_path / "a" / "1" / "dtensor" / "metadata", 9)
    with pytest.raises(CheckpointError, match=r"checkpoint .*/a is damaged"):
        latest_checkpoint(tmp_path)


def test_a_folder_is_no_name_of_numbered_checkpoints(tmp_path: Path) -> None:
    mesh = mesh_8()
    checkpoint = DTensorCheckpoint(mesh, a=put(ramp(8), ["z"], mesh))
    folder = f"{tmp_path}/runs/"
    assert latest_checkpoint(folder) is None
    with pytest.raises(
        CheckpointError, match=r"ends in a slash, .*; name the checkpoints in it"
    ) as c:
        checkpoint.save(folder)
    assert f"with '{folder}ckpt'" in str(c.value)
    assert not list(tmp_path.iterdir())
    path = checkpoint.save(folder + "ckpt")
    assert latest_checkpoint(folder) == latest_checkpoint(folder[:-1]) == path
    assert checkpoint.restore(path + "/").restored == ("a",)
    with pytest.raises(
        CheckpointError, match=r"no folder .*, but beside it ckpt-1; give the folder"
    ):
        latest_checkpoint(folder + "ckpt")


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
    # One that stood for a moment may be told that another took its place.
    assert done
    assert value(path) in range(1, 5)
    assert len(list(path.iterdir())) == 1
    save(path, 9)
    assert value(path) == 9
    assert len(os.listdir(path)) == 1


@pytest.mark.parametrize("kind", [FileNotFoundError, ValueError])
def test_one_that_another_save_removed_is_an_error_that_orbax_expects(
    kind: type[Exception], tmp_path: Path
) -> None:
    with pytest.raises(kind, match=r"c/3 is not there"):
        replaced(tmp_path / "c").find_step(tmp_path, 3)


def test_a_checkpoint_whose_removal_was_interrupted_is_not_in_the_way(tmp_path: Path) -> None:
    save(tmp_path / "c", 1)
    shutil.rmtree(tmp_path / "c" / "1" / "dtensor")
    (tmp_path / "c" / "1" / "_CHECKPOINT_METADATA").unlink()
    (tmp_path / "c" / "9").mkdir()
    save(tmp_path / "c", 2)
    assert value(tmp_path / "c") == 2
    assert len(os.listdir(tmp_path / "c")) == 1


def test_a_checkpoint_of_orbax_alone_is_left_as_it_is(tmp_path: Path) -> None:
    place = tmp_path / "c" / "1"
    ocp.Checkpointer(ocp.StandardCheckpointHandler()).save(place, ocp.args.StandardSave({"a": 1.0}))
    with ocp.CheckpointManager(tmp_path / "d") as manager:
        manager.save(1, args=ocp.args.StandardSave({"a": 1.0}))
    for path in (tmp_path / "c", tmp_path / "d"):
        before = sorted(str(p) for p in path.rglob("*"))
        with pytest.raises(CheckpointError, match="exists and is not a checkpoint"):
            save(path, 2)
        assert sorted(str(p) for p in path.rglob("*")) == before


def test_a_link_stays_one_and_what_it_points_to_is_replaced(tmp_path: Path) -> None:
    save(tmp_path / "c", 1)
    (tmp_path / "link").symlink_to(tmp_path / "c")
    for number in (2, 3):
        save(tmp_path / "link", number)
        assert value(tmp_path / "c") == number
    assert sorted(os.listdir(tmp_path)) == ["c", "link"]
    assert (tmp_path / "link").is_symlink()


@pytest.mark.parametrize("name", ["a\0b", "n" * 300], ids=["null", "long"])
def test_a_path_that_no_file_can_have_is_an_error(tmp_path: Path, name: str) -> None:
    for use in (save, lambda path, _: list_checkpoint(path)):
        with pytest.raises(CheckpointError, match=r"could not be written|there is no checkpoint"):
            use(tmp_path / name, 1)


def test_another_release_of_orbax_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    backend.orbax()
    inside = "orbax.checkpoint._src.serialization.tensorstore_utils"
    monkeypatch.delattr(f"{inside}._build_zarr3_metadata")
    again: Any = backend._add_checksums
    with pytest.raises(CheckpointError, match=r"another release of .* than 0\.12\..*>=0\.12\.5"):
        again.__wrapped__()
