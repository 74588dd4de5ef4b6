"""Writing a checkpoint: the elements by orbax, and what dtensor says about them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import jax

from dtensor.dialect.errors import CheckpointError
from dtensor.dialect.mesh import Mesh
from dtensor.runtime.array import DTensor
from dtensor.runtime.checkpoint import backend, checksum, paths
from dtensor.runtime.checkpoint.clients import clients_of, is_first, same_everywhere, together
from dtensor.runtime.checkpoint.files import written_files
from dtensor.runtime.checkpoint.record import CheckpointInfo, Plain, SavedArray, now, to_json
from dtensor.runtime.checkpoint.stored import array_key, converted, stored_dtype


@dataclass(frozen=True)
class Source:
    """An array to save.

    Attributes:
        tensor: the array.
        as_bf16: whether float32 is to be written as bfloat16.
    """

    tensor: DTensor
    as_bf16: bool = False


def write_checkpoint(
    path: Path, mesh: Mesh, sources: Mapping[str, Source], values: Mapping[str, Plain]
) -> None:
    """Write arrays and plain values to a checkpoint that replaces what was at `path`.

    Returns when it is on disk, whole, on every client.

    Args:
        path: absolute, on a file system that all clients see.
        mesh: the mesh of the arrays.
        sources: the arrays by name.
        values: numbers and texts by name.

    Raises:
        CheckpointError: it cannot be written. What was at `path` is then still there.
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
    same_everywhere(clients, "save", [*entries, *(f"'{n}' = {v!r}" for n, v in values.items())])
    if path.is_symlink():  # what it points to is the checkpoint
        path = path.resolve()
    together(clients, lambda: paths.writable(path))
    arrays: dict[str, jax.Array] = {}
    for name, source in sources.items():
        dtype = stored_dtype(source.tensor.dtype, source.as_bf16)
        arrays[name] = converted(source.tensor.to_jax(), dtype)
    parts = together(clients, lambda: checksum.of_first_replicas(list(arrays.values())))
    sums = [checksum.combine(list(of_array)) for of_array in zip(*parts, strict=True)]
    saved = tuple(
        _saved(name, source.tensor, arrays[name], total)
        for (name, source), total in zip(sources.items(), sums, strict=True)
    )
    info = CheckpointInfo(mesh, saved, dict(values), len(clients), now())
    _write_files(path, clients, arrays, info)


def _write_files(
    path: Path, clients: tuple[int, ...], arrays: Mapping[str, jax.Array], info: CheckpointInfo
) -> None:
    begun = False

    def begin() -> str | None:
        nonlocal begun
        with _os_errors(path):
            found = str(paths.begin(path)) if is_first(clients) else None
        begun = is_first(clients)
        return found

    try:
        folder = Path(str(together(clients, begin)[0]))
        _fill(path, folder, clients, arrays, info)
    finally:
        if begun:
            paths.release(path)


def _fill(
    path: Path,
    folder: Path,
    clients: tuple[int, ...],
    arrays: Mapping[str, jax.Array],
    info: CheckpointInfo,
) -> None:
    def commit() -> None:
        with _os_errors(path):
            if is_first(clients):
                whole = replace(info, files=written_files(folder))
                paths.commit(path, to_json(whole))

    # orbax does not take arrays without elements; what there is to know about them is recorded.
    items = {array_key(name): array for name, array in arrays.items() if array.size}
    if items:
        _write_arrays(path, folder, clients, items)
    together(clients, commit)


def _write_arrays(
    path: Path, folder: Path, clients: tuple[int, ...], items: Mapping[str, jax.Array]
) -> None:
    ocp = backend.orbax()
    chunks = {key: ocp.SaveArgs(chunk_byte_size=backend.CHUNK_BYTES) for key in items}
    try:
        with backend.quiet(), backend.array_writer(clients) as writer:
            args = ocp.args.PyTreeSave(dict(items), save_args=chunks)
            writer.save(folder / backend.ARRAYS, args=args)
    except Exception as error:  # of orbax, of the file system, of another client
        if is_first(clients):
            paths.abandon(path)
        raise CheckpointError(
            f"checkpoint {path} could not be written: {backend.reason(error)}; "
            "what was there before is as it was"
        ) from None


@contextmanager
def _os_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise CheckpointError(f"checkpoint {path} could not be written: {error}") from None


def _saved(name: str, tensor: DTensor, written: jax.Array, total: int) -> SavedArray:
    return SavedArray(name, tensor.shape, tensor.dtype, written.dtype, tensor.layout, total)


def _described(source: Source) -> str:
    kind = f"{source.tensor.dtype}{list(source.tensor.shape)} {source.tensor.layout.short()}"
    return kind + (" as bfloat16" if source.as_bf16 else "")
