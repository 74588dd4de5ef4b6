"""The iterator over a dataset of DTensors: one pass, which can be closed and taken up again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from dtensor.runtime.data.batches import Batches
from dtensor.runtime.data.prefetch import ReadAhead
from dtensor.runtime.tracing import is_eager

if TYPE_CHECKING:
    from dtensor.runtime.data.dataset import DTensorDataset


class DTensorIterator:
    """One pass over a `DTensorDataset`; ends with `close`, a `with` block, or when unused."""

    def __init__(
        self, dataset: DTensorDataset, start: Callable[[int, Any], Batches], prefetch: int
    ) -> None:
        self._dataset = dataset
        self._start = start
        self._prefetch = prefetch
        self._next: tuple[int, Any] = (0, None)  # number of the batch, position of the source
        self._batches: Batches | ReadAhead | None = None
        self._is_closed = False

    @property
    def element_spec(self) -> Any:
        """As the dataset's."""
        return self._dataset.element_spec

    def __iter__(self) -> DTensorIterator:
        return self

    def __next__(self) -> Any:
        if self._is_closed:
            raise StopIteration
        if not is_eager():
            raise RuntimeError(
                "a batch was asked for inside a traced function, which would make that one batch a "
                "constant of the program; ask for it outside and pass it in"
            )
        if self._batches is None:
            batches = self._start(*self._next)
            self._batches = ReadAhead(batches, self._prefetch) if self._prefetch else batches
        try:
            tensors, source_state = next(self._batches)
        except Exception:
            self.close()
            raise
        except BaseException:  # an interrupt does not wait for the thread
            self._is_closed, self._batches = True, None
            raise
        self._next = self._next[0] + 1, source_state
        return tensors

    def close(self) -> None:
        """End the pass and its thread; more batches are not given."""
        self._is_closed = True
        self._end_pass()

    def _end_pass(self) -> bool:
        batches, self._batches = self._batches, None
        return batches is None or batches.close() is not False

    def state(self) -> dict[str, Any]:
        """Where the pass stands: what `restore` needs to go on with the next batch.

        Returns:
            Numbers, and the source's own position where it tells one, as grain's iterators do.
        """
        number, source = self._next
        size = self._dataset.global_batch_size
        return {"next_batch": number, "global_batch_size": size, "source": source}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on with the batch that came next when `state` was taken.

        Arrays and whatever has `[]` go there at once, as do sources that tell their position; other
        iterables are read until there.

        Raises:
            ValueError: it is not such a state, or one of another batch size. The next batch raises
                it where the dataset cannot go to that position.
        """
        known, size = state if isinstance(state, Mapping) else {}, self._dataset.global_batch_size
        number = known.get("next_batch")
        if not isinstance(number, int) or number < 0 or known.get("global_batch_size") != size:
            raise ValueError(
                f"{state!r} is not a state of a DTensorDataset's iterator over batches of {size} "
                "examples"
            )
        if not self._end_pass():
            raise RuntimeError("the thread that reads ahead is still reading; restore later")
        self._next = number, known.get("source")
        self._is_closed = False

    def __enter__(self) -> DTensorIterator:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __repr__(self) -> str:
        closed = ", closed" if self._is_closed else ""
        return f"DTensorIterator(next_batch={self._next[0]}{closed}) of {self._dataset!r}"
