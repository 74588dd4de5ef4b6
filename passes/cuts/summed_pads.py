"""Sums of padded values, added up before they are padded along a split dimension.

The gradient of a stencil of 3x3 elements has a term for each, which is padded to stand where that
element was read. Shards of rows would exchange rows of all nine terms. Those of one row of the
stencil are padded alike along the rows: they are padded along the columns alone, added up, and the
sum is padded along the rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from dtensor.dialect.mlir import Value, ir, made_by, reader_of
from dtensor.passes.builder import Builder
from dtensor.passes.cuts.names import ADD, PAD
from dtensor.passes.cuts.rewriting import Rewriting
from dtensor.passes.cuts.sums import terms_of
from dtensor.passes.ops.attributes import pad_numbers, shape_of, splat_number


class _Padded(NamedTuple):
    """How a term is padded along a split dimension: terms of which all is alike go together."""

    dim: int
    low: int
    high: int


def sum_before_padding(function: Rewriting) -> None:
    """Add up the terms of sums that are padded alike along a split dimension, then pad the sum."""
    for op in function.named(ADD):
        function.replace(op, _with_terms_summed(op, function))


def _with_terms_summed(op: ir.Operation, function: Rewriting) -> Value | None:
    """The sum of sums that are padded; None where none are padded alike."""
    groups: dict[_Padded | int, list[Value]] = {}
    for k, term in enumerate(terms_of(op)):
        groups.setdefault(_padded(term, function) or k, []).append(term)
    if all(len(terms) == 1 for terms in groups.values()):
        return None
    make, made = Builder(op, function.made), list[Value]()
    for padded, terms in groups.items():
        if isinstance(padded, _Padded) and len(terms) > 1:
            made.append(_summed(make, padded, terms))
        else:
            made += terms
    return make.combined("add", made)


def _padded(term: Value, function: Rewriting) -> _Padded | None:
    """How zeros are put around a term that nothing else reads; None of any other."""
    pad = made_by(PAD, term)
    if pad is None or reader_of(term) is None or splat_number(pad.operands[1]) != 0:
        return None
    lows, highs, gaps = pad_numbers(pad)
    if any(gaps) or min(*lows, *highs, 0) < 0:
        return None
    value = pad.operands[0]
    for d, (low, high) in enumerate(zip(lows, highs, strict=True)):
        if (low or high) and function.shards.splits((value, d), (term, d)):
            return _Padded(d, low, high)
    return None


def _summed(make: Builder, padded: _Padded, terms: Sequence[Value]) -> Value:
    """The sum of terms that are padded alike along one dimension, padded there at last."""
    inner = [_without(make, made_by(PAD, term), padded.dim) for term in terms]
    total = make.combined("add", inner)
    return make.pad(total, make.zero_of(total), *_along(padded, len(shape_of(total))))


def _without(make: Builder, pad: ir.Operation | None, dim: int) -> Value:
    """What a pad makes along the other dimensions."""
    assert pad is not None
    lows, highs, _ = pad_numbers(pad)
    lows[dim] = highs[dim] = 0
    value: Value = pad.operands[0]
    return make.pad(value, pad.operands[1], lows, highs) if any([*lows, *highs]) else value


def _along(padded: _Padded, rank: int) -> tuple[list[int], list[int]]:
    lows, highs = [0] * rank, [0] * rank
    lows[padded.dim], highs[padded.dim] = padded.low, padded.high
    return lows, highs
