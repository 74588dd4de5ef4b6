"""What is iterated: batches in the dataset's order, of every kind of source and structure."""

import weakref
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import numpy as np
import pytest

from dtensor.dialect.layout import UNSHARDED, Layout
from dtensor.runtime.array import DTensor
from dtensor.runtime.data.dataset import DTensorDataset
from dtensor.runtime.placement import named_sharding
from dtensor.runtime.transfer import place
from tests.py.runtime.data.sources import (
    MESH,
    ROWS,
    CountedArray,
    CountedItems,
    CountedStream,
    images,
    labels,
    values,
)

IMAGES = Layout(["x", UNSHARDED, "y"], MESH)


class Pair(NamedTuple):
    image: Any
    label: Any


def dataset(source: Any, layouts: Any, size: int = 4, **options: Any) -> DTensorDataset:
    merged: dict[str, Any] = {"batch_dim": "x"} | options
    return DTensorDataset(source, mesh=MESH, layouts=layouts, global_batch_size=size, **merged)


STRUCTURES: dict[str, Callable[[Any, Any], Any]] = {
    "tuple": lambda image, label: (image, label),
    "list": lambda image, label: [image, label],
    "dict": lambda image, label: {"image": image, "label": label},
    "nested": lambda image, label: {"in": (image, {"deep": image}), "out": [label]},
    "namedtuple": Pair,
    "with None": lambda image, label: (image, None, label),
}


@pytest.mark.parametrize(
    ("kind", "structure"),
    [
        (kind, structure)
        for kind in ("arrays", "list", "iterator")
        for structure in STRUCTURES
        if (kind, structure) != ("arrays", "list")  # a list of arrays is a list of elements
    ],
)
def test_batches_have_the_structure_of_the_elements(structure: str, kind: str) -> None:
    make = STRUCTURES[structure]
    x, y = images(12), labels(12)
    elements = [make(image, label) for image, label in zip(x, y, strict=True)]
    source: Any = {"arrays": make(x, y), "list": elements, "iterator": iter(elements)}[kind]
    batches = list(dataset(source, make(IMAGES, ROWS)))
    assert len(batches) == 3
    for number, batch in enumerate(batches):
        rows = slice(4 * number, 4 * number + 4)
        want = make(x[rows], y[rows])
        assert str(jax.tree.structure(want)) == str(
            jax.tree.structure(batch, is_leaf=lambda leaf: isinstance(leaf, DTensor))
        )
        got = jax.tree.leaves(batch, is_leaf=lambda leaf: isinstance(leaf, DTensor))
        for tensor, array in zip(got, jax.tree.leaves(want), strict=True):
            assert tensor.layout == (IMAGES if array.ndim == 3 else ROWS)
            np.testing.assert_array_equal(values(tensor), array)


def generated() -> Iterator[Any]:
    yield from images(10)


SOURCES: dict[str, Callable[[], Any]] = {
    "array": lambda: images(10),
    "jax array": lambda: jax.numpy.asarray(images(10)),
    "dtensor": lambda: place(images(10), IMAGES),
    "array in a file": lambda: CountedArray(images(10)),
    "list": lambda: list(images(10)),
    "sequence": lambda: CountedItems(images(10)),
    "iterable": lambda: CountedStream(images(10)),
    "function": lambda: generated,
    "iterator": lambda: iter(images(10)),
}


@pytest.mark.parametrize("prefetch", [None, 0, 1, 3])
@pytest.mark.parametrize("kind", SOURCES)
def test_every_kind_of_source_gives_the_same_batches(kind: str, prefetch: int | None) -> None:
    batches = list(dataset(SOURCES[kind](), IMAGES, prefetch=prefetch))
    assert [batch.shape for batch in batches] == [(4, 4, 8)] * 2
    np.testing.assert_array_equal(np.concatenate([values(b) for b in batches]), images(10)[:8])


@pytest.mark.parametrize("kind", ["array", "list", "sequence", "iterable", "function"])
def test_every_pass_begins_at_the_first_example(kind: str) -> None:
    data = dataset(SOURCES[kind](), IMAGES, prefetch=1)
    first = next(iter(data))
    for batches in (list(data), list(data)):
        assert len(batches) == 2
        np.testing.assert_array_equal(values(batches[0]), values(first))


def test_two_passes_at_once_do_not_disturb_each_other() -> None:
    data = dataset(generated, IMAGES)
    for one, other in zip(data, data, strict=True):
        np.testing.assert_array_equal(values(one), values(other))


def test_an_iterator_gives_one_pass() -> None:
    data = dataset(iter(images(10)), IMAGES)
    next(iter(data))
    with pytest.raises(ValueError, match="can be read once, and 4 elements are read; for several"):
        next(iter(data))


def test_a_range_is_a_dataset_of_numbers() -> None:
    batches = [values(batch) for batch in dataset(range(9), ROWS)]
    np.testing.assert_array_equal(batches, [[0, 1, 2, 3], [4, 5, 6, 7]])
    assert batches[0].dtype == np.int32


def test_one_layout_is_for_all_arrays() -> None:
    data = dataset({"a": labels(8), "b": -labels(8)}, ROWS)
    for batch in data:
        np.testing.assert_array_equal(values(batch["a"]), -values(batch["b"]))


def test_element_types_are_as_jax_has_them() -> None:
    element = {
        "bool": True,
        "int": 3,
        "float": 0.5,
        "complex": 1j,
        "f64": np.float64(2),
        "u8": np.uint8(7),
        "bf16": jax.numpy.ones(2, jax.numpy.bfloat16),
    }
    layouts = jax.tree.map(lambda leaf: Layout(["x"] + [UNSHARDED] * np.ndim(leaf), MESH), element)
    (batch,) = dataset([element] * 2, layouts, size=2)
    want = jax.tree.map(lambda leaf: jax.numpy.asarray([leaf, leaf]), element)
    for name, tensor in batch.items():
        assert tensor.dtype == want[name].dtype, name
        np.testing.assert_array_equal(values(tensor), want[name])


def test_wide_types_stay_wide_where_jax_keeps_them_in_the_thread_too() -> None:
    with jax.enable_x64(True):
        data = dataset([2**40, 2**41], ROWS, size=2, prefetch=1)
        (batch,) = data
        assert batch.dtype == np.int64
        np.testing.assert_array_equal(values(batch), [2**40, 2**41])


def test_batches_do_not_change_when_the_examples_do() -> None:
    # Aligned to 64 bytes, as memory must be that jax takes for its own.
    memory = np.zeros(images(8).nbytes + 64, np.uint8)
    x = memory[-memory.ctypes.data % 64 :][: images(8).nbytes].view(np.float32).reshape(8, 4, 8)
    x[:] = images(8)
    (batch,) = dataset(x, Layout.replicated(MESH, 3), size=8, batch_dim=None)
    x[:] = 0
    np.testing.assert_array_equal(values(batch), images(8))


def test_the_spec_of_arrays_is_known_without_reading() -> None:
    source = CountedArray(images(12))
    data = dataset({"image": source, "label": labels(12)}, {"image": IMAGES, "label": ROWS})
    spec = data.element_spec
    assert (spec["image"].shape, spec["image"].dtype) == ((4, 4, 8), np.float32)
    assert (spec["label"].shape, spec["label"].dtype) == ((4,), np.int32)
    assert spec["image"].sharding == named_sharding(IMAGES)
    assert iter(data).element_spec == spec
    assert source.read == []


def test_the_spec_reads_one_element_that_an_iterable_does_not_give_again() -> None:
    stream, items = CountedStream(images(8)), CountedItems(images(8))
    passes = dataset(stream, IMAGES), dataset(items, IMAGES)
    for data in (*passes, *passes):
        assert data.element_spec.shape == (4, 4, 8)
    assert (stream.count, items.read) == (1, [0])
    assert [len(list(data)) for data in passes] == [2, 2]
    assert (stream.count, items.read) == (8, [0, *range(8)])


def test_nothing_is_read_before_the_first_batch_is_asked_for() -> None:
    for source in (CountedItems(images(8)), CountedStream(images(8))):
        iterator = iter(dataset(source, IMAGES, prefetch=1))
        assert not getattr(source, "count", None)
        assert not getattr(source, "read", None)
        next(iterator)


def test_the_number_of_batches_is_known_where_that_of_the_examples_is() -> None:
    assert len(dataset(images(10), IMAGES)) == 2
    assert len(dataset(list(images(10)), IMAGES)) == 2
    assert len(dataset(images(10), IMAGES, drop_remainder=False)) == 3
    with pytest.raises(TypeError, match=r"not known: a generated\(\) is read in order to its end"):
        len(dataset(generated, IMAGES))


@pytest.mark.parametrize("kind", ["array", "list", "iterable", "iterator"])
def test_a_remainder_makes_a_smaller_batch_if_it_may(kind: str) -> None:
    batches = list(dataset(SOURCES[kind](), IMAGES, drop_remainder=False))
    assert [batch.shape[0] for batch in batches] == [4, 4, 2]
    np.testing.assert_array_equal(np.concatenate([values(b) for b in batches]), images(10))
    assert batches[2].layout == IMAGES


def test_one_small_batch_is_enough_if_it_may_be_small() -> None:
    for source in (labels(2), iter(labels(2))):
        (batch,) = dataset(source, ROWS, drop_remainder=False)
        np.testing.assert_array_equal(values(batch), [100, 101])


class Reader:
    """An iterator over an open file, in a way."""

    closed = 0

    def __init__(self) -> None:
        self.items = iter(images(12))

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        return next(self.items)

    def close(self) -> None:
        Reader.closed += 1


def test_iterators_opened_here_are_closed_and_others_left_open() -> None:
    Reader.closed = 0
    for _ in dataset(Reader, IMAGES):
        break
    assert Reader.closed == 1
    list(dataset(Reader, IMAGES))
    assert Reader.closed == 2
    own = Reader()
    for _ in dataset(own, IMAGES):
        break
    assert Reader.closed == 2
    np.testing.assert_array_equal(next(own), images(12)[4])


@pytest.mark.parametrize("kind", ["array", "list", "iterable"])
def test_a_batch_that_is_dropped_is_freed_at_once(kind: str) -> None:
    iterator = iter(dataset(SOURCES[kind](), IMAGES))
    batch = weakref.ref(next(iterator))
    assert batch() is None
    next(iterator)


def test_after_the_end_and_after_close_there_is_no_batch() -> None:
    data = dataset(images(8), IMAGES)
    iterator = iter(data)
    assert len(list(iterator)) == 2
    with pytest.raises(StopIteration):
        next(iterator)
    with iter(data) as other:
        next(other)
    with pytest.raises(StopIteration):
        next(other)


def test_a_batch_inside_a_traced_function_is_an_error() -> None:
    iterator = iter(dataset(images(8), IMAGES))
    with pytest.raises(RuntimeError, match="would make that one batch a constant of the program"):
        jax.jit(lambda: next(iterator).to_jax())()
    assert len(list(iterator)) == 2


def test_repr_says_what_it_is() -> None:
    data = dataset({"image": images(12), "label": labels(12)}, {"image": IMAGES, "label": ROWS})
    assert repr(data).splitlines() == [
        "DTensorDataset(arrays, global_batch_size=4, batch_dim='x', 3 batches)",
        '  [\'image\']: float32[4,4,8] [{"x"}, {}, {"y"}]',
        "  ['label']: int32[4] [{\"x\"}]",
    ]
    lazy = dataset(generated, IMAGES, prefetch=2)
    with iter(data) as batches:
        next(batches)
        assert repr(batches) == f"DTensorIterator(next batch 1)\n{data!r}"
    assert repr(batches).startswith("DTensorIterator(closed)\nDTensorDataset(")
    assert repr(lazy) == (
        "DTensorDataset(generated(), global_batch_size=4, batch_dim='x', prefetch=2)"
    )


@pytest.mark.parametrize("batched", [False, True])
@pytest.mark.parametrize("prefetch", [None, 2])
def test_a_source_may_fill_one_array_again_and_again(batched: bool, prefetch: int | None) -> None:
    def source() -> Iterator[Any]:
        buffer = np.empty((2, 8) if batched else (8,), np.float32)
        for number in range(8):
            buffer[...] = number
            yield buffer

    rows = Layout(["x", UNSHARDED], MESH)
    options: dict[str, Any] = {"dataset_already_batched": batched, "prefetch": prefetch}
    first, *_ = dataset(source, rows, **options)
    expected = [0, 0, 1, 1] if batched else [0, 1, 2, 3]
    np.testing.assert_array_equal(values(first)[:, 0], expected)
