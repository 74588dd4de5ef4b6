"""Reading a checkpoint: each process the parts that its devices hold, whatever the layout."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dtensor.dialect.diagnostics import did_you_mean
from dtensor.dialect.errors import CheckpointError
from dtensor.dialect.layout import Layout
from dtensor.dialect.mesh import Mesh
from dtensor.runtime.array import DTensor, with_layout
from dtensor.runtime.checkpoint import backend, checksum, series
from dtensor.runtime.checkpoint.clients import clients_of, same_everywhere, together
from dtensor.runtime.checkpoint.record import CheckpointInfo, SavedArray, read_record
from dtensor.runtime.checkpoint.stored import array_key, converted
from dtensor.runtime.padding import even_layout
from dtensor.runtime.placement import named_sharding

Wanted = Mapping[str, tuple[SavedArray, Layout]]


@dataclass(frozen=True)
class Target:
    """An array to restore.

    Attributes:
        layout: the layout that it shall have.
        shape: its global shape in elements; None takes the saved one.
        dtype: its element type; None takes that of the array that was saved.
    """

    layout: Layout
    shape: tuple[int, ...] | None = None
    dtype: np.dtype[Any] | None = None


def open_checkpoint(path: Path) -> tuple[Path, CheckpointInfo]:
    """The folder of a checkpoint and what it says about itself.

    Raises:
        CheckpointError: there is none, or it is damaged.
    """
    folder = series.existing(path)
    return folder, read_record(folder, path)


def read_checkpoint(
    path: Path, mesh: Mesh, targets: Mapping[str, Target], values: Sequence[str] = ()
) -> tuple[dict[str, DTensor], CheckpointInfo]:
    """Arrays of a checkpoint, in the layouts of the targets.

    Each process reads the parts that its devices hold.

    Args:
        path: absolute.
        mesh: the mesh of the targets' layouts; any number of devices.
        targets: what to restore, by name.
        values: names of plain values that must be there.

    Returns:
        The arrays by name, and what the checkpoint says about itself.

    Raises:
        CheckpointError: there is no such checkpoint, it lacks an array, an array has another
            shape or element type, or its files are damaged.
    """
    backend.orbax()
    clients = clients_of(mesh)
    same_everywhere(clients, "restore", [f"'{n}' {t.layout.short()}" for n, t in targets.items()])
    found: list[tuple[Path, CheckpointInfo]] = []

    def look() -> str:
        found[:] = [open_checkpoint(path)]
        _check_names(found[0][1], targets, values)
        for name, target in targets.items():
            _check_fit(path, found[0][1][name], target)
        return found[0][1].saved_at.isoformat()

    if len(set(together(clients, look))) > 1:
        raise CheckpointError(
            f"the clients find different checkpoints at {path}; save to a file system that all see"
        )
    folder, info = found[0]
    wanted = {
        name: (info[name], even_layout(target.layout, info[name].shape))
        for name, target in targets.items()
    }
    arrays: dict[str, jax.Array] = {}

    summed = {name: want for name, want in wanted.items() if want[0].checksum is not None}

    def read() -> list[int]:
        arrays.update(_read_arrays(folder, path, wanted, clients))
        return checksum.parts([arrays[name] for name in summed], all_replicas=True)

    parts = together(clients, read)
    sums = [checksum.combine(list(of_array)) for of_array in zip(*parts, strict=True)]
    _check_sums(path, summed, sums)
    restored = {}
    for name, (saved, _) in wanted.items():
        dtype = targets[name].dtype or saved.dtype
        restored[name] = with_layout(converted(arrays.pop(name), dtype), targets[name].layout)
    return restored, info


def _check_names(info: CheckpointInfo, names: Mapping[str, Target], values: Sequence[str]) -> None:
    for kind, wanted, have in (
        ("array", list(names), dict.fromkeys(info)),
        ("value", list(values), dict.fromkeys(info.plain)),
    ):
        missing = [name for name in wanted if name not in have]
        if not missing:
            continue
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        listed = ", ".join(f"'{name}'" for name in list(have)[:8]) or f"no {kind}s"
        rest = f" and {len(have) - 8} more" if len(have) > 8 else ""
        hint = did_you_mean(missing[0], list(have), listed=False)
        if missing[0] in info or missing[0] in info.plain:
            hint = f", but one of the other kind: {'an array' if kind == 'value' else 'a value'}"
        raise CheckpointError(
            f"checkpoint {info.path} has no {kind} '{missing[0]}'{more}{hint}; "
            f"it has {listed}{rest}"
        )


def _check_fit(path: Path, saved: SavedArray, target: Target) -> None:
    shape = saved.shape if target.shape is None else target.shape
    if shape != saved.shape:
        raise CheckpointError(
            f"array '{saved.name}' of checkpoint {path} has shape {list(saved.shape)}, but "
            f"{list(shape)} is needed; restore it into an array of its own shape"
        )
    problem = target.layout.problem(shape, uneven=True) or target.layout.border_problem()
    if problem is not None:
        raise CheckpointError(
            f"array '{saved.name}' of shape {list(shape)} cannot be restored in layout "
            f"{target.layout.short()}: {problem}"
        )
    allowed = {saved.dtype}
    if saved.stored == jnp.bfloat16:
        allowed.add(saved.stored)
    if target.dtype is not None and target.dtype not in allowed:
        raise CheckpointError(
            f"array '{saved.name}' of checkpoint {path} is {saved.dtype}, but {target.dtype} is "
            f"needed; restore it as {saved.dtype} and convert it then"
        )
    if jax.dtypes.canonicalize_dtype(saved.dtype) != saved.dtype:
        raise CheckpointError(
            f"array '{saved.name}' of checkpoint {path} is {saved.dtype}, which jax uses only "
            "with jax.config.update('jax_enable_x64', True); set that first"
        )


def _read_arrays(
    folder: Path,
    path: Path,
    wanted: Wanted,
    clients: tuple[int, ...],
) -> dict[str, jax.Array]:
    try:
        found = _read(folder, {n: w for n, w in wanted.items() if w[0].size}, clients)
    except Exception as error:  # of orbax or tensorstore: they have many kinds
        raise CheckpointError(_damage(folder, path, wanted, clients, error)) from None
    for name, (saved, layout) in wanted.items():
        if not saved.size:
            sharding = named_sharding(layout)
            found[name] = jnp.zeros(saved.shape, saved.stored, device=sharding)
    return {name: found[name] for name in wanted}


def _read(folder: Path, wanted: Wanted, clients: tuple[int, ...]) -> dict[str, jax.Array]:
    if not wanted:
        return {}
    ocp = backend.orbax()
    args = {
        array_key(name): ocp.ArrayRestoreArgs(
            sharding=named_sharding(layout), global_shape=saved.shape, dtype=saved.stored
        )
        for name, (saved, layout) in wanted.items()
    }
    request = ocp.args.PyTreeRestore(
        item=dict.fromkeys(args, 0), restore_args=args, partial_restore=True
    )
    place = folder / backend.ARRAYS
    with backend.quiet():
        found = backend.array_handler(clients).restore(place, args=request)
    arrays = {name: found[array_key(name)] for name in wanted}
    for name, array in arrays.items():
        if not isinstance(array, jax.Array):  # orbax gives back what it does not find
            raise CheckpointError(f"'{name}' is not among the arrays in {place}")
    return arrays


def _damage(
    folder: Path,
    path: Path,
    wanted: Wanted,
    clients: tuple[int, ...],
    error: Exception,
) -> str:
    """Which arrays of a checkpoint cannot be read, and why."""
    bad = []
    for name, want in wanted.items():
        try:
            _read(folder, {name: want} if want[0].size else {}, clients)
        except Exception as caught:
            bad.append(name)
            error = caught
    named = ", ".join(f"'{name}'" for name in bad[:8]) or "some"
    which = "no array" if len(bad) == len(wanted) > 1 else f"array {named}"
    verb = "can be read" if which == "no array" else "cannot be read"
    return (
        f"checkpoint {path} is damaged: {which} {verb} ({backend.reason(error)}); "
        "restore another one"
    )


def _check_sums(path: Path, wanted: Wanted, sums: Sequence[int]) -> None:
    bad = []
    for (name, (saved, layout)), total in zip(wanted.items(), sums, strict=True):
        replicas = layout.mesh.size // layout.shard_count
        if total != checksum.combine([saved.checksum or 0] * replicas):
            bad.append(name)
    if bad:
        named = ", ".join(f"'{name}'" for name in bad[:8])
        raise CheckpointError(
            f"checkpoint {path} is damaged: the elements of {named} are not those that were "
            "saved; restore another one"
        )
