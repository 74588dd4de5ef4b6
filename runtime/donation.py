"""Arrays whose buffers a program took, and those whose buffers it must not take.

XLA ends the process that reads an array whose buffers are gone, so calls look first. It does
so whether the program that reads donates or not, and under `jax.jit` too; looking takes some 40 ns
for each array.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import jax
import numpy as np
from jax._src.array import ArrayImpl

DELETED = "deleted: its buffers were donated to a program, or freed by delete() or a restart of jax"
Run = Callable[..., Sequence[jax.Array]]
_is_deleted: Callable[[Any], bool] = ArrayImpl.is_deleted  # mapped, at half the time
_aliased: dict[int, weakref.ref[jax.Array]] = {}


def guarded(run: Run, names: Sequence[str], donated: Sequence[int]) -> Run:
    """`run`, but what XLA answers by ending the process is an error.

    RuntimeError if an argument is deleted, ValueError if the buffers of one of the `donated`
    numbers are passed twice, both by the arguments' `names`.
    """
    is_donating = bool(donated)

    def call(*arrays: Any) -> Sequence[jax.Array]:
        try:
            for array in arrays:
                if type(array) is not np.ndarray and array.is_deleted():
                    refuse_deleted(arrays, names)
        except (AttributeError, jax.errors.ConcretizationTypeError):  # from the host, or traced
            refuse_deleted(arrays, names)
        if is_donating:
            return _donating(run, arrays, names, donated)
        return run(*arrays)

    return call


def guarded_tensors(
    run: Run, names: Sequence[str], donated: Sequence[int]
) -> Callable[[Sequence[Any]], Sequence[jax.Array]]:
    """As `guarded`, for calls with DTensors alone: takes a sequence of them.

    Each is looked at once, and the arrays are unpacked once: what a call takes per array counts.
    """
    anything, is_donating = guarded(run, names, donated), bool(donated)

    def call(tensors: Sequence[Any]) -> Sequence[jax.Array]:
        arrays = [tensor._array for tensor in tensors]
        try:
            if any(map(_is_deleted, arrays)):
                refuse_deleted(arrays, names)
        except TypeError:  # traced, or random keys
            return anything(*arrays)
        if is_donating:
            return _donating(run, arrays, names, donated)
        return run(*arrays)

    return call


def _donating(
    run: Run, arrays: Sequence[Any], names: Sequence[str], donated: Sequence[int]
) -> Sequence[jax.Array]:
    """Run a program that takes buffers, and delete what it took some of the buffers of.

    XLA leaves an array the buffer that NumPy looks into, takes those on the other devices, and
    jax does not call the array deleted if the first was left.
    """
    refuse_twice(arrays, names, donated)
    try:
        return run(*arrays)
    finally:  # a run may fail when it has taken them
        for array in (arrays[i] for i in donated):
            if _is_concrete(array) and not array.is_deleted():
                if any(shard.data.is_deleted() for shard in array.addressable_shards):
                    array.delete()


def _is_concrete(array: Any) -> bool:
    return isinstance(array, jax.Array) and not isinstance(array, jax.core.Tracer)


def refuse_deleted(arrays: Iterable[Any], names: Iterable[str]) -> None:
    """Raise RuntimeError, with its name, if an array is deleted."""
    for array, name in zip(arrays, names, strict=True):
        if _is_concrete(array) and array.is_deleted():
            raise RuntimeError(
                f"argument {name} is {DELETED}; pass what that program returned, or a copy made "
                "before"
            )


def refuse_gone(array: Any) -> None:
    """Raise RuntimeError if an array that is read, and no argument of a program, is deleted."""
    if _is_concrete(array) and array.is_deleted():
        raise RuntimeError(
            f"the array is {DELETED}; read what that program returned, or a copy made before"
        )


def refuse_twice(arrays: Sequence[Any], names: Sequence[str], donated: Sequence[int]) -> None:
    """Raise ValueError, with the names of both, if an argument has buffers of a donated one."""
    is_repeated = len(set(map(id, arrays))) < len(arrays)
    if not is_repeated and not (_aliased and any(map(has_alias, arrays))):
        return
    owners = {buffer: i for i in reversed(donated) for buffer in _buffers(arrays[i])}
    for k, array in enumerate(arrays):
        for buffer in _buffers(array):
            i = owners.get(buffer, k)
            if i != k:
                same = "is the same array" if array is arrays[i] else "has the same buffers"
                raise ValueError(
                    f"argument {names[i]} is donated, and argument {names[k]} {same}; pass a copy"
                )


def _buffers(array: Any) -> list[int]:
    """Where the shards of an array lie in memory; nowhere, if it is empty, traced or the host's."""
    if not _is_concrete(array) or not array.nbytes:
        return []
    return [shard.data.unsafe_buffer_pointer() for shard in array.addressable_shards]


# One jax.Array is found out to be held elsewhere by its reference count; two that share their
# buffers are not, so those that make such arrays say so here.


def note_alias(array: jax.Array) -> None:
    """Remember that another array may have buffers of `array`."""
    key = id(array)
    _aliased[key] = weakref.ref(array, lambda _: _aliased.pop(key, None))


def has_alias(array: jax.Array) -> bool:
    """Whether another array may have buffers of `array`."""
    return id(array) in _aliased
