"""What the arrays that a program returns are to its caller: DTensors, or jax.Arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax

from dtensor.runtime.array import ArrayType, DTensor, new_dtensor, true_array


def results_of(
    types: Sequence[ArrayType], as_jax: bool = False
) -> Callable[[Sequence[jax.Array]], list[Any]]:
    """What makes the results of a call, of these types; arrays beyond them are for others."""
    if as_jax and not any(type_.key or type_.is_padded for type_ in types):
        return lambda arrays: list(arrays[: len(types)])
    if as_jax:
        return lambda arrays: [true_array(a, t) for a, t in zip(arrays, types, strict=False)]

    def results(arrays: Sequence[jax.Array]) -> list[Any]:
        tensors = []
        for number, type_ in enumerate(types):
            tensor = new_dtensor(DTensor)
            tensor._array = arrays[number]
            tensor._type = type_
            tensors.append(tensor)
        return tensors

    return results
