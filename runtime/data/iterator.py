"""The iterator over a dataset of DTensors: one pass, which can be closed and taken up again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from dtensor.runtime.data.passes import Batches, Plan, Position, checked_state
from dtensor.runtime.data.prefetch import ReadAhead
from dtensor.runtime.tracing import is_eager

if TYPE_CHECKING:
    from dtensor.runtime.data.dataset import DTensorDataset


class DTensorIterator:
    """One pass over a `DTensorDataset`; ends with `close`, a `with` block, or when unused."""

    def __init__(self, dataset: DTensorDataset, plan: Plan, prefetch: int) -> None:
        self._dataset = dataset
        self._plan = plan
        self._prefetch = prefetch
        self._at = Position()
        self._batches: Batches | ReadAhead[tuple[Any, Any]] | None = None
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
            batches = self._plan.batches(self._at)
            self._batches = ReadAhead(batches, self._prefetch) if self._prefetch else batches
        try:
            tensors, source_state = next(self._batches)
        except Exception:
            self.close()
            raise
        except BaseException:  # an interrupt does not wait for the thread
            self._is_closed, self._batches = True, None
            raise
        self._at = Position(self._at.batch + 1, source_state)
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
        return {
            "next_batch": self._at.batch,
            "global_batch_size": self._dataset.global_batch_size,
            "source": self._at.source_state,
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on with the batch that came next when `state` was taken.

        Arrays and whatever has `[]` go there at once, as do sources that tell their position; other
        iterables are read until there.

        Raises:
            ValueError: it is not such a state, or one of another batch size. The next batch raises
                it where the dataset cannot go to that position.
        """
        at = checked_state(state, self._dataset.global_batch_size)
        if not self._end_pass():
            raise RuntimeError("the thread that reads ahead is still reading; restore later")
        self._at = at
        self._is_closed = False

    def __enter__(self) -> DTensorIterator:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __repr__(self) -> str:
        closed = ", closed" if self._is_closed else ""
        return f"DTensorIterator(next_batch={self._at.batch}{closed}) of {self._dataset!r}"
