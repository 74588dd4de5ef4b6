"""Operations of older programs, written as others of StableHLO that give the same."""

from __future__ import annotations

from dataclasses import replace

from dtensor.dialect.mlir import Value, ir, stablehlo
from dtensor.passes.builder import Builder
from dtensor.passes.ops.attributes import integer, shape_of
from dtensor.passes.ops.opdef import UNKNOWN
from dtensor.passes.ops.reduction import Reduction


def _selected(op: ir.Operation, made: list[ir.Operation]) -> list[Value]:
    """`result[b, o, i, r] = operand[b, o, index[b, i], r]`, each letter any number of indices."""
    operand, index = op.operands
    shape, places = shape_of(operand), shape_of(index)
    dim = integer(op.attributes["dim"]) % len(shape)
    batch = integer(op.attributes["batch_dims"])
    batch += len(places) if batch < 0 else 0
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


def _contracted(op: ir.Operation, made: list[ir.Operation]) -> list[Value]:
    """Sums of products; nothing of one that takes diagonals."""
    given, _, result = ir.StringAttr(op.attributes["einsum_config"]).value.partition("->")
    ranks = [len(shape_of(value)) for value in op.operands]
    sides = [_labels(text, rank) for text, rank in zip(given.split(","), ranks, strict=True)]
    wanted = _labels(result, len(shape_of(op.results[0])))
    if any(len(set(side)) != len(side) for side in (*sides, wanted)):
        return []
    make = Builder(op, made)
    values = list(op.operands)
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
    rows = [
        f"{side}_{kind}_dimensions = {[labels.index(label) for label in those]}"
        for kind, those in (("batching", batch), ("contracting", summed))
        for side, labels in (("lhs", left), ("rhs", right))
    ]
    sizes = {
        label: size
        for value, side in zip(values, sides, strict=True)
        for label, size in zip(side, make.shape_of(value), strict=True)
    }
    found = [*batch, *free]
    type_ = make.tensor_type([sizes[label] for label in found], element)
    numbers = ir.Attribute.parse(f"#stablehlo.dot<{', '.join(rows)}>")
    attributes = {"dot_dimension_numbers": numbers}
    return make.value("stablehlo.dot_general", values, type_, attributes), found


EINSUM = replace(UNKNOWN, anew=_contracted)
TORCH_INDEX_SELECT = replace(UNKNOWN, anew=_selected)
