"""The first stage of a compilation, after jax's: a function as jax traced it."""

from __future__ import annotations

from typing import Any

from dtensor.compiler.source import Source
from dtensor.compiler.stages import Lowered


class Traced:
    """A function as jax traced it; `lower` gives it layouts.

    Example:
        >>> rows = dtensor.Layout.batch_sharded(mesh, "x", rank=2)
        >>> step = dtensor.jit(lambda x: x.sum(axis=0), in_layouts=rows)
        >>> step.trace(np.ones((4, 8))).out_info
        ShapeDtypeStruct(shape=(8,), dtype=float32)
    """

    def __init__(self, source: Source, jaxpr: Any) -> None:
        self._source = source
        self._jaxpr = jaxpr

    def __repr__(self) -> str:
        return f"Traced({self._source.short()})"

    @property
    def jaxpr(self) -> Any:
        """The function as jax's ClosedJaxpr, of global shapes."""
        return self._jaxpr

    @property
    def out_info(self) -> Any:
        """Shape and element type of each result, in the structure the function returns."""
        tree: Any = self._source.out_tree
        return tree.unflatten([info.struct for info in self._source.results[: tree.num_leaves]])

    def lower(self, **options: Any) -> Lowered:
        """The program with its layouts, not compiled; there are no options, which jax.export has.

        Raises:
            TypeError: an option is given.

        Example:
            >>> rows = dtensor.Layout.batch_sharded(mesh, "x", rank=2)
            >>> step = dtensor.jit(lambda x: x.sum(axis=0), in_layouts=rows)
            >>> step.trace(np.ones((4, 8))).lower()
            Lowered(<lambda> on mesh(x=2, y=4))
        """
        if options:
            raise TypeError(
                f"lower takes no {next(iter(options))}=; where jax.export wants a function of "
                "jax.jit, write step.lower(*args).compile().export()"
            )
        return Lowered(self._source)
