"""The import pass."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from dtensor.dialect import build
from dtensor.dialect.attributes import layout_attr, layout_of, read_meshes
from dtensor.dialect.callbacks import target_of
from dtensor.dialect.diagnostics import error, place_of
from dtensor.dialect.errors import LayoutError
from dtensor.dialect.functions import function_name, functions, named_functions
from dtensor.dialect.layout import Layout
from dtensor.dialect.mesh import Mesh
from dtensor.dialect.mlir import ir, ops_of, replace_op
from dtensor.dialect.names import (
    COMPOSITE_NAME,
    LAYOUT_ATTR,
    MANUAL,
    MESH_OP,
    RELAYOUT,
    SYM_NAME,
)
from dtensor.passes.base import Pass, PassState
from dtensor.passes.functions import (
    SIDES,
    boundary_layouts,
    check_boundary_layouts,
    main_function,
    set_boundary_layouts,
)
from dtensor.passes.importing.alone import drop_lonely_collectives
from dtensor.passes.importing.constraints import replace_by_relayout
from dtensor.passes.importing.definitions import import_definitions
from dtensor.passes.importing.gspmd import GSPMD_ATTR, is_gspmd_constraint
from dtensor.passes.importing.shardy import import_annotations
from dtensor.passes.importing.shardy_text import inline_meshes, named_meshes, read_shardy_meshes
from dtensor.passes.locations import tag
from dtensor.passes.ops.opdef import UNKNOWN
from dtensor.passes.ops.table import opdef
from dtensor.passes.program import CALLS, COMPOSITE, CUSTOM_CALL, Visit, holds_program, walk


@dataclass(frozen=True)
class ImportPass(Pass):
    """Brings a module into the one form that the other passes read.

    One mesh; layouts on arguments, results and constraints as `#dtensor.layout`, whether they were
    written so, by Shardy (`sdy.*`), by GSPMD (`mhlo.sharding`) or by `dtensor.relayout` in a JAX
    program; an id on every op. Calls have to be inlined before.
    """

    name: ClassVar[str] = "dtensor-import"

    def run(self, module: ir.Module, state: PassState) -> None:
        """Rewrite the annotations in place."""
        function = main_function(module)
        mesh = _one_mesh(module, function, state)
        found = functions(module)
        visits, present = _visits(found)
        if any(opdef(name).refused for name in present):
            drop_lonely_collectives(function, mesh)
            visits, present = _visits(found)
        _check_calls(function, present)
        merge_meshes(module, found, state.meshes, mesh)
        state.meshes = {mesh.symbol: mesh}
        import_annotations(module, found, visits, mesh, state.ledger)
        import_definitions(function, state.definitions, state.bodies)
        if COMPOSITE in present:
            _import_composites(function, mesh)
        _erase_unnamed_functions(module, function)
        if any(opdef(name).settle is not None for name in present):
            _settle(functions(module))
        for side in SIDES:
            layouts = boundary_layouts(function, side, state.meshes)
            check_boundary_layouts(function, side, layouts)
        state.forget_ir()
        _number_ops(state.operations(function).visits, state)
        state.plan_checker = None


def _visits(found: Sequence[ir.Operation]) -> tuple[list[list[Visit]], set[str]]:
    """The operations of each function, those in bodies of reduce and the like too; their names."""
    visits = [list(walk(each, combiners=True)) for each in found]
    return visits, {name for each in visits for _, name, _ in each}


def _settle(found: Sequence[ir.Operation]) -> None:
    """Let operations say themselves what their kind leaves open."""
    for function in found:
        for op, name, _ in walk(function, combiners=True):
            settle = opdef(name).settle
            if settle is not None:
                settle(op)


def _one_mesh(module: ir.Module, function: ir.Operation, state: PassState) -> Mesh:
    """The module's mesh; equal ones are merged, the first name stays.

    Where meshes differ, those count that the program names. The mesh of a call may give devices to
    one that has none of its own, and only to such a one.
    """
    meshes = read_meshes(module)
    shardy = list(read_shardy_meshes(module).values())
    every = [*meshes.values(), *[other for other in shardy if other.axes]]
    none = "no mesh: give the module a dtensor.mesh, or"
    if len({(other.axes, other.ids()) for other in every}) > 1:
        none = "the program names none of the module's meshes:"
        _erase_unnamed_functions(module, function)  # they may be of another mesh
        named = named_meshes(function)
        every = [other for other in every if other.symbol in named]
        shardy = [other for other in shardy if other.symbol in named]
    if state.mesh is not None:
        mesh = state.mesh
    else:
        every = every or inline_meshes(function) or shardy
        if not every:
            error(_placed(function, module), f"{none} pass --mesh x=2,y=4 (in Python mesh=)")
        mesh = every[0]
    for other in every:
        is_settled = state.mesh is None or other.device_ids is not None
        is_other = other.axes != mesh.axes or (is_settled and other.ids() != mesh.ids())
        if other.axes and is_other:
            given = f"@{mesh.symbol}" if state.mesh is None else "the mesh given"
            error(
                _namer(function, other) or _placed(function, module),
                f"meshes differ: @{other.symbol} is {other.short()}, {given} is {mesh.short()}; a "
                "program is compiled for one mesh",
            )
    if mesh.symbol not in meshes:
        start = ir.InsertionPoint.at_block_begin(module.body)
        build.mesh(mesh, module.operation.location, start)
    state.mesh = mesh
    state.meshes = {**meshes, mesh.symbol: mesh}  # still to be merged
    return mesh


def _placed(function: ir.Operation, module: ir.Module) -> ir.Operation:
    """The function if its line is known, else the module."""
    return module.operation if place_of(function) is None else function


_COMPILED = ("stablehlo", "chlo", "func", "sdy", "dtensor")  # dialects


def _is_foreign(name: str) -> bool:
    return opdef(name) is UNKNOWN and name.split(".")[0] not in _COMPILED


def _check_calls(function: ir.Operation, present: set[str]) -> None:
    """Refuse calls that were not inlined, and collectives that the user wrote."""
    of_note = (*CALLS, CUSTOM_CALL)
    doubtful = {n for n in present if n in of_note or opdef(n).refused or _is_foreign(n)}
    for op, name, _ in walk(function) if doubtful else ():
        if name in CALLS:
            error(op, f"call of {op.attributes['callee']} is not inlined; run `inline` before")
        if name == CUSTOM_CALL:
            _check_custom_call(op)
        if opdef(name).refused:
            error(op, f"{name} {opdef(name).refused}")
        if _is_foreign(name) and len(op.operands):
            error(op, f"XLA does not compile {name}; write it in StableHLO")


def _check_custom_call(op: ir.Operation) -> None:
    target = target_of(op)
    if target in ("SPMDFullToShardShape", "SPMDShardToFullShape"):
        error(
            op,
            f"custom call @{target} is how GSPMD writes jax.shard_map; lower with Shardy "
            "(jax_use_shardy_partitioner=True, the default)",
        )
    if is_gspmd_constraint(op) and GSPMD_ATTR not in op.attributes:
        error(op, f"custom call @{target} has no {GSPMD_ATTR} that says how; remove it")


def _namer(function: ir.Operation, mesh: Mesh) -> ir.Operation | None:
    """The first operation of a function that names a mesh, such as a constraint or a shard_map."""
    name = re.compile(rf"<@{re.escape(mesh.symbol)}\b")
    for op, _, _ in walk(function, combiners=True):
        if any(name.search(str(op.attributes[k])) for k in op.attributes):
            return op
    return None


def _import_composites(function: ir.Operation, mesh: Mesh) -> None:
    """`stablehlo.composite "dtensor.relayout"` becomes `dtensor.relayout`."""
    for op, op_name, _ in walk(function, combiners=True):
        if op_name == COMPOSITE:
            name = ir.StringAttr(op.attributes["name"]).value
            if name != COMPOSITE_NAME:
                error(
                    op,
                    f'composite "{name}" is not decomposed; run `dtensor-inline` before, or define '
                    "it with dtensor.define_op",
                )
            _import_composite(op, mesh)


def _import_composite(op: ir.Operation, mesh: Mesh) -> None:
    attributes = ir.DictAttr.get({})
    if "composite_attributes" in op.attributes:
        attributes = ir.DictAttr(op.attributes["composite_attributes"])
    if "layout" not in attributes or not isinstance(attributes["layout"], ir.StringAttr):
        error(op, f'composite "{COMPOSITE_NAME}" has no layout; make it with dtensor.relayout')
    text = ir.StringAttr(attributes["layout"]).value
    try:
        name = text.split("@", 1)[1].split(",", 1)[0]
        layout = Layout.parse(text.replace(f"@{name}", f"@{mesh.symbol}", 1), mesh)
    except (LayoutError, IndexError) as wrong:
        error(op, str(wrong))
    replace_by_relayout(op, layout)


def _erase_unnamed_functions(module: ir.Module, main: ir.Operation) -> None:
    """What was inlined, and the decompositions of composites; not what custom calls name."""
    by_name = {function_name(function): function for function in functions(module)}
    kept = {function_name(main): main}
    worklist = [main]
    while worklist:
        for op, name in named_functions(worklist.pop()):
            if name not in by_name:
                error(op, f"{op.name} names @{name}, which the module does not define; add it")
            if name not in kept:
                kept[name] = by_name[name]
                worklist.append(by_name[name])
    for name, function in by_name.items():
        if name not in kept:
            function.erase()


def _number_ops(ops: Sequence[Visit], state: PassState) -> None:
    """Give every op an id in its location: design 2.8."""
    names, locations = state.ledger.op_names, state.ledger.op_locations
    for op, name, _ in ops:
        location = op.location
        op.location = tag(location, len(names))
        names.append(name)
        locations.append(location)
        if not holds_program(op, name) and len(op.regions):
            _clear_constraints(op, _WORKS_ON.get(name, "single elements"), state.meshes)


_WORKS_ON = {MANUAL: "the shards of one device"}


def _clear_constraints(owner: ir.Operation, what: str, meshes: dict[str, Mesh]) -> None:
    """Refuse layouts of what a reducer, a comparator or a device by itself works on.

    A scalar has one layout alone. jax asks for it in the bodies of its operations where a mesh has
    axes of type Explicit beside others.
    """
    for op in [op for region in owner.regions for block in region.blocks for op in ops_of(block)]:
        if op.name == RELAYOUT:
            layout = layout_of(op.attributes[LAYOUT_ATTR], meshes)
            if not layout.dims and not layout.partial:
                replace_op(op, op.operands)
                continue
            error(
                op,
                f"a layout constraint stands inside the body of {owner.name}, whose values are "
                f"{what}; put it on the operands or the result instead",
            )
        _clear_constraints(op, what, meshes)


def merge_meshes(
    module: ir.Module, functions: list[ir.Operation], meshes: dict[str, Mesh], mesh: Mesh
) -> None:
    """Let every layout name `mesh`; erase the others, which have the same axes."""
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
    for op in ops_of(module.body):
        if op.name == MESH_OP and ir.StringAttr(op.attributes[SYM_NAME]).value != mesh.symbol:
            op.erase()


def _on(mesh: Mesh, layout: Layout) -> Layout:
    return Layout.of(layout.dims, mesh, layout.partial)
