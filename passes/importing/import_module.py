"""The import pass."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from dtensor.dialect.attributes import layout_attr, layout_of, mesh_attr, read_meshes
from dtensor.dialect.diagnostics import error
from dtensor.dialect.errors import LayoutError
from dtensor.dialect.layout import Layout
from dtensor.dialect.mesh import Mesh
from dtensor.dialect.mlir import ir
from dtensor.dialect.names import (
    ARG_ATTRS,
    COMPOSITE_NAME,
    LAYOUT,
    LAYOUT_ATTR,
    MESH_ATTR,
    MESH_OP,
    RELAYOUT,
    RES_ATTRS,
    SYM_NAME,
)
from dtensor.passes.base import Pass, PassState
from dtensor.passes.functions import entries, functions, main_function, tensor_shape
from dtensor.passes.importing.meshes import merge_meshes
from dtensor.passes.importing.shardy import import_shardy, read_shardy_meshes
from dtensor.passes.ledger import Ledger
from dtensor.passes.locations import tag


@dataclass(frozen=True)
class ImportPass(Pass):
    """Brings a module into the one form that the other passes read.

    One mesh; layouts on arguments, results and constraints as `#dtensor.layout`, whether they were
    written so, by Shardy (`sdy.*`) or by `dtensor.relayout` in a JAX program; an id on every op.
    Calls have to be inlined before.
    """

    name: ClassVar[str] = "dtensor-import"

    def run(self, module: ir.Module, state: PassState) -> None:
        """Rewrite the annotations in place."""
        function = main_function(module)
        mesh = _one_mesh(module, state)
        found = functions(module)
        _check_calls(found, function)
        merge_meshes(module, found, state.meshes, mesh)
        state.meshes = {mesh.symbol: mesh}
        import_shardy(module, found, mesh, state.ledger)
        _import_composites(function.regions[0].blocks[0], mesh)
        _erase_other_functions(module, function)
        _check_function_layouts(function, mesh)
        _number_ops(function, state.ledger)
        state.graph = None


def _one_mesh(module: ir.Module, state: PassState) -> Mesh:
    """The module's mesh; equal ones are merged, the first name stays."""
    meshes = read_meshes(module)
    shardy = [other for other in read_shardy_meshes(module).values() if other.axes]
    every = [*meshes.values(), *shardy]
    if state.mesh is not None:
        mesh = state.mesh
    elif every:
        mesh = every[0]
    else:
        error(module.operation, "no mesh: give the module a dtensor.mesh, or pass --mesh x=2,y=4")
    for other in every:
        if other.axes != mesh.axes:
            error(
                module.operation,
                f"meshes differ: @{other.symbol} is {other.short()}, @{mesh.symbol} is "
                f"{mesh.short()}; a program is compiled for one mesh",
            )
    if mesh.symbol not in meshes:
        ir.Operation.create(
            MESH_OP,
            attributes={SYM_NAME: ir.StringAttr.get(mesh.symbol), MESH_ATTR: mesh_attr(mesh)},
            loc=module.operation.location,
            ip=ir.InsertionPoint.at_block_begin(module.body),
        )
    state.mesh = mesh
    state.meshes = {**meshes, mesh.symbol: mesh}  # still to be merged
    return mesh


def _check_calls(found: list[ir.Operation], function: ir.Operation) -> None:
    """Refuse calls that were not inlined, and collectives that the user wrote."""

    def check(block: ir.Block) -> None:
        for view in block.operations:
            op = view.operation
            if op.name in ("func.call", "call"):
                error(op, f"call of {op.attributes['callee']} is not inlined; run `inline` before")
            if op.name == "stablehlo.custom_call":
                _check_custom_call(op)
            if op.name in _REFUSED:
                error(op, f"{op.name} {_REFUSED[op.name]}")
            if op.name in ("stablehlo.while", "stablehlo.case", "stablehlo.if"):
                for region in op.regions:
                    check(region.blocks[0])

    check(function.regions[0].blocks[0])


_PER_DEVICE = "speaks of single devices; a program for dtensor is written for one device"
_REFUSED = {
    "stablehlo.partition_id": _PER_DEVICE,
    "stablehlo.replica_id": _PER_DEVICE,
    **{
        f"stablehlo.{name}": _PER_DEVICE
        for name in (
            "all_gather",
            "all_reduce",
            "all_to_all",
            "reduce_scatter",
            "collective_permute",
            "collective_broadcast",
        )
    },
    **{
        f"stablehlo.{name}": "talks to the host or to other programs and cannot be expanded"
        for name in ("send", "recv", "infeed", "outfeed")
    },
}


def _check_custom_call(op: ir.Operation) -> None:
    target = ir.StringAttr(op.attributes["call_target_name"]).value
    if target in ("Sharding", "SPMDFullToShardShape", "SPMDShardToFullShape"):
        error(
            op,
            f"custom call @{target} is GSPMD's annotation; lower with Shardy "
            "(jax_use_shardy_partitioner=True, the default), or use dtensor.relayout",
        )


def _import_composites(block: ir.Block, mesh: Mesh) -> None:
    """`stablehlo.composite "dtensor.relayout"` becomes `dtensor.relayout`."""
    for view in list(block.operations):
        op = view.operation
        if op.name == "stablehlo.composite":
            name = ir.StringAttr(op.attributes["name"]).value
            if name != COMPOSITE_NAME:
                error(
                    op,
                    f'composite "{name}" is not inlined; run stablehlo-legalize-composite-to-call',
                )
            _import_composite(op, mesh)
            continue
        for region in op.regions:
            for inner in region.blocks:
                _import_composites(inner, mesh)


def _import_composite(op: ir.Operation, mesh: Mesh) -> None:
    attributes = ir.DictAttr(op.attributes["composite_attributes"])
    if "layout" not in attributes or not isinstance(attributes["layout"], ir.StringAttr):
        error(op, f'composite "{COMPOSITE_NAME}" has no layout; make it with dtensor.relayout')
    text = ir.StringAttr(attributes["layout"]).value
    try:
        name = text.split("@", 1)[1].split(",", 1)[0]
        layout = Layout.parse(text.replace(f"@{name}", f"@{mesh.symbol}", 1), mesh)
    except (LayoutError, IndexError) as wrong:
        error(op, str(wrong))
    problem = layout.problem(ir.RankedTensorType(op.operands[0].type).shape)
    if problem is not None:
        error(op, problem)
    new = ir.Operation.create(
        RELAYOUT,
        results=[op.results[0].type],
        operands=[op.operands[0]],
        attributes={LAYOUT_ATTR: layout_attr(layout)},
        loc=op.location,
        ip=ir.InsertionPoint(op),
    )
    op.results[0].replace_all_uses_with(new.results[0])
    op.erase()


def _erase_other_functions(module: ir.Module, main: ir.Operation) -> None:
    """What was inlined, and the decompositions of composites."""
    for function in functions(module):
        if function != main:
            function.erase()


def _check_function_layouts(function: ir.Operation, mesh: Mesh) -> None:
    """Arguments' and results' layouts must fit, be complete and contiguous."""
    type_ = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value)
    for name, types, what in (
        (ARG_ATTRS, type_.inputs, "argument"),
        (RES_ATTRS, type_.results, "result"),
    ):
        for i, (entry, tensor) in enumerate(zip(entries(function, name), types, strict=True)):
            if LAYOUT not in entry:
                continue
            try:
                layout = layout_of(entry[LAYOUT], {mesh.symbol: mesh})
            except LayoutError as wrong:
                error(function, f"{what} {i}: {wrong}")
            problem = layout.problem(tensor_shape(tensor) or ()) or layout.border_problem()
            if problem is not None:
                error(function, f"{what} {i}: {problem}")


def _number_ops(function: ir.Operation, ledger: Ledger) -> None:
    """Give every op an id in its location: design 2.8."""
    names, locations = ledger.op_names, ledger.op_locations

    def number(block: ir.Block) -> None:
        for view in block.operations:
            op = view.operation
            location = op.location
            op.location = tag(location, len(names))
            names.append(op.name)
            locations.append(location)
            if op.name in ("stablehlo.while", "stablehlo.case", "stablehlo.if"):
                for region in op.regions:
                    number(region.blocks[0])

    number(function.regions[0].blocks[0])
