"""The function of a module that is run, and the layouts of its arguments and results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from dtensor.dialect.attributes import entries_of, layout_attr, layout_of
from dtensor.dialect.diagnostics import LocatedError, error, start_of
from dtensor.dialect.functions import entry_function, function_name, functions
from dtensor.dialect.layout import Layout
from dtensor.dialect.mesh import Mesh
from dtensor.dialect.mlir import forget, ir
from dtensor.dialect.names import ARG_ATTRS, LAYOUT, RES_ATTRS

# The two sides of a function's boundary, and what messages call a value there.
SIDES: Final = {ARG_ATTRS: "argument", RES_ATTRS: "result"}


def main_function(module: ir.Module) -> ir.Operation:
    """The function that is run: `@main`, the only public one, or the only function there is.

    Raises:
        LocatedError: there is none, or it cannot be told which, or it is only declared.
    """
    entry = entry_function(module)
    found = functions(module)
    if entry is None and len(found) == 1:
        entry = found[0]
    if entry is not None:
        if not len(entry.regions[0].blocks):
            error(entry, f"@{function_name(entry)} has no body; write what it computes")
        return entry
    what = "no function" if not found else f"{len(found)} functions, none called @main"
    raise LocatedError(start_of(module), f"the module has {what}; name the entry function @main")


def tensor_shape(type_: ir.Type) -> tuple[int, ...] | None:
    """The shape of a tensor type; None for anything else, such as a token."""
    try:
        return tuple(ir.RankedTensorType(type_).shape)
    except ValueError:
        return None


# The boundary. `side` is `arg_attrs` or `res_attrs`.


def boundary_types(function: ir.Operation, side: str) -> list[ir.Type]:
    """Types of the arguments, or of the results."""
    type_ = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value)
    return list(type_.inputs if side == ARG_ATTRS else type_.results)


def entries(function: ir.Operation, side: str) -> list[dict[str, ir.Attribute]]:
    """The attributes of each argument, or of each result."""
    if side not in function.attributes:
        return [{} for _ in boundary_types(function, side)]
    return [entries_of(entry) for entry in ir.ArrayAttr(function.attributes[side])]


def set_entries(
    function: ir.Operation, side: str, attributes: Sequence[dict[str, ir.Attribute]]
) -> None:
    """Write what `entries` reads."""
    if any(attributes):
        function.attributes[side] = ir.ArrayAttr.get([ir.DictAttr.get(a) for a in attributes])
    else:
        forget(function, side)


def boundary_layouts(
    function: ir.Operation, side: str, meshes: dict[str, Mesh]
) -> list[Layout | None]:
    """The layout of each argument, or of each result; None where the function says none."""
    written = [entry.get(LAYOUT) for entry in entries(function, side)]
    return [None if layout is None else layout_of(layout, meshes) for layout in written]


def set_boundary_layouts(
    function: ir.Operation, side: str, layouts: Sequence[Layout | None]
) -> None:
    """Write layouts on arguments or results; where one is None, what stands there stays."""
    attributes = entries(function, side)
    for entry, layout in zip(attributes, layouts, strict=True):
        if layout is not None:
            entry[LAYOUT] = layout_attr(layout)
    set_entries(function, side, attributes)


def drop_boundary_layouts(function: ir.Operation) -> None:
    """Remove the layouts of arguments and results."""
    for side in SIDES:
        if side in function.attributes:
            kept = [
                {name: attribute for name, attribute in entry.items() if name != LAYOUT}
                for entry in entries(function, side)
            ]
            set_entries(function, side, kept)


def check_boundary_layouts(
    function: ir.Operation, side: str, layouts: Sequence[Layout | None]
) -> None:
    """Check that layouts fit their arguments or results, and can stand at a function's boundary.

    Raises:
        LocatedError: one does not; the message says which.
    """
    types = boundary_types(function, side)
    what = SIDES[side]
    if len(layouts) != len(types):
        error(function, f"{len(layouts)} layouts for {len(types)} {what}s; give one for each")
    for i, (layout, type_) in enumerate(zip(layouts, types, strict=True)):
        if layout is not None:
            problem = (
                layout.problem(tensor_shape(type_) or (), uneven=True) or layout.border_problem()
            )
            if problem is not None:
                error(function, f"{what} {i} cannot have the layout {layout.short()}: {problem}")
