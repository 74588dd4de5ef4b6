"""What a checkpoint says about its arrays."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

from dtensor.dialect.errors import CheckpointError, DTensorError
from dtensor.dialect.layout import Layout
from dtensor.dialect.mesh import Mesh

ITEM = "dtensor"  # what orbax calls the part of a checkpoint that says what is in it
RECORD = f"{ITEM}/metadata"  # and the file in which it writes that
_FORMAT = 2

Plain = bool | int | float | str


@dataclass(frozen=True)
class SavedArray:
    """One array of a checkpoint.

    Attributes:
        name: its name.
        shape: global shape in elements.
        dtype: element type.
        stored: element type in the files; bfloat16 for what was saved with `save_as_bf16`.
        layout: how the array was laid out when it was saved.
        checksum: of the stored elements, see `checksum.py`; None where none was wanted.
    """

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    stored: np.dtype[Any]
    layout: Layout
    checksum: int | None = field(repr=False)

    @property
    def size(self) -> int:
        """Number of elements."""
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def nbytes(self) -> int:
        """Bytes in the files."""
        return self.size * self.stored.itemsize


@dataclass(frozen=True)
class CheckpointInfo(Mapping[str, SavedArray]):
    """What a checkpoint holds: a mapping of names to `SavedArray`s, which prints as a table.

    Attributes:
        mesh: the mesh it was saved from.
        arrays: the arrays in the order in which they were saved.
        plain: numbers and texts that were saved beside the arrays.
        clients: number of processes that saved it.
        saved_at: when, in UTC.
        path: where it is.
    """

    mesh: Mesh
    arrays: tuple[SavedArray, ...]
    plain: Mapping[str, Plain]
    clients: int
    saved_at: datetime
    path: Path | None = None

    def __getitem__(self, name: str) -> SavedArray:
        return self._by_name[name]

    @cached_property
    def _by_name(self) -> dict[str, SavedArray]:
        return {array.name: array for array in self.arrays}

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_name)

    def __len__(self) -> int:
        return len(self.arrays)

    @property
    def nbytes(self) -> int:
        """Bytes of all elements in the files."""
        return sum(array.nbytes for array in self.arrays)

    def __repr__(self) -> str:
        head = (
            f"checkpoint {self.path}: {len(self)} array{'s'[: len(self) != 1]}, "
            f"{_bytes_text(self.nbytes)}, from {self.mesh.short()} by {self.clients} "
            f"client{'s'[: self.clients != 1]}, {self.saved_at:%Y-%m-%d %H:%M:%S} UTC"
        )
        rows = [("name", "shape", "dtype", "layout when saved")]
        for array in self.arrays:
            dtype = array.dtype.name
            if array.stored != array.dtype:
                dtype += f" as {array.stored.name}"
            rows.append((array.name, str(list(array.shape)), dtype, array.layout.short()))
        rows += [
            (name, "", type(value).__name__, repr(value)) for name, value in self.plain.items()
        ]
        widths = [max(len(row[i]) for row in rows) for i in range(4)]
        lines = [
            "  " + "  ".join(cell.ljust(n) for cell, n in zip(row, widths, strict=True)).rstrip()
            for row in rows
        ]
        return "\n".join([head, *lines])


def now() -> datetime:
    """The time, as checkpoints state it."""
    return datetime.now(UTC)


def to_json(info: CheckpointInfo) -> dict[str, Any]:
    """The record, to be written as JSON, with a checksum of itself."""
    mesh = info.mesh
    body = {
        "format": _FORMAT,
        "mesh": {
            "axes": [list(pair) for pair in mesh.axes],
            "device_ids": None if mesh.device_ids is None else list(mesh.device_ids),
            "name": mesh.name,
        },
        "clients": info.clients,
        "saved_at": info.saved_at.isoformat(),
        "arrays": [
            {
                "name": array.name,
                "shape": list(array.shape),
                "dtype": array.dtype.name,
                "stored": array.stored.name,
                "layout": array.layout.asm(),
                "checksum": None if array.checksum is None else f"{array.checksum:016x}",
            }
            for array in info.arrays
        ],
        "values": dict(info.plain),
    }
    return {"crc32": _crc(body), "checkpoint": body}


def read_record(folder: Path, path: Path) -> CheckpointInfo:
    """What the checkpoint in `folder` says.

    Args:
        folder: where its files are.
        path: what the user calls it.

    Raises:
        CheckpointError: the record is damaged, or of a later version of dtensor.
    """
    file = folder / RECORD
    try:
        written = json.loads(file.read_text(encoding="utf-8"))
        body = written["checkpoint"]
        intact = written["crc32"] == _crc(body)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CheckpointError(
            f"checkpoint {path} is damaged: {file} cannot be read ({_first_line(error)}); "
            "restore another one"
        ) from None
    if not intact:
        raise CheckpointError(
            f"checkpoint {path} is damaged: {file} is not what was written; restore another one"
        )
    if body["format"] != _FORMAT:
        raise CheckpointError(
            f"checkpoint {path} has format {body['format']}, this dtensor reads {_FORMAT}; "
            "install the version that wrote it"
        )
    try:
        return _from_body(body, path)
    except (DTensorError, AttributeError, TypeError) as error:
        raise CheckpointError(
            f"checkpoint {path} says what this dtensor cannot read: {_first_line(error)}"
        ) from None


def _from_body(body: dict[str, Any], path: Path) -> CheckpointInfo:
    mesh = body["mesh"]
    grid = Mesh([tuple(pair) for pair in mesh["axes"]], mesh["device_ids"], name=mesh["name"])
    arrays = tuple(
        SavedArray(
            name=array["name"],
            shape=tuple(array["shape"]),
            dtype=_dtype(array["dtype"]),
            stored=_dtype(array["stored"]),
            layout=Layout.parse(array["layout"], grid),
            checksum=None if array["checksum"] is None else int(array["checksum"], 16),
        )
        for array in body["arrays"]
    )
    saved_at = datetime.fromisoformat(body["saved_at"])
    return CheckpointInfo(grid, arrays, body["values"], body["clients"], saved_at, path)


def _dtype(name: str) -> np.dtype[Any]:
    # numpy itself does not know the names of the element types that jax adds.
    return np.dtype(getattr(jnp, name)) if hasattr(jnp, name) else np.dtype(name)


def _crc(body: Any) -> int:
    return zlib.crc32(json.dumps(body, sort_keys=True).encode())


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


def _bytes_text(count: int) -> str:
    if count < 10_000:
        return f"{count} bytes"
    return f"{count / 1e6:.1f} MB" if count < 1e9 else f"{count / 1e9:.2f} GB"
