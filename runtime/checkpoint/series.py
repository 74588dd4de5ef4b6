"""Where checkpoints are: folders that orbax writes beside their final names, and then names.

A path that users name is either one of a numbered series, `path-1`, `path-2` and so on, or holds a
series of its own, `path/1`, `path/2`, of which the last one counts and the others go: so a save in
place of another one never takes the old one away before the new one is whole.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dtensor.dialect.errors import CheckpointError
from dtensor.runtime.checkpoint import backend
from dtensor.runtime.checkpoint.record import ITEM, RECORD, read_record

_TEMPORARY = ".orbax-checkpoint-tmp"
# All that is in the folder of a checkpoint.
_PARTS = {backend.ARRAYS, ITEM, "_CHECKPOINT_METADATA", "commit_success.txt"}


@dataclass(frozen=True)
class Series:
    """Checkpoints `<prefix>1`, `<prefix>2` in a folder; orbax's NameFormat of them.

    Attributes:
        root: the folder.
        prefix: what comes before the number.
        path: what users call it.
    """

    root: Path
    prefix: str
    path: Path

    def build_name(self, step: int) -> str:
        """The name of the checkpoint with this number."""
        return f"{self.prefix}{step}"

    def find_all(self, base_path: Any) -> Iterator[Any]:
        """Those that are whole."""
        steps = backend.orbax().path.step
        for number, place in self._entries():
            if is_checkpoint(place):
                yield steps.Metadata(step=number, path=place)

    def find_step(self, base_path: Any, step: int) -> Any:
        """The whole one with this number."""
        for found in self.find_all(base_path):
            if found.step == step:
                return found
        raise ValueError(f"there is no checkpoint {self.root / self.build_name(step)}")

    def next_number(self) -> int:
        """A number that none has, whole or not."""
        return max([0, *(number for number, _ in self._entries())]) + 1

    def last(self) -> Path | None:
        """The whole one with the highest number."""
        whole = [entry for entry in self._entries() if is_checkpoint(entry[1])]
        return max(whole)[1] if whole else None

    def begin(self) -> None:
        """Make the folder.

        Raises:
            CheckpointError: something that is no checkpoint is in its place.
        """
        above = next((p for p in (self.root, *self.root.parents) if p.exists()), self.root)
        if above.exists() and not above.is_dir() and above != self.path:
            raise CheckpointError(
                f"checkpoint {self.path} cannot be written: {above} is not a folder"
            )
        if not self.prefix and self.root.exists():
            own = [p.name for _, p in self._entries() if is_checkpoint(p) or _is_left(p)]
            if not self.root.is_dir() or any(p.name not in own for p in self.root.iterdir()):
                raise CheckpointError(
                    f"{self.path} exists and is not a checkpoint; it is left as it is, choose "
                    "another path"
                )
        try:
            self.root.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise CheckpointError(f"checkpoint {self.path} could not be written: {error}") from None

    def clear(self, number: int) -> None:
        """Remove what saves up to this number have left that never became whole."""
        for other, place in self._entries():
            if other <= number and _is_left(place):
                place.rmtree(missing_ok=True)

    def _entries(self) -> list[tuple[int, Any]]:
        form = re.compile(re.escape(self.prefix) + rf"(\d+)({re.escape(_TEMPORARY)}.*)?")
        inside = self.root.iterdir() if self.root.is_dir() else ()
        found = [(form.fullmatch(place.name), place) for place in inside]
        return sorted((int(match[1]), place) for match, place in found if match)


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


def numbered(path: Path) -> Series:
    """The series `path-1`, `path-2` and so on."""
    return Series(path.parent, f"{path.name}-", path)


def replaced(path: Path) -> Series:
    """The series inside of `path`."""
    return Series(path, "", path)


def checked(path: object) -> Path:
    """The path, absolute, or the URL.

    Raises:
        CheckpointError: no path.
    """
    if not isinstance(path, str | os.PathLike):
        hint = "; there is no checkpoint yet" if path is None else ""
        raise CheckpointError(f"a checkpoint's path is a string or a Path, not {path!r}{hint}")
    text = os.fspath(path)
    if not isinstance(text, str) or not text:
        raise CheckpointError(f"a checkpoint's path is a text that is not empty, not {text!r}")
    try:
        place: Path = backend.path(text if "://" in text else os.path.abspath(text))
        with suppress(FileNotFoundError, NotADirectoryError):
            if "://" not in text:
                os.lstat(place)
    except (OSError, ValueError, KeyError) as error:
        raise CheckpointError(f"checkpoint path {text!r} cannot be used: {error}") from None
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
    if is_checkpoint(path):
        return path
    last = replaced(path).last()
    if last is None:
        raise CheckpointError(_what_is_there(path))
    return last


def _what_is_there(path: Path) -> str:
    if path.is_dir():
        inside = [place.name for place in _checkpoints_in(path)]
        if inside:
            call = f"latest_checkpoint('{path}')"
            return f"{path} holds checkpoints ({', '.join(inside[:8])}) and is none; use {call}"
        if (path / backend.ARRAYS).is_dir():
            return f"checkpoint {path} is damaged: its {RECORD} is missing; restore another one"
        if (path / "_CHECKPOINT_METADATA").exists():
            return f"{path} is a checkpoint that orbax wrote without dtensor; read it with orbax"
        if any(_TEMPORARY in place.name for place in path.iterdir()):
            return f"there is no checkpoint at {path}: its first save was interrupted"
        return f"{path} is not a checkpoint: it has no {RECORD}"
    if path.exists():
        return f"{path} is a file; a checkpoint is a folder"
    if not path.parent.is_dir():
        return f"there is no checkpoint at {path}: {path.parent} does not exist"
    beside = [place.name for place in _checkpoints_in(path.parent)]
    rest = f"; there are {', '.join(beside[:8])}" if beside else ""
    return f"there is no checkpoint at {path}{rest}"


def latest_checkpoint(directory: object) -> str | None:
    """The checkpoint in a folder that was saved last; None where there is none yet.

    Args:
        directory: the folder that holds checkpoints, or a URL.

    Raises:
        CheckpointError: not a folder, or a checkpoint in it is damaged.
    """
    folder = checked(directory)
    if folder.exists() and not folder.is_dir():
        raise CheckpointError(f"{folder} is a file; give the folder that holds checkpoints")
    found = [
        (read_record(existing(place), place).saved_at, str(place))
        for place in _checkpoints_in(folder)
    ]
    return max(found)[1] if found else None


def _checkpoints_in(folder: Path) -> list[Path]:
    """The paths in a folder that are checkpoints, as users call them."""
    inside = sorted(folder.iterdir()) if folder.is_dir() else []
    return [p for p in inside if is_checkpoint(p) or replaced(p).last() is not None]
