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

    RuntimeError if an argument is deleted, ValueError if one of the `donated` numbers is passed
    twice, both by the arguments' `names`.
    """
    is_donating = bool(donated)

    def call(*arrays: Any) -> Sequence[jax.Array]:
        if is_donating:
            refuse_twice(arrays, names, donated)
        try:
            for array in arrays:
                if type(array) is not np.ndarray and array.is_deleted():
                    refuse_deleted(arrays, names)
        except (AttributeError, jax.errors.ConcretizationTypeError):  # from the host, or traced
            refuse_deleted(arrays, names)
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
            refuse_twice(arrays, names, donated)
        return run(*arrays)

    return call


def refuse_deleted(arrays: Iterable[Any], names: Iterable[str]) -> None:
    """Raise RuntimeError, with its name, if an array is deleted."""
    for array, name in zip(arrays, names, strict=True):
        is_concrete = isinstance(array, jax.Array) and not isinstance(array, jax.core.Tracer)
        if is_concrete and array.is_deleted():
            raise RuntimeError(
                f"argument {name} is {DELETED}; pass what that program returned, or a copy made "
                "before"
            )


def refuse_twice(arrays: Sequence[Any], names: Sequence[str], donated: Sequence[int]) -> None:
    """Raise ValueError, with the names of both arguments, if a donated array comes twice."""
    if len(set(map(id, arrays))) == len(arrays):
        return
    for i in donated:
        for k, array in enumerate(arrays):
            if array is arrays[i] and k != i and isinstance(array, jax.Array):
                raise ValueError(
                    f"argument {names[i]} is donated, and argument {names[k]} is the same array; "
                    "pass a copy"
                )


# One jax.Array is found out to be held elsewhere by its reference count; two that share their
# buffers are not, so those that make such arrays say so here.


def note_alias(array: jax.Array) -> None:
    """Remember that another array may have buffers of `array`."""
    key = id(array)
    _aliased[key] = weakref.ref(array, lambda _: _aliased.pop(key, None))


def has_alias(array: jax.Array) -> bool:
    """Whether another array may have buffers of `array`."""
    return id(array) in _aliased
