"""Several names for one mesh become one."""

from __future__ import annotations

from dtensor.dialect.attributes import layout_attr, layout_of
from dtensor.dialect.layout import Layout
from dtensor.dialect.mesh import Mesh
from dtensor.dialect.mlir import ir
from dtensor.dialect.names import LAYOUT_ATTR, MESH_OP, RELAYOUT, SYM_NAME
from dtensor.passes.functions import SIDES, boundary_layouts, set_boundary_layouts
from dtensor.passes.program import walk


def merge_meshes(
    module: ir.Module, functions: list[ir.Operation], meshes: dict[str, Mesh], mesh: Mesh
) -> None:
    """Let every layout name `mesh`; erase the others.

    Args:
        module: a module whose meshes all have the same axes.
        functions: its functions.
        meshes: its `dtensor.mesh` operations by symbol.
        mesh: the one that stays.
    """
    if all(name == mesh.symbol for name in meshes):
        return
    known = {**meshes, mesh.symbol: mesh}
    for function in functions:
        for side in SIDES:
            layouts = boundary_layouts(function, side, known)
            set_boundary_layouts(function, side, [x and _on(mesh, x) for x in layouts])
        for op, name, _ in walk(function):
            if name == RELAYOUT:
                layout = layout_of(op.attributes[LAYOUT_ATTR], known)
                op.attributes[LAYOUT_ATTR] = layout_attr(_on(mesh, layout))
    for view in list(module.body.operations):
        op = view.operation
        if op.name == MESH_OP and ir.StringAttr(op.attributes[SYM_NAME]).value != mesh.symbol:
            op.erase()


def _on(mesh: Mesh, layout: Layout) -> Layout:
    return Layout.of(layout.dims, mesh, layout.partial)
