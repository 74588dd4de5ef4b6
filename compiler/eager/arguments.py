"""The arguments of one operation: arrays on its mesh, and static values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import jax
import numpy as np

from dtensor.compiler.eager.engine import Leaf, Static
from dtensor.compiler.eager.mixing import (
    NUMBERS,
    array_of_list,
    check_range,
    fits,
    is_host_array,
    place_array,
    place_number,
)
from dtensor.compiler.eager.positions import array_positions
from dtensor.dialect.mesh import Mesh
from dtensor.runtime.array import ArrayType, DTensor
from dtensor.runtime.keys import is_key
from dtensor.runtime.tracing import settings


class Number:
    """A Python number where an array may stand.

    Args:
        value: the number.
        is_index: whether it says which element, and so has nothing to do with the arrays' type.
    """

    __slots__ = ("is_index", "value")

    def __init__(self, value: Any, is_index: bool = False) -> None:
        self.value = value
        self.is_index = is_index


def mark_numbers(
    fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of `fn`; where arrays may stand, numbers as Numbers and lists as arrays."""
    positions = array_positions(fn)
    if not positions.names and not positions.rest:
        return args, kwargs
    marked = tuple([_marked(arg) if positions.at(i) else arg for i, arg in enumerate(args)])
    named = {key: _marked(arg) if key in positions.names else arg for key, arg in kwargs.items()}
    return marked, named


def _marked(value: Any) -> Any:
    kind = type(value)
    if kind in NUMBERS:
        return Number(value)
    if kind is list and (array := array_of_list(value)) is not None:
        return array
    return value


class Bound:
    """Leaves of arguments, bound to a mesh.

    Attributes:
        key: what a program for them depends on: a type or a static value for each leaf.
        types: types of the arrays.
        arrays: the arrays.
        leaves: what each leaf is to the program.
        indices: which leaves are arrays.
        is_settled: whether nothing is left that could be made static.
    """

    __slots__ = ("arrays", "indices", "is_settled", "key", "leaves", "types")

    def __init__(
        self, leaves: Sequence[Any], mesh: Mesh, where: Callable[[int], str], settle: bool
    ) -> None:
        self.key: list[Any] = []
        self.types: list[ArrayType] = []
        self.arrays: list[Any] = []
        self.leaves: list[Leaf] = []
        self.indices: list[int] = []
        self.is_settled = True
        for index, leaf in enumerate(leaves):
            if isinstance(leaf, DTensor):
                self._add_array(leaf._type, leaf._array)
            elif type(leaf) is Number:
                beside = () if leaf.is_index else leaves
                self._add_number(leaf.value, beside, mesh, settle)
            elif is_host_array(leaf):
                self._add_host_array(leaf, mesh, where, index, settle)
            else:
                self._add_static(leaf, _static_key(leaf, where, index))

    def _add_array(self, type_: ArrayType, array: Any) -> None:
        self.key.append(type_)
        self.types.append(type_)
        self.arrays.append(array)
        self.indices.append(len(self.leaves))
        self.leaves.append(None)

    def _add_static(self, value: Any, key: Any) -> None:
        self.key.append(key)
        self.leaves.append(Static(value))

    def _add_number(self, value: Any, leaves: Sequence[Any], mesh: Mesh, settle: bool) -> None:
        dtype = _dtype_beside(value, leaves)
        if settle:
            self._add_static(value, _number_key(value))
            return
        self.is_settled = False
        self._add_array(*place_number(value, dtype, mesh))

    def _add_host_array(
        self, value: Any, mesh: Mesh, where: Callable[[int], str], index: int, settle: bool
    ) -> None:
        keys = is_key(value.dtype)
        if keys or not settle or isinstance(value, jax.core.Tracer):
            self.is_settled = self.is_settled and keys
            self._add_array(*place_array(value, mesh, where(index)))
            return
        host = np.asarray(value)
        known = value if isinstance(value, np.generic) else host  # jax hashes scalars
        self._add_static(known, (type(known), host.dtype.str, host.shape, host.tobytes()))


def _dtype_beside(value: Any, leaves: Sequence[Any]) -> np.dtype[Any]:
    """The element type in which a number goes to the mesh; it gives way to that of the arrays.

    Raises:
        OverflowError: an integer is outside of the type of the arrays: it would wrap around.
    """
    kind: Any = type(value)
    dtype = number_dtype(kind, settings())
    if kind is not int:
        return dtype
    types = {leaf._type.dtype for leaf in leaves if isinstance(leaf, DTensor)}
    if not types:
        return dtype
    common = types.pop() if len(types) == 1 else np.dtype(jax.numpy.result_type(*types))
    check_range(value, common)
    return dtype if fits(value, dtype) or common.kind not in "iu" else common


@lru_cache
def number_dtype(kind: Any, around: Any) -> np.dtype[Any]:
    """The element type of Python's numbers of a kind, where nothing stands beside them."""
    return np.dtype(jax.dtypes.result_type(kind(0)))


def _number_key(value: Any) -> Any:
    return type(value), repr(value)  # 0.0 and -0.0 are equal, and so are 1, 1.0 and True


def _static_key(value: Any, where: Callable[[int], str], index: int) -> Any:
    if type(value) in NUMBERS:
        return _number_key(value)
    if isinstance(value, slice):
        return slice, *map(_number_key, (value.start, value.stop, value.step))
    try:
        hash(value)
    except TypeError:
        raise TypeError(
            f"{where(index)} of type {type(value).__name__} is neither an array nor hashable, so "
            "no program can be kept for it"
        ) from None
    return type(value), value
