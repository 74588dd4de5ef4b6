"""Batches: which elements are read for one, which part this process holds, how it is assembled.

Own code, because in grain (0.2.18) each process reads whole batches, or every n-th element, and
`jax.make_array_from_process_local_data` takes one block of a shape that the devices divide: neither
knows layouts of which a process holds some columns of all rows, nor a smaller last batch. Datasets
of grain are sources for what they can do, and nothing imports it: arrays need no further package.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import jax
import numpy as np

from dtensor.dialect.errors import LayoutError
from dtensor.dialect.layout import Layout
from dtensor.dialect.mesh import Mesh
from dtensor.runtime.array import array_type, dtensor_of
from dtensor.runtime.clients.coordination import resets
from dtensor.runtime.data.elements import (
    ElementSpec,
    HostArray,
    at,
    spec_of_element,
    structure_text,
)
from dtensor.runtime.data.sources import END, Arrays, Indexed, Iterated, Source
from dtensor.runtime.padding import Ranges, true_ranges
from dtensor.runtime.placement import named_sharding
from dtensor.runtime.shardings import AnyLayout, as_layout
from dtensor.runtime.transfer import asked_for, host_array

Chunk = tuple[int, Sequence[Any]]
"""Consecutive examples: the number of the first one in its batch, which is below 0 where the arrays
begin before the batch, and each array, with the examples along its first dimension."""


@lru_cache(maxsize=256)
def _held(layouts: tuple[Layout, ...], examples: int, rows: int) -> tuple[int, ...]:
    """The elements of so many rows, by number in a batch, of which this process holds a part."""
    found: set[int] = set()
    for layout in layouts:
        smallest = (examples, *(dim.split for dim in layout.dims[1:]))  # inner sizes do not matter
        longer = layout.padded_shape(smallest)
        for index in named_sharding(layout).addressable_devices_indices_map(longer).values():
            low, high = true_ranges(index or (), longer, smallest)[0]
            found |= set(range(low // rows, -(-high // rows)) if low < high else ())
    return tuple(sorted(found))


resets.append(_held.cache_clear)


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

    def specs(self, examples: int) -> list[jax.ShapeDtypeStruct]:
        """What the arrays of a batch of so many examples are."""
        return [
            jax.ShapeDtypeStruct(shape, dtype, sharding=named_sharding(layout))
            for shape, dtype, layout in zip(
                self.shapes(examples), self.spec.dtypes, self.layouts, strict=True
            )
        ]

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

    def assemble(self, chunks: list[Chunk], examples: int) -> Any:
        """The global batch, of which each device gets its shard: DTensors, structured as elements.

        The chunks, in order, have at least those examples of which this process holds a part. The
        list is emptied: a generator that waits would keep it, and with it the examples.
        """
        tensors = []
        for i, (layout, shape) in enumerate(zip(self.layouts, self.shapes(examples), strict=True)):
            read = self._reader(i, chunks, shape)
            with asked_for():
                array = jax.make_array_from_callback(
                    layout.padded_shape(shape),
                    named_sharding(layout),
                    read,
                    dtype=self.spec.dtypes[i],
                )
            tensors.append(dtensor_of(array, array_type(shape, self.spec.dtypes[i], layout)))
        chunks.clear()
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


Batches = Generator[tuple[Any, Any], None, None]
"""DTensors in the structure of the elements, and the source's own position after them, or None."""


def bound(
    source: Source, layouts: Any, mesh: Mesh, batch_size: int, sizes: Sequence[int] | None
) -> Batching:
    """How elements become batches; reads the first one where it is not known what they are.

    `sizes` says how many examples an element may have; None, that elements are examples.

    Raises:
        LayoutError: the layouts do not fit the elements.
        ValueError: there is no element, or it does not fit.
    """
    if isinstance(source, Iterated):
        first = source.open(keep=True).peek()
    elif isinstance(source, Indexed):
        first = source.element(0) if source.length else END
    else:
        first = None
    if first is END:
        raise ValueError(_empty(source))
    spec = source.spec if isinstance(source, Arrays) else spec_of_element(first)
    batched = sizes is not None
    ranks = [len(shape) + (not batched) for shape in spec.shapes]
    found = tuple(
        as_layout(layout, rank, mesh)
        for layout, rank in zip(_layouts_for(layouts, spec), ranks, strict=True)
    )
    batching = Batching(spec, found, batched, _rows(spec, sizes) if sizes else 1)
    for path, layout, shape in zip(spec.paths, found, batching.shapes(batch_size), strict=True):
        said = f"with dataset_already_batched={batching.batched}, a global batch{at(path)}"
        layout.verify(shape, said, uneven=True)
    return batching


def _layouts_for(layouts: Any, spec: ElementSpec) -> tuple[AnyLayout, ...]:
    """One layout for each array of an element; one alone is for all."""
    if isinstance(layouts, AnyLayout):
        return (layouts,) * len(spec.paths)
    leaves, structure = jax.tree.flatten(layouts)
    if structure == spec.structure:
        return tuple(leaves)
    raise LayoutError(
        f"layouts have structure {structure_text(structure)}, the dataset's elements have "
        f"{structure_text(spec.structure)}; give one Layout for each array, in the same "
        f"structure, or a single Layout for all. Of a list the items are elements; a tuple or "
        "dict of arrays is taken apart"
    )


def _rows(spec: ElementSpec, sizes: Sequence[int]) -> int:
    """Examples in an element, which is a batch."""
    found = [shape[0] if shape else 0 for shape in spec.shapes]
    for path, size in zip(spec.paths, found, strict=True):
        if size not in sizes or size != found[0]:
            raise ValueError(
                f"an element{at(path)} is a batch of {size or 'no'} examples, expected "
                f"{' or '.join(map(str, dict.fromkeys(sizes)))}, the same for all its arrays: the "
                "size for one replica, or the global batch size"
            )
    return found[0]


def check_enough(source: Source, examples: int, least: int) -> None:
    """Raise ValueError unless so many examples make a batch, of which one has at least `least`."""
    if not examples:
        raise ValueError(_empty(source))
    if examples < least:
        raise ValueError(
            f"the dataset has {examples} examples, too few for one global batch of {least}; make "
            "the batch smaller, or keep it with drop_remainder=False"
        )


def _empty(source: Source) -> str:
    text = f"the dataset is empty: its {source.name} gave no element"
    if source.name.endswith("()"):
        text += "; each pass calls the function, which must make a new iterator every time"
    return text


def by_number(
    source: Arrays | Indexed, batching: Batching, batch_size: int, numbers: range
) -> Batches:
    """The batches of these numbers; elements are read when a batch is asked for."""
    total = source.length * batching.rows
    per_batch = batch_size // batching.rows
    for number in numbers:
        first = number * per_batch
        examples = min(batch_size, total - number * batch_size)
        if isinstance(source, Arrays):
            chunks: list[Chunk] = [(-number * batch_size, source.leaves)]
        else:
            chunks = [
                batching.chunk(source.element(first + i), first + i, i, per_batch)
                for i in _held(batching.layouts, examples, batching.rows)
            ]
        yield batching.assemble(chunks, examples), None


def in_order(
    source: Iterated,
    batching: Batching,
    batch_size: int,
    drop_remainder: bool,
    start: int,
    state: Any,
) -> Batches:
    """The batches from number `start` on, where the source's own position is `state`, if known."""
    per_batch = batch_size // batching.rows
    # A remainder is divided otherwise than a whole batch is: any part may be ours.
    kept = set(range(per_batch))
    if drop_remainder:
        kept = set(_held(batching.layouts, batch_size, batching.rows))
    stream = source.open()
    try:
        stream.seek(start * per_batch, per_batch, state)
        examples = batch_size
        while examples == batch_size:
            chunks: list[Chunk] = []
            count = 0
            while count < per_batch and (element := stream.next()) is not END:
                chunk = batching.chunk(element, stream.count - 1, count, per_batch)
                chunks += [chunk] if count in kept else []
                count += 1
            examples = count * batching.rows
            if stream.count == count:  # the first batch
                check_enough(source, examples, batch_size if drop_remainder else 1)
            if examples and (examples == batch_size or not drop_remainder):
                yield batching.assemble(chunks, examples), stream.state()
    finally:
        stream.close()
