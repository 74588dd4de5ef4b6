"""A number where the checkpoint has an array without dimensions, and the other way round.

A state that begins with the number 0 has an array once a program has counted it up. Each comes back
as what the state holds when it is restored: a number, or an array.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

from dtensor.dialect.errors import CheckpointError
from dtensor.runtime.array import DTensor
from dtensor.runtime.checkpoint.record import Plain, SavedArray
from dtensor.runtime.checkpoint.state import Target
from dtensor.runtime.transfer import outside, place

_FITS: tuple[tuple[type, Any], ...] = (
    (bool, np.bool_),
    (int, np.integer),
    (float, np.floating),
)
"""Types of numbers and kinds of element types; floats take integers besides."""


def check_value(path: Path, name: str, found: Plain, wanted: Plain) -> None:
    """Raise CheckpointError unless what a checkpoint has can take the place of a number or text."""
    if not _takes(type(wanted), type(found)):
        raise CheckpointError(
            f"value '{name}' of checkpoint {path} is {found!r}, but one of type "
            f"{type(wanted).__name__} is needed, as {wanted!r} is"
        )


def check_array_as_number(path: Path, saved: SavedArray, wanted: Plain) -> None:
    """Raise CheckpointError unless an array of a checkpoint can be a number as `wanted` is."""
    found = _number_type(saved.dtype)
    if saved.shape or saved.generator or not _takes(type(wanted), found):
        about = f"{saved.dtype}{list(saved.shape)}"
        raise CheckpointError(
            f"'{saved.name}' of checkpoint {path} is an array of {about}, but {wanted!r} is to be "
            f"replaced, a {_noun(wanted)}; hold an array of {about} there, or another name"
        )


def number_of(array: DTensor, wanted: Plain) -> Plain:
    """The element of a restored array without dimensions, as a number of the type of `wanted`."""
    return type(wanted)(np.asarray(array.to_jax().addressable_data(0)).item())


def array_of(path: Path, name: str, found: Plain, target: Target) -> DTensor:
    """The array that a number of a checkpoint makes where the program holds one.

    Raises:
        CheckpointError: the program's has dimensions, or an element type of another kind.
    """
    dtype = target.dtype
    is_one = target.shape == () and target.keys is None
    is_number = is_one and _takes(_number_type(dtype), type(found))
    if not is_number or outside(np.asarray(found), dtype) is not None:
        about = "" if dtype is None else f" of {dtype}{list(target.shape or ())}"
        raise CheckpointError(
            f"'{name}' of checkpoint {path} is the {_noun(found)} {found!r}, but an array{about} "
            f"is needed; hold a {_noun(found)} there, or another name"
        )
    return place(np.asarray(found, dtype), target.layout)


def _number_type(dtype: Any) -> type | None:
    """The type of a number that has the values of an element type."""
    return next((t for t, kind in _FITS if dtype and jnp.issubdtype(dtype, kind)), None)


def _takes(wanted: type | None, found: type | None) -> bool:
    """Whether values of one type take the place of those of another."""
    return wanted is not None and (wanted is found or (wanted, found) == (float, int))


def _noun(value: Plain) -> str:
    return "text" if isinstance(value, str) else "number"
