"""`dtensor.visualize`: which devices hold which part of an array, in a terminal or a notebook."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import jax
from jax.sharding import NamedSharding, PartitionSpec

from dtensor.compiler.default_mesh import get_default_mesh
from dtensor.dialect.errors import LayoutError
from dtensor.dialect.layout import Layout
from dtensor.dialect.mesh import Mesh
from dtensor.dialect.pictures.html import figure
from dtensor.dialect.pictures.layouts import layout_picture, mesh_picture
from dtensor.dialect.pictures.picture import Picture
from dtensor.dialect.pictures.terminal import print_picture
from dtensor.runtime.placement import layout_of
from dtensor.runtime.shardings import AnyMesh, as_layout, as_mesh, rank_of


def visualize(
    x: Any, shape: Sequence[int] | None = None, *, dims: Sequence[int] | None = None
) -> None:
    """Show which devices hold which part of an array: colours tell shards apart.

    Devices that hold the same elements stand together. In a notebook the picture is shown below the
    cell; elsewhere it is printed, which needs rich, the package of the extra `tools`.

    Args:
        x: a DTensor, a variable, a Layout, a Mesh, what jax has for these (a PartitionSpec is over
            the default mesh), or a jax.Array, which is given to
            `jax.debug.visualize_array_sharding` where its sharding is no layout.
        shape: of a Layout, the global shape of the array in elements; None draws the shards alone.
        dims: the dimensions to draw, one or two, the first downwards; None chooses the two that are
            cut into the most shards, and says which.

    Raises:
        LayoutError: the shape does not fit the layout, or `dims` are not its dimensions.
        NotFoundError: rich is not installed, and this is no notebook.
        TypeError: `x` is of another kind, or jax is tracing it.
        ValueError: jax draws an array of one or two dimensions alone.

    Example:
        >>> dtensor.visualize(dtensor.Layout(["x", "y"], mesh), shape=(4, 8))
        4x8, [{"x"}, {"y"}] on mesh(x=2, y=4)
        ↓ dimension 0: 4 over x (2)
        → dimension 1: 8 over y (4)
        ┌─────┬─────┬─────┬─────┬─────┐
        │     │ 0:2 │ 2:4 │ 4:6 │ 6:8 │
        ├─────┼─────┼─────┼─────┼─────┤
        │  0:2│  0  │  1  │  2  │  3  │
        ├─────┼─────┼─────┼─────┼─────┤
        │  2:4│  4  │  5  │  6  │  7  │
        └─────┴─────┴─────┴─────┴─────┘
    """
    titled = _titled_picture(x, shape, dims)
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    if titled is None:
        jax.debug.visualize_array_sharding(x)
    elif ipython is not None and hasattr(shell, "kernel"):  # a notebook; a terminal shows no HTML
        ipython.display.display(ipython.display.HTML(figure(*titled)))
    else:
        print_picture(*titled)


def _titled_picture(
    x: Any, shape: Sequence[int] | None, dims: Sequence[int] | None
) -> tuple[str, Picture] | None:
    """A title and a picture; None of an array whose sharding no layout can say."""
    if not (dims is None or isinstance(dims, Sequence)):
        raise TypeError(f"visualize got dims={dims!r}; give the dimensions to draw, such as (0, 1)")
    chosen = None if dims is None else tuple(dims)
    if isinstance(x, AnyMesh):
        x = as_mesh(x)
    if isinstance(x, NamedSharding | PartitionSpec):
        x = as_layout(x, rank_of(x) if shape is None else len(shape), get_default_mesh())
    if shape is not None and not isinstance(x, Layout):
        raise LayoutError(f"shape was given with a {type(x).__name__}; it is for layouts alone")
    if isinstance(x, Mesh):
        return repr(x), mesh_picture(x)
    if isinstance(x, Layout):
        size = None if shape is None else tuple(shape)
        head = "" if size is None else f"{_shape_text(size)}, "
        return f"{head}{x.short()} on {x.mesh.short()}", layout_picture(x, size, chosen)
    array = x.to_jax() if hasattr(x, "to_jax") else x
    if not isinstance(array, jax.Array) or isinstance(array, jax.core.Tracer):
        raise TypeError(
            f"visualize got a value of type {type(x).__name__}; give it a DTensor, a jax.Array "
            "outside of traced functions, a Layout or a Mesh"
        )
    head = f"{array.dtype} {_shape_text(array.shape)}"
    layout = x.layout if isinstance(getattr(x, "layout", None), Layout) else None
    layout = layout or layout_of(array.sharding, array.ndim)
    if layout is None:
        if chosen is not None:
            raise LayoutError("dims was given with a sharding that is no layout; leave it out")
        return None
    picture = layout_picture(layout, array.shape, chosen)
    return f"{head}, {layout.short()} on {layout.mesh.short()}", picture


def _shape_text(shape: Sequence[int]) -> str:
    return "x".join(map(str, shape)) or "scalar"
