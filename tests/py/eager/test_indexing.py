"""`x[index]` and `x.at[index]`, against NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from dtensor import UNSHARDED, DTensor, LayoutError
from dtensor.compiler.eager.calls import programs
from tests.py.eager.support import MESH_2X4, MESH_3X2, assert_same, layout, message, placed, whole

VALUES = np.arange(6 * 4 * 2, dtype=np.float32).reshape(6, 4, 2)
S = np.s_
FAR = np.array([0, 3, -1, 7, -9])


@pytest.mark.sweep
@pytest.mark.parametrize("specs", [("x", "y", UNSHARDED), (UNSHARDED, "y", "x")])
@pytest.mark.parametrize(
    "index",
    [
        S[2],
        S[-1],
        S[1, 3],
        S[1, -2, 0],
        S[..., 1],
        S[1:4],
        S[:, 1:3],
        S[::-1, ::2],
        S[4:1:-2],
        S[5:2],
        S[:, None, 2],
        S[None, ..., None],
        S[()],
        S[...],
        S[np.array([2, 0, 2])],
        S[[3, 1], [0, 2]],
        S[np.array([[1], [4]]), np.array([0, 3])],
        S[1, :, [0, 1, 1]],
        S[np.int32(3), np.array(1)],
        S[np.array([True, False, True, True, False, False])],
        S[:, [False, True, True, False]],
        S[[]],
    ],
    ids=str,
)
def test_elements_are_those_of_numpy(index: Any, specs: Any) -> None:
    mesh = MESH_3X2 if specs[0] == "x" else MESH_2X4
    assert_same(placed(VALUES, mesh, *specs)[index], VALUES[index])


def test_masks_of_several_dimensions() -> None:
    mask = VALUES[:3, :4, 0] % 5 == 0
    assert_same(placed(VALUES[:3, :4], MESH_3X2, "x")[mask], VALUES[:3, :4][mask])


def test_a_mask_of_many_elements_says_how_they_get_to_the_mesh() -> None:
    x, mask = placed(VALUES, MESH_3X2, "x"), VALUES > 20
    found = message(lambda: x[mask], LayoutError)
    assert found.startswith("a mask of 27 elements that are True")
    where = tuple(placed(positions.astype(np.int32), MESH_3X2) for positions in np.nonzero(mask))
    assert_same(x[where], VALUES[mask])


@pytest.mark.sweep
@pytest.mark.parametrize("specs", [("x", "y"), (UNSHARDED, ("x", "y"))], ids=str)
@pytest.mark.parametrize(
    "read",
    [
        lambda x: x.at[9].get(mode="fill", fill_value=-1),
        lambda x: x.at[-2].get(mode="clip", wrap_negative_indices=False),
        lambda x: x.at[:, FAR].get(mode="fill"),
        lambda x: x.at[FAR].get(mode="clip", indices_are_sorted=False),
        lambda x: x.at[9].set(5, mode="drop"),
        lambda x: x.at[1:3, FAR].add(2, mode="drop"),
        lambda x: x.at[2].mul(3, indices_are_sorted=True, unique_indices=True),
        lambda x: x.at[1:, ::2].apply(jnp.square),
    ],
)
def test_keywords_of_updates_and_reads_are_those_of_jax(read: Any, specs: Any) -> None:
    # 6 and 4 rows and columns: the second layout does not divide the columns.
    assert_same(read(placed(VALUES, MESH_3X2, *specs)), np.asarray(read(jnp.asarray(VALUES))))


def test_dtensors_index_dtensors() -> None:
    x = placed(VALUES, MESH_3X2, "x", "y", UNSHARDED)
    rows = np.array([5, 0, 3, 3])
    assert_same(x[placed(rows, MESH_3X2)], VALUES[rows])
    assert_same(x[placed(rows, MESH_3X2, "y"), 1:3], VALUES[rows, 1:3])


def test_a_loop_over_one_index_compiles_once() -> None:
    x = placed(VALUES, MESH_3X2, "x", "y", UNSHARDED)
    x[0, 1]
    before = len(programs)
    for i in range(1, 6):
        assert_same(x[i, i % 4], VALUES[i, i % 4])
    assert len(programs) == before


def test_an_index_may_be_larger_than_the_element_type_holds() -> None:
    values = (np.arange(300) % 100).astype(np.int8)
    x = placed(values, MESH_3X2, "x")
    assert_same(x[250], values[250])
    assert_same(x.at[250].set(7)[248:252], np.array([48, 49, 7, 51]))


def test_slices_keep_the_layout_of_dimensions_they_leave_whole() -> None:
    x = placed(VALUES, MESH_3X2, "x", "y", UNSHARDED)
    assert x[:, 1].layout == layout(MESH_3X2, "x", UNSHARDED)
    assert x[2].layout == layout(MESH_3X2, "y", UNSHARDED)


@pytest.mark.parametrize(
    ("index", "text"),
    [
        (6, "index 6 is out of bounds for axis 0 of 6 elements"),
        ((0, -5), "index -5 is out of bounds for axis 1 of 4 elements"),
        ([1, 9], "index 9 is out of bounds for axis 0 of 6 elements"),
        ((0, 0, 0, 0), "too many indices: an array of 3 dimensions got 4"),
        ((..., 0, ...), "an index can have one ellipsis"),
        (1.5, "an index is made of integers, slices, None, ... and integer or boolean arrays; got"),
        ("x", "an index is made of integers"),
        (np.ones(2), "an index array has integers or booleans, not float64"),
        (True, "a boolean is no index here"),
        (slice(0, 1.5), "the bounds of a slice are integers or None, not float"),
    ],
    ids=str,
)
def test_bad_indices_are_errors(index: Any, text: str) -> None:
    x = placed(VALUES, MESH_3X2, "x", "y", UNSHARDED)
    assert text in message(lambda: x[index], IndexError)


def test_a_boolean_dtensor_is_an_error_that_names_the_remedy() -> None:
    x = placed(VALUES, MESH_3X2, "x", "y", UNSHARDED)
    text = message(lambda: x[x > 3], TypeError)
    assert "use dtensor.numpy.where(mask, x, 0), in place of x.at[mask].set(y) where(" in text
    assert text.endswith("or give the mask as a NumPy array")


def test_a_mask_of_another_shape_is_an_error() -> None:
    x = placed(VALUES, MESH_3X2, "x", "y", UNSHARDED)
    mask = np.array([True, False])
    assert "a mask of 2 elements indexes axis 0 of 6" in message(lambda: x[mask], IndexError)


def test_arrays_do_not_change_in_place() -> None:
    x = placed(VALUES, MESH_3X2)
    with pytest.raises(TypeError, match=r"use x = x.at\[index\].set\(value\)"):
        x[0] = 1.0


@pytest.mark.parametrize(
    ("name", "index", "value"),
    [
        ("set", S[1], 5.0),
        ("set", S[2:4, 1], 7),
        ("add", S[:, 2], 1.5),
        ("subtract", S[0, 0, 0], 2.0),
        ("multiply", S[::2], 3.0),
        ("divide", S[..., 1], 2.0),
        ("power", S[1:3], 2.0),
        ("min", S[3], 10.0),
        ("max", S[3], 100.0),
    ],
)
def test_updates_of_a_part(name: str, index: Any, value: Any) -> None:
    x = placed(VALUES, MESH_3X2, "x", "y", UNSHARDED)
    expected = VALUES.copy()
    changes: dict[str, Callable[[Any], Any]] = {
        "set": lambda old: value,
        "add": lambda old: old + value,
        "subtract": lambda old: old - value,
        "multiply": lambda old: old * value,
        "divide": lambda old: old / value,
        "power": lambda old: old**value,
        "min": lambda old: np.minimum(old, value),
        "max": lambda old: np.maximum(old, value),
    }
    expected[index] = changes[name](expected[index])
    result = getattr(x.at[index], name)(value)
    assert_same(result, expected)
    assert_same(x, VALUES)


def test_updates_with_arrays_and_at_indices_from_arrays() -> None:
    x = placed(VALUES, MESH_3X2, "x", "y", UNSHARDED)
    row = placed(VALUES[0] * 2, MESH_3X2, "y", UNSHARDED)
    expected = VALUES.copy()
    expected[4] = VALUES[0] * 2
    assert_same(x.at[4].set(row), expected)
    counted = VALUES.copy()
    np.add.at(counted, [1, 1, 5], 1.0)
    assert_same(x.at[[1, 1, 5]].add(1.0), counted)
    assert_same(x.at[2, 1].get(), VALUES[2, 1])
    assert isinstance(x.at[2].get(), DTensor)
    assert whole(x)[2, 1, 0] == VALUES[2, 1, 0]
