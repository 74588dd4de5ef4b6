"""Operations that are written as others of StableHLO, which give the same.

They are those of older programs, CHLO's that broadcast their operands, and one that XLA takes on
one device alone.
"""

from __future__ import annotations

from dataclasses import replace

from dtensor.dialect.diagnostics import error
from dtensor.dialect.mlir import Value, ir, stablehlo
from dtensor.passes.builder import Builder
from dtensor.passes.ops.attributes import integer, integers, shape_of
from dtensor.passes.ops.contraction import product
from dtensor.passes.ops.elements import element_kind
from dtensor.passes.ops.opdef import UNKNOWN
from dtensor.passes.ops.reduction import Reduction


def _selected(op: ir.Operation, made: list[ir.Operation]) -> list[Value]:
    """`result[b, o, i, r] = operand[b, o, index[b, i], r]`, each letter any number of indices."""
    operand, index = op.operands
    shape, places = shape_of(operand), shape_of(index)
    dim = _counted(op, "dim", len(shape) - 1, len(shape))
    batch = _counted(op, "batch_dims", min(dim, len(places)), len(places))
    behind = dim + len(places) - batch
    offset = [*range(batch, dim), *range(behind, behind + len(shape) - dim - 1)]
    shared = list(range(batch))
    numbers = stablehlo.GatherDimensionNumbers.get(
        offset, [dim], shared, shared, [dim], len(places)
    )
    sizes = [1 if d < batch or d == dim else size for d, size in enumerate(shape)]
    make = Builder(op, made)
    indices = make.reshape(index, (*places, 1))
    return [make.gather(operand, indices, sizes, numbers, shape_of(op.results[0]))]


def _counted(op: ir.Operation, name: str, most: int, size: int) -> int:
    """An attribute that may count from the end.

    Raises:
        LocatedError: it is out of range.
    """
    number = integer(op.attributes[name])
    if not 0 <= number + (size if number < 0 else 0) <= most:
        error(op, f"{op.name} has {name} = {number}; give it one of 0 to {most}")
    return number + (size if number < 0 else 0)


def _contracted(op: ir.Operation, made: list[ir.Operation]) -> list[Value]:
    """Sums of products; nothing of one that repeats a label in its result.

    Raises:
        LocatedError: the equation does not fit the operands.
    """
    sides, wanted = _equation(op)
    if len(set(wanted)) != len(wanted):
        return []
    make = Builder(op, made)
    values = [_diagonal(make, value, side) for value, side in zip(op.operands, sides, strict=True)]
    for k, side in enumerate(sides):
        others = [label for other in (*sides[:k], *sides[k + 1 :], wanted) for label in other]
        for d in reversed(range(len(side))):
            if side[d] not in others:
                values[k] = make.reduced(values[k], d, Reduction.SUM)
                del side[d]
    if len(values) == 2:
        value, found = _product(make, values, sides, wanted, make.element_of(op.results[0]))
    else:
        value, found = values[0], sides[0]
    return [make.transpose(value, [found.index(label) for label in wanted])]


def _equation(op: ir.Operation) -> tuple[list[list[str]], list[str]]:
    """The labels of each operand's dimensions, and of the result's.

    Raises:
        LocatedError: they do not fit the operands.
    """
    text = ir.StringAttr(op.attributes["einsum_config"]).value
    given, _, result = text.partition("->")
    terms, shapes = given.split(","), [shape_of(value) for value in op.operands]
    if len(terms) != len(shapes):
        error(op, f"{op.name} of {text} has {len(shapes)} operands, and not {len(terms)}")
    sides = [_labels(term, len(shape)) for term, shape in zip(terms, shapes, strict=True)]
    sizes: dict[str, int] = {}
    for term, side, shape in zip(terms, sides, shapes, strict=True):
        if len(side) != len(shape):
            error(op, f"{op.name} of {text}: {term} names {len(side)} dimensions of {len(shape)}")
        for label, size in zip(side, shape, strict=True):
            if sizes.setdefault(label, size) != size:
                error(op, f"{op.name} of {text}: {label} has {sizes[label]} and {size} elements")
    wanted = _labels(result, len(shape_of(op.results[0])))
    for label in wanted:
        if label not in sizes:
            error(op, f"{op.name} of {text}: no operand has the result's {label}")
    return sides, wanted


def _diagonal(make: Builder, value: Value, side: list[str]) -> Value:
    """What stands where dimensions of one label have equal indices; the label is left once."""
    for d in reversed(range(len(side))):
        first = side.index(side[d])
        if first != d:
            shape = make.shape_of(value)
            equal = make.compare("EQ", make.iota(shape, first, "i32"), make.iota(shape, d, "i32"))
            value = make.select(equal, value, make.identity("sum", value.type))
            value = make.reduced(value, d, Reduction.SUM)
            del side[d]
    return value


def _labels(text: str, rank: int) -> list[str]:
    """The label of each dimension; `...` stands for as many as there are, the last first."""
    text = text.replace(" ", "")
    before, dots, behind = text.partition("...")
    many = rank - len(before) - len(behind) if dots else 0
    return [*before, *(f"...{i}" for i in reversed(range(many))), *behind]


def _product(
    make: Builder, values: list[Value], sides: list[list[str]], wanted: list[str], element: str
) -> tuple[Value, list[str]]:
    """A dot_general, and the labels of its dimensions."""
    left, right = sides
    shared = [label for label in left if label in right]
    batch = [label for label in shared if label in wanted]
    summed = [label for label in shared if label not in wanted]
    free = [label for side in sides for label in side if label not in shared]
    batching, contracting = (
        [(left.index(label), right.index(label)) for label in those] for those in (batch, summed)
    )
    return product(make, values, batching, contracting, {}, element), [*batch, *free]


def _high_half(op: ir.Operation, made: list[ir.Operation]) -> list[Value]:
    """The upper half of the bits of a product of integers."""
    make = Builder(op, made)
    left, right = op.operands
    element = make.element_of(left)
    kind, bits = element_kind(element)
    if bits < 64:
        wide = ("ui" if kind == "unsigned" else "i") + "64"
        product = make.binary("multiply", make.convert(left, wide), make.convert(right, wide))
        shift = "shift_right_logical" if kind == "unsigned" else "shift_right_arithmetic"
        high = make.binary(shift, product, bits)
        return [make.convert(high, element)]
    high = _high_half_of_64(make, left, right)
    if kind == "unsigned":
        return [high]
    # Of a negative number the bits are 2^64 too many, so its product is as many times the other's.
    for one, other in ((left, right), (right, left)):
        more = make.select(make.compare("LT", one, 0), other, 0)
        high = make.binary("subtract", high, more)
    return [high]


def _high_half_of_64(make: Builder, left: Value, right: Value) -> Value:
    """The same of 64 bits without a sign, as in writing: digits of 32 bits, and what they carry."""

    def digits(value: Value) -> tuple[Value, Value]:
        low = make.binary("and", value, (1 << 32) - 1)
        return low, make.binary("shift_right_logical", value, 32)

    (a, b), (c, d) = digits(left), digits(right)
    _, carry = digits(make.binary("multiply", a, c))
    middle, more = digits(make.binary("add", make.binary("multiply", b, c), carry))
    _, carry = digits(make.binary("add", make.binary("multiply", a, d), middle))
    found = make.binary("add", make.binary("multiply", b, d), more)
    return make.binary("add", found, carry)


HIGH_HALF = replace(UNKNOWN, anew=_high_half)
EINSUM = replace(UNKNOWN, anew=_contracted)
TORCH_INDEX_SELECT = replace(UNKNOWN, anew=_selected)


_OF_CHLO = ("next_after", "polygamma", "zeta")  # which StableHLO has not


def _broadcast(op: ir.Operation, made: list[ir.Operation]) -> list[Value]:
    """Each operand in the shape of the result, and the operation of these; nothing of open shapes.

    The dimensions of an operand of lower rank are the result's last ones, unless the op says which.
    A predicate of no dimensions selects all as it is.
    """
    result = op.results[0].type
    operands = list(op.operands)
    if not all(ir.RankedTensorType(v.type).has_static_shape for v in (*operands, op.results[0])):
        return []
    shape = shape_of(op.results[0])
    make = Builder(op, made)
    name = op.name.removeprefix("chlo.broadcast_")
    attributes = dict(op.attributes)
    given = attributes.pop("broadcast_dimensions", None)
    for k, value in enumerate(operands):
        own = shape_of(value)
        if own == shape or (name == "select" and k == 0 and not own):
            continue
        behind = list(range(len(shape) - len(own), len(shape)))
        operands[k] = make.broadcast(value, shape, behind if given is None else integers(given))
    if name == "compare":
        attributes = {key: _in_stablehlo(value) for key, value in attributes.items()}
    dialect = "chlo" if name in _OF_CHLO else "stablehlo"
    return [make.value(f"{dialect}.{name}", operands, result, attributes)]


def _in_stablehlo(attribute: ir.Attribute) -> ir.Attribute:
    """A direction or a type of comparison as StableHLO writes it."""
    return ir.Attribute.parse(str(attribute).replace("#chlo", "#stablehlo"))


BROADCASTING = replace(UNKNOWN, anew=_broadcast)
