"""Sums of padded values, added up before they are padded along a split dimension.

The gradient of a stencil of 3x3 elements has a term for each, which is padded to stand where that
element was read. Shards of rows would exchange rows of all nine terms. Those of one row of the
stencil are padded alike along the rows: they are padded along the columns alone, added up, and the
sum is padded along the rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from dtensor.dialect.mlir import Value, ir, made_by, operation_of, reader_of
from dtensor.passes.builder import Builder
from dtensor.passes.ops.attributes import pad_numbers, shape_of
from dtensor.passes.ops.patterns import is_negative_zero, sums_with, terms_of, zeros_around
from dtensor.passes.rewriting.names import ADD, PAD
from dtensor.passes.rewriting.rewriting import Rewriting


class _Padded(NamedTuple):
    """How a term is padded along a dimension: terms of which all is alike go together."""

    dim: int
    low: int
    high: int


def sum_before_padding(function: Rewriting) -> None:
    """Add up the terms of sums that are padded alike along a split dimension, then pad the sum."""
    padded = sums_with(pad.results[0] for pad in function.named(PAD))
    for op in function.named(ADD):
        if op.results[0] in padded:
            function.replace(op, _with_terms_summed(op, function))


def _with_terms_summed(op: ir.Operation, function: Rewriting) -> Value | None:
    """The sum of sums that are padded; None where none are padded alike."""
    terms = terms_of(op)
    paddings = [_paddings(term) for term in terms]
    count = Counter(padded for each in paddings for padded in each)
    groups: dict[_Padded | int, list[Value]] = {}
    for k, (term, each) in enumerate(zip(terms, paddings, strict=True)):
        shared = (padded for padded in each if count[padded] > 1)
        group = next((padded for padded in shared if _is_split(term, padded, function)), k)
        groups.setdefault(group, []).append(term)
    if len(groups) == len(terms):
        return None
    make, made = Builder(op, function.made), list[Value]()
    for padded, alike in groups.items():
        if isinstance(padded, _Padded) and len(alike) > 1:
            made.append(_summed(make, padded, alike))
        else:
            made += alike
    return make.combined("add", made)


def _paddings(term: Value) -> list[_Padded]:
    """How zeros are put around a term that nothing else reads, by dimension; none of any other."""
    found = zeros_around(term)
    if found is None or reader_of(term) is None:
        return []
    return [_Padded(dim, *ends) for dim, ends in enumerate(found[1]) if any(ends)]


def _is_split(term: Value, padded: _Padded, function: Rewriting) -> bool:
    """Whether a layout splits the dimension along which a term is padded."""
    pad = made_by(PAD, term)
    assert pad is not None
    return function.shards.nearly((pad.operands[0], padded.dim), (term, padded.dim)) > 1


def _summed(make: Builder, padded: _Padded, terms: Sequence[Value]) -> Value:
    """The sum of terms that are padded alike along one dimension, padded there at last."""
    pads = [operation_of(term) for term in terms]
    total = make.combined("add", [_without(make, pad, padded.dim) for pad in pads])
    size = padded.low + shape_of(total)[padded.dim] + padded.high
    zero = make.nothing_of(total, all(is_negative_zero(pad.operands[1]) for pad in pads))
    return make.lengthened(total, padded.dim, padded.low, size, zero)


def _without(make: Builder, pad: ir.Operation, dim: int) -> Value:
    """What a pad makes along the other dimensions."""
    lows, highs, _ = pad_numbers(pad)
    lows[dim] = highs[dim] = 0
    value: Value = pad.operands[0]
    return make.pad(value, pad.operands[1], lows, highs) if any([*lows, *highs]) else value
