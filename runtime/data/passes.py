"""One pass over a dataset: which elements are read for which batch.

Own code, because in grain (0.2.18) each process reads whole batches, or every n-th element, and
`jax.make_array_from_process_local_data` takes one block of a shape that the devices divide: neither
knows layouts of which a process holds some columns of all rows, nor a smaller last batch. Datasets
of grain are sources for what they can do, and nothing imports it: arrays need no further package.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax

from dtensor.dialect.errors import LayoutError
from dtensor.dialect.layout import Layout
from dtensor.runtime.data.batching import Batching, Chunk
from dtensor.runtime.data.elements import ElementSpec, at, spec_of_element, structure_text
from dtensor.runtime.data.sources import END, Arrays, Indexed, Iterated, Source


class Position(NamedTuple):
    """Where a pass stands.

    Attributes:
        batch: number of batches before it.
        source_state: the source's own position there; None finds it by counting.
    """

    batch: int = 0
    source_state: Any = None


Batches = Generator[tuple[Any, Any], None, None]
"""DTensors in the structure of the elements, and the source's own position after them, or None."""


@dataclass
class Plan:
    """What a `DTensorDataset` was asked for; `batching` is known once an element is.

    Attributes:
        source: where the elements come from.
        layouts: the layouts: one, or a pytree of them.
        batch_size: examples in a global batch.
        element_rows: how many examples an element may have; None where elements are examples.
        drop_remainder: whether examples that do not fill a batch are left out.
    """

    source: Source
    layouts: Any
    batch_size: int
    element_rows: tuple[int, ...] | None
    drop_remainder: bool
    batching: Batching | None = None

    def resolve(self) -> Batching:
        """How elements become batches; reads one element where that is not known yet.

        Raises:
            LayoutError: the layouts do not fit the elements.
            ValueError: there is no element, it does not fit, or there are too few.
        """
        if self.batching is None:
            spec = self.source.spec if isinstance(self.source, Arrays) else self._spec()
            layouts, batched = self._layouts_for(spec), self.element_rows is not None
            batching = Batching(spec, layouts, batched, self._rows(spec) if batched else 1)
            batching.verify(self.batch_size)
            if not isinstance(self.source, Iterated):
                self._check_enough(self.source.length * batching.rows)
            self.batching = batching
        return self.batching

    def _spec(self) -> ElementSpec:
        if isinstance(self.source, Iterated):
            element = self.source.open(keep=True).peek()
        else:
            assert isinstance(self.source, Indexed)
            element = self.source.element(0) if self.source.length else END
        if element is END:
            raise ValueError(self._empty())
        return spec_of_element(element)

    def _layouts_for(self, spec: ElementSpec) -> tuple[Layout, ...]:
        """One layout for each array of an element; one alone is for all."""
        if isinstance(self.layouts, Layout):
            return (self.layouts,) * len(spec.paths)
        leaves, structure = jax.tree.flatten(self.layouts)
        if structure == spec.structure:
            return tuple(leaves)
        hint = ""
        if isinstance(self.source, Arrays):
            hint = ". A tuple or dict of arrays is taken apart; give elements as a list of them"
        elif isinstance(self.source, Indexed) and self.source.name == "list":
            hint = ". A list holds elements; give arrays of all examples as a tuple or a dict"
        raise LayoutError(
            f"layouts have structure {structure_text(structure)}, the dataset's elements have "
            f"{structure_text(spec.structure)}; give one Layout for each array, in the same "
            f"structure, or a single Layout for all{hint}"
        )

    def _rows(self, spec: ElementSpec) -> int:
        """Examples in an element, which is a batch."""
        allowed = dict.fromkeys(self.element_rows or ())
        sizes = [shape[0] if shape else None for shape in spec.shapes]
        for path, size in zip(spec.paths, sizes, strict=True):
            if size not in allowed or size != sizes[0]:
                text = "no examples" if size is None else f"{size} examples"
                raise ValueError(
                    f"an element{at(path)} is a batch of {text}, expected "
                    f"{' or '.join(map(str, allowed))}, the same for all its arrays: the size for "
                    f"one replica, or the global batch size of {self.batch_size}"
                )
        return int(sizes[0] or 0)

    def total(self) -> int | None:
        """Number of examples, where it is known."""
        if self.source.length is None:
            return None
        return self.source.length * (1 if self.element_rows is None else self.resolve().rows)

    def _check_enough(self, examples: int) -> None:
        if not examples:
            raise ValueError(self._empty())
        if self.drop_remainder and examples < self.batch_size:
            raise ValueError(
                f"the dataset has {examples} examples, too few for one global batch of "
                f"{self.batch_size}; make the batch smaller, or keep it with drop_remainder=False"
            )

    def batches(self, start: Position) -> Batches:
        """The batches from a position on; elements are read when a batch is asked for."""
        batching = self.resolve()
        if isinstance(self.source, Iterated):
            return self._in_order(self.source, batching, start)
        if start.batch > len(self):
            raise ValueError(
                f"the state is after batch {start.batch} but the dataset has {len(self)}; restore "
                "it to the same dataset"
            )
        return self._by_number(self.source, batching, start.batch)

    def _by_number(self, source: Arrays | Indexed, batching: Batching, start: int) -> Batches:
        total = source.length * batching.rows
        per_batch = self.batch_size // batching.rows
        for number in range(start, len(self)):
            first = number * per_batch
            examples = min(self.batch_size, total - number * self.batch_size)
            if isinstance(source, Arrays):
                chunks: list[Chunk] = [(-number * self.batch_size, source.leaves)]
            else:
                chunks = [
                    batching.chunk(source.element(first + i), first + i, i, per_batch)
                    for i in batching.held(examples)
                ]
            yield _assembled(batching, chunks, examples), None

    def _in_order(self, source: Iterated, batching: Batching, start: Position) -> Batches:
        per_batch = self.batch_size // batching.rows
        # A remainder is divided otherwise than a whole batch is: any part may be ours.
        held = batching.held(self.batch_size) if self.drop_remainder else range(per_batch)
        kept = set(held)
        stream = source.open()
        try:
            stream.seek(start.batch * per_batch, per_batch, start.source_state)
            examples = self.batch_size
            while examples == self.batch_size:
                chunks: list[Chunk] = []
                count = 0
                while count < per_batch and (element := stream.next()) is not END:
                    chunk = batching.chunk(element, stream.count - 1, count, per_batch)
                    chunks += [chunk] if count in kept else []
                    count += 1
                examples = count * batching.rows
                if stream.count == count:  # the first batch
                    self._check_enough(examples)
                if examples and (examples == self.batch_size or not self.drop_remainder):
                    yield _assembled(batching, chunks, examples), stream.state()
        finally:
            stream.close()

    def __len__(self) -> int:
        total = self.total()
        if total is None:
            raise TypeError(
                f"the number of batches is not known: a {self.source.name} is read in order to its "
                "end"
            )
        return total // self.batch_size if self.drop_remainder else -(-total // self.batch_size)

    def _empty(self) -> str:
        text = f"the dataset is empty: its {self.source.name} gave no element"
        if isinstance(self.source, Iterated) and self.source.name.endswith("()"):
            text += "; each pass calls the function, which must make a new iterator every time"
        return text


def _assembled(batching: Batching, chunks: list[Chunk], examples: int) -> Any:
    tensors = batching.assemble(chunks, examples)
    chunks.clear()  # a generator that waits keeps its variables: no example, nor any batch
    return tensors


def checked_state(state: Any, batch_size: int) -> Position:
    """The position that a state of an iterator names.

    Raises:
        ValueError: it is no such state, or one of another batch size.
    """
    at = state if isinstance(state, Mapping) else {}
    number = at.get("next_batch")
    if not isinstance(number, int) or number < 0 or at.get("global_batch_size") != batch_size:
        raise ValueError(
            f"{state!r} is not a state of a DTensorDataset's iterator over batches of {batch_size} "
            "examples"
        )
    return Position(number, at.get("source"))
