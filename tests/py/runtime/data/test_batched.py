"""Datasets whose elements are batches already."""

from typing import Any

import numpy as np
import pytest

from dtensor.dialect.layout import UNSHARDED, Layout
from dtensor.runtime.data.dataset import DTensorDataset
from tests.py.runtime.data.sources import MESH, ROWS, CountedItems, images, labels, values

IMAGES = Layout(["x", UNSHARDED, "y"], MESH)
PAIR = {"image": IMAGES, "label": ROWS}


def batched(source: Any, layouts: Any = PAIR, **options: Any) -> DTensorDataset:
    merged: dict[str, Any] = {"batch_dim": "x"} | options
    return DTensorDataset(
        source,
        mesh=MESH,
        layouts=layouts,
        global_batch_size=8,
        dataset_already_batched=True,
        **merged,
    )


def elements(size: int, count: int = 24) -> list[dict[str, Any]]:
    x, y = images(count), labels(count)
    return [
        {"image": x[at : at + size], "label": y[at : at + size]} for at in range(0, count, size)
    ]


@pytest.mark.parametrize("size", [4, 8])  # of one replica, and of the global batch
@pytest.mark.parametrize("kind", ["list", "sequence", "iterator"])
@pytest.mark.parametrize("prefetch", [None, 2])
def test_elements_are_the_batches_of_replicas_or_global_ones(
    size: int, kind: str, prefetch: int | None
) -> None:
    source: Any = elements(size)
    source = {"list": source, "sequence": CountedItems(source), "iterator": iter(source)}[kind]
    batches = list(batched(source, prefetch=prefetch))
    assert len(batches) == 3
    np.testing.assert_array_equal(np.concatenate([values(b["image"]) for b in batches]), images(24))
    np.testing.assert_array_equal(np.concatenate([values(b["label"]) for b in batches]), labels(24))


def test_of_arrays_each_row_is_a_batch() -> None:
    data = batched(labels(24).reshape(6, 4), ROWS)
    assert len(data) == 3
    np.testing.assert_array_equal([values(b) for b in data], labels(24).reshape(3, 8))


def test_without_batch_dim_an_element_is_a_global_batch() -> None:
    data = batched(elements(8), batch_dim=None)
    np.testing.assert_array_equal(values(next(iter(data))["label"]), labels(8))
    with pytest.raises(ValueError, match="is a batch of 4 examples, expected 8, the same"):
        batched(elements(4), batch_dim=None)


def test_a_wrong_batch_size_is_an_error() -> None:
    with pytest.raises(ValueError, match="is a batch of 6 examples, expected 4 or 8, the same"):
        batched(elements(6))
    with pytest.raises(ValueError, match="is a batch of 6 examples, expected 4 or 8, the same"):
        list(batched(iter(elements(6))))


def test_a_smaller_last_element_is_an_error() -> None:
    source = [*elements(4), elements(2)[0]]
    match = r"element 6 at \['image'\] has shape \(2, 4, 8\), .* ensure drop_remainder=True when ba"
    for dataset in (source, iter(source)):
        with pytest.raises(ValueError, match=match):
            list(batched(dataset, drop_remainder=False))


def test_elements_that_do_not_fill_a_batch_are_left_out_or_make_a_smaller_one() -> None:
    for source in (elements(4)[:5], iter(elements(4)[:5])):
        assert len(list(batched(source))) == 2
    for source in (elements(4)[:5], iter(elements(4)[:5])):
        last = list(batched(source, drop_remainder=False))[2]
        np.testing.assert_array_equal(values(last["label"]), labels(24)[16:20])


def test_arrays_of_an_element_must_have_one_batch_size() -> None:
    element = {"image": images(4), "label": labels(8)}
    match = (
        r"element at \['label'\] is a batch of 8 examples, expected .* the same for all its arrays"
    )
    with pytest.raises(ValueError, match=match):
        batched([element] * 2)


def test_examples_that_are_said_to_be_batches_are_an_error() -> None:
    with pytest.raises(
        ValueError, match=r"already_batched=True, .* has 2 dimensions but the tensor has rank 1"
    ):
        batched(labels(8).reshape(2, 4), Layout(["x", UNSHARDED], MESH))
    with pytest.raises(ValueError, match="an element is a batch of no examples"):
        batched(labels(8), ROWS)
