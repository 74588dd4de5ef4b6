"""What combines the elements of a scan, as sums and products, and their derivatives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dtensor.dialect.mlir import Value, maker_of
from dtensor.passes.forms.levels import AssociativeScan
from dtensor.passes.ops.attributes import splat_number
from dtensor.passes.ops.patterns import spreads_in_place

Term = Any  # a number, a leaf (side of a pair, operand), or ("+" or "*", term, term)


def plus(left: Term, right: Term) -> Term:
    """The sum of two terms."""
    if left == 0 or right == 0:
        return right if left == 0 else left
    return ("+", left, right)


def times(left: Term, right: Term) -> Term:
    """The product of two terms."""
    if left == 0 or right == 0:
        return 0
    if left == 1 or right == 1:
        return right if left == 1 else left
    return ("*", left, right)


def term_of(scan: AssociativeScan, value: Value) -> Term | None:
    """What the pairs of a scan combine to, as sums and products of leaves; None of all else."""
    if value in scan.leaves:
        return scan.leaves[value]
    number, op = splat_number(value), maker_of(value)
    if number is not None or op is None:
        return number
    if op.name == "stablehlo.broadcast_in_dim" and not spreads_in_place(op):
        return None
    terms = [term_of(scan, operand) for operand in op.operands]
    if None in terms:
        return None
    match op.name, terms:
        case "stablehlo.add", [a, b]:
            return plus(a, b)
        case "stablehlo.multiply", [a, b]:
            return times(a, b)
        case "stablehlo.subtract", [a, b]:
            return plus(a, times(-1.0, b))
        case "stablehlo.negate", [a]:
            return times(-1.0, a)
        case "stablehlo.broadcast_in_dim", [a]:
            return a
    return None


def derivative(term: Term, leaf: tuple[int, int]) -> Term:
    """The derivative of a term by a leaf."""
    match term:
        case ("+", a, b):
            return plus(derivative(a, leaf), derivative(b, leaf))
        case ("*", a, b):
            return plus(times(derivative(a, leaf), b), times(a, derivative(b, leaf)))
    return int(term == leaf)


def leaves_of(term: Term) -> list[tuple[int, int]]:
    """The leaves that a term reads."""
    match term:
        case ("+" | "*", a, b):
            return leaves_of(a) + leaves_of(b)
        case (_, _):
            return [term]
    return []


def evaluated(
    term: Term,
    leaf: Callable[[int, int], Any],
    number: Callable[[float], Any],
    binary: Callable[[str, Any, Any], Any],
) -> Any:
    """What a term is, of what leaves and numbers are and of how two of them are combined."""
    match term:
        case ("+" | "*" as name, a, b):
            return binary(name, *(evaluated(side, leaf, number, binary) for side in (a, b)))
        case (side, k):
            return leaf(side, k)
    return number(term)
