"""What may stand beside a DTensor: numbers and small integer arrays, which go to its mesh.

Everything else has to say where it lies. A large array that came along unnoticed would be copied to
every device at each call.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import jax
import numpy as np

from dtensor.dialect.errors import LayoutError, MeshError
from dtensor.dialect.layout import Layout
from dtensor.dialect.mesh import Mesh
from dtensor.runtime.array import ArrayType, array_type, from_jax
from dtensor.runtime.clients.coordination import resets
from dtensor.runtime.keys import is_key
from dtensor.runtime.placement import layout_of
from dtensor.runtime.transfer import place, refusal

SMALL = 20
"""Integer and boolean arrays of fewer elements are replicated by themselves."""

NUMBERS = frozenset((bool, int, float, complex))
"""Python's own numbers: their type gives way to that of the arrays beside them."""

_Placed = tuple[ArrayType, Any]


def is_host_array(value: Any) -> bool:
    """Whether a value is an array or a scalar of NumPy's or jax's, but not a DTensor."""
    return isinstance(value, np.ndarray | np.generic | jax.Array)


def place_number(value: Any, dtype: np.dtype[Any], mesh: Mesh) -> _Placed:
    """A Python number on every device of a mesh, with its type.

    Raises:
        OverflowError: an integer outside of the range of `dtype`.
    """
    kind: Any = type(value)
    return _placed_number(kind, repr(value), dtype, mesh)


@lru_cache(maxsize=4096)
def _placed_number(kind: Any, text: str, dtype: np.dtype[Any], mesh: Mesh) -> _Placed:
    # The text stands for the value: 0.0 equals -0.0, and 1 equals True.
    value: Any = text == "True" if kind is bool else kind(text)
    if kind is int:
        check_range(value, dtype)
    layout = Layout.replicated(mesh, 0)
    with np.errstate(over="ignore"):  # what is too large for a float type becomes infinite
        tensor = place(np.asarray(value).astype(dtype), layout)
    return array_type((), tensor.dtype, layout, None, kind is not bool), tensor._array


resets.append(_placed_number.cache_clear)


def check_range(value: int, dtype: np.dtype[Any]) -> None:
    """Check that an integer is in the range of an integer type; any other type takes all.

    Raises:
        OverflowError: it is not.
    """
    if not fits(value, dtype):
        info = np.iinfo(dtype)
        raise OverflowError(
            f"{value} is outside of {dtype}, {info.min} to {info.max}; cast the array first, with "
            "x.astype(dtype)"
        )


def fits(value: int, dtype: np.dtype[Any]) -> bool:
    """Whether an integer is in the range of an integer type; any other type takes all."""
    if dtype.kind not in "iu":
        return True
    info = np.iinfo(dtype)
    return int(info.min) <= value <= int(info.max)


def place_array(value: Any, mesh: Mesh, where: str) -> _Placed:
    """An array that is no DTensor, for an operation on a mesh, with its type.

    Args:
        value: an array of NumPy's or jax's.
        mesh: the mesh the operation runs on.
        where: what the array is to the operation, for errors: "numpy.add: operand 1".

    Raises:
        LayoutError: the array is neither small nor on the mesh.
        TypeError: it is not numeric.
    """
    if isinstance(value, jax.core.Tracer):
        raise jax.errors.UnexpectedTracerError(
            f"{where} is a traced array that has left its function: return it from there, and use "
            "what a call of the function returns"
        )
    if isinstance(value, jax.Array):
        if layout_of(value.sharding, value.ndim, mesh) is not None:
            tensor = from_jax(value, mesh)
            return tensor._type, tensor._array
    elif (wrong := refusal(value)) is not None:
        raise TypeError(f"{where} {wrong}")
    if value.ndim and not (
        value.size < SMALL and (is_key(value.dtype) or value.dtype.kind in "iub")
    ):
        raise LayoutError(
            f"{where} is a plain {_kind(value)} of {value.dtype}{list(value.shape)}, beside a "
            f"DTensor on {mesh.short()}; only numbers and integer or boolean arrays of fewer than "
            f"{SMALL} elements are copied there by themselves: give it a layout, with "
            "dtensor.copy_to_mesh(array, layout)"
        )
    tensor = place(value, Layout.replicated(mesh, value.ndim))
    return tensor._type, tensor._array


def _kind(value: Any) -> str:
    return "jax.Array" if isinstance(value, jax.Array) else "NumPy array"


def array_of_list(value: Any) -> np.ndarray[Any, Any] | None:
    """The array of a list of Python numbers; None for any other value."""
    if not isinstance(value, list):
        return None
    leaves: list[Any] = jax.tree_util.tree_leaves(value)
    if not leaves or any(type(leaf) not in NUMBERS for leaf in leaves):
        return None
    try:
        return np.asarray(value)
    except ValueError:  # rows of different lengths
        return None


def one_mesh(operands: Sequence[tuple[str, Mesh]]) -> None:
    """Check that all operands lie on one mesh.

    Args:
        operands: what each is to the operation, and its mesh.

    Raises:
        MeshError: there are two; the message names both.
    """
    for where, mesh in operands:
        first, expected = operands[0]
        if mesh != expected:
            raise MeshError(
                f"{first} lies on {_text(expected)} and {where} on {_text(mesh)}, but an operation "
                "runs on one mesh; bring one over with dtensor.relayout(x, layout)"
            )


def _text(mesh: Mesh) -> str:
    return f"{mesh.short()} of devices {list(mesh.ids())}"
