"""Shards are cut and joined on the host as layouts say."""

from __future__ import annotations

import random

import jax
import numpy as np
import pytest

import dtensor
from dtensor.compiler.verification.shards import cut, join, wide
from dtensor.runtime.placement import named_sharding
from tests.py.passes.random_programs import meshes, random_layout

MESH = dtensor.Mesh([("x", 2), ("y", 4)])


@pytest.mark.parametrize("seed", range(12))
def test_shards_are_those_that_jax_cuts(seed: int) -> None:
    rng = random.Random(seed)
    mesh = rng.choice(meshes())
    layout = random_layout(rng, (8, 24, 16), mesh)
    value = np.arange(8 * 24 * 16, dtype=np.float32).reshape(8, 24, 16)
    array = jax.device_put(value, named_sharding(layout))
    shards = cut(value, layout)
    for shard in array.addressable_shards:
        np.testing.assert_array_equal(shards[shard.device.id], np.asarray(shard.data))
    np.testing.assert_array_equal(join(shards, layout, value.shape), value)


@pytest.mark.parametrize(
    "text",
    [
        '[{3, "x"}, {"y"}]',
        '[{"y":(2)2}, {"x", 3, "y":(1)2}]',
        '[{"x"}, {}], partial = {sum: "y"}',
        '[{}, {}], partial = {sum: ("x", "y")}',
        '[{2, "x"}, {}], partial = {max: "y"}',
        '[{}, {}], partial = {max: "x", sum: "y"}',
    ],
)
def test_blocks_and_parts_are_joined_again(text: str) -> None:
    layout = dtensor.Layout.parse(f"#dtensor.layout<@mesh, {text}>", MESH)
    value = np.random.default_rng(0).normal(size=(12, 24)).astype(np.float32)
    shards = cut(value, layout)
    assert shards.shape == (8, *layout.local_shape(value.shape))
    np.testing.assert_allclose(join(shards, layout, value.shape), value, rtol=1e-6)


def test_parts_are_added_up() -> None:
    layout = dtensor.Layout.parse('#dtensor.layout<@mesh, [{"x"}], partial = {sum: "y"}>', MESH)
    shards = np.arange(16, dtype=np.int32).reshape(8, 2)
    np.testing.assert_array_equal(
        join(shards, layout, (4,)),
        [0 + 2 + 4 + 6, 1 + 3 + 5 + 7, 8 + 10 + 12 + 14, 9 + 11 + 13 + 15],
    )


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_signalling_nan_that_nobody_has_written_is_widened_without_a_warning(dtype: str) -> None:
    bits: int = 0x7F800001 if dtype == "float32" else 0x7F81
    unsigned = np.uint32 if dtype == "float32" else np.uint16
    value = np.array([bits, 0], unsigned).view(np.dtype(dtype))
    np.testing.assert_array_equal(wide(value), [np.nan, 0])
