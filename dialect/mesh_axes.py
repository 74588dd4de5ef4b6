"""The axes and the device ids that a mesh is given, checked."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from numbers import Integral
from typing import Any

from dtensor.dialect.axes import AXIS_NAME
from dtensor.dialect.errors import MeshError

RESERVED = ("unsharded", "match", "any", "scalar")


def axis_pairs(axes: Any) -> tuple[Any, ...]:
    """The axes of a mesh as a tuple, not checked one by one.

    Raises:
        MeshError: not a list, nor a mapping.
    """
    if hasattr(axes, "axis_names"):
        raise MeshError("a mesh is given as the axes of one; use it as it is, or give its axes")
    if isinstance(axes, str) or not isinstance(axes, Iterable):
        raise MeshError(
            f'mesh axes {axes!r} are not a list of (name, size) pairs, such as [("x", 2), ("y", 4)]'
        )
    return tuple(axes.items()) if isinstance(axes, Mapping) else tuple(axes)


def checked_axis(pair: object) -> tuple[str, int]:
    """The name and the size of one axis.

    Raises:
        MeshError: not a pair of both, or one of them is malformed.
    """
    if not (isinstance(pair, Sequence) and not isinstance(pair, str) and len(pair) == 2):
        raise MeshError(f"mesh axis {pair!r} is not a (name, size) pair, such as ('x', 2)")
    name, size = pair
    if isinstance(size, str) and not isinstance(name, str):
        raise MeshError(f"mesh axis {pair!r} has its size first; write ({size!r}, {name!r})")
    if not isinstance(name, str) or not AXIS_NAME.match(name):
        raise MeshError(
            f"mesh axis name {name!r} is not an identifier; use letters, digits and _: batch_0"
        )
    if name in RESERVED:
        raise MeshError(f"mesh axis name '{name}' is reserved; choose another")
    if isinstance(size, bool) or not isinstance(size, Integral) or size < 1:
        raise MeshError(f"mesh axis '{name}' has size {size!r}; it must be a positive integer")
    return name, int(size)


def checked_id(value: object) -> int:
    """The id of a device.

    Raises:
        MeshError: not an integer.
    """
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise MeshError(f"mesh has device id {value!r}; it must be an integer")
    return int(value)
