"""What jax.Array tells of its buffers, asked of DTensors: the answers are those of `to_jax`."""

import copy
from typing import Any

import jax
import numpy as np
import pytest

from dtensor import DTensor, Layout, LayoutError, copy_to_mesh, create_mesh, jit

MESH = create_mesh([("x", 2), ("y", 4)])
LAYOUTS = [
    Layout(entries, MESH)
    for entries in (["x", None], [None, "y"], [("x", "y"), None], ["y", "x"], [None, None])
]
VALUES = np.arange(48, dtype=np.float32).reshape(8, 6)
EVEN = [layout for layout in LAYOUTS if layout.problem(VALUES.shape) is None]
ATTRIBUTES = [
    *("is_fully_addressable", "is_fully_replicated", "committed", "weak_type", "itemsize"),
    *("nbytes", "size", "ndim", "shape", "dtype", "sharding"),
]


def shards(array: Any) -> list[tuple[Any, ...]]:
    return [
        (s.device, s.index, s.replica_id, np.asarray(s.data).tolist())
        for s in array.addressable_shards
    ]


@pytest.mark.parametrize("layout", EVEN, ids=Layout.short)
def test_a_dtensor_answers_as_its_jax_array(layout: Layout) -> None:
    x = copy_to_mesh(VALUES, layout)
    beneath = x.to_jax()
    for name in ATTRIBUTES:
        assert getattr(x, name) == getattr(beneath, name), name
    assert x.devices() == beneath.devices()
    assert shards(x) == shards(beneath)
    for number in range(MESH.size):
        np.testing.assert_array_equal(x.addressable_data(number), beneath.addressable_data(number))
    assert jax.typeof(x) == jax.typeof(beneath)


@pytest.mark.parametrize("layout", LAYOUTS, ids=Layout.short)
def test_shards_have_the_true_elements_and_their_place(layout: Layout) -> None:
    values = VALUES[:7, :5]
    x = copy_to_mesh(values, layout)
    seen = np.full(values.shape, np.nan, np.float32)
    copies = 0
    for number, shard in enumerate(x.addressable_shards):
        np.testing.assert_array_equal(shard.data, values[shard.index])
        np.testing.assert_array_equal(shard.data, x.addressable_data(number))
        assert shard.data.devices() == {shard.device}
        seen[shard.index] = shard.data
        copies += shard.replica_id == 0
    np.testing.assert_array_equal(seen, values)
    assert copies == layout.shard_count
    assert str(jax.typeof(x)) == "float32[7,5]"


def test_random_keys() -> None:
    keys = jax.random.split(jax.random.key(0), 8)
    x = copy_to_mesh(keys, Layout(["x"], MESH))
    assert jax.typeof(x) == jax.typeof(x.to_jax())
    assert x.addressable_shards[0].data.shape == (4,)
    assert x.itemsize == keys.itemsize


def test_buffers_are_waited_for_and_deleted() -> None:
    x = copy_to_mesh(VALUES, LAYOUTS[0])
    x.copy_to_host_async()
    assert x.block_until_ready().is_ready()
    assert not x.is_deleted()
    twin = copy.deepcopy(x)
    x.delete()
    assert x.is_deleted()
    np.testing.assert_array_equal(twin.to_jax(), VALUES)
    with pytest.raises(RuntimeError, match="argument a is deleted"):
        jit(lambda a: a + 1)(x)


def test_elements_as_a_list() -> None:
    assert copy_to_mesh(VALUES, LAYOUTS[-1]).tolist() == VALUES.tolist()
    assert copy_to_mesh(np.int32(3), Layout([], MESH)).tolist() == 3
    with pytest.raises(LayoutError, match="no device holds all of it"):
        copy_to_mesh(VALUES, LAYOUTS[0]).tolist()


def test_what_a_dtensor_lacks() -> None:
    x = copy_to_mesh(VALUES, LAYOUTS[0])
    with pytest.raises(AttributeError, match=r"'DTensor' .* 'nonzero', but .* x\.to_jax\(\)\.nonz"):
        x.nonzero()  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match=r"'DTensor' object has no attribute 'shpae'$"):
        _ = x.shpae  # type: ignore[attr-defined]
    assert not hasattr(DTensor.__new__(DTensor), "_array")


def test_trees_are_asked_as_trees_of_arrays() -> None:
    tree: Any = {"a": copy_to_mesh(VALUES, LAYOUTS[0]), "b": [copy_to_mesh(VALUES, LAYOUTS[-1])]}
    assert sum(jax.tree.leaves(jax.tree.map(lambda x: x.nbytes, tree))) == 2 * VALUES.nbytes
    jax.tree.map(np.testing.assert_array_equal, jax.device_get(tree), {"a": VALUES, "b": [VALUES]})
    assert jax.block_until_ready(tree)["a"].layout == LAYOUTS[0]
    assert copy.deepcopy(tree)["a"].layout == LAYOUTS[0]
    changed = jax.tree.map(lambda x: x.at[0].set(1.0), tree)
    assert changed["a"].layout == LAYOUTS[0]
    np.testing.assert_array_equal(changed["b"][0].to_jax()[0], np.ones(6))
