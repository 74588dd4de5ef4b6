"""Arrays without elements pass by jax.jit: XLA forgets how they are split.

It replaces each by a constant of the global shape, so that every device is left with a shard of
that shape, and it refuses a shard_map whose arguments all went this way. So a program is run on
the arrays that have elements; inside, the others are made anew, and so are results without any.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from dtensor.dialect.layout import Layout
from dtensor.runtime.placement import named_sharding

if TYPE_CHECKING:
    from dtensor.runtime.executable import ArraySpec, Program

Run = Callable[..., Sequence[jax.Array]]


def filled(arrays: Sequence[ArraySpec]) -> list[int]:
    """The numbers of the arguments, or results, that have elements."""
    return [i for i, array in enumerate(arrays) if 0 not in array.shape]


def without_empty(program: Program, body: Run) -> Run:
    """The program of one device as a function of what has elements, to what has elements.

    Args:
        program: the program.
        body: takes local values of all its arguments and returns all its results.
    """
    taken, given = filled(program.args), filled(program.results)
    if len(taken) == len(program.args) and len(given) == len(program.results):
        return body

    def inner(*kept: Any) -> tuple[Any, ...]:
        values = [jnp.zeros(info.local_shape, np.dtype(info.dtype)) for info in program.args]
        for number, value in zip(taken, kept, strict=True):
            values[number] = value
        results = body(*values)
        return tuple(results[number] for number in given)

    inner.__name__ = inner.__qualname__ = getattr(body, "__name__", "inner")
    return inner


def with_empty(program: Program, run: Run) -> Run:
    """The program on all its global arguments and to all its global results.

    Args:
        program: the program.
        run: takes the arguments that have elements and returns the results that have some.
    """
    taken, given = filled(program.args), filled(program.results)
    if len(taken) == len(program.args) and len(given) == len(program.results):
        return run

    def outer(*arrays: Any) -> Sequence[jax.Array]:
        kept = iter(run(*[arrays[number] for number in taken]))
        return [next(kept) if math.prod(info.shape) else _empty(info) for info in program.results]

    return outer


def _empty(info: ArraySpec) -> jax.Array:
    return empty_array(info.padded_shape, np.dtype(info.dtype), info.layout)


def empty_array(shape: Sequence[int], dtype: Any, layout: Layout) -> jax.Array:
    """A new array without elements, for each call: its owner may donate it.

    Args:
        shape: its shape, which the layout divides.
        dtype: its element type.
        layout: its layout.
    """
    nothing = np.empty(layout.local_shape(shape), dtype)
    with jax.transfer_guard_host_to_device("allow"):  # there is nothing to transfer
        return jax.make_array_from_callback(tuple(shape), named_sharding(layout), lambda _: nothing)
