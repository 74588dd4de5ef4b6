"""From which dimensions a reshape merged each one, and what another reshape makes of that."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeAlias

Group: TypeAlias = tuple[int, ...]  # the sizes that a dimension was merged from
MergedDims: TypeAlias = tuple[Group, ...]  # by dimension


def merged_from(before: Sequence[int], after: Sequence[int]) -> MergedDims | None:
    """Which dimensions each one was merged from; None if others than whole ones were."""
    groups: list[Group] = []
    k = 0
    for size in after:
        first = k
        while k < len(before) and (k == first or math.prod(before[first:k]) < size):
            k += 1
        if math.prod(before[first:k]) != size or k == first or not size:
            return None
        groups.append(tuple(before[first:k]))
    if groups and all(size == 1 for size in before[k:]):
        groups[-1] += tuple(before[k:])
        return tuple(groups)
    return None


def with_units(groups: MergedDims, after: Sequence[int]) -> MergedDims | None:
    """What is merged still, where a reshape only adds or drops dimensions of one element."""
    left = [group for group in groups if math.prod(group) != 1]
    if [math.prod(group) for group in left] != [size for size in after if size != 1]:
        return None
    rest = iter(left)
    return tuple([(1,) if size == 1 else next(rest) for size in after])


def parted_as(groups: MergedDims, after: Sequence[int]) -> MergedDims | None:
    """What is merged still, where a reshape parts others; None if it does anything else."""
    parted: list[Group] = []
    for group in groups:
        size, part = math.prod(group), 1
        if len(group) > 1:
            if len(parted) == len(after) or after[len(parted)] != size:
                return None
            parted.append(group)
            continue
        while part < size or size == part == 1:
            if len(parted) == len(after):
                return None
            part *= after[len(parted)]
            parted.append((after[len(parted)],))
            if part >= size:
                break
        if part != size:
            return None
    return tuple(parted) if len(parted) == len(after) else None


def sizes_of(groups: Sequence[Group]) -> list[int]:
    """The sizes of all dimensions before they were merged."""
    return [size for group in groups for size in group]


def starts_of(groups: Sequence[Group]) -> list[int]:
    """Where the dimensions begin that each one was merged from."""
    starts, at = [], 0
    for group in groups:
        starts.append(at)
        at += len(group)
    return starts


def among(groups: Sequence[Group], dims: Sequence[int], parts: Sequence[Group]) -> list[int]:
    """Where dimensions, of so many parts each, stand among those that all were merged from."""
    starts = starts_of(groups)
    return [starts[d] + k for d, part in zip(dims, parts, strict=True) for k in range(len(part))]
