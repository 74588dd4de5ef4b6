"""Finding the functions of a module."""

from __future__ import annotations

from dtensor.dialect.diagnostics import error
from dtensor.dialect.mlir import ir


def functions(module: ir.Module) -> list[ir.Operation]:
    """The functions of a module, in order."""
    return [op.operation for op in module.body.operations if op.operation.name == "func.func"]


def main_function(module: ir.Module) -> ir.Operation:
    """The public entry function: `@main`, or the only function there is.

    Raises:
        LocatedError: there is none, or it cannot be told which.
    """
    found = functions(module)
    for function in found:
        if ir.StringAttr(function.attributes["sym_name"]).value == "main":
            return function
    if len(found) == 1:
        return found[0]
    what = "no function" if not found else f"{len(found)} functions, none called @main"
    error(module.operation, f"the module has {what}; name the entry function @main")
