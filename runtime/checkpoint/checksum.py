"""A checksum of an array that does not depend on how the array is laid out.

It is a sum over the elements, modulo 2**64, of a mixture of the element's bits and of its place in
the whole array. So each process can sum over the shards that it has, whatever their shape, and the
parts add up to the same number in every layout.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
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
_SHIFT = np.uint64(32)


def of_first_replicas(arrays: Sequence[jax.Array]) -> list[int]:
    """This process's part of each checksum, where the first replica of each shard counts."""
    return _parts(arrays, lambda shards: sum(shard.replica_id == 0 for shard in shards))


def of_all_replicas(arrays: Sequence[jax.Array]) -> list[int]:
    """This process's part of each checksum times the number of replicas: all of them count.

    Replicas within a process come from one read, so one of them is looked at.
    """
    return _parts(arrays, len)


def _parts(arrays: Sequence[jax.Array], times: Callable[[list[Any]], int]) -> list[int]:
    """Sums over this process's shards, each so often as `times` says of its replicas here."""
    work: list[tuple[int, int, Ranges, Any]] = []
    for number, array in enumerate(arrays):
        by_ranges: dict[Ranges, list[Any]] = {}
        for shard in array.addressable_shards:
            by_ranges.setdefault(ranges_of(shard.index, array.shape), []).append(shard)
        for ranges, shards in by_ranges.items():
            shards.sort(key=lambda shard: int(shard.replica_id))
            if times(shards):
                work.append((number, times(shards), ranges, shards[0]))

    def part(item: tuple[int, int, Ranges, Any]) -> int:
        number, count, ranges, shard = item
        return count * region_sum(np.asarray(shard.data), ranges, arrays[number].shape)

    totals = [0] * len(arrays)
    with ThreadPoolExecutor(_THREADS) as pool:  # numpy lets go of the interpreter in its loops
        for (number, *_), found in zip(work, pool.map(part, work), strict=True):
            totals[number] = (totals[number] + found) & _MASK
    return totals


def combine(parts: list[int]) -> int:
    """The checksum whose parts these are."""
    return sum(parts) & _MASK


def region_sum(values: np.ndarray[Any, Any], ranges: Ranges, shape: tuple[int, ...]) -> int:
    """The sum over the elements in `ranges` of an array of `shape`.

    Args:
        values: the elements in the ranges.
        ranges: first and last index, the last excluded, for each dimension.
        shape: shape of the whole array, in elements.
    """
    if values.size == 0:
        return 0
    words = _words(values)
    per_element = words.shape[-1]
    rows = words.reshape(-1, words.shape[-2] * per_element)
    # Places in words: a row is contiguous in the whole array, and starts at its own place.
    strides = [math.prod(shape[i + 1 :]) * per_element for i in range(len(shape))]
    start = sum(low * stride for (low, _), stride in zip(ranges, strides, strict=True))
    wide = min(rows.shape[1], _BLOCK_WORDS)
    high = max(1, _BLOCK_WORDS // wide)
    total = 0
    with np.errstate(over="ignore"):
        for left in range(0, rows.shape[1], wide):
            columns = np.arange(left, min(left + wide, rows.shape[1]), dtype=np.uint64) * _PLACE
            for first in range(0, len(rows), high):
                block = rows[first : first + high, left : left + wide]
                numbers = np.arange(first, first + len(block))
                places = _places(numbers, values.shape[:-1], strides, start) * _PLACE
                total += _mixed_sum(block, places[:, None] + columns[None, :])
    return total & _MASK


def _places(
    rows: np.ndarray[Any, Any], outer: Sequence[int], strides: Sequence[int], start: int
) -> np.ndarray[Any, Any]:
    """Where in the whole array these rows of a region begin, in words."""
    places = np.full(len(rows), start, np.uint64)
    if outer:
        for index, stride in zip(np.unravel_index(rows, outer), strides, strict=False):
            places += index.astype(np.uint64) * np.uint64(stride)
    return places


def _mixed_sum(words: np.ndarray[Any, Any], places: np.ndarray[Any, Any]) -> int:
    # For one place this is a bijection of 64-bit words, so a single change always shows.
    mixed = np.bitwise_xor(places, words, out=places)
    mixed *= _FIRST
    mixed ^= mixed >> _SHIFT
    mixed *= _SECOND
    return int(mixed.sum(dtype=np.uint64))


def _words(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The bits of the elements as unsigned integers; one more dimension, words of an element."""
    size = min(values.dtype.itemsize, 8)
    flat = np.ascontiguousarray(values)
    words = flat.reshape(-1).view(f"u{size}")
    return words.reshape(*(values.shape or (1,)), -1)
