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
from dtensor.runtime.data.elements import ElementSpec, HostArray, at
from dtensor.runtime.padding import Ranges, true_ranges
from dtensor.runtime.placement import named_sharding
from dtensor.runtime.transfer import host_array

Chunk = tuple[int, Sequence[Any]]
"""Consecutive examples: the number of the first one in its batch, which is below 0 where the arrays
begin before the batch, and each array, with the examples along its first dimension."""


@lru_cache(maxsize=256)
def rows_held(layouts: tuple[Layout, ...], examples: int) -> tuple[tuple[int, int], ...]:
    """The ranges of a batch's examples of which this process holds a part, in order."""
    ranges: set[tuple[int, int]] = set()
    for layout in layouts:
        smallest = (examples, *(dim.split for dim in layout.dims[1:]))  # inner sizes do not matter
        longer = layout.padded_shape(smallest)
        indices = named_sharding(layout).addressable_devices_indices_map(longer).values()
        ranges |= {true_ranges(index or (), longer, smallest)[0] for index in indices}
    return tuple(sorted(held for held in ranges if held[0] < held[1]))


@dataclass(frozen=True)
class Batching:
    """How elements of `rows` examples become global batches; `layouts` are those of their arrays.

    Elements that are `batched` have the batch dimension.
    """

    spec: ElementSpec
    layouts: tuple[Layout, ...]
    batched: bool
    rows: int

    def shapes(self, examples: int) -> list[tuple[int, ...]]:
        """Global shapes of the arrays of a batch of so many examples."""
        return [(examples, *shape[self.batched :]) for shape in self.spec.shapes]

    def verify(self, examples: int) -> None:
        """Raise LayoutError unless the layouts fit a batch of so many examples."""
        for path, layout, shape in zip(
            self.spec.paths, self.layouts, self.shapes(examples), strict=True
        ):
            try:
                layout.verify(shape, f"a global batch{at(path)}", uneven=True)
            except LayoutError as error:
                if layout.rank == len(shape):
                    raise
                raise LayoutError(
                    f"{error}. Check that the dataset is batched if, and only if, "
                    "dataset_already_batched=True says so"
                ) from None

    def held(self, examples: int) -> list[int]:
        """The elements, by their number in a batch, of which this process holds a part."""
        ranges = rows_held(self.layouts, examples)
        return sorted({n for a, b in ranges for n in range(a // self.rows, -(-b // self.rows))})

    def chunk(self, element: Any, number: int, position: int, per_batch: int) -> Chunk:
        """The chunk that an element makes, of that number in the dataset and position in a batch.

        A copy where others follow: the source may use its arrays again.
        """
        arrays: list[HostArray] = self.spec.arrays(element, number)
        if not self.batched:
            arrays = [array[np.newaxis] for array in arrays]
        if per_batch > 1:
            arrays = [np.array(array) for array in arrays]
        return position * self.rows, arrays

    def assemble(self, chunks: Sequence[Chunk], examples: int) -> Any:
        """The global batch, of which each device gets its shard: DTensors, structured as elements.

        The chunks, in order, have at least those examples of which this process holds a part.
        """
        tensors = []
        for i, (layout, shape) in enumerate(zip(self.layouts, self.shapes(examples), strict=True)):
            array = jax.make_array_from_callback(
                layout.padded_shape(shape), named_sharding(layout), self._reader(i, chunks, shape)
            )
            tensors.append(dtensor_of(array, array_type(shape, self.spec.dtypes[i], layout)))
        return jax.tree.unflatten(self.spec.structure, tensors)

    def _reader(
        self, i: int, chunks: Sequence[Chunk], shape: tuple[int, ...]
    ) -> Callable[[tuple[slice, ...] | None], HostArray]:
        """What reads a shard of array `i` of a batch; replicas share one read."""
        layout, dtype = self.layouts[i], self.spec.dtypes[i]
        longer, local = layout.padded_shape(shape), layout.local_shape(shape)
        known: dict[Ranges, HostArray] = {}

        def read(index: tuple[slice, ...] | None) -> HostArray:
            assert index is not None  # a shard of an array has a place in it
            region = true_ranges(index, longer, shape)
            if region not in known:
                known[region] = np.zeros(local, dtype)  # also behind the end, where there is one
                inside = known[region][tuple(slice(stop - start) for start, stop in region)]
                if inside.size:
                    _copy([(start, arrays[i]) for start, arrays in chunks], region, inside)
            return known[region]

        return read


def _copy(chunks: list[tuple[int, Any]], region: Ranges, out: HostArray) -> None:
    """Copy the elements of one shard, each once, from the chunks that hold them."""
    (first, last), *inner = region
    inside = tuple(slice(*ends) for ends in inner)
    starts = [start for start, _ in chunks]
    parts = []
    for start, array in chunks[max(bisect_right(starts, first) - 1, 0) : bisect_left(starts, last)]:
        rows = slice(max(first - start, 0), min(last - start, array.shape[0]))
        parts.append(np.asarray(array[(rows, *inside)]))
    if parts[0].dtype.itemsize > out.dtype.itemsize:  # jax makes it narrower
        parts = [host_array(np.concatenate(parts))]
    np.concatenate(parts, out=out, casting="safe")
