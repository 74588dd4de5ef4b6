"""What a dataset refuses: one clear sentence each."""

from collections.abc import Iterator
from typing import Any

import jax
import numpy as np
import pytest

from dtensor.dialect.errors import LayoutError, MeshError
from dtensor.dialect.layout import UNSHARDED, Layout
from dtensor.runtime.client import create_mesh
from dtensor.runtime.data.dataset import DTensorDataset
from tests.py.runtime.data.sources import MESH, ROWS, CountedArray, images, labels

IMAGES = Layout(["x", UNSHARDED, "y"], MESH)
OTHER_MESH = create_mesh([("x", 2), ("z", 4)])


def dataset(source: Any, layouts: Any = ROWS, **options: Any) -> DTensorDataset:
    merged: dict[str, Any] = {"mesh": MESH, "global_batch_size": 4, "batch_dim": "x"} | options
    return DTensorDataset(source, layouts=layouts, **merged)


@pytest.mark.parametrize(
    ("options", "kind", "match"),
    [
        ({"mesh": "x"}, MeshError, "expected a Mesh, got str"),
        ({"layouts": None}, TypeError, "layouts is None, which holds no Layout"),
        ({"layouts": ()}, TypeError, r"layouts is \(\), which holds no Layout"),
        ({"layouts": (ROWS, "x")}, TypeError, r"layouts\[1\] is 'x'; layouts must be a Layout"),
        ({"layouts": Layout([], MESH)}, LayoutError, "does not split dimension 0 of layout"),
        ({"layouts": Layout(["x"], OTHER_MESH)}, LayoutError, "is of .*, the dataset's mesh is "),
        (
            {"layouts": Layout(["x"], MESH, partial={"sum": "y"})},
            LayoutError,
            "no array can have .*: partial over",
        ),
        ({"layouts": Layout([(3, "x")], MESH)}, LayoutError, "dimension 0 is cut into blocks"),
        (
            {"layouts": {"a": ROWS, "b": Layout(["y"], MESH)}},
            LayoutError,
            r'batch_dim "x" does not split dimension 0 of layout \[\{"y"\}\] at \[\'b\'\]; let eve',
        ),
        ({"batch_dim": "batch"}, MeshError, "batch"),
        ({"global_batch_size": 0}, ValueError, "global_batch_size is 0; it must be an integer of"),
        ({"global_batch_size": 4.0}, ValueError, r"global_batch_size is 4\.0; it must be"),
        ({"global_batch_size": True}, ValueError, "global_batch_size is True; it must be"),
        (
            {"global_batch_size": 5},
            LayoutError,
            "5 is not divisible by the 2 replicas of batch_dim",
        ),
        ({"prefetch": -1}, ValueError, "prefetch is -1; it must be an integer of at least 0"),
    ],
)
def test_arguments(options: dict[str, Any], kind: type[Exception], match: str) -> None:
    with pytest.raises(kind, match=match):
        dataset(labels(8), **options)


@pytest.mark.parametrize(
    ("source", "kind", "match"),
    [
        (
            None,
            TypeError,
            "dataset is of type NoneType; it may be an array, a tuple or dict of arrays",
        ),
        ("text", TypeError, "dataset is of type str; it may be an array"),
        (3, TypeError, "dataset is of type int; it may be"),
        (
            np.array(3),
            TypeError,
            "dataset is of type ndarray; it may be .* whose first dimension counts the ex",
        ),
        (np.float32(3), TypeError, "dataset is of type float32; it may be"),
        ({1, 2}, TypeError, "dataset is of type set; it may be"),
        ({}, TypeError, "dataset is of type dict; it may be an array, a tuple or dict of arrays"),
        ({"a": [1, 2]}, TypeError, "dataset is of type dict; it may be"),
        ((labels(3), labels(4)), ValueError, r"dataset\[0\] has 3 examples, dataset\[1\] has 4; a"),
        (
            np.array(["a", "b"]),
            TypeError,
            "dataset has element type <U1, which devices cannot hold",
        ),
        (np.array([None]), TypeError, "dataset has element type object, which devices cannot"),
        (
            np.zeros(8, [("a", "f4")]),
            TypeError,
            r"has element type \[\('a', '<f4'\)\], which device",
        ),
        (np.zeros(3, "M8[s]"), TypeError, "dataset has element type datetime64"),
        (np.ma.masked_array(labels(8)), TypeError, "dataset is a masked array, .* fill it first"),
    ],
)
def test_datasets(source: Any, kind: type[Exception], match: str) -> None:
    with pytest.raises(kind, match=match):
        dataset(source)


@pytest.mark.parametrize(
    ("elements", "kind", "match"),
    [
        (["a"] * 4, TypeError, "str has element type <U1, which devices cannot hold; give"),
        ([b"a"] * 4, TypeError, "bytes has element type [|]S1"),
        ([object()] * 4, TypeError, "object has element type object"),
        ([2**70] * 4, TypeError, "int has element type object"),
        ([2**40] * 4, OverflowError, "integer 1099511627776 does not fit int32, which"),
        ([1, 2, 3, -(2**31) - 1], OverflowError, "integer -2147483649 does not fit"),
        ([()] * 4, ValueError, r"element 0 of the dataset is \(\), which holds no array"),
        ([1, 2, None, 4], ValueError, "element 2 (of the dataset is|has structure) None, "),
        ([None] * 4, ValueError, "element 0 of the dataset is None, "),
        ([1, 2, 3.5, 4], ValueError, "element 2 has element type float32, the elements before it"),
        (
            [1, 2, (3,), 4],
            ValueError,
            r"element 2 has structure \(\*,\), the elements before it ha",
        ),
        ([1, 2, np.ones(3), 4], ValueError, r"element 2 has shape \(3,\), the elements before it "),
        ([(1, 2)] * 4, LayoutError, r"layouts have structure \{'a': \*\}, .* elements have \(\*, "),
    ],
)
@pytest.mark.parametrize("kind_of_source", ["list", "iterator"])
def test_elements(
    elements: list[Any], kind: type[Exception], match: str, kind_of_source: str
) -> None:
    layouts = {"a": ROWS} if kind is LayoutError else ROWS
    with pytest.raises(kind, match=match):
        list(dataset(elements if kind_of_source == "list" else iter(elements), layouts))


def test_the_sentence_about_an_element_names_the_array() -> None:
    elements = [{"a": np.ones(2), "b": 1}] * 3 + [{"a": np.ones(3), "b": 1}]
    layouts = {"a": Layout(["x", UNSHARDED], MESH), "b": ROWS}
    with pytest.raises(ValueError, match=r"element 3 at \['a'\] has shape \(3,\), .* pad or crop"):
        list(dataset(elements, layouts))


def test_an_array_that_breaks_its_word_is_an_error() -> None:
    class Object:
        def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray[Any, Any]:
            raise MemoryError("too large")

    with pytest.raises(MemoryError, match="too large") as caught:
        dataset([Object()] * 4)
    assert caught.value.__notes__ == ["element 0 of the dataset"]


def test_an_error_of_the_dataset_says_which_element_was_read() -> None:
    class Table:
        def __len__(self) -> int:
            return 8

        def __getitem__(self, index: int) -> Any:
            raise KeyError(index)

    with pytest.raises(KeyError) as caught:
        list(dataset(Table()))
    assert caught.value.__notes__ == ["while dtensor read element 0 of 8 of a Table"]


@pytest.mark.parametrize("source", [images(8), list(images(8)), iter(images(8))])
def test_a_layout_of_another_rank_asks_whether_the_dataset_is_batched(source: Any) -> None:
    match = (
        r"dataset_already_batched=False, a global batch of shape \[4, 4, 8\] cannot .* has rank 3"
    )
    with pytest.raises(LayoutError, match=match):
        list(dataset(source))


def empty() -> Iterator[Any]:
    yield from ()


@pytest.mark.parametrize("source", [labels(0), [], (), iter([]), empty])
@pytest.mark.parametrize("drop", [True, False])
def test_an_empty_dataset_is_an_error(source: Any, drop: bool) -> None:
    with pytest.raises((ValueError, TypeError), match=r"dataset is (an )?empty"):
        list(dataset(source, drop_remainder=drop))


@pytest.mark.parametrize("source", [labels(3), [1, 2, 3], iter([1, 2, 3])])
def test_less_than_a_batch_is_an_error(source: Any) -> None:
    match = "the dataset has 3 examples, too few for one global batch of 4; make the batch smaller"
    with pytest.raises(ValueError, match=match):
        list(dataset(source))


def test_a_function_must_make_a_new_iterator_for_each_pass() -> None:
    one = iter(labels(8))
    data = dataset(lambda: one)
    assert len(list(data)) == 2
    with pytest.raises(ValueError, match=r"is empty.* must make a new iterator every time"):
        list(data)
    with pytest.raises(TypeError, match="gives the dataset, but is of type int; give a list"):
        list(dataset(lambda: 3))


def test_a_list_of_arrays_is_elements_and_the_sentence_says_so() -> None:
    with pytest.raises(LayoutError, match="Of a list the items are elements"):
        dataset([images(8), labels(8)], [IMAGES, ROWS])


def test_a_tuple_of_arrays_is_taken_apart_and_the_sentence_says_so() -> None:
    with pytest.raises(LayoutError, match="a tuple or dict of arrays is taken apart"):
        dataset(tuple(images(8)), (IMAGES, ROWS))


def test_numbers_that_do_not_fit_are_found_in_arrays_too() -> None:
    for source in (np.array([1, 2, 3, 2**33]), CountedArray(np.array([1, 2, 3, 2**33]))):
        with pytest.raises(OverflowError, match="does not fit int32, which jax makes of int64"):
            list(dataset(source))
    with jax.enable_x64(True):
        assert len(list(dataset(np.array([1, 2, 3, 2**33])))) == 1


def test_an_array_of_another_element_type_than_it_says_is_an_error() -> None:
    source = CountedArray(np.arange(4))
    source.dtype = np.dtype(np.int16)
    with pytest.raises(TypeError, match=r"Cannot cast array data from .*int32.* to .*int16"):
        list(dataset(source))
