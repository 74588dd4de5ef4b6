"""What a checkpoint says about its arrays."""

from __future__ import annotations

import json
import math
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

from dtensor.dialect.errors import CheckpointError
from dtensor.dialect.layout import Layout
from dtensor.dialect.mesh import Mesh
from dtensor.runtime.checkpoint import backend

RECORD = f"{backend.ITEM}/metadata"  # the file in which orbax writes the record
_FORMAT = 3

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
        generator: of data of random keys, jax's name of their generator; empty for other arrays,
            and where the generator is one that jax has no name for.
    """

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    stored: np.dtype[Any]
    layout: Layout
    generator: str = ""

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes in the files."""
        return self.size * self.stored.itemsize

    def cells(self) -> tuple[str, str, str, str]:
        """Name, shape, element type and layout as texts."""
        dtype = self.dtype.name
        dtype += f" as {self.stored.name}" if self.stored != self.dtype else ""
        dtype += f", {self.generator} keys" if self.generator else ""
        return self.name, str(list(self.shape)), dtype, self.layout.short()


@dataclass(frozen=True)
class CheckpointInfo(Mapping[str, SavedArray]):
    """What a checkpoint holds: a mapping of names to `SavedArray`s, which prints as a table.

    Attributes:
        mesh: the mesh it was saved from.
        arrays: the arrays by name, in the order in which they were saved.
        plain: numbers and texts that were saved beside the arrays.
        clients: number of processes that saved it.
        saved_at: when, in UTC.
        path: where it is.
    """

    mesh: Mesh
    arrays: Mapping[str, SavedArray]
    plain: Mapping[str, Plain]
    clients: int
    saved_at: datetime
    path: Path

    def __getitem__(self, name: str) -> SavedArray:
        return self.arrays[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.arrays)

    def __len__(self) -> int:
        return len(self.arrays)

    @property
    def nbytes(self) -> int:
        """Bytes of all elements in the files."""
        return sum(array.nbytes for array in self.arrays.values())

    def __repr__(self) -> str:
        head = (
            f"checkpoint {self.path}: {len(self)} array{'s'[: len(self) != 1]}, "
            f"{self.nbytes:,} bytes, from {self.mesh.short()} by {self.clients} "
            f"client{'s'[: self.clients != 1]}, {self.saved_at:%Y-%m-%d %H:%M:%S} UTC"
        )
        rows = [("name", "shape", "dtype", "layout when saved")]
        rows += [array.cells() for array in self.arrays.values()]
        rows += [(name, "", type(v).__name__, repr(v)) for name, v in self.plain.items()]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = [
            "  " + "  ".join(cell.ljust(n) for cell, n in zip(row, widths, strict=True)).rstrip()
            for row in rows
        ]
        return "\n".join([head, *lines])


def to_json(info: CheckpointInfo) -> dict[str, Any]:
    """The record, to be written as JSON, with a checksum of itself."""
    body = {
        "format": _FORMAT,
        "mesh": [info.mesh.asm(), info.mesh.name],
        "clients": info.clients,
        "saved_at": info.saved_at.isoformat(),
        "arrays": [
            [a.name, list(a.shape), a.dtype.name, a.stored.name, a.layout.asm(), a.generator]
            for a in info.arrays.values()
        ],
        "values": dict(info.plain),
    }
    return {"crc32": _crc(body), "checkpoint": body}


def read_record(folder: Path, path: Path) -> CheckpointInfo:
    """What the checkpoint in `folder` says, which users call `path`.

    Raises:
        CheckpointError: the record is damaged, or of a later version of dtensor.
    """
    file = folder / RECORD
    try:
        written = json.loads(file.read_text(encoding="utf-8"))
        body = written["checkpoint"]
        if written["crc32"] != _crc(body):
            raise ValueError("it is not what was written")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CheckpointError(
            f"checkpoint {path} is damaged: {file} cannot be read ({backend.reason(error)}); "
            "restore another one"
        ) from None
    if body["format"] != _FORMAT:
        raise CheckpointError(
            f"checkpoint {path} has format {body['format']}, this dtensor reads {_FORMAT}; "
            "install the version that wrote it"
        )
    mesh = Mesh.parse(*body["mesh"])
    arrays = {
        name: SavedArray(
            name, tuple(shape), _dtype(dtype), _dtype(stored), Layout.parse(layout, mesh), *keys
        )
        for name, shape, dtype, stored, layout, *keys in body["arrays"]
    }
    saved_at = datetime.fromisoformat(body["saved_at"])
    return CheckpointInfo(mesh, arrays, body["values"], body["clients"], saved_at, path)


def _dtype(name: str) -> np.dtype[Any]:
    # numpy itself does not know the names of the element types that jax adds.
    return np.dtype(getattr(jnp, name)) if hasattr(jnp, name) else np.dtype(name)


def _crc(body: Any) -> int:
    return zlib.crc32(json.dumps(body, sort_keys=True).encode())
