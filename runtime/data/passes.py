"""One pass over a dataset: which elements are read for which batch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from dtensor.dialect.layout import Layout
from dtensor.runtime.data.batching import Batching, Chunk, rows_held
from dtensor.runtime.data.elements import (
    ElementSpec,
    layouts_for,
    missing_element,
    spec_of_element,
)
from dtensor.runtime.data.sources import Arrays, Indexed, Iterated, Source
from dtensor.runtime.data.stream import END, Stream


class Position(NamedTuple):
    """Where a pass stands.

    Attributes:
        batch: number of batches before it.
        source_state: the source's own position there; None finds it by counting.
    """

    batch: int = 0
    source_state: Any = None


Batch = tuple[Any, Any]
"""DTensors in the structure of the elements, and the source's own position after them, or None."""


@dataclass
class Plan:
    """What a `DTensorDataset` was asked for; `batching` is known once an element is.

    Attributes:
        source: where the elements come from.
        layouts: the layouts, as `flat_layouts` gives them.
        structure: their structure; None where one layout is for all arrays.
        batch_size: examples in a global batch.
        element_rows: how many examples an element may have; None where elements are examples.
        drop_remainder: whether examples that do not fill a batch are left out.
    """

    source: Source
    layouts: tuple[Layout, ...]
    structure: Any
    batch_size: int
    element_rows: tuple[int, ...] | None
    drop_remainder: bool
    batching: Batching | None = None

    def resolve(self) -> Batching:
        """How elements become batches; reads one element where that is not known yet.

        Raises:
            ValueError: there is no element, or it does not fit.
        """
        if self.batching is None:
            self.batching = self._batching_of_source()
        return self.batching

    def _batching_of_source(self) -> Batching:
        source = self.source
        if isinstance(source, Arrays):
            return self.bind(source.spec)
        if isinstance(source, Iterated):
            element = source.first()
            if element is END:
                raise ValueError(_empty(source))
            return self.bind(spec_of_element(element, 0))
        number = self._first_held(source)
        return self.bind(spec_of_element(source.first(number), number))

    def _first_held(self, source: Indexed) -> int:
        """The first element of which this process holds a part."""
        if source.length == 0:
            raise ValueError(_empty(source))
        if self.element_rows is not None:
            return 0  # how many examples an element has is not known before
        held = rows_held(self.layouts, self.batch_size)
        return held[0][0] if held and held[0][0] < source.length else 0

    def bind(self, spec: ElementSpec) -> Batching:
        """How elements of this spec become batches.

        Raises:
            ValueError: they do not fit the layouts or the batch size.
        """
        layouts = layouts_for(spec, self.layouts, self.structure, self._hint())
        batched = self.element_rows is not None
        batching = Batching(spec, layouts, self.batch_size, 1, batched)
        for path, shape in zip(spec.paths, spec.shapes, strict=True):
            if batched and not shape:
                raise ValueError(
                    f"an element{' at ' + path if path else ''} has no dimensions; "
                    "Check that the dataset is batched, as dataset_already_batched=True says"
                )
        batching.verify(self.batch_size)
        return replace(batching, rows=self._rows(spec)) if batched else batching

    def _hint(self) -> str:
        if isinstance(self.source, Arrays):
            return ". A tuple or dict of arrays is taken apart; give elements as a list of them"
        if isinstance(self.source, Indexed) and self.source.name == "list":
            return ". A list holds elements; give arrays of all examples as a tuple or a dict"
        return ""

    def _rows(self, spec: ElementSpec) -> int:
        assert self.element_rows is not None
        sizes = [shape[0] for shape in spec.shapes]
        odd = next((i for i, size in enumerate(sizes) if size != sizes[0]), None)
        if odd is not None:
            raise ValueError(
                f"an element has a batch of {sizes[0]} at {spec.paths[0]} and of {sizes[odd]} at "
                f"{spec.paths[odd]}; its arrays need the same first dimension"
            )
        if sizes[0] not in self.element_rows:
            allowed = " or ".join(map(str, dict.fromkeys(self.element_rows)))
            raise ValueError(
                f"an element is a batch of {sizes[0]} examples, expected {allowed}: the size for "
                f"one replica, or the global batch size of {self.batch_size}"
            )
        return sizes[0]

    def total(self) -> int | None:
        """Number of examples, where it is known."""
        if self.source.length is None:
            return None
        return self.source.length * (1 if self.element_rows is None else self.resolve().rows)

    def verify_total(self) -> None:
        """Check that the source's examples make batches, where their number is known.

        Raises:
            ValueError: they make none.
        """
        total = self.total()
        if total is None or isinstance(self.source, Iterated):
            return
        if total == 0:
            raise ValueError(_empty(self.source))
        if self.drop_remainder and total < self.batch_size:
            raise ValueError(self._too_few(total))

    def batches(self, start: Position) -> Iterator[Batch]:
        """The batches from a position on; elements are read when a batch is asked for."""
        batching = self.resolve()
        self.verify_total()
        if isinstance(self.source, Iterated):
            return self._in_order(self.source.open(), batching, start)
        if start.source_state is not None:
            raise ValueError(
                "the state holds a position of the dataset's own, which a dataset that is read by "
                "number does not have; restore it to the same dataset"
            )
        if start.batch > len(self):
            raise ValueError(
                f"the state is after batch {start.batch} but the dataset has {len(self)}; restore "
                "it to the same dataset"
            )
        return self._by_number(self.source, batching, start.batch)

    def _by_number(
        self, source: Arrays | Indexed, batching: Batching, first: int
    ) -> Iterator[Batch]:
        total = source.length * batching.rows
        per_batch = self.batch_size // batching.rows
        for number in range(first, self._count(total)):
            examples = min(self.batch_size, total - number * self.batch_size)
            if isinstance(source, Arrays):
                chunks = [Chunk(-number * self.batch_size, source.leaves)]
            else:
                chunks = []
                for position in _held(batching, examples):
                    at = number * per_batch + position
                    chunk = _chunk(batching, source.element(at), at, position)
                    chunks.append(chunk if per_batch == 1 else chunk.kept())
            yield _assembled(batching, chunks, examples)

    def _count(self, total: int) -> int:
        return total // self.batch_size if self.drop_remainder else -(-total // self.batch_size)

    def _in_order(self, stream: Stream, batching: Batching, start: Position) -> Iterator[Batch]:
        per_batch = self.batch_size // batching.rows
        held = set(_held(batching, self.batch_size))
        try:
            stream.seek(start.batch * per_batch, start.source_state)
            is_first = start.batch == 0
            while True:
                chunks = []
                count = 0
                while count < per_batch and (element := stream.next()) is not END:
                    chunk = _chunk(batching, element, stream.count - 1, count)
                    # A remainder is divided otherwise than a whole batch is: any part may be ours.
                    if count in held or not self.drop_remainder:
                        chunks.append(chunk if per_batch == 1 else chunk.kept())
                    count += 1
                examples = count * batching.rows
                if examples < self.batch_size and self.drop_remainder:
                    if is_first:
                        raise ValueError(self._too_few(examples) if count else _empty(self.source))
                    return
                if not examples:
                    return
                is_first = False
                yield _assembled(batching, chunks, examples, stream)
        finally:
            stream.close()

    def _too_few(self, examples: int) -> str:
        return (
            f"the dataset has {examples} examples, too few for one global batch of "
            f"{self.batch_size}; make the batch smaller, or keep it with drop_remainder=False"
        )

    def __len__(self) -> int:
        total = self.total()
        if total is None:
            raise TypeError(
                f"the number of batches is not known: a {self.source} is read in order to its end"
            )
        return self._count(total)


def _held(batching: Batching, examples: int) -> list[int]:
    """The positions, in a batch, of the elements of which this process holds a part."""
    positions: dict[int, None] = {}
    for start, stop in rows_held(batching.layouts, examples):
        positions |= dict.fromkeys(range(start // batching.rows, -(-stop // batching.rows)))
    return sorted(positions)


def _assembled(
    batching: Batching, chunks: list[Chunk], examples: int, stream: Stream | None = None
) -> Batch:
    # Emptied, because a generator that waits keeps its variables: no example, nor any batch.
    tensors = batching.assemble(chunks, examples)
    chunks.clear()
    return tensors, (None if stream is None else stream.state())


def _chunk(batching: Batching, element: Any, number: int, position: int) -> Chunk:
    if element is None:
        raise ValueError(missing_element(number))
    return batching.chunk(position, batching.spec.arrays(element, number))


def _empty(source: Source) -> str:
    text = f"the dataset is empty: its {source} gave no element"
    if isinstance(source, Iterated) and source.name.endswith("()"):
        text += "; each pass calls the function, which must make a new iterator every time"
    return text


def checked_state(state: Mapping[str, Any], batch_size: int) -> Position:
    """The position that a state of an iterator names.

    Raises:
        ValueError: it is no such state, or one of another batch size.
    """
    try:
        number, size, source = (state[k] for k in ("next_batch", "global_batch_size", "source"))
    except (KeyError, TypeError):
        raise ValueError(f"{state!r} is not a state of a DTensorDataset's iterator") from None
    if size != batch_size:
        raise ValueError(
            f"the state is of batches of {size} examples, this dataset has batches of {batch_size}"
        )
    if not isinstance(number, int) or number < 0:
        raise ValueError(f"the state's next_batch is {number!r}; it must be a number from 0 on")
    return Position(number, source)
