"""An array moved to any layout and back is the same array."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dtensor
from tests.py.line.layouts import all_layouts, mesh

SHAPE = (16, 24)
VALUES = np.arange(16 * 24, dtype=np.int32).reshape(SHAPE)


@pytest.fixture(scope="module")
def layouts() -> list[dtensor.Layout]:
    return all_layouts(SHAPE)


@settings(max_examples=25, deadline=None, derandomize=True)
@given(first=st.integers(0, 1000), second=st.integers(0, 1000))
def test_relayout_there_and_back(layouts: list[dtensor.Layout], first: int, second: int) -> None:
    one, other = layouts[first % len(layouts)], layouts[second % len(layouts)]
    x = dtensor.copy_to_mesh(VALUES, one)
    there = dtensor.relayout(x, other)
    back = dtensor.relayout(there, one)
    assert (there.layout, back.layout) == (other, one)
    for tensor in (there, back):
        np.testing.assert_array_equal(np.asarray(tensor.to_jax()), VALUES)
    for before, after in zip(x.unpack(), back.unpack(), strict=True):
        np.testing.assert_array_equal(np.asarray(before), np.asarray(after))


@pytest.mark.parametrize("axis", ["x", "y"])
def test_pack_undoes_unpack(axis: str) -> None:
    layout = dtensor.Layout([dtensor.UNSHARDED, axis], mesh())
    x = dtensor.copy_to_mesh(VALUES, layout)
    packed = dtensor.pack(x.unpack(), layout)
    assert packed.layout == layout
    np.testing.assert_array_equal(np.asarray(packed.to_jax()), VALUES)
