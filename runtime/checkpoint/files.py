"""Writing and reading checkpoints: the elements by orbax, and what dtensor says about them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp

from dtensor.dialect.diagnostics import did_you_mean
from dtensor.dialect.errors import CheckpointError
from dtensor.dialect.layout import Layout
from dtensor.dialect.mesh import Mesh
from dtensor.runtime.array import DTensor, keys_like, with_layout
from dtensor.runtime.checkpoint import backend, series
from dtensor.runtime.checkpoint.clients import clients_of, same_everywhere, together
from dtensor.runtime.checkpoint.numbers import (
    array_of,
    check_array_as_number,
    check_value,
    number_of,
)
from dtensor.runtime.checkpoint.record import (
    CheckpointInfo,
    Plain,
    SavedArray,
    read_record,
    to_json,
)
from dtensor.runtime.checkpoint.series import Series, array_key
from dtensor.runtime.checkpoint.state import Source, Target, check_width, converted, target_for
from dtensor.runtime.padding import even_layout
from dtensor.runtime.placement import named_sharding

_one_at_a_time = threading.Lock()  # orbax numbers what it begins, and waits for ever if two do
_unfinished: set[Saving] = set()  # what is being saved, and nobody has waited for
_shared: set[tuple[Path, tuple[int, ...]]] = set()  # folders that these clients have all seen


@dataclass(eq=False)
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

    def wait(self) -> None:
        """Return when it is on disk, whole, on every client.

        Raises:
            CheckpointError: it could not be written. What was there before still is.
        """
        _unfinished.discard(self)
        self.all_try(lambda: self.manager.close())
        self._clear()
        if self._is_first():
            with suppress(OSError):  # another save has just removed it
                self.series.drop_replaced()

    def all_try(self, step: Callable[[], None]) -> None:
        """Do a step of the writing on every client; where one fails, all clear up and raise."""

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

    def _is_first(self) -> bool:
        return jax.process_index() == self.clients[0]

    def _clear(self) -> None:
        if self._is_first():
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
    entries = [f"the path {series.path}"]  # the first client's is where all would write
    entries += [" ".join(source.saved.cells()) for source in sources]
    same_everywhere(clients, "save", [*entries, *(f"{n} = {v!r}" for n, v in values.items())])
    arrays = {
        array_key(saved.name): converted(tensor.to_jax(), saved.stored)
        for tensor, saved in sources
        if saved.size  # orbax does not take arrays without elements
    }
    with _one_at_a_time:
        number = max(least, _begin(series, clients))
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

        def save() -> None:
            saving.manager = backend.manager(series, clients, max_to_keep, checksums)
            saving.manager.save(number, args=args.Composite(**items), force=True)

        saving.all_try(save)
    _finish_at_exit()
    _unfinished.add(saving)
    return saving


@cache
def _finish_at_exit() -> None:
    """Let the end of the program wait for what is being saved, which orbax would wait for in vain.

    What is registered last comes first: this, before the pools of threads end that orbax uses.
    """

    def finish() -> None:
        for saving in list(_unfinished):
            saving.wait()

    threading._register_atexit(finish)  # type: ignore[attr-defined]


def _begin(series: Series, clients: tuple[int, ...]) -> int:
    """The number of the next checkpoint; its folder is one that all clients see."""
    is_first = jax.process_index() == clients[0]
    is_shared = len(clients) == 1 or (series.root, clients) in _shared
    marks: list[Path] = []

    def begin() -> tuple[int, str]:
        number = series.begin() if is_first else 0
        if is_first and not is_shared:
            marks.append(series.mark(number))
        return number, str(*marks)

    number, mark = together(clients, begin)[0]
    if is_shared:
        return int(number)

    def look() -> None:
        if not series.shows(mark, f"{jax.process_index()}"):
            raise CheckpointError(
                f"{series.root} is not the folder of that path on client {clients[0]}, and each "
                "client would write its part to its own; save to a file system that all see"
            )

    try:
        together(clients, look)
    finally:
        for each in marks:
            each.rmtree()  # type: ignore[attr-defined]  # of etils
    _shared.add((series.root, clients))
    return int(number)


def read_checkpoint(
    path: Path, mesh: Mesh, targets: Mapping[str, Target], values: Mapping[str, Plain] | None = None
) -> tuple[dict[str, DTensor], dict[str, Plain], CheckpointInfo]:
    """Arrays and plain values of a checkpoint by name, and what it says about itself.

    The arrays are as the targets say, the values are what takes the place of `values`. Each process
    reads the parts that its devices hold.

    Raises:
        CheckpointError: there is no such checkpoint, it lacks something, an array has another
            shape or element type, a value another type, or its files are damaged.
        LayoutError: an array cannot have the layout of its target.
    """
    clients, values = clients_of(mesh), values or {}
    same_everywhere(clients, "restore", [f"'{n}' {t.layout.short()}" for n, t in targets.items()])
    found: list[tuple[Path, CheckpointInfo]] = []
    wanted: dict[str, Target] = {}
    made: dict[str, DTensor] = {}

    def look() -> str:
        folder = series.existing(path)
        info = read_record(folder, path)
        found.append((folder, info))
        _check_names(info, targets, values)
        for name, target in targets.items():
            if name not in info:
                made[name] = array_of(path, name, info.plain[name], target)
                continue
            which = f"array '{name}' of checkpoint {path}"
            wanted[name] = target_for(target, info[name], which)
            _check_fit(which, info[name], wanted[name])
        wanted.update(_arrays_for_values(info, mesh, values))
        return info.saved_at.isoformat()

    if len(set(together(clients, look))) > 1:
        raise CheckpointError(
            f"the clients find different checkpoints at {path}; save to a file system that all see"
        )
    ((folder, info),) = found
    arrays: dict[str, jax.Array] = {}

    def read() -> None:
        try:
            arrays.update(_read(folder, info, wanted, clients))
        except Exception as error:  # of orbax or tensorstore: they have many kinds
            raise CheckpointError(
                f"checkpoint {path} is damaged ({backend.reason(error)}); restore another one"
            ) from None

    together(clients, read)
    for name, target in wanted.items():
        array = converted(arrays.pop(name), target.dtype or info[name].dtype)
        made[name] = keys_like(target.keys, with_layout(array, target.layout))
    plain = {
        name: info.plain[name] if name in info.plain else number_of(made.pop(name), value)
        for name, value in values.items()
    }
    return made, plain, info


def _arrays_for_values(
    info: CheckpointInfo, mesh: Mesh, values: Mapping[str, Plain]
) -> dict[str, Target]:
    """How to read the arrays of a checkpoint that become numbers of the program.

    Raises:
        CheckpointError: an array cannot, or a number or text is of another type.
    """
    targets = {}
    for name, value in values.items():
        if name in info:
            check_array_as_number(info.path, info[name], value)
            targets[name] = Target(Layout.replicated(mesh, 0))
        else:
            check_value(info.path, name, info.plain[name], value)
    return targets


def _check_names(
    info: CheckpointInfo, targets: Mapping[str, Target], values: Mapping[str, Plain]
) -> None:
    every = {*info, *info.plain}
    for kind, wanted, known in (
        ("array", targets, list(info)),
        ("value", values, [*info.plain, *info]),
    ):
        missing = [name for name in wanted if name not in every]
        if missing:
            hint = did_you_mean(missing[0], known, listed=False)
            raise CheckpointError(
                f"checkpoint {info.path} has no {kind} {listed(missing)}{hint}; it has "
                f"{listed(known) or f'no {kind}s'}"
            )


def listed(names: Sequence[str]) -> str:
    """Names as messages have them."""
    more = f" and {len(names) - 8} more" if len(names) > 8 else ""
    return ", ".join(f"'{name}'" for name in names[:8]) + more


def _check_fit(which: str, saved: SavedArray, target: Target) -> None:
    shape = saved.shape if target.shape is None else target.shape
    if shape != saved.shape:
        raise CheckpointError(
            f"{which} has shape {list(saved.shape)}, but {list(shape)} is needed; restore it into "
            "an array of its own shape"
        )
    target.layout.verify(shape, which, uneven=True)
    named_sharding(target.layout)  # refuses layouts that no array can have
    allowed = [saved.dtype, *([saved.stored] if saved.stored == jnp.bfloat16 else [])]
    if target.dtype is not None and target.dtype not in allowed:
        raise CheckpointError(
            f"{which} is {saved.dtype}, but {target.dtype} is needed; restore it as "
            f"{saved.dtype} and convert it then"
        )
    check_width(which, saved.dtype)


def _read(
    folder: Path, info: CheckpointInfo, targets: Mapping[str, Target], clients: tuple[int, ...]
) -> dict[str, jax.Array]:
    ocp = backend.orbax()
    args, arrays = {}, {}
    for name, target in targets.items():
        saved = info[name]
        sharding = named_sharding(even_layout(target.layout, saved.shape))
        if saved.size:
            args[series.array_key(name)] = ocp.ArrayRestoreArgs(
                sharding=sharding, global_shape=saved.shape, dtype=saved.stored
            )
        else:  # orbax has no arrays without elements
            arrays[name] = jnp.zeros(saved.shape, saved.stored, device=sharding)
    if not args:
        return arrays
    request = ocp.args.PyTreeRestore(
        item=dict.fromkeys(args, 0), restore_args=args, partial_restore=True
    )
    with backend.quiet():
        found = backend.array_handler(clients).restore(folder / backend.ARRAYS, args=request)
    for name in targets:
        array = arrays.setdefault(name, found.get(series.array_key(name)))
        if not isinstance(array, jax.Array):  # orbax gives back what it does not find
            raise CheckpointError(f"'{name}' is not among the arrays in {folder}")
    return arrays
