"""What a workload of the benchmark is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np


@dataclass(frozen=True)
class Workload:
    """A program with the layouts that a user would give it.

    Attributes:
        title: what it is, in a table.
        mesh: sizes of the mesh axes, eight devices together.
        function: the program of one device.
        shapes: a tree of `jax.ShapeDtypeStruct`, one per argument.
        in_specs: PartitionSpecs of the arguments, as trees; None leaves one free.
        out_specs: likewise of the results; None leaves all of them free.
        donate: positions of the arguments whose memory the results may take.
        squares: positions of the arguments that are never negative.
    """

    title: str
    mesh: dict[str, int]
    function: Callable[..., Any]
    shapes: tuple[Any, ...]
    in_specs: tuple[Any, ...]
    out_specs: Any = None
    donate: tuple[int, ...] = ()
    squares: tuple[int, ...] = ()

    def arguments(self) -> Any:
        """Arrays of these shapes, the same in every run; integers are below 32."""
        random = np.random.default_rng(0)

        def array(shape: jax.ShapeDtypeStruct) -> np.ndarray[Any, Any]:
            if np.issubdtype(shape.dtype, np.integer):
                return random.integers(0, 32, shape.shape).astype(shape.dtype)
            scale = max(shape.shape[:-1], default=4) ** -0.5
            return random.normal(size=shape.shape, scale=scale).astype(shape.dtype)

        found = list(jax.tree.map(array, self.shapes))
        for position in self.squares:
            found[position] = jax.tree.map(np.square, found[position])
        return tuple(found)


def floats(**shapes: tuple[int, ...]) -> dict[str, jax.ShapeDtypeStruct]:
    """A dict of float32 arrays."""
    return {name: jax.ShapeDtypeStruct(shape, np.float32) for name, shape in shapes.items()}


def array(*shape: int, dtype: Any = np.float32) -> jax.ShapeDtypeStruct:
    """One array, of float32 unless said otherwise."""
    return jax.ShapeDtypeStruct(shape, dtype)
