"""Finding the function of a module that is compiled, and the attributes of its border."""

from __future__ import annotations

from collections.abc import Sequence

from dtensor.dialect.diagnostics import error
from dtensor.dialect.functions import entry_function, functions
from dtensor.dialect.mlir import ir
from dtensor.dialect.names import ARG_ATTRS


def main_function(module: ir.Module) -> ir.Operation:
    """The function that is run: `@main`, the only public one, or the only function there is.

    Raises:
        LocatedError: there is none, or it cannot be told which.
    """
    entry = entry_function(module)
    if entry is not None:
        return entry
    found = functions(module)
    if len(found) == 1:
        return found[0]
    what = "no function" if not found else f"{len(found)} functions, none called @main"
    error(module.operation, f"the module has {what}; name the entry function @main")


def entries(function: ir.Operation, name: str) -> list[dict[str, ir.Attribute]]:
    """The attributes of each argument (`name` is `arg_attrs`) or result (`res_attrs`)."""
    type_ = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value)
    count = len(type_.inputs if name == ARG_ATTRS else type_.results)
    if name not in function.attributes:
        return [{} for _ in range(count)]
    found = []
    for entry in ir.ArrayAttr(function.attributes[name]):
        dictionary = ir.DictAttr(entry)
        named = [dictionary[i] for i in range(len(dictionary))]
        found.append({a.name: a.attr for a in named})
    return found


def set_entries(
    function: ir.Operation, name: str, attributes: Sequence[dict[str, ir.Attribute]]
) -> None:
    """Write what `entries` reads."""
    if attributes:
        function.attributes[name] = ir.ArrayAttr.get([ir.DictAttr.get(a) for a in attributes])


def tensor_shape(type_: ir.Type) -> tuple[int, ...] | None:
    """The shape of a tensor type; None for anything else, such as a token."""
    try:
        return tuple(ir.RankedTensorType(type_).shape)
    except ValueError:
        return None
