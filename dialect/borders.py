"""The border of the function that is run, as other programs write it.

A private `@main` would be removed as one that nobody calls, and HLO that became StableHLO (as XLA,
IREE and PyTorch/XLA write it) takes and returns tuples, which have no layout.
"""

from __future__ import annotations

from collections.abc import Sequence

from dtensor.dialect import names
from dtensor.dialect.diagnostics import error
from dtensor.dialect.functions import entry_function, functions, is_public
from dtensor.dialect.mlir import Value, forget, ir


def settle_border(module: ir.Module) -> None:
    """Make the function that is run public, and its tuples their elements, each by itself.

    Raises:
        LocatedError: a tuple has attributes, such as a sharding, which are of all its elements.
    """
    found = functions(module)
    function = entry_function(module) or (found[0] if len(found) == 1 else None)
    if function is None or len(function.regions[0].blocks) != 1:
        return
    if not is_public(function):
        forget(function, names.SYM_VISIBILITY)
    type_ = ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value)
    inputs, results = list(type_.inputs), list(type_.results)
    if not any(_is_tuple(side) for side in (*inputs, *results)):
        return
    _spread_attributes(function, names.ARG_ATTRS, inputs)
    _spread_attributes(function, names.RES_ATTRS, results)
    block = function.regions[0].blocks[0]
    with function.location:
        _spread_arguments(block, inputs)
        given = _spread_results(block)
    flat = ir.FunctionType.get([a.type for a in block.arguments], given, context=module.context)
    function.attributes["function_type"] = ir.TypeAttr.get(flat)


def _is_tuple(type_: ir.Type) -> bool:
    return isinstance(type_, ir.TupleType)


def _elements(type_: ir.Type) -> list[ir.Type]:
    tuple_ = ir.TupleType(type_)
    return [tuple_.get_type(i) for i in range(tuple_.num_types)]


def _count(type_: ir.Type) -> int:
    """How many values a value of a type is, tuples in tuples spread too."""
    return sum(map(_count, _elements(type_))) if _is_tuple(type_) else 1


def _spread_attributes(function: ir.Operation, side: str, types: Sequence[ir.Type]) -> None:
    if side not in function.attributes:
        return
    context = function.context
    spread: list[ir.Attribute] = []
    for number, (entry, type_) in enumerate(
        zip(ir.ArrayAttr(function.attributes[side]), types, strict=True)
    ):
        if not _is_tuple(type_):
            spread.append(entry)
            continue
        dictionary = ir.DictAttr(entry)
        if len(dictionary):
            what = "argument" if side == names.ARG_ATTRS else "result"
            error(
                function,
                f"{what} {number} is a tuple with {dictionary[0].name}, which does not say what "
                "holds for each element; give the elements by themselves",
            )
        spread += [ir.DictAttr.get({}, context=context)] * _count(type_)
    function.attributes[side] = ir.ArrayAttr.get(spread, context=context)


def _spread_arguments(block: ir.Block, types: Sequence[ir.Type]) -> None:
    """Arguments of the elements' types, behind those there are, which go."""
    begin = ir.InsertionPoint.at_block_begin(block)
    location = ir.Location.current

    def made(type_: ir.Type) -> Value:
        if not _is_tuple(type_):
            return block.add_argument(type_, location)
        return _create(begin, "stablehlo.tuple", [made(t) for t in _elements(type_)], type_)

    for number, type_ in enumerate(types):
        block.arguments[number].replace_all_uses_with(made(type_))
    for _ in types:
        block.erase_argument(0)


def _spread_results(block: ir.Block) -> list[ir.Type]:
    """Return elements in place of tuples; gives their types."""
    end = block.operations[len(block.operations) - 1].operation
    before = ir.InsertionPoint(end)

    def parts(value: Value) -> list[Value]:
        if not _is_tuple(value.type):
            return [value]
        found: list[Value] = []
        for number, type_ in enumerate(_elements(value.type)):
            index = ir.IntegerAttr.get(ir.IntegerType.get_signless(32), number)
            element = _create(before, "stablehlo.get_tuple_element", [value], type_, index=index)
            found += parts(element)
        return found

    values = [part for value in list(end.operands) for part in parts(value)]
    ir.Operation.create(end.name, operands=values, ip=before, loc=end.location)
    end.erase()
    return [value.type for value in values]


def _create(
    where: ir.InsertionPoint,
    name: str,
    operands: Sequence[Value],
    result: ir.Type,
    **attributes: ir.Attribute,
) -> Value:
    made = ir.Operation.create(
        name, results=[result], operands=list(operands), attributes=attributes, ip=where
    )
    found: Value = made.results[0]
    return found
