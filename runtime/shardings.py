"""What jax calls a mesh or a sharding, wherever dtensor takes a Mesh or a Layout.

A `PartitionSpec` names axes of a mesh that is known otherwise; `P.UNCONSTRAINED` leaves a dimension
open. A `NamedSharding` brings its mesh along.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any

import jax
from jax.sharding import AbstractMesh, NamedSharding, PartitionSpec, get_abstract_mesh

from dtensor.dialect.errors import LayoutError, MeshError
from dtensor.dialect.layout import OPEN, Layout
from dtensor.dialect.mesh import Mesh
from dtensor.runtime.placement import layout_of, mesh_of

AnyMesh = Mesh | jax.sharding.Mesh | AbstractMesh
"""What is taken for a mesh."""

AnyLayout = Layout | PartitionSpec | NamedSharding
"""What is taken for a layout."""


def as_mesh(mesh: Any) -> Mesh:
    """The mesh that a value stands for.

    Args:
        mesh: a Mesh, or one of jax's. An AbstractMesh, which has no devices, stands for a mesh over
            the devices 0, 1, 2, ...

    Raises:
        MeshError: it is none, or has an axis whose name dtensor's meshes cannot have.
    """
    if isinstance(mesh, Mesh):
        return mesh
    if isinstance(mesh, AbstractMesh):
        return Mesh(tuple(zip(mesh.axis_names, mesh.axis_sizes, strict=True)))
    if not isinstance(mesh, jax.sharding.Mesh):
        raise MeshError(
            f"expected a Mesh, got {type(mesh).__name__}; make one with dtensor.create_mesh"
        )
    found = mesh_of(mesh)
    if found is None:
        raise MeshError(
            f"{mesh} has no counterpart: names of axes must be identifiers; rename its axes"
        )
    return found


def as_layout(layout: Any, rank: int, mesh: Mesh | None = None, what: str = "") -> Layout:
    """The layout that a value stands for.

    Args:
        layout: a Layout, a NamedSharding or a PartitionSpec.
        rank: number of dimensions of the array.
        mesh: the mesh whose axes a PartitionSpec names; None is that of `context_mesh`.
        what: what it is the layout of, for errors; "in_layouts".

    Raises:
        LayoutError: it is none of these, does not fit the mesh or the rank, or no mesh is known.
    """
    if isinstance(layout, Layout):
        return layout
    where = f"{what}: " if what else ""
    if isinstance(layout, PartitionSpec):
        mesh = mesh or context_mesh()
        if mesh is None:
            raise LayoutError(
                f"{where}{layout} names axes, but no mesh is known; give a mesh, a Layout or a "
                "NamedSharding, or call it under dtensor.default_mesh(mesh)"
            )
        return _layout_of_spec(layout, rank, mesh, where)
    if isinstance(layout, NamedSharding):
        _check_memory(layout, where)
        if mesh is None and isinstance(layout.mesh, AbstractMesh):
            mesh = as_mesh(layout.mesh)
        if len(layout.spec) > rank or getattr(layout.spec, "unreduced", None):
            return _layout_of_spec(layout.spec, rank, mesh or as_mesh(layout.mesh), where)
        found = layout_of(layout, rank, mesh)
        if found is None:
            target = "a mesh" if mesh is None else mesh.short()
            raise LayoutError(f"{where}{layout} is not a sharding over {target}")
        return found
    raise LayoutError(
        f"{what} holds {layout!r}; its leaves are Layouts, PartitionSpecs or NamedShardings, "
        "or None to leave the choice"
        if what
        else f"expected a Layout, got {type(layout).__name__}; make one with "
        "dtensor.Layout(sharding_specs, mesh)"
    )


def layout_anywhere(layout: Any, rank: int, mesh: Mesh | None = None, what: str = "") -> Layout:
    """As `as_layout`, where an array may leave `mesh`: a NamedSharding brings its own.

    Raises:
        LayoutError: as `as_layout`.
    """
    is_named = isinstance(layout, NamedSharding) and not isinstance(layout.mesh, AbstractMesh)
    leaves = is_named and layout_of(layout, rank, mesh) is None
    return as_layout(layout, rank, None if leaves else mesh, what)


def rank_of(layout: AnyLayout) -> int:
    """How many dimensions a value says the layout of: of a PartitionSpec, the first ones."""
    if isinstance(layout, Layout):
        return layout.rank
    return len(layout.spec if isinstance(layout, NamedSharding) else layout)


def _check_memory(sharding: NamedSharding, where: str) -> None:
    own = NamedSharding(sharding.mesh, sharding.spec).memory_kind
    if sharding.memory_kind not in (None, own):
        raise LayoutError(
            f"{where}{sharding.spec} asks for the memory {sharding.memory_kind!r}, but the shards "
            f"of a DTensor lie in the memory that devices compute in, {own!r}; leave memory_kind "
            "out"
        )


default_meshes: ContextVar[tuple[Any, ...]] = ContextVar("dtensor_default_meshes", default=())
"""The contexts of `dtensor.default_mesh` around this call, each with its `mesh`."""


def context_mesh() -> Mesh | None:
    """The mesh of the innermost `default_mesh` around this call, else that of `jax.set_mesh`.

    None outside of both; that of jax is not known in traced functions.
    """
    entered = default_meshes.get()
    if entered:
        found: Mesh = entered[-1].mesh
        return found
    mesh = context_jax_mesh()
    return None if mesh is None else as_mesh(mesh)


def context() -> Any:
    """What a program depends on under `default_mesh` or `jax.set_mesh`: meshes, types of axes."""
    return get_abstract_mesh(), context_jax_mesh(), context_mesh()


def context_jax_mesh() -> jax.sharding.Mesh | None:
    """The mesh of `jax.set_mesh` around this call; None outside of it and in traced functions."""
    try:
        mesh = jax.sharding.get_mesh() if get_abstract_mesh().axis_names else None
    except ValueError:  # jax is tracing
        return None
    return None if mesh is None or mesh.empty else mesh


def _layout_of_spec(spec: PartitionSpec, rank: int, mesh: Mesh, where: str) -> Layout:
    if getattr(spec, "unreduced", None):
        raise LayoutError(
            f"{where}{spec} has unreduced axes; no array that is given or asked for can be partial"
        )
    if len(spec) > rank:
        raise LayoutError(
            f"{where}{spec} has {len(spec)} entries but the array has rank {rank}; give at most "
            "one for each dimension"
        )
    entries = [OPEN if entry is PartitionSpec.UNCONSTRAINED else entry for entry in spec]
    try:
        return Layout([*entries, *[None] * (rank - len(spec))], mesh)
    except LayoutError as error:
        raise LayoutError(f"{where}{spec} on {mesh.short()}: {error}") from None
