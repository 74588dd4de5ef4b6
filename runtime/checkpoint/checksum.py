"""A checksum of an array that does not depend on how the array is laid out.

Own code, because orbax (0.12) restores a flipped bit of an element as another value.

It is a sum over the elements, modulo 2**64, of a mixture of the element's bits and of its place in
the whole array. So each process can sum over the shards that it has, whatever their shape, and the
parts add up to the same number in every layout. On the host, where orbax has the elements as well:
to compile it for the shapes of a model takes longer than to sum.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import reduce
from typing import Any

import jax
import numpy as np

from dtensor.runtime.padding import Ranges, ranges_of

_MASK = 2**64 - 1
_THREADS = min(os.cpu_count() or 1, 8)
_BLOCK_WORDS = 2**15  # what is worked on at once stays in the cache
_PLACE, _FIRST, _SECOND = (
    np.uint64(0x9E3779B97F4A7C15),
    np.uint64(0xBF58476D1CE4E5B9),
    np.uint64(0x94D049BB133111EB),
)


def parts(arrays: Sequence[jax.Array], all_replicas: bool) -> list[int]:
    """This process's part of the checksum of each array.

    Args:
        arrays: the arrays.
        all_replicas: whether all replicas of a shard count, which makes the sum of the parts a
            multiple of the checksum, and not the first one alone. Those within a process come from
            one read, so one of them is looked at.
    """
    work: dict[tuple[int, Ranges], list[Any]] = {}
    for number, array in enumerate(arrays):
        for shard in array.addressable_shards:
            if all_replicas or shard.replica_id == 0:
                place = number, ranges_of(shard.index, array.shape)
                work.setdefault(place, []).append(shard)

    def part(item: tuple[tuple[int, Ranges], list[Any]]) -> tuple[int, int]:
        (number, ranges), shards = item
        total = region_sum(np.asarray(shards[0].data), ranges, arrays[number].shape)
        return number, len(shards) * total

    totals = [0] * len(arrays)
    with ThreadPoolExecutor(_THREADS) as pool:  # numpy lets go of the interpreter in its loops
        for number, found in pool.map(part, work.items()):
            totals[number] += found
    return [total & _MASK for total in totals]


def combine(parts: Sequence[int]) -> int:
    """The checksum whose parts these are."""
    return sum(parts) & _MASK


def region_sum(values: np.ndarray[Any, Any], ranges: Ranges, shape: tuple[int, ...]) -> int:
    """The sum over the elements in `ranges` of an array of `shape`.

    Args:
        values: the elements in the ranges.
        ranges: first and last index, the last excluded, for each dimension.
        shape: shape of the whole array, in elements.
    """
    size = min(values.dtype.itemsize, 8)
    per_element = values.dtype.itemsize // size
    words = np.ascontiguousarray(values).reshape(-1).view(f"u{size}")
    words = words.reshape(*values.shape, per_element)
    strides = [math.prod(shape[i + 1 :]) * per_element for i in range(len(shape))]
    first = sum(low * stride for (low, _), stride in zip(ranges, strides, strict=True))
    with np.errstate(over="ignore"):
        return _sum(words, first, [*strides, 1]) & _MASK


def _sum(words: np.ndarray[Any, Any], first: int, strides: Sequence[int]) -> int:
    """The sum over words of which the first is at place `first`, block by block."""
    if not words.size:
        return 0
    if words[0].size > _BLOCK_WORDS:
        rest = strides[1:]
        return sum(_sum(part, first + i * strides[0], rest) for i, part in enumerate(words))
    rows = _BLOCK_WORDS // words[0].size
    total = 0
    for low in range(0, len(words), rows):
        block = words[low : low + rows]
        steps = [
            np.arange(n, dtype=np.uint64) * (np.uint64(stride) * _PLACE)
            for n, stride in zip(block.shape, strides, strict=True)
        ]
        places: np.ndarray[Any, Any] = reduce(np.add.outer, steps)
        places += np.uint64(first + low * strides[0]) * _PLACE
        # For one place this is a bijection of 64-bit words, so a single change always shows.
        mixed = np.bitwise_xor(places, block, out=places)
        mixed *= _FIRST
        mixed ^= mixed >> np.uint64(32)
        mixed *= _SECOND
        total += int(mixed.sum(dtype=np.uint64))
    return total
