"""Where checkpoints are: folders that orbax writes beside their final names, and then names.

A path that users name is either one of a numbered series, `path-1`, `path-2` and so on, or holds a
series of its own, `path/1`, `path/2`, of which the last one counts and the others go: so a save in
place of another one never takes the old one away before the new one is whole.
"""

from __future__ import annotations

import importlib
import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote
from uuid import uuid4

from dtensor.dialect.errors import CheckpointError
from dtensor.runtime.checkpoint import backend
from dtensor.runtime.checkpoint.record import RECORD, read_record
from dtensor.runtime.tracing import is_eager

_TEMPORARY = ".orbax-checkpoint-tmp"
_MARK = "seen"
_NETWORK_SECONDS = 3.0
# All that is in the folder of a checkpoint.
_PARTS = {backend.ARRAYS, backend.ITEM, "_CHECKPOINT_METADATA", "commit_success.txt"}


@dataclass(frozen=True)
class Series:
    """Checkpoints `<prefix>1`, `<prefix>2` in the folder `root`; orbax's NameFormat of them.

    `path` is what users call them.
    """

    root: Path
    prefix: str
    path: Path

    def build_name(self, step: int) -> str:
        """The name of the checkpoint with this number."""
        return f"{self.prefix}{step}"

    def find_all(self, base_path: Any = None) -> Iterator[Any]:
        """Those that are whole."""
        steps = backend.orbax().path.step
        for number, place in self._entries():
            if is_checkpoint(place):
                yield steps.Metadata(step=number, path=place)

    def find_step(self, base_path: Any, step: int) -> Any:
        """The whole one with this number."""
        found = next((each for each in self.find_all() if each.step == step), None)
        if found is None:  # another save to the same place has removed it
            raise _GoneError(f"{self.root / self.build_name(step)} is not there")
        return found

    def names(self) -> list[str]:
        """The names of those that are whole, in order."""
        return [place.name for _, place in self._entries() if is_checkpoint(place)]

    def last(self) -> Path | None:
        """The whole one with the highest number."""
        return next((p for _, p in reversed(self._entries()) if is_checkpoint(p)), None)

    def begin(self) -> int:
        """Make the folder; returns a number that no checkpoint in it has, whole or not.

        Raises:
            CheckpointError: something that is no checkpoint is in its place.
        """
        entries = self._entries()
        if not self.prefix and self.root.exists():
            own = [p.name for _, p in entries if is_checkpoint(p) or _is_left(p)]
            if not self.root.is_dir() or any(p.name not in own for p in self.root.iterdir()):
                raise CheckpointError(
                    f"{self.path} exists and is not a checkpoint; it is left as it is, choose "
                    "another path"
                )
        with self._writing():
            self.root.mkdir(parents=True, exist_ok=True)
        return max([0, *(number for number, _ in entries)]) + 1

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except (OSError, ValueError) as error:
            raise CheckpointError(f"checkpoint {self.path} could not be written: {error}") from None

    def mark(self, number: int) -> Any:
        """Put something into the folder that `clear` takes for a save that never became whole."""
        place: Any = self.root / f"{self.build_name(number)}{_TEMPORARY}-{uuid4().hex}"
        with self._writing():
            place.mkdir()
            (place / _MARK).write_text("")  # a store of objects has no empty folders
        return place

    def shows(self, mark: str, own: str) -> bool:
        """Whether what another client marked is here, or comes within the seconds a network takes.

        Args:
            mark: the path, on that client.
            own: the name of a file to write there in turn.

        Raises:
            CheckpointError: it cannot be written.
        """
        place = self.root / mark.rpartition("/")[2] / _MARK
        until = time.monotonic() + _NETWORK_SECONDS
        while not (is_here := place.exists()) and time.monotonic() < until:
            time.sleep(0.1)
        if is_here:
            with self._writing():
                (place.parent / own).write_text("")
        return is_here

    def clear(self, number: int) -> None:
        """Remove what saves up to this number have left that never became whole."""
        for other, place in self._entries():
            if other <= number and _is_left(place):
                place.rmtree(missing_ok=True)

    def drop_replaced(self) -> None:
        """Of a series inside of a path, remove all but the last that is whole.

        Each save removes what was whole when it began, which of several at a time is little.
        """
        if not self.prefix:
            whole = [place for _, place in self._entries() if is_checkpoint(place)]
            for place in whole[:-1]:
                place.rmtree(missing_ok=True)

    def _entries(self) -> list[tuple[int, Any]]:
        form = re.compile(re.escape(self.prefix) + rf"(\d+)({re.escape(_TEMPORARY)}.*)?")
        inside = self.root.iterdir() if self.root.is_dir() else ()
        found = [(form.fullmatch(place.name), place) for place in inside]
        return sorted((int(match[1]), place) for match, place in found if match)


class _GoneError(FileNotFoundError, ValueError):
    """A checkpoint is gone: orbax expects the one error where it reads, the other to remove it."""


def _is_left(place: Path) -> bool:
    """Whether this is what orbax began to write or to remove and did not end.

    A checkpoint that orbax wrote without dtensor has other parts: it is not ours to remove.
    """
    if _TEMPORARY in place.name:
        return True
    try:
        return {part.name for part in place.iterdir()} <= _PARTS and not is_checkpoint(place)
    except NotADirectoryError:
        return False
    except FileNotFoundError:  # another save has just removed it
        return True


def replaced(path: Path) -> Series:
    """The series inside of `path`."""
    return Series(path, "", path)


def numbered(path: object) -> Series:
    """The series `path-1`, `path-2`, beside `path`.

    Raises:
        CheckpointError: as `checked`, or the path ends in a slash, as that of a folder.
    """
    base = checked(path)
    text = str(path)
    if text.endswith(("/", os.sep)):
        raise CheckpointError(
            f"{text!r} ends in a slash, as a folder's path does; name the checkpoints in it, with "
            f"{text + 'ckpt'!r}"
        )
    return Series(base.parent, f"{base.name}-", base)


def array_key(name: str) -> str:
    """The name by which the files know the array of this name."""
    return quote(name, safe="")  # a store splits its keys at slashes


def checked(path: object) -> Path:
    """The path, absolute, or the URL, of a checkpoint that is saved, restored or looked at.

    Raises:
        CheckpointError: no path, or jax is tracing.
    """
    if not is_eager():
        raise CheckpointError(
            "a checkpoint is saved or restored in a traced function, where there are no values; "
            "do it outside"
        )
    if not isinstance(path, str | os.PathLike) or not os.fspath(path):
        hint = "; there is no checkpoint yet" if path is None else ""
        raise CheckpointError(
            f"a checkpoint's path is a Path or a text that is not empty, not {path!r}{hint}"
        )
    text = os.fspath(path)
    backend.orbax()
    epath = importlib.import_module("etils.epath")
    try:
        place: Path = epath.Path(text if "://" in text else os.path.abspath(text))
        if "://" in text:
            importlib.import_module("fsspec").get_filesystem_class(text.partition("://")[0])
    except (ImportError, OSError, ValueError, KeyError) as error:
        what: object = error
        if isinstance(error, KeyError):
            what = "a URL begins with gs://, s3:// or az://"
        raise CheckpointError(f"checkpoint path {text!r} cannot be used: {what}") from None
    return place


def is_checkpoint(folder: Path) -> bool:
    """Whether the folder is a whole checkpoint of dtensor's."""
    if _TEMPORARY in folder.name or not (folder / RECORD).exists():
        return False
    return bool(backend.orbax().path.step.is_path_finalized(folder))


def existing(path: Path) -> Path:
    """The folder where the checkpoint of this path is.

    Raises:
        CheckpointError: there is none; the message says what there is.
    """
    folder = path if is_checkpoint(path) else replaced(path).last()
    if folder is not None:
        return folder
    if inside := _names(path):
        said = f"{path} holds checkpoints ({inside}) and is none; use latest_checkpoint('{path}')"
    elif path.exists():
        said = f"{path} is not a whole checkpoint of dtensor's: it has no {RECORD}"
    else:
        beside = _names(path.parent)
        said = f"there is no checkpoint at {path}" + (f"; there are {beside}" if beside else "")
    raise CheckpointError(said)


def _names(folder: Path) -> str:
    return ", ".join(place.name for place in _checkpoints_in(folder)[:8])


def latest_checkpoint(directory: object) -> str | None:
    """The checkpoint in a folder that was saved last; None where there is none yet.

    Args:
        directory: the folder that holds checkpoints, or a URL.

    Raises:
        CheckpointError: not a folder, but a file or what checkpoints beside it begin with; or a
            checkpoint in it is damaged.

    Example:
        >>> rows = dtensor.Layout.batch_sharded(mesh, "x", rank=2)
        >>> x = dtensor.copy_to_mesh(np.ones((4, 8)), rows)
        >>> path = dtensor.DTensorCheckpoint(mesh, x=x).save("runs/model")
        >>> dtensor.latest_checkpoint("runs")
        '.../runs/model-1'
    """
    folder = checked(directory)
    if folder.exists() and not folder.is_dir():
        raise CheckpointError(f"{folder} is a file; give the folder that holds checkpoints")
    beside = [] if folder.exists() else Series(folder.parent, f"{folder.name}-", folder).names()
    if beside:
        raise CheckpointError(
            f"there is no folder {folder}, but beside it {', '.join(beside[:8])}; give the folder "
            f"that holds them, {str(folder.parent)!r}"
        )
    found = [
        (read_record(existing(place), place).saved_at, str(place))
        for place in _checkpoints_in(folder)
    ]
    return max(found)[1] if found else None


def _checkpoints_in(folder: Path) -> list[Path]:
    """The paths in a folder that are checkpoints, as users call them."""
    inside = sorted(folder.iterdir()) if folder.is_dir() else []
    return [p for p in inside if is_checkpoint(p) or replaced(p).last() is not None]
