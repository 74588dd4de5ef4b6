"""Where a checkpoint is: it appears under its name when it is whole, and not before.

It is written under another name, which changes when all is on disk. A folder cannot take another's
place in one step everywhere, so what it replaces is renamed first; if the process ends between the
two, the old one counts, under its other name. The folder that is being written is locked, so that
two saves to one path do not write into one another; the lock ends with the process.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from pathlib import Path

try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None  # type: ignore[assignment]

from dtensor.dialect.errors import CheckpointError
from dtensor.runtime.checkpoint.backend import ARRAYS
from dtensor.runtime.checkpoint.record import RECORD, read_record

# Suffixes of what is being written, of what is being replaced, and of what is being removed.
NEW, OLD, TRASH = ".dtensor-new", ".dtensor-old", ".dtensor-trash"
_SUFFIXES = (NEW, OLD, TRASH)
_claimed: dict[Path, int] = {}  # the open folder of each save of this process


def checked(path: object) -> Path:
    """The path, absolute.

    Raises:
        CheckpointError: not a path on this machine's file systems.
    """
    if not isinstance(path, str | os.PathLike):
        hint = "; there is no checkpoint yet" if path is None else ""
        raise CheckpointError(f"a checkpoint's path is a string or a Path, not {path!r}{hint}")
    text = os.fspath(path)
    if not isinstance(text, str) or not text:
        raise CheckpointError(f"a checkpoint's path is a text that is not empty, not {text!r}")
    if "://" in text:
        raise CheckpointError(
            f"checkpoint path '{text}' is a URL; save to a local or mounted file system"
        )
    path = Path(os.path.abspath(text))
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        pass
    except (OSError, ValueError) as error:
        raise CheckpointError(f"checkpoint path {text!r} cannot be used: {error}") from None
    return path


def is_checkpoint(folder: Path) -> bool:
    """Whether the folder is a whole checkpoint of dtensor's, by its name and record."""
    return not folder.name.endswith(_SUFFIXES) and (folder / RECORD).is_file()


def existing(path: Path) -> Path:
    """The folder where the checkpoint of this path is.

    Raises:
        CheckpointError: there is none; the message says what there is.
    """
    if is_checkpoint(path):
        return path
    if not path.exists():
        old = path.with_name(path.name + OLD)
        if _is_replaced(old):
            return old
    raise CheckpointError(_what_is_there(path))


def _what_is_there(path: Path) -> str:
    if path.name.endswith(_SUFFIXES):
        return f"{path} is what is left of a save that was interrupted; it is not a checkpoint"
    if path.is_file():
        return f"{path} is a file; a checkpoint is a folder"
    if path.is_dir():
        return _what_folder(path)
    beside = _complete_beside(path)
    rest = f"; there are {', '.join(beside[:8])}" if beside else ""
    if path.with_name(path.name + NEW).exists():
        return f"there is no checkpoint at {path}: its first save was interrupted{rest}"
    if not path.parent.is_dir():
        return f"there is no checkpoint at {path}: {path.parent} does not exist"
    return f"there is no checkpoint at {path}{rest}"


def _what_folder(path: Path) -> str:
    inside = [place.name for _, place in _checkpoints_in(path)]
    if inside:
        call = f"latest_checkpoint('{path}')"
        return f"{path} holds checkpoints ({', '.join(inside[:8])}) and is none; use {call}"
    if (path / ARRAYS).is_dir():
        return f"checkpoint {path} is damaged: its {RECORD} is missing; restore another one"
    if (path / "_CHECKPOINT_METADATA").exists():
        return f"{path} is a checkpoint that orbax wrote without dtensor; read it with orbax"
    return f"{path} is not a checkpoint: it has no {RECORD}"


def _complete_beside(path: Path) -> list[str]:
    return [place.name for _, place in _checkpoints_in(path.parent)]


def writable(path: Path) -> None:
    """Check that a checkpoint may be written at this path.

    Raises:
        CheckpointError: something that is not a checkpoint is there.
    """
    if path.name.endswith(_SUFFIXES):
        raise CheckpointError(f"checkpoint path {path} has a reserved ending; choose another name")
    above = next((parent for parent in path.parents if parent.exists()), path)
    if not above.is_dir():
        raise CheckpointError(f"checkpoint {path} cannot be written: {above} is not a folder")
    if path.is_dir() and not any(path.iterdir()):
        return
    if path.exists() and not is_checkpoint(path):
        raise CheckpointError(
            f"{path} exists and is not a checkpoint; it is left as it is, choose another path"
        )


def begin(path: Path) -> Path:
    """A new folder for what shall be the checkpoint at `path`; call `commit` when all is in it.

    No other save to this path begins before `release`.

    Raises:
        CheckpointError: another one has begun.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    old, new = path.with_name(path.name + OLD), path.with_name(path.name + NEW)
    _claimed[path] = _claim(path, new)
    try:
        if not path.exists() and _is_replaced(old):
            os.rename(old, path)  # the process that replaced it ended between its two renames
        for left in (old, path.with_name(path.name + TRASH)):
            with contextlib.suppress(OSError):  # of others, who may be removing it themselves
                _remove(left)
    except BaseException:
        release(path)
        raise
    return new


def release(path: Path) -> None:
    """Let other saves to this path begin."""
    folder = _claimed.pop(path, -1)
    if folder >= 0:
        os.close(folder)


def _claim(path: Path, new: Path) -> int:
    """Make an empty folder that is this save's alone, until what is returned is closed.

    Returns:
        The open folder; -1 where folders cannot be locked.
    """
    if fcntl is None:
        _remove(new)
        new.mkdir()
        return -1
    while True:
        made = True
        try:
            new.mkdir()
        except FileExistsError:
            made = False
        try:
            folder = os.open(new, os.O_RDONLY)
        except FileNotFoundError:  # another save has removed it or is done with it
            continue
        try:
            if not _is_locked_now(folder):
                raise CheckpointError(
                    f"checkpoint {path} is being saved by another thread or process; wait for "
                    "that, or choose another path"
                )
            if not made:
                shutil.rmtree(new)  # of a process that ended while it saved
            elif os.path.samestat(os.fstat(folder), new.stat()):
                return folder
        except FileNotFoundError:
            pass
        except BaseException:
            os.close(folder)
            raise
        os.close(folder)


def _is_locked_now(folder: int) -> bool:
    """Whether the folder is this save's from now on; so too where there are no locks."""
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks
        return True
    return True


def commit(path: Path, record: str) -> None:
    """Let what is in the folder that `begin` made be the checkpoint at `path`.

    Args:
        path: the checkpoint.
        record: what it says about itself, which makes the folder a checkpoint.
    """
    new, old = path.with_name(path.name + NEW), path.with_name(path.name + OLD)
    with (new / RECORD).open("w", encoding="utf-8") as file:
        file.write(record)
        file.flush()
        os.fsync(file.fileno())
    if not path.exists():
        os.rename(new, path)
        return
    os.rename(path, old)
    os.rename(new, path)
    with contextlib.suppress(OSError):  # the new one is there; the next save tries again
        discard(old)


def abandon(path: Path) -> None:
    """Remove what was begun and cannot be completed, so far as the file system lets it."""
    shutil.rmtree(path.with_name(path.name + NEW), ignore_errors=True)


def discard(folder: Path) -> None:
    """Remove a checkpoint; it stops being one before its first file goes."""
    name = folder.name.removesuffix(OLD)
    trash = folder.with_name(name + TRASH)
    _remove(trash)
    os.rename(folder, trash)
    _remove(trash)


def _remove(folder: Path) -> None:
    if folder.is_symlink():
        folder.unlink()
    elif folder.exists():
        shutil.rmtree(folder)


def numbered(prefix: Path) -> list[tuple[int, Path]]:
    """The checkpoints `prefix-1`, `prefix-2` and so on that exist, by number."""
    form = re.compile(re.escape(prefix.name) + r"-(\d+)")
    found = [(form.fullmatch(place.name), place) for _, place in _checkpoints_in(prefix.parent)]
    return sorted((int(match.group(1)), place) for match, place in found if match)


def latest_checkpoint(directory: object) -> str | None:
    """The checkpoint in a folder that was saved last; None where there is none yet.

    Args:
        directory: the folder that holds checkpoints.

    Raises:
        CheckpointError: not a folder, or a checkpoint in it is damaged.
    """
    folder = checked(directory)
    if folder.is_file():
        raise CheckpointError(f"{folder} is a file; give the folder that holds checkpoints")
    found = [
        (read_record(child, place).saved_at, str(place)) for child, place in _checkpoints_in(folder)
    ]
    return max(found)[1] if found else None


def _checkpoints_in(folder: Path) -> list[tuple[Path, Path]]:
    """Each whole checkpoint: the folder with its files, and the path that users call it by."""
    found = []
    for child in sorted(folder.iterdir()) if folder.is_dir() else []:
        place = child.with_name(child.name.removesuffix(OLD))
        if is_checkpoint(child) or (_is_replaced(child) and not place.exists()):
            found.append((child, place))
    return found


def _is_replaced(folder: Path) -> bool:
    return folder.name.endswith(OLD) and (folder / RECORD).is_file()
