"""Shardy's annotations (`sdy.*`) as dtensor's."""

from __future__ import annotations

import re

from dtensor.dialect.attributes import layout_attr
from dtensor.dialect.diagnostics import error
from dtensor.dialect.errors import LayoutError
from dtensor.dialect.layout import Layout
from dtensor.dialect.mesh import Mesh
from dtensor.dialect.mlir import ir
from dtensor.dialect.names import LAYOUT
from dtensor.passes.functions import SIDES, entries, set_entries
from dtensor.passes.importing.constraints import replace_by_relayout
from dtensor.passes.ledger import Ledger
from dtensor.passes.program import walk

_MESH = re.compile(r"#sdy\.mesh<\[(.*?)\](?:, device_ids=\[([\d, ]*)\])?>", re.DOTALL)
_SHARDING = re.compile(r"#sdy\.sharding<@([\w.\-]+|\"[^\"]*\"), (\[.*?\])(.*)>\Z", re.DOTALL)
_ARGUMENT = "sdy.sharding"


def read_shardy_meshes(module: ir.Module) -> dict[str, Mesh]:
    """The module's `sdy.mesh` operations, by symbol."""
    found: dict[str, Mesh] = {}
    for view in module.body.operations:
        op = view.operation
        if op.name != "sdy.mesh":
            continue
        name = ir.StringAttr(op.attributes["sym_name"]).value
        match = _MESH.match(str(op.attributes["mesh"]))
        if match is None:
            error(op, f"mesh @{name} has no axes; dtensor needs named axes")
        axes = [(axis, int(size)) for axis, size in re.findall(r'"([^"]+)"=(\d+)', match.group(1))]
        ids = [int(i) for i in match.group(2).split(",")] if match.group(2) else None
        found[name] = Mesh(axes, ids, name="" if name == "mesh" else name)
    return found


def sharding_layout(text: str, meshes: dict[str, Mesh], target: Mesh) -> Layout:
    """The layout that an `#sdy.sharding<...>` writes.

    Args:
        text: the attribute's written form.
        meshes: Shardy's meshes by symbol.
        target: the mesh of the module, with the same axes as the mesh of the sharding, unless that
            has none, as jax writes where it says of random keys that a key is whole.

    Raises:
        LayoutError: another mesh, priorities or a form that has no counterpart.
    """
    match = _SHARDING.match(text)
    if match is None:
        raise LayoutError(f"sharding {text} is not of the form #sdy.sharding<@mesh, [...]>")
    name, dims, rest = match.group(1).strip('"'), match.group(2), match.group(3)
    if name not in meshes:
        raise LayoutError(f"sharding names mesh @{name}, which the module does not define")
    if meshes[name].axes and meshes[name].axes != target.axes:  # without axes, it fits any mesh
        raise LayoutError(
            f"sharding is on mesh @{name} {meshes[name]!r}, the module is compiled for {target!r}; "
            "use one mesh"
        )
    dims = re.sub(r"\}p\d+", "}", dims)  # user priorities: propagation by cost does not need them
    partial = ""
    unreduced = re.search(r"unreduced=\{([^}]*)\}", rest)
    if unreduced and unreduced.group(1).strip():
        partial = f", partial = {{sum: ({unreduced.group(1)})}}"
    return Layout.parse(f"#dtensor.layout<@{target.symbol}, {dims}{partial}>", target)


def import_shardy(
    module: ir.Module, functions: list[ir.Operation], mesh: Mesh, ledger: Ledger
) -> None:
    """Turn every Shardy annotation of the module into dtensor's; erase the meshes.

    A sharding on an op is a hint that has no counterpart: it goes, and the ledger says so.
    """
    meshes = read_shardy_meshes(module)
    for function in functions:
        for side in SIDES:
            _import_function_attributes(function, side, meshes, mesh)
        for op, name, _ in walk(function, combiners=True):
            _import_op(op, name, meshes, mesh, ledger)
    for view in list(module.body.operations):
        if view.operation.name == "sdy.mesh":
            view.operation.erase()


def _layout(
    op: ir.Operation, attribute: ir.Attribute, meshes: dict[str, Mesh], mesh: Mesh
) -> Layout:
    try:
        return sharding_layout(str(attribute), meshes, mesh)
    except LayoutError as wrong:
        error(op, str(wrong))


def _import_function_attributes(
    function: ir.Operation, name: str, meshes: dict[str, Mesh], mesh: Mesh
) -> None:
    if name not in function.attributes:
        return
    attributes = entries(function, name)
    for entry in attributes:
        sharding = entry.pop(_ARGUMENT, None)
        if sharding is not None and LAYOUT not in entry:
            entry[LAYOUT] = layout_attr(_layout(function, sharding, meshes, mesh))
    set_entries(function, name, attributes)


def _import_op(
    op: ir.Operation, name: str, meshes: dict[str, Mesh], mesh: Mesh, ledger: Ledger
) -> None:
    if name == "sdy.sharding_constraint":
        replace_by_relayout(op, _layout(op, op.attributes["sharding"], meshes, mesh))
        return
    if name == "sdy.manual_computation":
        error(
            op,
            "a manual region (jax.shard_map) stands inside the program; dtensor expands whole "
            "programs: call shard_map outside, or write the region as ordinary operations",
        )
    if name.startswith("sdy."):
        error(op, f"{name} has no counterpart in dtensor; remove it")
    if _ARGUMENT in op.attributes:
        del op.attributes[_ARGUMENT]
        ledger.warn(
            op, f"the sharding on {name} is ignored; write a constraint to fix a value's layout"
        )
