"""Elements: what a dataset gives one after the other, and that they are all alike."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from dtensor.runtime.array import DTensor

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
        """The arrays of an element, in the order of `paths`; nothing is copied.

        Args:
            element: what the dataset gave.
            number: its number in the dataset, for messages.

        Raises:
            ValueError: it has another structure, shape or element type than the first one.
            TypeError: something in it is not numeric.
        """
        if element is None:
            raise ValueError(missing_element(number))
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
            where = f"element {number}{_at(path)}"
            array = host_array(leaf, where)
            if array.shape != shape:
                raise ValueError(
                    f"{where} has shape {array.shape}, the elements before it have {shape}; pad or "
                    "crop them to one shape, or if they are batches, ensure drop_remainder=True "
                    "when batching the dataset"
                )
            if canonical_dtype(array.dtype) != dtype:
                raise ValueError(
                    f"{where} has element type {array.dtype}, the elements before it have {dtype}; "
                    "convert them all to one type"
                )
            arrays.append(array)
        return arrays


def spec_of_element(element: Any, number: int) -> ElementSpec:
    """The spec of a dataset of which `element` is the first that is read.

    Raises:
        TypeError: something in it is not numeric.
        ValueError: it holds no array.
    """
    if element is None:
        raise ValueError(missing_element(number))
    found, structure = jax.tree_util.tree_flatten_with_path(element, is_leaf=_is_dtensor)
    if not found:
        raise ValueError(f"element {number} of the dataset is {element!r}, which holds no array")
    paths = [jax.tree_util.keystr(path) for path, _ in found]
    leaves = [leaf for _, leaf in found]
    arrays = [
        host_array(leaf, f"element {number}{_at(path)}")
        for leaf, path in zip(leaves, paths, strict=True)
    ]
    return spec_of_arrays(arrays, structure, paths)


def spec_of_arrays(
    arrays: list[Any], structure: Any, paths: list[str], skip: int = 0
) -> ElementSpec:
    """The spec of what has the shapes of these arrays, from dimension `skip` on."""
    shapes = tuple([tuple(map(int, array.shape[skip:])) for array in arrays])
    dtypes = tuple([canonical_dtype(array.dtype) for array in arrays])
    return ElementSpec(structure, tuple(paths), shapes, dtypes)


def missing_element(number: int) -> str:
    """The message for an element that is None, as a filtered grain.MapDataset gives."""
    return (
        f"element {number} of the dataset is None, so which elements make a batch is not known "
        "without reading them all; where a filter left it out, read the dataset in order: "
        ".to_iter_dataset() of a grain.MapDataset"
    )


def host_array(value: Any, where: str) -> HostArray:
    """A number or an array as a numpy array on the host.

    Args:
        value: a number, a numpy or jax array, or anything that numpy reads as an array.
        where: what the value is, for messages: `element 3['x']`.

    Raises:
        TypeError: it is not numeric, is masked, or lies on devices of other processes.
    """
    if _is_dtensor(value):
        raise TypeError(f"{where} is a DTensor, which lies on a mesh already; give host arrays")
    if isinstance(value, np.ma.MaskedArray):
        raise TypeError(f"{where} is a masked array; fill it first: x.filled(value)")
    try:
        array = np.asarray(value)
    except Exception as error:
        raise TypeError(
            f"{where}, a {type(value).__name__}, cannot be read as an array: {error}"
        ) from error
    check_numeric(array.dtype, where)
    return array


def check_numeric(dtype: np.dtype[Any], where: str) -> None:
    """Raise TypeError unless devices can hold elements of this type."""
    # numpy counts bfloat16 and its like among the structures; jax knows them
    is_number = dtype.kind != "m" and (dtype.kind == "b" or jax.numpy.issubdtype(dtype, np.number))
    if not is_number or dtype.itemsize > (16 if dtype.kind == "c" else 8):
        raise TypeError(
            f"{where} has element type {dtype}, which devices cannot hold; make it numbers of at "
            "most 64 bits before it comes to DTensorDataset"
        )


def canonical_dtype(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The element type that jax gives an array of `dtype`, of either order of bytes."""
    return np.dtype(jax.dtypes.canonicalize_dtype(dtype.newbyteorder("=")))


def structure_text(structure: Any) -> str:
    """A pytree structure as `{'x': *, 'y': (*, *)}`."""
    return str(structure).removeprefix("PyTreeDef(").removesuffix(")")


def _is_dtensor(value: Any) -> bool:
    return isinstance(value, DTensor)


def _at(path: str) -> str:
    return f" at {path}" if path else ""
