"""The functions of a module: the one that is run, and those that its operations name."""

from __future__ import annotations

from dtensor.dialect import names
from dtensor.dialect.mlir import every, ir, ops_of

_NAMING = {"stablehlo.custom_call": names.CALLED_COMPUTATIONS, "func.call": "callee"}


def functions(module: ir.Module) -> list[ir.Operation]:
    """The functions of a module, in order."""
    return [op for op in ops_of(module.body) if op.name == names.FUNC]


def function_name(function: ir.Operation) -> str:
    """The symbol of a function."""
    return ir.StringAttr(function.attributes[names.SYM_NAME]).value


def entry_function(module: ir.Module) -> ir.Operation | None:
    """The function that is run: `@main`, or else the only public one; None if there is neither.

    A public function that an operation of the module names, such as the comparator of a custom
    call, is not what is run.
    """
    found = functions(module)
    for function in found:
        if function_name(function) == names.MAIN:
            return function
    public = [function for function in found if is_public(function)]
    if len(public) > 1:
        named = {name for function in found for _, name in named_functions(function)}
        public = [function for function in public if function_name(function) not in named]
    return public[0] if len(public) == 1 else None


def is_public(function: ir.Operation) -> bool:
    """Whether other modules may call it."""
    if names.SYM_VISIBILITY not in function.attributes:
        return True
    return ir.StringAttr(function.attributes[names.SYM_VISIBILITY]).value == "public"


def named_functions(function: ir.Operation) -> list[tuple[ir.Operation, str]]:
    """The operations in a function that name others, and the names.

    They are the custom calls with `called_computations`, which the machine's compiler calls, and
    the calls that are not inlined.
    """
    found = []
    for op in every(function):
        attribute = _NAMING.get(op.name)
        if attribute is not None and attribute in op.attributes:
            found += [(op, name) for name in symbols_of(op.attributes[attribute])]
    return found


def symbols_of(attribute: ir.Attribute) -> list[str]:
    """The symbols that an attribute names, which is one or a list."""
    listed = ir.ArrayAttr(attribute) if isinstance(attribute, ir.ArrayAttr) else [attribute]
    return [ir.FlatSymbolRefAttr(symbol).value for symbol in listed]
