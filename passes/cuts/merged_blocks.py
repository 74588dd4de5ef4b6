"""Blocks of rows one behind the other, and any operation on merged dimensions.

Of `jnp.concatenate([x, y])` as many rows of each are two blocks, stacked and then merged. Slices of
whole blocks are slices of the stack, and pads by whole blocks, the gradients of such, pads of it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from dtensor.dialect.mlir import Value, ir
from dtensor.passes.builder import Builder
from dtensor.passes.cuts.merged_dims import Group, MergedDims, sizes_of
from dtensor.passes.cuts.merged_values import Merges
from dtensor.passes.ops.attributes import integer, pad_numbers, shape_of, slice_numbers
from dtensor.passes.ops.padding import ANY, Fill
from dtensor.passes.ops.rule import FactorKind, OpInfo, OpRule
from dtensor.passes.ops.table import opdef, rule_of


def join_blocks(merges: Merges, op: ir.Operation) -> None:
    """As many rows of several values, one behind the other; others are joined as they are."""
    result, dim = op.results[0], integer(op.attributes["dimension"])
    sizes = [shape_of(value)[dim] for value in op.operands]
    if any(value in merges.apart for value in op.operands):
        swap_rows(merges, op)
    elif len(sizes) > 1 and len({*sizes}) == 1 and merges.is_uneven(dim, *op.operands):
        make = Builder(op, merges.function.made)
        blocks = [make.regrouped(value, dim, 1, sizes[0]) for value in op.operands]
        groups = list(merges.groups(result))
        groups[dim] = len(sizes), sizes[0]
        merges.apart[result] = make.joined(blocks, dim), tuple(groups)


def pad_blocks(merges: Merges, op: ir.Operation) -> None:
    """Blocks of so many rows are put around some; the gradient of a slice that takes blocks."""
    (value, fill), result = op.operands, op.results[0]
    groups, (lows, highs, between) = list(merges.groups(value)), pad_numbers(op)
    for d, group in enumerate(groups):
        if len(group) == 1 and (lows[d] or highs[d]) and merges.is_uneven(d, value):
            groups[d] = (1, *group)
    counts = [_in_blocks(tuple(groups), numbers) for numbers in (lows, highs)]
    known = [numbers for numbers in counts if numbers is not None]
    has_gaps = any(gap and len(group) > 1 for gap, group in zip(between, groups, strict=True))
    if has_gaps or len(known) < len(counts) or 0 in shape_of(result):
        return
    if all(len(group) == 1 for group in groups):
        return
    make, is_merged = Builder(op, merges.function.made), value in merges.apart
    whole = merges.apart[value][0] if is_merged else value
    ends = [_of_first(tuple(groups), numbers, 0) for numbers in (*known, between)]
    new = make.pad(make.reshape(whole, sizes_of(groups)), fill, *ends)
    found = _without_units(make, new, tuple(groups))
    if is_merged:
        merges.say(result, *found)
    else:
        merges.apart[result] = found


def cut_blocks(merges: Merges, op: ir.Operation) -> None:
    """Some blocks of rows, or some of what is not merged."""
    whole, groups = merges.apart[op.operands[0]]
    starts, limits, strides = slice_numbers(op)
    first, last = _in_blocks(groups, starts), _in_blocks(groups, limits)
    skips = any(step > 1 and len(group) > 1 for step, group in zip(strides, groups, strict=True))
    if first is None or last is None or skips:
        return
    make = Builder(op, merges.function.made)
    ends = sizes_of([(n, *group[1:]) for n, group in zip(last, groups, strict=True)])
    new = make.slice(whole, _of_first(groups, first, 0), ends, _of_first(groups, strides, 1))
    merges.say(op.results[0], *_without_units(make, new, groups))
    merges.parted.add(op.results[0])


def _in_blocks(groups: MergedDims, numbers: Sequence[int]) -> list[int] | None:
    """How many blocks of each dimension so many elements are; None if they are no whole ones."""
    parts = [math.prod(group[1:]) for group in groups]
    rows = list(zip(numbers, parts, strict=True))
    return None if any(n % part for n, part in rows) else [n // part for n, part in rows]


def _of_first(groups: MergedDims, numbers: Sequence[int], others: int) -> list[int]:
    """Numbers of the first that each dimension was merged from, and one of the others."""
    return sizes_of(
        [(n, *[others] * (len(group) - 1)) for n, group in zip(numbers, groups, strict=True)]
    )


def _without_units(make: Builder, whole: Value, groups: MergedDims) -> tuple[Value, MergedDims]:
    """What has other numbers of blocks than groups say, one block no block any more."""
    sizes, left = iter(shape_of(whole)), list[Group]()
    for group in groups:
        new = tuple([next(sizes) for _ in group])
        left.append(new[1:] if len(new) > 1 and new[0] == 1 else new)
    return make.reshape(whole, sizes_of(left)), tuple(left)


def swap_rows(merges: Merges, op: ir.Operation) -> None:
    """What computes each row by itself, or adds them up, reads the rows in another order.

    In that of the last dimension that was merged, whose padding stands at the end then.
    """
    info = OpInfo.of(op)
    rule = None if info is None else rule_of(info)
    groups = None if rule is None else _walked(merges, op, rule)
    if groups is None:
        return
    make, values = Builder(op, merges.function.made), list[Value]()
    for k, value in enumerate(op.operands):
        found = merges.of(value, groups[k], make) if shape_of(value) else value
        if found is None:
            return
        values.append(make.reshape(make.transpose(found, _order(groups[k])), shape_of(value)))
    new = make.again(op, values)
    for k, (result, made) in enumerate(zip(op.results, new.results, strict=True)):
        sizes, order = sizes_of(groups[~k]), _order(groups[~k])
        whole = make.reshape(made, [sizes[d] for d in order])
        merges.say(result, make.transpose(whole, order), groups[~k])


def _walked(merges: Merges, op: ir.Operation, rule: OpRule) -> dict[int, MergedDims] | None:
    """What operands and results merge; None if the order of what is merged matters."""
    found = {k: list(merges.groups(value)) for k, value in enumerate(op.operands)}
    found |= {~k: list(merges.groups(result)) for k, result in enumerate(op.results)}
    holds = (opdef(op.name).padding or ANY).holds
    for slot, groups in list(found.items()):
        for d, group in enumerate(groups):
            if len(group) == 1:
                continue
            m = rule.map_of(slot, d)
            if m is None or len(group) != 2:
                return None
            factor = rule.factors[m.factor]
            is_each = factor.kind is FactorKind.PASS_THROUGH and factor.reduction is None
            is_sum = factor.kind is FactorKind.REDUCTION and holds(rule, m.factor) is Fill.IDENTITY
            if factor.counts or not (is_each or is_sum):
                return None
            for other, e in rule.dims_of_factor[m.factor]:
                if not rule.has_all(other, e):
                    return None
                found[other][e] = group
    return {slot: tuple(groups) for slot, groups in found.items()}


def _order(groups: MergedDims) -> list[int]:
    """The order in which the two that a dimension was merged from change places."""
    order, at = list[int](), 0
    for group in groups:
        order += reversed(range(at, at + len(group)))
        at += len(group)
    return order
