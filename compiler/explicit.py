"""Shardings in jax's types: what `jax.set_mesh` with axes of type Explicit asks for.

jax then types each value with its sharding and refuses what the types leave open. The arguments of
a traced function are typed as they are laid out; a function traced so asks for layouts as it goes,
and what it asks for is done.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import jax
from jax.sharding import (
    AbstractMesh,
    AxisType,
    NamedSharding,
    PartitionSpec,
    Sharding,
    get_abstract_mesh,
)
from jax.tree_util import PyTreeDef

from dtensor.compiler.border import argument_layouts
from dtensor.dialect.layout import Layout
from dtensor.dialect.mesh import Mesh
from dtensor.runtime.array import ArrayType
from dtensor.runtime.context import has_explicit_axes
from dtensor.runtime.padding import even_layout
from dtensor.runtime.placement import jax_mesh


def explicit_sharding(layout: Layout | None, shape: Sequence[int]) -> NamedSharding | None:
    """The sharding of an argument in jax's types; None for one of which they say nothing.

    That is an argument without a layout, on another mesh than jax's, or split over parts of axes,
    which jax cannot name. In its types a dimension that the layout does not divide is whole.
    """
    context = get_abstract_mesh()
    if layout is None or layout.mesh.axes != tuple(
        zip(context.axis_names, context.axis_sizes, strict=True)
    ):
        return None
    mesh = jax.sharding.Mesh(
        jax_mesh(layout.mesh).devices, context.axis_names, axis_types=context.axis_types
    )
    kinds = dict(zip(context.axis_names, context.axis_types, strict=True))
    entries: list[tuple[str, ...]] = []
    for dim in even_layout(layout, tuple(shape)).dims:
        if any(axis.size != layout.mesh.axis_size(axis.name) for axis in dim.axes):
            return None
        entries.append(tuple(a.name for a in dim.axes if kinds[a.name] == AxisType.Explicit))
    return NamedSharding(mesh, PartitionSpec(*entries))


def explicit_shardings(
    in_layouts: Any,
    types: Sequence[ArrayType],
    names: Sequence[str],
    tree: PyTreeDef,
    mesh: Mesh | None,
) -> list[NamedSharding | None]:
    """The shardings that the arguments have in jax's types, where its context has some."""
    if mesh is None or not has_explicit_axes():
        return [None] * len(types)
    layouts = argument_layouts(in_layouts, types, names, tree, mesh)
    return [
        explicit_sharding(layout, type_.shape) for layout, type_ in zip(layouts, types, strict=True)
    ]


def explicit_mesh(shardings: Iterable[Sharding | None]) -> AbstractMesh | None:
    """The mesh with Explicit axes that is set; else that of the first sharding with one."""
    meshes = [s.mesh.abstract_mesh for s in shardings if isinstance(s, NamedSharding)]
    found = [m for m in (get_abstract_mesh(), *meshes) if AxisType.Explicit in m.axis_types]
    return found[0] if found else None


def auto_mesh(mesh: AbstractMesh) -> AbstractMesh:
    """The mesh, all its axes of type Auto."""
    types = (AxisType.Auto,) * len(mesh.axis_names)
    return AbstractMesh(mesh.axis_sizes, mesh.axis_names, axis_types=types)
