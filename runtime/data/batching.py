"""Batches: which part of a global batch this process holds, and how it comes onto its devices."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import jax
import numpy as np

from dtensor.dialect.errors import LayoutError
from dtensor.dialect.layout import Layout
from dtensor.runtime.array import array_type, dtensor_of
from dtensor.runtime.data.elements import ElementSpec, HostArray
from dtensor.runtime.padding import Ranges, true_ranges
from dtensor.runtime.placement import named_sharding


@lru_cache(maxsize=256)
def rows_held(layouts: tuple[Layout, ...], examples: int) -> tuple[tuple[int, int], ...]:
    """The ranges of a batch's examples of which this process holds a part, in order.

    Args:
        layouts: layouts of the arrays of a batch.
        examples: number of examples in the batch.
    """
    ranges: set[tuple[int, int]] = set()
    for layout in layouts:
        smallest = (examples, *(dim.split for dim in layout.dims[1:]))  # inner sizes do not matter
        longer = layout.padded_shape(smallest)
        indices = named_sharding(layout).addressable_devices_indices_map(longer).values()
        ranges |= {true_ranges(index or (), longer, smallest)[0] for index in indices}
    return tuple(sorted(held for held in ranges if held[0] < held[1]))


@dataclass(frozen=True)
class Chunk:
    """Consecutive examples of a batch.

    Attributes:
        start: the batch's example that is the first one here; below 0 where the arrays begin
            before the batch.
        arrays: the examples of each array, along its first dimension.
    """

    start: int
    arrays: Sequence[Any]

    def kept(self) -> Chunk:
        """The same examples, whatever the source does with its arrays: it may use them again."""
        return Chunk(self.start, [np.array(array) for array in self.arrays])


@dataclass(frozen=True)
class Batching:
    """How elements become global batches.

    Attributes:
        spec: the elements.
        layouts: layout of each of their arrays, in a batch.
        batch_size: examples in a global batch.
        rows: examples in an element.
        already_batched: whether elements have the batch dimension.
    """

    spec: ElementSpec
    layouts: tuple[Layout, ...]
    batch_size: int
    rows: int
    already_batched: bool

    def shapes(self, examples: int) -> list[tuple[int, ...]]:
        """Global shapes of the arrays of a batch of so many examples."""
        inner = [shape[self.already_batched :] for shape in self.spec.shapes]
        return [(examples, *shape) for shape in inner]

    def verify(self, examples: int) -> None:
        """Check that the layouts fit a batch of so many examples.

        Raises:
            LayoutError: one has another rank.
        """
        for path, layout, shape in zip(
            self.spec.paths, self.layouts, self.shapes(examples), strict=True
        ):
            where = f" of {path}" if path else ""
            if layout.rank != len(shape):
                raise LayoutError(self._other_rank(where, layout, shape))
            problem = layout.problem(shape, uneven=True)
            if problem is not None:
                raise LayoutError(
                    f"layout {layout.short()}{where} does not fit a global batch of shape "
                    f"{shape}: {problem}"
                )

    def _other_rank(self, where: str, layout: Layout, shape: tuple[int, ...]) -> str:
        hint = (
            "Check that the dataset is batched, as dataset_already_batched=True says"
            if self.already_batched
            else "Check that the dataset is not batched before it comes to DTensorDataset; if it "
            "is, say dataset_already_batched=True"
        )
        return (
            f"layout {layout.short()}{where} has rank {layout.rank}, a global batch has rank "
            f"{len(shape)}: its shape is {shape}. {hint}"
        )

    def chunk(self, position: int, arrays: Sequence[HostArray]) -> Chunk:
        """The chunk that one element makes, at its position among a batch's elements."""
        if self.already_batched:
            return Chunk(position * self.rows, arrays)
        return Chunk(position, [array[np.newaxis] for array in arrays])

    def assemble(self, chunks: Sequence[Chunk], examples: int) -> Any:
        """The global batch, of which each device gets its shard.

        Args:
            chunks: at least those examples of which this process holds a part, in order.
            examples: number of examples in the batch.

        Returns:
            DTensors in the structure of the elements.
        """
        tensors = []
        for i, (layout, shape) in enumerate(zip(self.layouts, self.shapes(examples), strict=True)):
            longer = layout.padded_shape(shape)
            array = jax.make_array_from_callback(
                longer, named_sharding(layout), self._reader(i, chunks, shape)
            )
            tensors.append(dtensor_of(array, array_type(shape, self.spec.dtypes[i], layout)))
        return jax.tree.unflatten(self.spec.structure, tensors)

    def _reader(
        self, i: int, chunks: Sequence[Chunk], shape: tuple[int, ...]
    ) -> Callable[[tuple[slice, ...] | None], HostArray]:
        """What reads a shard of array `i` of a batch; replicas share one read."""
        arrays, starts = [chunk.arrays[i] for chunk in chunks], [chunk.start for chunk in chunks]
        where = f" at {self.spec.paths[i]}" if self.spec.paths[i] else ""
        layout, dtype = self.layouts[i], self.spec.dtypes[i]
        longer, local = layout.padded_shape(shape), layout.local_shape(shape)
        known: dict[Ranges, HostArray] = {}

        def read(index: tuple[slice, ...] | None) -> HostArray:
            assert index is not None  # a shard of an array has a place in it
            region = true_ranges(index, longer, shape)
            if region not in known:
                known[region] = _shard(arrays, starts, region, local, dtype, where)
            return known[region]

        return read


def _shard(
    arrays: Sequence[Any],
    starts: Sequence[int],
    region: Ranges,
    local_shape: tuple[int, ...],
    dtype: np.dtype[Any],
    where: str,
) -> HostArray:
    """The elements of one shard, and zeros behind the end of what the layout does not divide."""
    sizes = tuple(stop - start for start, stop in region)
    if sizes == local_shape:
        return _region(arrays, starts, region, dtype, where)
    buffer = np.zeros(local_shape, dtype)
    if 0 not in sizes:
        inside = tuple(map(slice, sizes))
        buffer[inside] = _region(arrays, starts, region, dtype, where)
    return buffer


def _region(
    arrays: Sequence[Any],
    starts: Sequence[int],
    region: Ranges,
    dtype: np.dtype[Any],
    where: str,
) -> HostArray:
    """The elements of one shard, each copied once, from the chunks that hold them."""
    (first, last), *inner = region
    inside = tuple(slice(*ends) for ends in inner)
    parts = []
    begin, end = max(bisect_right(starts, first) - 1, 0), bisect_left(starts, last)
    for array, start in zip(arrays[begin:end], starts[begin:end], strict=True):
        low, high = max(first, start), min(last, start + array.shape[0])
        parts.append(np.asarray(array[(slice(low - start, high - start), *inside)]))
    if _may_not_fit(parts[0].dtype, dtype):
        parts = [np.concatenate(parts) if len(parts) > 1 else parts[0]]
        _check_fits(parts[0], dtype, where)
    buffer = np.empty([stop - start for start, stop in region], dtype)
    return np.concatenate(parts, out=buffer, casting="same_kind")


def _may_not_fit(wide: np.dtype[Any], dtype: np.dtype[Any]) -> bool:
    return wide.kind in "iu" and wide.itemsize > dtype.itemsize


def _check_fits(part: HostArray, dtype: np.dtype[Any], where: str) -> None:
    """Raise OverflowError unless integers keep their value in the narrower type of jax's."""
    limits = np.iinfo(dtype)
    for value in (part.min(), part.max()) if part.size else ():
        if not limits.min <= value <= limits.max:
            raise OverflowError(
                f"integer {value} of the dataset{where} does not fit {dtype}, which jax makes of "
                f"{part.dtype} unless jax_enable_x64 is on; turn that on, or encode it otherwise"
            )
