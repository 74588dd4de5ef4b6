"""Elements: what a dataset gives one after the other, and that they are all alike."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import jax
import numpy as np

from dtensor.runtime.host_arrays import refusal

HostArray = np.ndarray[Any, Any]


@dataclass(frozen=True)
class ElementSpec:
    """Structure, shapes and element types that all elements of a dataset have.

    Attributes:
        structure: the pytree around the arrays.
        paths: where each array is in the structure, as Python writes it: `['x'][0]`.
        shapes: shape of each array, in elements.
        dtypes: element type of each array, as jax has it: 32 bits wide where `jax_enable_x64` is
            off.
    """

    structure: Any
    paths: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]
    dtypes: tuple[np.dtype[Any], ...]

    def arrays(self, element: Any, number: int) -> list[HostArray]:
        """The arrays of the element of this number, in the order of `paths`; nothing is copied.

        Raises:
            ValueError: it has another structure, shape or element type than the first one.
            TypeError: something in it is not numeric.
        """
        leaves, structure = jax.tree.flatten(element)
        if structure != self.structure:
            raise ValueError(
                f"element {number} has structure {structure_text(structure)}, the elements before "
                f"it have {structure_text(self.structure)}; all elements need the same structure"
            )
        arrays = []
        for leaf, path, shape, dtype in zip(
            leaves, self.paths, self.shapes, self.dtypes, strict=True
        ):
            where = f"element {number}{at(path)}"
            array = host_array(leaf, where)
            if array.shape != shape:
                raise ValueError(
                    f"{where} has shape {array.shape}, the elements before it have {shape}; pad or "
                    "crop them to one shape, or if they are batches, ensure drop_remainder=True "
                    "when batching the dataset"
                )
            if _jax_dtype(array.dtype) != dtype:
                raise ValueError(
                    f"{where} has element type {array.dtype}, the elements before it have {dtype}; "
                    "convert them all to one type"
                )
            arrays.append(array)
        return arrays


def spec_of_element(element: Any) -> ElementSpec:
    """The spec of a dataset of which `element` is the first.

    Raises:
        TypeError: something in it is not numeric.
        ValueError: it holds no array.
    """
    found, structure = jax.tree_util.tree_flatten_with_path(element)
    if not found:
        raise ValueError(f"element 0 of the dataset is {element!r}, which holds no array")
    paths = [jax.tree_util.keystr(path) for path, _ in found]
    arrays = [
        host_array(leaf, f"element 0{at(path)}")
        for path, (_, leaf) in zip(paths, found, strict=True)
    ]
    return spec_of_arrays(arrays, structure, paths)


def spec_of_arrays(
    arrays: list[Any], structure: Any, paths: list[str], skip: int = 0
) -> ElementSpec:
    """The spec of what has the shapes of these arrays, from dimension `skip` on."""
    shapes = tuple([tuple(map(int, array.shape[skip:])) for array in arrays])
    dtypes = tuple([_jax_dtype(array.dtype) for array in arrays])
    return ElementSpec(structure, tuple(paths), shapes, dtypes)


def host_array(value: Any, where: str) -> HostArray:
    """What numpy reads as an array, on the host; `where` is what messages call it.

    Raises:
        TypeError: it is not numeric, is masked, or lies on devices of other processes.
    """
    if isinstance(value, np.ma.MaskedArray):
        raise TypeError(f"{where} {refusal(value)}")
    try:
        array = np.asarray(value)
    except Exception as error:
        raise TypeError(
            f"{where}, a {type(value).__name__}, cannot be read as an array: {error}"
        ) from error
    check_numeric(array.dtype, where)
    return array


def check_numeric(dtype: np.dtype[Any], where: str) -> None:
    """Raise TypeError unless devices can hold elements of this type, in any order of bytes."""
    wrong = _refusal_of(dtype)
    if wrong is not None:
        raise TypeError(f"{where} {wrong}")


@lru_cache
def _refusal_of(dtype: np.dtype[Any]) -> str | None:
    return refusal(np.empty(0, dtype.newbyteorder("=")))


def structure_text(structure: Any) -> str:
    """A pytree structure as `{'x': *, 'y': (*, *)}`."""
    return str(structure).removeprefix("PyTreeDef(").removesuffix(")")


def at(path: str) -> str:
    """Where an array is in an element, for messages; "" where it is the element."""
    return f" at {path}" if path else ""


def _jax_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The element type that jax gives an array of `dtype`, of either order of bytes."""
    return np.dtype(jax.dtypes.canonicalize_dtype(dtype.newbyteorder("=")))
