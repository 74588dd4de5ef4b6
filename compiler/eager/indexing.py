"""`x[index]`, and updates of a part of an array."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import jax
import numpy as np

from dtensor.compiler.eager.arguments import Number
from dtensor.compiler.eager.calls import call, traced
from dtensor.compiler.eager.mixing import SMALL, array_of_list, is_host_array
from dtensor.dialect.errors import LayoutError
from dtensor.runtime.array import DTensor
from dtensor.runtime.tracing import becomes_program

# An index is a tuple of slices, None, Ellipsis, integers and arrays. Integers are arguments of the
# program, so that a loop over x[i] compiles once; slices are static.


_NOTHING: Mapping[str, Any] = {}


def get(x: Any, index: Any, how: Mapping[str, Any] = _NOTHING) -> Any:
    """`x[index]`, as jax.numpy has it; an index out of bounds is an error.

    Args:
        x: the array.
        index: what stands in the brackets.
        how: the keywords of `x.at[index].get`; with a `mode`, that says what is out of bounds.

    Raises:
        IndexError: out of bounds, too many, or of a kind that is no index.
        TypeError: a boolean DTensor, whose count of True would be the shape of the result.
    """
    if becomes_program():
        x, index = map(traced, (x, index))
        return x.at[index].get(**how) if how else x[index]
    parts = _parts(x.shape, index, _is_checked(how))
    if how:
        return call(_getter, (x, *parts), dict(how), "x.at[index].get")
    if any(isinstance(part, DTensor | np.ndarray) for part in parts):
        return call(_take, (x, *map(_static_integer, parts)), {}, "x[index]")
    return call(_slice, (x, *parts), {}, "x[index]")


def update(x: Any, index: Any, name: str, value: Any, how: Mapping[str, Any] = _NOTHING) -> Any:
    """`x.at[index].set(value, **how)`, or another method of that name."""
    if becomes_program():
        x, index, value = map(traced, (x, index, value))
        return getattr(x.at[index], name)(value, **how)
    parts = _parts(x.shape, index, _is_checked(how))
    if type(value) in (bool, int, float, complex):
        value = Number(value)
    return call(_updater(name), (x, value, *parts), dict(how), f"x.at[index].{name}")


def _is_checked(how: Mapping[str, Any]) -> bool:
    """Whether an index out of bounds is an error: jax's keywords do not say what it is."""
    return how.get("mode") is None and how.get("wrap_negative_indices", True) is True


def _getter(x: Any, *parts: Any, **how: Any) -> Any:
    return x.at[parts].get(**how)


def _take(x: Any, *parts: Any) -> Any:
    return x[parts]


def _slice(x: Any, *parts: Any) -> Any:
    """`x[parts]`, of which the integers are traced and in bounds, and there are no arrays."""
    axis = 0
    rest: list[Any] = []
    for part in _without_ellipsis(parts, x.ndim):
        if isinstance(part, jax.Array):
            x = jax.lax.dynamic_index_in_dim(x, part, axis)
            part = 0
        rest.append(part)
        axis += part is not None
    return x[tuple(rest)]


@cache
def _updater(name: str) -> Callable[..., Any]:
    def update(x: Any, value: Any, *parts: Any, **how: Any) -> Any:
        return getattr(x.at[parts], name)(value, **how)

    return update


def _parts(shape: tuple[int, ...], index: Any, checked: bool) -> list[Any]:
    """The parts of an index: slices, None, Ellipsis, Numbers, and integer arrays, in bounds."""
    given = [_entry(part) for part in (index if isinstance(index, tuple) else (index,))]
    if sum(part is Ellipsis for part in given) > 1:
        raise IndexError("an index can have one ellipsis")
    used = sum(map(_dimensions, given))
    if used > len(shape):
        raise IndexError(f"too many indices: an array of {len(shape)} dimensions got {used}")
    parts: list[Any] = []
    axis = 0
    for part in given:
        if part is Ellipsis:
            parts.append(part)
            axis += len(shape) - used
        elif _is_mask(part):
            parts += _true_elements(part, shape, axis)
            axis += part.ndim
        elif part is None:
            parts.append(part)
        else:
            parts.append(_in_bounds(part, shape[axis], axis) if checked else _position(part))
            axis += 1
    return parts


def _entry(part: Any) -> Any:
    """One entry of an index: a slice, None, Ellipsis, an int, a NumPy array or a DTensor."""
    if part is None or part is Ellipsis:
        return part
    if isinstance(part, slice):
        return slice(*map(_slice_bound, (part.start, part.stop, part.step)))
    if isinstance(part, list):
        part = array_of_list(part) if part else np.zeros(0, np.int32)
    if isinstance(part, DTensor):
        return _checked_dtensor(part)
    if is_host_array(part) and not isinstance(part, jax.core.Tracer):
        return _checked_array(np.asarray(part))
    if isinstance(part, bool):
        raise IndexError(_BOOLEAN)
    try:
        return operator.index(part)
    except TypeError:
        raise IndexError(
            "an index is made of integers, slices, None, ... and integer or boolean arrays; got "
            f"{type(part).__name__}"
        ) from None


_BOOLEAN = "a boolean is no index here; write x[None] for x[True]"


def _is_mask(part: Any) -> bool:
    return isinstance(part, np.ndarray) and part.dtype == np.bool_


def _dimensions(part: Any) -> int:
    """How many dimensions of the array an entry speaks of."""
    if part is None or part is Ellipsis:
        return 0
    return part.ndim if _is_mask(part) else 1


def _true_elements(
    mask: np.ndarray[Any, Any], shape: tuple[int, ...], axis: int
) -> Sequence[np.ndarray[Any, Any]]:
    for dim, count in enumerate(mask.shape, axis):
        if shape[dim] != count:
            raise IndexError(f"a mask of {count} elements indexes axis {dim} of {shape[dim]}")
    found = np.nonzero(mask)
    if len(found[0]) >= SMALL:
        raise LayoutError(
            f"a mask of {len(found[0])} elements that are True: only positions of fewer than "
            f"{SMALL} are copied to the mesh by themselves; use dtensor.numpy.where with the mask "
            "as a DTensor, or copy each array of np.nonzero(mask) there, and index with these"
        )
    return found


def _checked_dtensor(part: Any) -> Any:
    if part.dtype == np.bool_:
        raise TypeError(
            "x[mask] with a boolean DTensor: which elements it names depends on its values, which "
            "a program compiled before it runs cannot know; use dtensor.numpy.where(mask, x, 0), "
            "in place of x.at[mask].set(y) where(mask, y, x), or give the mask as a NumPy array"
        )
    if part.dtype.kind not in "iu":
        raise IndexError(f"an index array has integers or booleans, not {part.dtype}")
    return part


def _checked_array(array: np.ndarray[Any, Any]) -> Any:
    if array.dtype == np.bool_:
        if not array.ndim:
            raise IndexError(_BOOLEAN)
        return array
    if array.dtype.kind not in "iu":
        raise IndexError(f"an index array has integers or booleans, not {array.dtype}")
    return array if array.ndim else int(array)


def _slice_bound(bound: Any) -> int | None:
    if bound is None:
        return None
    try:
        return operator.index(bound)
    except TypeError:
        raise IndexError(
            f"the bounds of a slice are integers or None, not {type(bound).__name__}"
        ) from None


def _in_bounds(part: Any, size: int, axis: int) -> Any:
    if isinstance(part, int):
        if not -size <= part < size:
            raise IndexError(f"index {part} is out of bounds for axis {axis} of {size} elements")
        return Number(part % size, is_index=True)
    if isinstance(part, np.ndarray) and part.size:
        low, high = int(part.min()), int(part.max())
        if low < -size or high >= size:
            bad = low if low < -size else high
            raise IndexError(f"index {bad} is out of bounds for axis {axis} of {size} elements")
    return part


def _position(part: Any) -> Any:
    return Number(part, is_index=True) if isinstance(part, int) else part


def _static_integer(part: Any) -> Any:
    return part.value if isinstance(part, Number) else part


def _without_ellipsis(parts: tuple[Any, ...], rank: int) -> list[Any]:
    used = sum(part is not None and part is not Ellipsis for part in parts)
    whole = [slice(None)] * (rank - used)
    if Ellipsis not in [part for part in parts if part is Ellipsis]:
        return [*parts, *whole]
    at = next(i for i, part in enumerate(parts) if part is Ellipsis)
    return [*parts[:at], *whole, *parts[at + 1 :]]
