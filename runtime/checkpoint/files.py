"""The files of a checkpoint: whether they are as they were written."""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

_SMALL_BYTES = 2**20  # larger files hold elements, which have checksums of their own


@dataclass(frozen=True)
class WrittenFile:
    """A file of a checkpoint.

    Attributes:
        name: path inside the checkpoint's folder, with slashes.
        nbytes: its size.
        crc32: checksum of what is in it; None for a large file.
    """

    name: str
    nbytes: int
    crc32: int | None


def written_files(folder: Path) -> tuple[WrittenFile, ...]:
    """All files in a folder, by name."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return tuple(_written(path, path.relative_to(folder).as_posix()) for path in files)


def _written(path: Path, name: str) -> WrittenFile:
    nbytes = path.stat().st_size
    return WrittenFile(name, nbytes, zlib.crc32(path.read_bytes()) if _is_small(nbytes) else None)


def _is_small(nbytes: int) -> bool:
    return nbytes <= _SMALL_BYTES


def damage(folder: Path, files: Iterable[WrittenFile]) -> str | None:
    """What is wrong with the first file that is not as it was written; None if all are."""
    for file in files:
        path = folder / file.name
        try:
            if not path.is_file():
                return f"file {path} is missing"
            found = _written(path, file.name)
        except OSError as error:
            return f"file {path} cannot be read ({error.strerror})"
        if found.nbytes != file.nbytes:
            return f"file {path} has {found.nbytes} bytes, {file.nbytes} were written"
        if found != file:
            return f"file {path} is not what was written"
    return None
