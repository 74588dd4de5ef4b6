"""`relayout`: the same array, laid out another way, inside and outside of traced functions."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import jax

from dtensor.compiler.constraint import constrain
from dtensor.dialect.layout import Layout
from dtensor.runtime.array import DTensor
from dtensor.runtime.transfer import place

if TYPE_CHECKING:
    from dtensor.compiler.api import JitFunction


def relayout(x: Any, layout: Layout) -> Any:
    """The array `x` in the layout `layout`.

    Inside a traced function this is a constraint: the value has this layout at this point of the
    program. It survives grad, vmap, scan, remat and nested jit, and under plain `jax.jit` it is the
    identity. Dimensions marked open (`"?"`) leave the choice to the compiler.

    Args:
        x: a DTensor, a jax.Array or a host array; or a traced array.
        layout: one entry per dimension of `x`; on another mesh, the array is copied there.

    Returns:
        A DTensor for a DTensor, a traced array for a traced one, else a jax.Array on the mesh.

    Raises:
        LayoutError: the layout has another rank, does not divide the shape, or is partial.
    """
    if isinstance(x, jax.core.Tracer):
        return constrain(x, layout)
    layout = layout.closed()
    if not isinstance(x, DTensor):
        return place(x, layout).to_jax()
    if x.layout == layout:
        return x
    if x.mesh != layout.mesh:
        return place(x, layout)
    layout.verify(x.shape)
    return _move_to(layout)(x)


def copy_to_mesh(array: Any, layout: Layout) -> DTensor:
    """Copy a host or device array to the mesh of `layout`; each device gets its shard only.

    Args:
        array: a host array, a jax.Array anywhere, or a DTensor.
        layout: complete and contiguous; its axes divide the shape of the array.

    Raises:
        LayoutError: the layout does not fit the array.
        TypeError: not a numeric array, or a traced one.
    """
    if isinstance(array, jax.core.Tracer):
        raise TypeError("copy_to_mesh is for concrete arrays; in a traced function use relayout")
    if isinstance(array, DTensor):
        moved: DTensor = relayout(array, layout)
        return moved
    return place(array, layout.closed())


@cache
def _move_to(layout: Layout) -> JitFunction:
    from dtensor.compiler.api import jit  # api compiles arguments' moves with this module

    def relayout(x: jax.Array) -> jax.Array:
        return x

    return jit(relayout, out_layouts=layout, mesh=layout.mesh)
