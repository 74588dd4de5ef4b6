"""grain's datasets: of those that can be read by number, only what is needed is read."""

import json
from typing import Any

import grain
import numpy as np
import pytest

from dtensor.dialect.layout import UNSHARDED, Layout
from dtensor.runtime.data.dataset import DTensorDataset
from tests.py.runtime.data.sources import MESH, ROWS, CountedItems, images, labels, values

IMAGES = Layout(["x", UNSHARDED, "y"], MESH)
PAIR = {"image": IMAGES, "label": ROWS}


def dataset(source: Any, layouts: Any = PAIR, **options: Any) -> DTensorDataset:
    merged: dict[str, Any] = {"global_batch_size": 4, "batch_dim": "x"} | options
    return DTensorDataset(source, mesh=MESH, layouts=layouts, **merged)


def pairs(count: int = 14) -> Any:
    x, y = images(count), labels(count)
    return grain.MapDataset.range(count).map(lambda i: {"image": x[i], "label": y[i]})


def loader(count: int = 14) -> Any:
    return grain.DataLoader(
        data_source=labels(count),
        sampler=grain.samplers.IndexSampler(
            count, grain.sharding.NoSharding(), shuffle=False, num_epochs=1
        ),
        worker_count=0,
    )


@pytest.mark.parametrize("kind", ["map", "iter"])
@pytest.mark.parametrize("prefetch", [None, 2])
def test_grain_gives_the_batches(kind: str, prefetch: int | None) -> None:
    source = pairs() if kind == "map" else pairs().to_iter_dataset()
    batches = list(dataset(source, prefetch=prefetch))
    assert len(batches) == 3
    np.testing.assert_array_equal(np.concatenate([values(b["image"]) for b in batches]), images(12))
    np.testing.assert_array_equal(np.concatenate([values(b["label"]) for b in batches]), labels(12))


def test_a_shuffled_map_dataset_keeps_grains_order() -> None:
    source = grain.MapDataset.source(labels(12)).shuffle(seed=3)
    np.testing.assert_array_equal(
        np.concatenate([values(batch) for batch in dataset(source, ROWS)]),
        [source[i] for i in range(12)],
    )


def test_a_map_dataset_is_read_by_number() -> None:
    items = CountedItems(labels(14))
    data = dataset(grain.MapDataset.source(items), ROWS)
    assert len(data) == 3
    assert len(list(data)) == 3
    assert items.read == [0, *range(12)]  # the first shows what elements are like


def test_a_repeated_map_dataset_has_no_end() -> None:
    iterator = iter(dataset(grain.MapDataset.source(labels(6)).repeat(), ROWS))
    rows = np.concatenate([values(next(iterator)) for _ in range(3)])
    np.testing.assert_array_equal(rows, np.tile(labels(6), 2))


def test_a_filtered_map_dataset_is_read_in_order() -> None:
    source = grain.MapDataset.source(labels(12)).filter(lambda label: label % 2 == 1)
    with pytest.raises(
        ValueError, match=r"None, .* where a filter left it out, read the .*to_iter"
    ):
        list(dataset(source, ROWS))
    (batch,) = dataset(source.to_iter_dataset(), ROWS)
    np.testing.assert_array_equal(values(batch), [101, 103, 105, 107])


def test_grains_batches_are_taken_as_they_are() -> None:
    data = dataset(pairs(16).batch(2), dataset_already_batched=True)
    assert len(data) == 4
    np.testing.assert_array_equal(
        np.concatenate([values(batch["image"]) for batch in data]), images(16)
    )
    with pytest.raises(ValueError, match="ensure drop_remainder=True when batching the dataset"):
        list(dataset(pairs(15).batch(2), dataset_already_batched=True, drop_remainder=False))


def test_a_data_loader_gives_the_batches() -> None:
    batches = list(dataset(loader(), ROWS))
    np.testing.assert_array_equal(np.concatenate([values(b) for b in batches]), labels(12))


@pytest.mark.parametrize("prefetch", [None, 2])
def test_grains_iterators_tell_and_take_their_position(prefetch: int | None) -> None:
    def make() -> Any:
        items = CountedItems(labels(24))
        return items, grain.MapDataset.source(items).to_iter_dataset(grain.ReadOptions(0, 0))

    _, source = make()
    first = iter(dataset(source, ROWS, prefetch=prefetch))
    for _ in range(3):
        next(first)
    state = json.loads(json.dumps(first.state()))
    assert state["source"] == {"next_index": 12}
    items, source = make()
    second = iter(dataset(source, ROWS, prefetch=prefetch))
    second.restore(state)
    np.testing.assert_array_equal(
        np.concatenate([values(batch) for batch in second]), labels(24)[12:]
    )
    assert items.read == [0, *range(12, 24)]  # the first shows what elements are like


def test_a_data_loader_tells_and_takes_its_position() -> None:
    first = iter(dataset(loader(24), ROWS))
    next(first)
    second = iter(dataset(loader(24), ROWS))
    second.restore(first.state())
    np.testing.assert_array_equal(np.concatenate([values(b) for b in second]), labels(24)[4:])
