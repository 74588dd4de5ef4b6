"""DTensors: what they say of themselves, and as leaves of jax's trees."""

import copy
import pickle
import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import NamedSharding, PartitionSpec

from dtensor.dialect.errors import LayoutError
from dtensor.dialect.layout import UNSHARDED, Layout
from dtensor.runtime import texts
from dtensor.runtime.array import ArrayType, DTensor, array_type, from_jax
from dtensor.runtime.client import create_mesh
from dtensor.runtime.placement import jax_mesh
from dtensor.runtime.transfer import place

MESH = create_mesh([("x", 2), ("y", 4)])
VALUES = np.arange(24, dtype=np.float32).reshape(4, 6)
SHARDED = Layout(["x", UNSHARDED], MESH)
WHOLE = Layout.replicated(MESH, 2)


def test_shape_and_layout() -> None:
    x = place(VALUES, SHARDED)
    assert (x.shape, x.ndim, x.size, x.nbytes, len(x)) == ((4, 6), 2, 24, 96, 4)
    assert x.dtype == np.float32
    assert (x.layout, x.mesh, x.local_shape) == (SHARDED, MESH, (2, 6))


def test_replicated_arrays_read() -> None:
    x = place(VALUES, WHOLE)
    np.testing.assert_array_equal(x.numpy(), VALUES)
    np.testing.assert_array_equal(np.asarray(x), VALUES)
    assert np.asarray(x, dtype=np.float64).dtype == np.float64
    scalar = place(2.5, Layout.replicated(MESH, 0))
    assert float(scalar) == scalar.item() == 2.5
    assert int(scalar) == 2
    assert bool(scalar)
    assert f"{scalar:.3f}" == "2.500"


@pytest.mark.parametrize("read", [DTensor.numpy, np.asarray, DTensor.tolist])
def test_reading_a_sharded_array_is_an_error_that_names_relayout(read: object) -> None:
    x = place(VALUES, SHARDED)
    with pytest.raises(
        LayoutError, match=r"no device holds all of it; gather it with dtensor.rela"
    ):
        read(x)  # type: ignore[operator]


def test_unpack_gives_the_shards_in_mesh_order() -> None:
    mesh = create_mesh([("x", 4)], devices=[6, 2, 0, 3])
    shards = place(np.arange(8.0), Layout(["x"], mesh)).unpack()
    assert [next(iter(s.devices())).id for s in shards] == [6, 2, 0, 3]
    np.testing.assert_array_equal(np.stack(shards), np.arange(8.0).reshape(4, 2))


def test_jax_arrays_both_ways_without_a_copy() -> None:
    array = jax.device_put(VALUES, NamedSharding(jax_mesh(MESH), PartitionSpec(None, "x")))
    x = from_jax(array)
    assert x.to_jax() is array
    assert x.layout == Layout([UNSHARDED, "x"], MESH)


def test_arrays_of_explicit_meshes_are_taken() -> None:
    mesh = jax.make_mesh((2, 4), ("x", "y"), axis_types=(jax.sharding.AxisType.Explicit,) * 2)
    array = jax.device_put(VALUES, NamedSharding(mesh, PartitionSpec("x")))
    assert from_jax(array).layout == SHARDED


def test_from_jax_refuses_what_lies_on_no_mesh() -> None:
    with pytest.raises(
        LayoutError, match=r"is not laid out over a mesh; place it with dtensor.copy"
    ):
        from_jax(jnp.ones(3))
    with pytest.raises(TypeError, match="use copy_to_mesh for host arrays"):
        from_jax(VALUES)  # type: ignore[arg-type]


def test_repr_of_a_part_shows_the_array_and_the_index() -> None:
    x = place(VALUES[:1, :3], WHOLE)
    assert repr(x.at) == f"at({x!r})"
    assert repr(x.at[0, 1:]) == f"at({x!r})[(0, slice(1, None, None))]"


def test_repr_shows_the_layout_and_the_values() -> None:
    assert repr(place(VALUES[:1, :3], WHOLE)) == (
        "DTensor(shape=(1, 3), dtype=float32, layout=[{}, {}], mesh=mesh(x=2, y=4))\n[[0. 1. 2.]]"
    )
    assert repr(place(VALUES[:, :2], SHARDED)) == (
        'DTensor(shape=(4, 2), dtype=float32, layout=[{"x"}, {}], mesh=mesh(x=2, y=4))\n'
        "[0:2, 0:2] [[0. 1.] [6. 7.]]\n"
        "[2:4, 0:2] [[12. 13.] [18. 19.]]"
    )
    large = repr(place(np.zeros((4, 1000)), Layout([UNSHARDED, ("x", "y")], MESH)))
    assert len(large) < 1000
    x = place(VALUES, SHARDED)
    x.to_jax().delete()
    assert "deleted" in repr(x)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8", "bool"])
def test_a_number_is_printed_by_itself(dtype: str) -> None:
    number = place(np.asarray(3, jnp.dtype(dtype)), Layout.replicated(MESH, 0))
    assert f"{number}" == str(number) == str(number.to_jax())
    assert repr(number).startswith("DTensor(shape=(), ")


def test_what_a_string_shows_does_not_grow_with_the_mesh(monkeypatch: pytest.MonkeyPatch) -> None:
    x = place(VALUES, SHARDED)
    assert str(x).count("device:CPU:") == 8
    monkeypatch.setattr(texts, "_DEVICES_NAMED", 2)
    x = place(VALUES[:, :2], SHARDED)
    shard = "[[0 1] [6 7]]"
    assert " ".join(str(x).split()) == (
        f'DTensor({{"CPU:0": {shard}, "CPU:1": {shard}, ...}}, layout={SHARDED.short()}, '
        f"mesh={MESH.short()}, shape=(4, 2), dtype=float32)"
    )


def test_trees_see_the_array_beneath() -> None:
    tree = {"w": place(VALUES, SHARDED)}
    doubled = jax.tree.map(lambda a: a * 2, tree)
    assert isinstance(doubled["w"], DTensor)
    assert doubled["w"].layout == SHARDED
    assert jax.tree.map(lambda a: a.shape, tree) == {"w": (4, 6)}
    result = jax.jit(lambda t: t["w"].sum())(tree)
    assert float(result) == VALUES.sum()
    gradient = jax.grad(lambda t: (t["w"] ** 2).sum())(tree)
    assert gradient["w"].layout == SHARDED


def test_trees_keep_a_layout_that_does_not_divide_the_array() -> None:
    layout = Layout(["y", "x"], MESH)
    x = place(VALUES[:, :5], layout)
    for same in (jax.tree.map(lambda a: a * 2, x), jax.grad(lambda a: (a**2).sum())(x)):
        assert same.layout == layout
        np.testing.assert_array_equal(np.asarray(same.to_jax()), VALUES[:, :5] * 2)
    assert jax.tree.map(jnp.transpose, x).layout.short() == '[{}, {"y"}]'  # as jax laid it out


def test_a_gradient_that_lies_nowhere_takes_the_layout_of_its_array() -> None:
    x, mask = place(VALUES, SHARDED), np.arange(24).reshape(4, 6) % 3 == 0
    gradient = jax.grad(lambda x: jnp.where(mask, x, 0).sum())(x)
    assert gradient.layout == SHARDED
    np.testing.assert_array_equal(np.asarray(gradient.to_jax()), mask)
    on_a_device = jax.device_put(VALUES, jax.devices()[3])
    assert isinstance(jax.tree.map(lambda a: on_a_device, x), jax.Array)  # it was put there


def test_a_pickle_of_64_bits_needs_them() -> None:
    layout = Layout(["x"], create_mesh([("x", 3)]))
    with jax.enable_x64(True):
        written = pickle.dumps(place(np.arange(7.0), layout))
        assert pickle.loads(written).dtype == np.float64
    with pytest.raises(TypeError, match="pickled array is float64, but jax's 64-bit types are off"):
        pickle.loads(written)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "complex64", "bool", "int4"])
@pytest.mark.parametrize("layout", [SHARDED, WHOLE], ids=Layout.short)
def test_a_copy_and_a_pickle_lie_as_the_array_does(layout: Layout, dtype: str) -> None:
    x = place(np.asarray(VALUES % 4, jnp.dtype(dtype)), layout)
    for again in (copy.copy(x), copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
        assert again.layout == layout
        assert again._type is x._type  # so that programs are found again
        assert again.to_jax().sharding == x.to_jax().sharding
        np.testing.assert_array_equal(np.asarray(again.to_jax()), np.asarray(x.to_jax()))
    deep = copy.deepcopy(x)
    x.to_jax().delete()
    assert not deep.to_jax().is_deleted()


@pytest.mark.parametrize(
    "layout", [SHARDED, Layout([("x", "y"), UNSHARDED], MESH)], ids=Layout.short
)
def test_a_type_that_gives_way_stays_so(layout: Layout) -> None:
    weak = jnp.broadcast_to(2.0, (4, 6))  # the second layout does not divide it
    x = place(weak, layout)
    for same in (x, from_jax(x.to_jax()), pickle.loads(pickle.dumps(x)), jax.tree.map(abs, x)):
        assert same.weak_type
        assert same.to_jax().weak_type
        assert (same * jnp.bfloat16(3)).dtype == jnp.bfloat16
    assert place(0.5, Layout.replicated(MESH, 0)).weak_type
    for strong in (np.float32(0.5), True, np.ones((4, 6), np.float32), weak.astype(np.float32)):
        assert not place(strong, Layout.replicated(MESH, np.ndim(strong))).weak_type
    with jax.set_mesh(jax.make_mesh((2, 4), ("x", "y"))):
        assert x.to_jax().weak_type


def test_types_are_one_object_in_all_threads() -> None:
    made: list[ArrayType] = []
    start = threading.Barrier(8)

    def make() -> None:
        start.wait()
        made.extend(array_type((size, 5, 11), "float32", SHARDED) for size in range(300))

    threads = [threading.Thread(target=make) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(map(id, made))) == 300


def test_a_dtensor_is_not_made_by_calling_its_class() -> None:
    with pytest.raises(TypeError, match=r"use dtensor\.copy_to_mesh, pack or from_jax"):
        DTensor()
