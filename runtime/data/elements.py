"""Elements: what a dataset gives one after the other, and that they are all alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from dtensor.runtime import transfer

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
            is_alike = type(leaf) is np.ndarray and leaf.dtype == dtype
            array = leaf if is_alike else host_array(leaf, where)
            if array.shape != shape:
                raise ValueError(
                    f"{where} has shape {array.shape}, the elements before it have {shape}; pad or "
                    "crop them to one shape, or if they are batches, ensure drop_remainder=True "
                    "when batching the dataset"
                )
            if array.dtype != dtype:
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
    leaves = [leaf for _, leaf in found]
    arrays = [host_array(leaf, f"element 0{at(p)}") for p, leaf in zip(paths, leaves, strict=True)]
    return spec_of_arrays(arrays, structure, paths)


def spec_of_arrays(
    arrays: Sequence[Any], structure: Any, paths: Sequence[str], skip: int = 0
) -> ElementSpec:
    """The spec of what has the shapes of these arrays, from dimension `skip` on."""
    shapes = tuple([tuple(map(int, array.shape[skip:])) for array in arrays])
    dtypes = tuple([jax.dtypes.canonicalize_dtype(array.dtype) for array in arrays])
    return ElementSpec(structure, tuple(paths), shapes, dtypes)


def host_array(value: Any, where: str) -> HostArray:
    """What numpy reads as an array, on the host, of a type that jax has; errors note `where`."""
    try:
        return transfer.host_array(value)
    except Exception as error:
        error.add_note(f"{where} of the dataset")
        raise


def structure_text(structure: Any) -> str:
    """A pytree structure as `{'x': *, 'y': (*, *)}`."""
    return str(structure).removeprefix("PyTreeDef(").removesuffix(")")


def at(path: str) -> str:
    """Where an array is in an element, for messages; "" where it is the element."""
    return f" at {path}" if path else ""
