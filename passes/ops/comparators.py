"""Bodies that compare: what they hold, and how they are applied to other values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from dtensor.dialect.mlir import Value, ir, ops_of, terminator
from dtensor.passes.builder import Builder, filling, new_block
from dtensor.passes.program import copy_to


def applied(body: ir.Block, arguments: Sequence[Value], point: ir.InsertionPoint) -> list[Value]:
    """What a body of scalars gives of other arguments; its operations are copied to `point`."""
    known: dict[Value, Value] = dict(zip(body.arguments, arguments, strict=True))
    *operations, end = ops_of(body)
    for operation in operations:
        copy_to(point, operation, known)
    return [known.get(value, value) for value in end.operands]


def sorted_by(
    make: Builder,
    values: Sequence[Value],
    attributes: Mapping[str, ir.Attribute],
    compare: Callable[[ir.Block], None],
) -> list[Value]:
    """Values sorted together; `compare` fills the body, which takes a pair of scalars of each."""
    types = [value.type for value in values]
    made = make.create("stablehlo.sort", values, types, attributes, regions=1)
    scalars = [make.tensor_type((), make.element_of(value)) for value in values for _ in (0, 1)]
    compare(new_block(made.regions[0], scalars))
    return list(made.results)


def compare_by(given: ir.Block, body: ir.Block, tie: int, end: int | None = None) -> None:
    """Fill `body`, which takes pairs of scalars: as `given` compares its pairs.

    Args:
        given: whether the first of each pair stands before the second.
        body: it has a pair more, or as many; integers may be narrower.
        tie: which pair decides where `given` does not; -1 if none does.
        end: elements of which that pair says this or more stand behind all others; None if no
            element does.
    """
    pairs = list(body.arguments)
    make = filling(body)
    known = [
        make.convert(value, make.element_of(wanted))
        for value, wanted in zip(pairs, given.arguments, strict=False)
    ]
    (less,) = applied(given, known, ir.InsertionPoint(body))
    if tie >= 0:
        turned = [value for k in range(0, len(known), 2) for value in (known[k + 1], known[k])]
        (more,) = applied(given, turned, ir.InsertionPoint(body))
        earlier = make.compare("LT", pairs[2 * tie], pairs[2 * tie + 1])
        not_more = make.unary("not", more)
        less = make.binary("or", less, make.binary("and", not_more, earlier))
    if end is not None:
        first, second = pairs[2 * tie : 2 * tie + 2]
        less = make.binary("or", make.compare("GE", second, end), less)
        less = make.binary("and", make.compare("LT", first, end), less)
    make.end([less])


def compare_numbers(body: ir.Block) -> None:
    """Fill `body`, which takes pairs of scalars: the smaller of the first pair stands first."""
    make = filling(body)
    make.end([make.compare("LT", body.arguments[0], body.arguments[1])])


def on_tensors(make: Builder, body: ir.Block, arguments: Sequence[Value]) -> list[Value]:
    """What a body of scalars gives of the elements of tensors of one shape, one by one.

    It has constants and operations on single elements, and an argument for each tensor. Scalars
    that stand ahead of it are those of all elements.
    """
    shape = make.shape_of(arguments[0])
    known: dict[Value, Value] = dict(zip(body.arguments, arguments, strict=True))
    for op in ops_of(body):
        if op.name == "stablehlo.return":
            break
        element = make.element_of(op.results[0])
        attributes = dict(op.attributes)
        if op.name == "stablehlo.constant":
            scalar = make.value(op.name, [], make.tensor_type((), element), attributes)
            known[op.results[0]] = make.broadcast(scalar, shape)
            continue
        operands = [known[v] if v in known else make.broadcast(v, shape) for v in op.operands]
        type_ = make.tensor_type(shape, element)
        known[op.results[0]] = make.value(op.name, operands, type_, attributes)
    return [known[value] for value in terminator(body).operands]
