"""One pass over a dataset: which elements are read for which batch.

Own code, because in grain (0.2.18) each process reads whole batches, or every n-th element, and
`jax.make_array_from_process_local_data` takes one block of a shape that the devices divide: neither
knows layouts of which a process holds some columns of all rows, nor a smaller last batch. Datasets
of grain are sources for what they can do, and nothing imports it: arrays need no further package.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any

import jax

from dtensor.dialect.errors import LayoutError
from dtensor.dialect.layout import Layout
from dtensor.runtime.data.batching import Batching, Chunk
from dtensor.runtime.data.elements import ElementSpec, at, spec_of_element, structure_text
from dtensor.runtime.data.sources import END, Arrays, Indexed, Iterated, Source

Batches = Generator[tuple[Any, Any], None, None]
"""DTensors in the structure of the elements, and the source's own position after them, or None."""


def bound(source: Source, layouts: Any, batch_size: int, sizes: Sequence[int] | None) -> Batching:
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
    found = _layouts_for(layouts, spec)
    batching = Batching(spec, found, sizes is not None, _rows(spec, sizes) if sizes else 1)
    batching.verify(batch_size)
    return batching


def _layouts_for(layouts: Any, spec: ElementSpec) -> tuple[Layout, ...]:
    """One layout for each array of an element; one alone is for all."""
    if isinstance(layouts, Layout):
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
                for i in batching.held(examples)
            ]
        yield _assembled(batching, chunks, examples), None


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
    kept = set(batching.held(batch_size) if drop_remainder else range(per_batch))
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
                yield _assembled(batching, chunks, examples), stream.state()
    finally:
        stream.close()


def _assembled(batching: Batching, chunks: list[Chunk], examples: int) -> Any:
    tensors = batching.assemble(chunks, examples)
    chunks.clear()  # a generator that waits keeps its variables: no example, nor any batch
    return tensors
