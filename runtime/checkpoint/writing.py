"""Writing a checkpoint: the elements by orbax, and what dtensor says about them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import jax

from dtensor.dialect.errors import CheckpointError
from dtensor.dialect.mesh import Mesh
from dtensor.runtime.checkpoint import backend
from dtensor.runtime.checkpoint.arrays import Source, converted
from dtensor.runtime.checkpoint.clients import clients_of, same_everywhere, together
from dtensor.runtime.checkpoint.record import CheckpointInfo, Plain, to_json
from dtensor.runtime.checkpoint.series import Series, array_key

_one_at_a_time = threading.Lock()  # orbax numbers what it begins, and waits for ever if two do


@dataclass
class Saving:
    """A checkpoint that these clients are writing, by orbax's manager."""

    series: Series
    number: int
    clients: tuple[int, ...]
    manager: Any = None

    @property
    def path(self) -> str:
        """What users call the checkpoint."""
        series = self.series
        is_named = bool(series.prefix)
        return str(series.root / series.build_name(self.number) if is_named else series.path)

    def start(self, max_to_keep: int | None, checksums: bool, items: Mapping[str, Any]) -> None:
        """Begin to write; the arrays may change when this returns.

        Raises:
            CheckpointError: it could not be written. What was there before still is.
        """

        def save() -> None:
            self.manager = backend.manager(self.series, self.clients, max_to_keep, checksums)
            args = backend.orbax().args.Composite(**items)
            self.manager.save(self.number, args=args, force=True)

        self._all_try(save)

    def wait(self) -> None:
        """Return when it is on disk, whole, on every client.

        Raises:
            CheckpointError: it could not be written. What was there before still is.
        """
        self._all_try(lambda: self.manager.close())
        self._clear()

    def _all_try(self, step: Callable[[], None]) -> None:
        def attempt() -> None:
            try:
                with backend.quiet():
                    step()
            except Exception as error:  # of orbax, of the file system, of another client
                self._clear()
                raise CheckpointError(
                    f"checkpoint {self.path} could not be written: {backend.reason(error)}; "
                    "what was there before is as it was"
                ) from None

        together(self.clients, attempt)

    def _clear(self) -> None:
        if jax.process_index() == self.clients[0]:
            with suppress(OSError):  # the next save tries again
                self.series.clear(self.number)


def write_checkpoint(
    series: Series,
    mesh: Mesh,
    sources: Sequence[Source],
    values: Mapping[str, Plain],
    *,
    counter: str | None,
    least: int,
    max_to_keep: int | None,
    checksums: bool,
) -> Saving:
    """Begin to write arrays and plain values to the next checkpoint of a series.

    Returns when the arrays may change; `Saving.wait` returns when it is on disk. One more value, by
    the name of `counter`, is the number of the checkpoint, which is not below `least`.

    Raises:
        CheckpointError: it cannot be written. What was there before still is.
        ClientError: another client did not come.
    """
    clients = clients_of(mesh)
    if len(clients) == 1 < jax.process_count():
        raise CheckpointError(
            f"{mesh.short()} is on client {clients[0]} alone, and in a run of "
            f"{jax.process_count()} clients orbax saves only what lies over several; use a mesh "
            "over more clients"
        )
    entries = [" ".join(source.saved.cells()) for source in sources]
    same_everywhere(clients, "save", [*entries, *(f"{n} = {v!r}" for n, v in values.items())])
    arrays = {
        array_key(saved.name): converted(tensor.to_jax(), saved.stored)
        for tensor, saved in sources
        if saved.size  # orbax does not take arrays without elements
    }
    is_first = jax.process_index() == clients[0]
    with _one_at_a_time:
        number = max(least, *together(clients, lambda: series.begin() if is_first else 0))
        values = {**values, **({counter: number} if counter else {})}
        saved = {source.saved.name: source.saved for source in sources}
        info = CheckpointInfo(mesh, saved, values, len(clients), datetime.now(UTC), series.path)
        args = backend.orbax().args
        items = {backend.ITEM: args.JsonSave(to_json(info))}
        if arrays:
            chunk = backend.orbax().SaveArgs(chunk_byte_size=backend.CHUNK_BYTES)
            save_args = dict.fromkeys(arrays, chunk)
            items[backend.ARRAYS] = args.PyTreeSave(arrays, save_args=save_args)
        saving = Saving(series, number, clients)
        saving.start(max_to_keep, checksums, items)
    return saving
