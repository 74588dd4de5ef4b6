"""What the arrays that a program returns are to its caller: DTensors, or jax.Arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax

from dtensor.runtime.array import ArrayType, DTensor, dtensor_of, new_dtensor, true_array
from dtensor.runtime.keys import is_key, key_kind


def result_of(type: ArrayType, as_jax: bool = False) -> Callable[[jax.Array], Any]:
    """What makes a result of this type of the array of a program."""
    make = true_array if as_jax else dtensor_of
    kind = key_kind(type.dtype)
    if kind is None:
        return lambda array: make(array, type)
    return lambda array: make(kind.keys(array), type)


def results_of(
    types: Sequence[ArrayType], as_jax: bool = False
) -> Callable[[Sequence[jax.Array]], list[Any]]:
    """What makes the results of a call, of these types; arrays beyond them are for others."""
    has_keys = any(is_key(type_.dtype) for type_ in types)
    if as_jax and not has_keys and not any(type_.is_padded for type_ in types):
        return lambda arrays: list(arrays[: len(types)])
    if as_jax or has_keys:
        makers = [result_of(type_, as_jax) for type_ in types]
        return lambda arrays: [make(a) for make, a in zip(makers, arrays, strict=False)]

    def results(arrays: Sequence[jax.Array]) -> list[Any]:
        tensors = []
        for number, type_ in enumerate(types):
            tensor = new_dtensor(DTensor)
            tensor._array = arrays[number]
            tensor._type = type_
            tensors.append(tensor)
        return tensors

    return results
