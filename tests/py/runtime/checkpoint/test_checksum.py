"""The checksum is the same in every layout, and another one for other values."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dtensor.dialect.layout import Layout
from dtensor.runtime.checkpoint import checksum
from tests.py.runtime.checkpoint.arrays import mesh_2x4, put, ramp

SHAPES = [(8, 6, 4), (40000, 1), (1, 80000), (8,), (3, 40000), ()]


def test_it_does_not_depend_on_the_layout() -> None:
    mesh = mesh_2x4()
    for dtype in (np.float32, np.int8, np.complex64, np.bool_):
        values = ramp(8, 24, dtype=dtype)
        sums = set()
        for specs in (["x", "y"], ["y", None], [None, ("y", "x")], [None, None]):
            layout = Layout(specs, mesh)
            array = put(values, specs, mesh).to_jax()
            (first,), (every,) = (checksum.parts([array], every) for every in (False, True))
            assert every == checksum.combine([first] * (8 // layout.shard_count))
            sums.add(first)
        assert len(sums) == 1


@given(st.sampled_from(SHAPES), st.integers(0, 10**6), st.integers(0, 31))
def test_one_flipped_bit_shows(shape: tuple[int, ...], where: int, bit: int) -> None:
    values = ramp(*shape)
    ranges = tuple((0, n) for n in shape)
    before = checksum.region_sum(values, ranges, shape)
    flat = values.reshape(-1).view(np.uint32)
    flat[where % flat.size] ^= np.uint32(1 << bit)
    assert checksum.region_sum(values, ranges, shape) != before


@given(st.sampled_from([s for s in SHAPES if s]), st.data())
def test_parts_add_up_to_the_whole(shape: tuple[int, ...], data: st.DataObject) -> None:
    values = ramp(*shape, dtype=np.uint16)
    axis = data.draw(st.integers(0, len(shape) - 1))
    cut = data.draw(st.integers(0, shape[axis]))
    parts = []
    for low, high in ((0, cut), (cut, shape[axis])):
        ranges = tuple((low, high) if i == axis else (0, n) for i, n in enumerate(shape))
        piece = values[tuple(slice(*r) for r in ranges)]
        parts.append(checksum.region_sum(piece, ranges, shape))
    whole = checksum.region_sum(values, tuple((0, n) for n in shape), shape)
    assert checksum.combine(parts) == whole


@given(st.sampled_from([*SHAPES, (0, 3), (2, 3, 90000)]), st.sampled_from(["u2", "u4", "c16"]))
def test_it_is_the_sum_that_the_docstring_says(shape: tuple[int, ...], dtype: str) -> None:
    values = ramp(*shape, dtype=dtype)
    words = values.reshape(-1).view(f"u{min(values.itemsize, 8)}").astype(np.uint64)
    mixed = (np.arange(len(words), dtype=np.uint64) * checksum._PLACE) ^ words
    mixed = mixed * checksum._FIRST
    total = ((mixed ^ (mixed >> np.uint64(32))) * checksum._SECOND).sum(dtype=np.uint64)
    assert checksum.region_sum(values, tuple((0, n) for n in shape), shape) == total


def test_two_elements_that_change_places_show() -> None:
    values = ramp(6, 4)
    ranges = ((0, 6), (0, 4))
    swapped = values.copy()
    swapped[0, 0], swapped[5, 3] = values[5, 3], values[0, 0]
    sums = [
        checksum.region_sum(v, ranges, (6, 4)) for v in (values, swapped, values.T.reshape(6, 4))
    ]
    assert len(set(sums)) == 3
