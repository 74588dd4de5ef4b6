"""Sums of values that are padded with zeros where the others stand, written as concatenations.

The gradient of `jnp.roll(x, 2)`, of `jnp.split(x, 2)` or of slices side by side is such a sum. Of a
concatenation it is known that only those elements move that stand elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dtensor.dialect.mlir import Value, ir, operation_of
from dtensor.passes.builder import Builder
from dtensor.passes.cuts.pieces import Piece, Source
from dtensor.passes.ops.attributes import element_of, shape_of
from dtensor.passes.ops.patterns import is_negative_zero, sums_with, terms_of, zeros_around
from dtensor.passes.rewriting.names import ADD, PAD
from dtensor.passes.rewriting.rewriting import Rewriting


def join_pads(function: Rewriting) -> None:
    """Join the terms of sums that have zeros where the others stand."""
    padded = sums_with(pad.results[0] for pad in function.named(PAD))
    for op in function.named(ADD):
        if op.results[0] in padded:
            function.replace(op, _with_terms_joined(op, function.made))


def _with_terms_joined(op: ir.Operation, made: list[ir.Operation]) -> Value | None:
    """A sum whose terms are joined; None if none can be."""
    if element_of(op.results[0]).startswith("complex"):
        return None  # whose parts have a sign of zero each
    terms = terms_of(op)
    runs = list(_runs(terms)) if terms else []
    if len(runs) == len(terms):
        return None
    make = Builder(op, made)
    shape = shape_of(op.results[0])
    values = [
        _joined(make, run, terms[k : k + len(run)], shape) if len(run) > 1 else terms[k]
        for k, run in runs
    ]
    return make.combined("add", values)


def _runs(terms: Sequence[Value]) -> Iterator[tuple[int, list[Piece]]]:
    """Terms in a row that can be joined, with the number of the first; others alone.

    Adding those of a run first rounds nothing otherwise: of each element all but one are zero.
    """
    first, run = 0, list[Piece]()
    for k, term in enumerate(terms):
        placed = _placed(term)
        if k and not (run and placed and _is_beside(placed, run)):
            yield first, run
            first, run = k, []
        run = [*run, placed] if placed else []
    yield first, run


def _placed(term: Value) -> Piece | None:
    """A term as all of a value, with zeros around it along one dimension; None of others."""
    value, ends = zeros_around(term) or (term, [])
    dims = [d for d, each in enumerate(ends) if any(each)]
    if len(dims) != 1:
        return None
    source = Source(value, dims[0])
    return Piece(source, 0, source.size, ends[dims[0]][0])


def _is_beside(placed: Piece, run: Sequence[Piece]) -> bool:
    """Whether a value has zeros where those of a run stand, and stands next to one of them.

    Two edges far apart, as of a padded stencil's gradient, cost less where each is added by itself.
    """
    if any(other.source.dim != placed.source.dim for other in run):
        return False
    ends = {place for other in run for place in (other.place, other.end)}
    is_apart = all(o.end <= placed.place or placed.end <= o.place for o in run)
    return is_apart and not ends.isdisjoint((placed.place, placed.end))


def _joined(
    make: Builder, run: Sequence[Piece], terms: Sequence[Value], shape: Sequence[int]
) -> Value:
    """The sum of terms of which each element is not zero in one at most.

    A sum of zeros of two signs is 0, one of negative zeros alone is negative.
    """
    dim, place, parts = run[0].source.dim, 0, list[Value]()
    is_negative = all(is_negative_zero(operation_of(term).operands[1]) for term in terms)
    zero = make.nothing_of(run[0].source.value, is_negative)
    for placed in sorted(run, key=lambda each: each.place):
        before, size = placed.place - place, placed.end - place
        parts.append(make.lengthened(placed.source.value, dim, before, size, zero))
        place = placed.end
    value = make.lengthened(make.joined(parts, dim), dim, 0, shape[dim], zero)
    return value if is_negative else make.plus_zero(value)
