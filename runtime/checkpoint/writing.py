"""Writing a checkpoint: the elements by orbax, and what dtensor says about them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import jax

from dtensor.dialect.errors import CheckpointError
from dtensor.dialect.mesh import Mesh
from dtensor.runtime.array import DTensor
from dtensor.runtime.checkpoint import backend, checksum
from dtensor.runtime.checkpoint.clients import clients_of, is_first, same_everywhere, together
from dtensor.runtime.checkpoint.record import (
    ITEM,
    CheckpointInfo,
    Plain,
    SavedArray,
    now,
    to_json,
)
from dtensor.runtime.checkpoint.series import Series
from dtensor.runtime.checkpoint.stored import array_key, converted, stored_dtype

_one_at_a_time = threading.Lock()  # orbax numbers what it begins, and waits for ever if two do


@dataclass(frozen=True)
class Source:
    """An array to save.

    Attributes:
        tensor: the array.
        as_bf16: whether float32 is to be written as bfloat16.
    """

    tensor: DTensor
    as_bf16: bool = False


@dataclass
class Saving:
    """A checkpoint that is being written.

    Attributes:
        series: where.
        number: its number there.
        clients: who writes it.
        manager: orbax's.
    """

    series: Series
    number: int
    clients: tuple[int, ...]
    manager: Any

    @property
    def path(self) -> str:
        """What users call the checkpoint."""
        if not self.series.prefix:
            return str(self.series.path)
        return str(self.series.root / self.series.build_name(self.number))

    def wait(self) -> None:
        """Return when it is on disk, whole, on every client.

        Raises:
            CheckpointError: it could not be written. What was there before still is.
        """

        def finish() -> None:
            with self.errors():
                self.manager.close()

        together(self.clients, finish)
        self._clear()

    @contextmanager
    def errors(self) -> Iterator[None]:
        """Turn what orbax and the file system raise into one error."""
        try:
            with backend.quiet():
                yield
        except Exception as error:  # of orbax, of the file system, of another client
            self._clear()
            raise CheckpointError(
                f"checkpoint {self.path} could not be written: {backend.reason(error)}; "
                "what was there before is as it was"
            ) from None

    def _clear(self) -> None:
        if is_first(self.clients):
            with suppress(OSError):  # the next save tries again
                self.series.clear(self.number)


def write_checkpoint(
    series: Series,
    mesh: Mesh,
    sources: Mapping[str, Source],
    values: Callable[[int], Mapping[str, Plain]],
    *,
    max_to_keep: int | None = 1,
    checksums: bool = True,
    least: int = 1,
) -> Saving:
    """Begin to write arrays and plain values to the next checkpoint of a series.

    Returns when the arrays may change; `Saving.wait` returns when it is on disk.

    Args:
        series: where, on a file system that all clients see.
        mesh: the mesh of the arrays.
        sources: the arrays by name.
        values: gives numbers and texts by name, from the number of the checkpoint.
        max_to_keep: how many of the series are kept; None is all.
        checksums: whether the elements get checksums, which reading compares.
        least: the lowest number that it may have.

    Raises:
        CheckpointError: it cannot be written. What was there before still is.
        ClientError: another client did not come.
    """
    backend.orbax()
    clients = clients_of(mesh)
    if len(clients) == 1 < jax.process_count():
        raise CheckpointError(
            f"{mesh.short()} is on client {clients[0]} alone, and in a run of "
            f"{jax.process_count()} clients orbax saves only what lies over several; use a mesh "
            "over more clients"
        )
    entries = [f"'{name}' {_described(source)}" for name, source in sources.items()]
    same_everywhere(clients, "save", [*entries, *(f"'{n}' = {v!r}" for n, v in values(0).items())])
    together(clients, lambda: series.begin() if is_first(clients) else None)
    arrays: dict[str, jax.Array] = {}
    for name, source in sources.items():
        dtype = stored_dtype(source.tensor.dtype, source.as_bf16)
        arrays[name] = converted(source.tensor.to_jax(), dtype)
    sums = _checksums(clients, arrays) if checksums else [None] * len(arrays)
    saved = tuple(
        _saved(name, source.tensor, arrays[name], total)
        for (name, source), total in zip(sources.items(), sums, strict=True)
    )
    with _one_at_a_time:
        number = max(least, *together(clients, series.next_number))
        info = CheckpointInfo(mesh, saved, dict(values(number)), len(clients), now())
        saving = Saving(series, number, clients, None)

        def start() -> None:
            with saving.errors():
                saving.manager = backend.manager(series, clients, max_to_keep)
                saving.manager.save(number, args=_items(arrays, info), force=True)

        together(clients, start)
    return saving


def _checksums(clients: tuple[int, ...], arrays: Mapping[str, jax.Array]) -> list[int | None]:
    parts = together(clients, lambda: checksum.parts(list(arrays.values()), False))
    return [checksum.combine(list(of_array)) for of_array in zip(*parts, strict=True)]


def _items(arrays: Mapping[str, jax.Array], info: CheckpointInfo) -> Any:
    args = backend.orbax().args
    items = {ITEM: args.JsonSave(to_json(info))}
    # orbax does not take arrays without elements; what there is to know about them is recorded.
    whole = {array_key(name): array for name, array in arrays.items() if array.size}
    if whole:
        chunk = backend.orbax().SaveArgs(chunk_byte_size=backend.CHUNK_BYTES)
        items[backend.ARRAYS] = args.PyTreeSave(whole, save_args=dict.fromkeys(whole, chunk))
    return args.Composite(**items)


def _saved(name: str, tensor: DTensor, written: jax.Array, total: int | None) -> SavedArray:
    return SavedArray(name, tensor.shape, tensor.dtype, written.dtype, tensor.layout, total)


def _described(source: Source) -> str:
    kind = f"{source.tensor.dtype}{list(source.tensor.shape)} {source.tensor.layout.short()}"
    return kind + (" as bfloat16" if source.as_bf16 else "")
