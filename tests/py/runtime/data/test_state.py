"""Going on where another pass stood."""

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from dtensor.runtime.data.dataset import DTensorDataset
from tests.py.runtime.data.sources import MESH, ROWS, CountedItems, CountedStream, labels, values


def dataset(source: Any, prefetch: int | None = None, **options: Any) -> DTensorDataset:
    merged: dict[str, Any] = {"global_batch_size": 4} | options
    return DTensorDataset(source, mesh=MESH, layouts=ROWS, prefetch=prefetch, **merged)


class Positioned:
    """An iterator that can tell and take its position, as grain's can."""

    def __init__(self) -> None:
        self.at = 0
        self.read: list[int] = []

    def __iter__(self) -> Iterator[int]:
        return self

    def __next__(self) -> int:
        self.at += 1
        if self.at > 24:
            raise StopIteration
        self.read.append(self.at - 1)
        return self.at - 1

    def get_state(self) -> dict[str, int]:
        return {"at": self.at}

    def set_state(self, state: dict[str, int]) -> None:
        self.at = state["at"]


def numbers() -> Iterator[int]:
    yield from range(24)


@pytest.mark.parametrize("prefetch", [None, 1, 3])
@pytest.mark.parametrize("kind", ["array", "list", "function", "positioned"])
def test_a_new_pass_goes_on_where_another_stood(kind: str, prefetch: int | None) -> None:
    def make() -> Any:
        return {
            "array": np.arange(24),
            "list": list(range(24)),
            "function": numbers,
            "positioned": Positioned,
        }[kind]

    first = iter(dataset(make(), prefetch))
    for _ in range(2):
        next(first)
    state = json.loads(json.dumps(first.state()))
    rest = [values(batch) for batch in first]
    second = iter(dataset(make(), prefetch))
    second.restore(state)
    assert second.state() == state
    np.testing.assert_array_equal([values(batch) for batch in second], rest)
    assert len(rest) == 4


def test_what_comes_before_is_not_read_where_that_can_be() -> None:
    state = {"next_batch": 4, "global_batch_size": 4, "source": None}
    items = CountedItems(labels(24))
    iterator = iter(dataset(items))
    iterator.restore(state)
    list(iterator)
    assert items.read == [0, *range(16, 24)]  # the first shows what elements are like
    positioned = Positioned()
    iterator = iter(dataset(positioned))
    iterator.restore(state | {"source": {"at": 16}})
    list(iterator)
    assert positioned.read == [0, *range(16, 24)]


def test_an_iterable_is_read_until_there() -> None:
    source = CountedStream(labels(24))
    iterator = iter(dataset(source))
    iterator.restore({"next_batch": 4, "global_batch_size": 4, "source": None})
    np.testing.assert_array_equal(values(next(iterator)), labels(24)[16:20])
    assert source.count == 20


def test_a_pass_can_go_back_and_can_go_on_after_its_end() -> None:
    iterator = iter(dataset(labels(12), 2))
    start = iterator.state()
    all_batches = [values(batch) for batch in iterator]
    iterator.restore(start)
    np.testing.assert_array_equal([values(batch) for batch in iterator], all_batches)


@pytest.mark.parametrize("kind", ["array", "list", "function"])
def test_after_a_smaller_last_batch_there_is_nothing_more(kind: str) -> None:
    def make() -> Any:
        return {
            "array": np.arange(10),
            "list": list(range(10)),
            "function": lambda: iter(range(10)),
        }[kind]

    first = iter(dataset(make(), drop_remainder=False))
    assert [len(batch) for batch in first] == [4, 4, 2]
    second = iter(dataset(make(), drop_remainder=False))
    second.restore(first.state())
    assert list(second) == []


def test_an_iterator_that_is_read_once_cannot_go_back() -> None:
    iterator = iter(dataset(numbers()))
    state = iterator.state()
    next(iterator)
    iterator.restore(state)
    with pytest.raises(
        ValueError, match=r"cannot go back to element 0: .* can be read once, and 4"
    ):
        next(iterator)


@pytest.mark.parametrize("prefetch", [None, 2])
def test_an_iterator_that_takes_positions_can_go_back(prefetch: int | None) -> None:
    iterator = iter(dataset(Positioned(), prefetch))
    next(iterator)
    state = iterator.state()
    rest = [values(batch) for batch in iterator]
    iterator.restore(state)
    np.testing.assert_array_equal([values(batch) for batch in iterator], rest)


def test_a_fresh_iterator_that_is_read_once_can_go_forward() -> None:
    iterator = iter(dataset(numbers()))
    iterator.restore({"next_batch": 2, "global_batch_size": 4, "source": None})
    np.testing.assert_array_equal(values(next(iterator)), range(8, 12))


@pytest.mark.parametrize(
    ("state", "match"),
    [
        (3, "3 is not a state of a DTensorDataset's iterator"),
        ({"next_batch": 1}, "is not a state of a DTensorDataset's iterator"),
        (
            {"next_batch": 1, "global_batch_size": 8, "source": None},
            "is not a state of a DTensorDataset's iterator over batches of 4 examples",
        ),
        (
            {"next_batch": -1, "global_batch_size": 4, "source": None},
            "is not a state of a DTensorDataset's iterator",
        ),
    ],
)
def test_what_is_no_state_is_refused(state: Any, match: str) -> None:
    with pytest.raises(ValueError, match=match):
        iter(dataset(labels(24))).restore(state)


def test_a_state_of_another_dataset_is_refused() -> None:
    state = {"next_batch": 20, "global_batch_size": 4, "source": None}
    iterator = iter(dataset(numbers))
    iterator.restore(state)
    with pytest.raises(ValueError, match="the state is after element 80 but the dataset has 24 el"):
        next(iterator)
    iterator.restore(state | {"source": {"at": 80}})
    with pytest.raises(AttributeError, match="'generator' object has no attribute 'set_state'"):
        next(iterator)
    iterator = iter(dataset(labels(24)))
    iterator.restore(state)
    with pytest.raises(ValueError, match="the state is after batch 20 but the dataset has 6"):
        next(iterator)
