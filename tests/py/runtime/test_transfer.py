"""Packing, unpacking and copying arrays to a mesh."""

import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dtensor.compiler.relayout import copy_to_mesh, relayout
from dtensor.dialect.errors import LayoutError
from dtensor.dialect.layout import OPEN, UNSHARDED, Layout
from dtensor.runtime.client import create_mesh, mesh_devices
from dtensor.runtime.transfer import fetch_layout, pack, place, unpack

MESH = create_mesh([("x", 2), ("y", 4)])
OTHER = create_mesh([("a", 4), ("b", 2)], devices=[7, 6, 5, 4, 3, 2, 1, 0], mesh_name="other")
VALUES = np.arange(64, dtype=np.int32).reshape(8, 8)
SPECS = [UNSHARDED, "x", "y", ("x", "y"), ("y", "x")]
LAYOUTS = [
    Layout(list(pair), MESH)
    for pair in itertools.product(SPECS, repeat=2)
    if not (set(pair[0]) | {pair[0]}) & (set(pair[1]) | {pair[1]}) - set("unsharded")
    or UNSHARDED in pair
]


@pytest.mark.parametrize("layout", LAYOUTS, ids=Layout.short)
def test_unpack_then_pack_is_the_same_array(layout: Layout) -> None:
    x = place(VALUES, layout)
    again = pack(unpack(x), layout)
    assert again.layout == layout
    np.testing.assert_array_equal(np.asarray(again.to_jax()), VALUES)


@given(st.sampled_from(LAYOUTS), st.sampled_from(["host", "device", "mesh", "other mesh"]))
def test_place_takes_arrays_from_anywhere(layout: Layout, where: str) -> None:
    source: object = VALUES
    if where == "device":
        source = jax.device_put(VALUES, jax.devices()[3])
    elif where == "mesh":
        source = place(VALUES, Layout(["y", "x"], MESH)).to_jax()
    elif where == "other mesh":
        source = place(VALUES, Layout([UNSHARDED, "a"], OTHER))
    x = place(source, layout)
    np.testing.assert_array_equal(np.asarray(x.to_jax()), VALUES)
    for shard in x.unpack():
        assert shard.shape == layout.local_shape((8, 8))


@pytest.mark.parametrize("specs", [[UNSHARDED, UNSHARDED], ["x", UNSHARDED]])
@pytest.mark.parametrize("on_mesh", [False, True])
def test_what_is_copied_elsewhere_shares_no_buffer(specs: list[str], on_mesh: bool) -> None:
    source = jnp.asarray(VALUES)
    if on_mesh:
        source = place(VALUES, Layout([UNSHARDED, "y"], MESH)).to_jax()
    place(source, Layout(specs, MESH)).delete()
    np.testing.assert_array_equal(np.asarray(source), VALUES)


def test_an_array_in_place_is_not_copied() -> None:
    layout = Layout(["x", UNSHARDED], MESH)
    x = place(VALUES, layout)
    pointers = [s.unsafe_buffer_pointer() for s in x.unpack()]
    assert [s.unsafe_buffer_pointer() for s in place(x, layout).unpack()] == pointers
    assert [s.unsafe_buffer_pointer() for s in pack(x.unpack(), layout).unpack()] == pointers


def test_the_caller_may_write_to_the_host_array_afterwards() -> None:
    layout, whole = Layout(["x"], MESH), Layout.replicated(MESH, 1)
    host = np.arange(4096, dtype=np.float32)
    expected = host.copy()
    packed = pack([host[:2048]] * 4 + [host[2048:]] * 4, layout)
    arrays = [place(host, layout), place(host, whole), packed]
    host[:] = -1
    for array in arrays:
        np.testing.assert_array_equal(np.asarray(array.to_jax()), expected)


def test_python_numbers_and_wide_types_become_what_jax_makes_of_them() -> None:
    scalar = Layout.replicated(MESH, 0)
    assert place(3, scalar).dtype == jnp.asarray(3).dtype
    assert place(3.0, scalar).dtype == jnp.asarray(3.0).dtype
    assert place(np.zeros(2), Layout.replicated(MESH, 1)).dtype == np.float32
    with pytest.raises(
        TypeError, match="str has element type <U1, which devices cannot hold; give numbers"
    ):
        place("a", scalar)


def test_what_pack_refuses() -> None:
    layout = Layout(["x", UNSHARDED], MESH)
    shard = np.zeros((2, 3), np.float32)
    with pytest.raises(LayoutError, match="pack got 5 shards for the 8 local devices of mesh"):
        pack([shard] * 5, layout)
    with pytest.raises(LayoutError, match=r"one shape: shard 0 has \(2, 3\), shard 7 has \(3,\)"):
        pack([shard] * 7 + [np.zeros(3, np.float32)], layout)
    with pytest.raises(LayoutError, match="one dtype: shard 0 has float32, shard 7 has int8"):
        pack([shard] * 7 + [shard.astype(np.int8)], layout)
    with pytest.raises(LayoutError, match="has 2 dimensions but the shards have rank 1"):
        pack([np.zeros(3)] * 8, layout)
    with pytest.raises(RuntimeError, match="pack must be called outside of traced functions"):
        jax.jit(lambda a: pack([a] * 8, layout).to_jax())(shard)
    with pytest.raises(TypeError, match="unpack needs a DTensor, got ndarray"):
        unpack(shard)  # type: ignore[arg-type]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int4", "complex64"])
def test_replicas_on_their_devices_must_be_equal(dtype: str) -> None:
    mesh = create_mesh([("x", 2)])
    first, second = mesh_devices(mesh)
    a = np.arange(6).reshape(2, 3).astype(jnp.dtype(dtype))
    b = a.copy()
    b[1, 2] = 1
    whole = Layout([None, None], mesh)
    with pytest.raises(LayoutError) as error:
        pack([jax.device_put(a, first), jax.device_put(b, second)], whole)
    assert "shards 0 and 1 are replicas of one part of the array, and differ: at [1, 2] " in str(
        error.value
    )
    with pytest.raises(LayoutError, match=r"at \[1, 2\]"):
        pack([a, jax.device_put(b, second)], whole)
    assert pack([jax.device_put(a, first), a], whole).numpy().tolist() == a.tolist()


def test_replicas_on_their_devices_are_equal_nan_to_nan() -> None:
    mesh = create_mesh([("x", 2), ("y", 2)])
    rows = [[np.nan, 1.0, -0.0], [np.nan, 2.0, 3.0]]
    shards = [
        jax.device_put(np.array(rows[i // 2]), device)
        for i, device in enumerate(mesh_devices(mesh))
    ]
    packed = pack(shards, Layout(["x"], mesh))
    np.testing.assert_array_equal(packed.to_jax(), np.array(rows, np.float32).ravel())
    with pytest.raises(LayoutError, match="shards 0 and 2 are replicas"):
        pack(shards, Layout(["y"], mesh))


def test_replicas_on_the_host_must_be_equal() -> None:
    layout = Layout(["x"], MESH)
    shards = [np.array([1.0, np.nan, -0.0 if k % 2 else 0.0], np.float32) for k in range(8)]
    assert pack(shards, layout).shape == (6,)
    shards[6] = np.array([1.0, np.nan, 3.0], np.float32)
    with pytest.raises(
        LayoutError, match=r"shards 4 and 6 are replicas .* at \[2\] they have 0\.0"
    ):
        pack(shards, layout)
    assert pack(shards, Layout([("x", "y")], MESH)).shape == (24,)
    shards[3] = np.array([1.0, 2.0, 0.0], np.float32)
    with pytest.raises(LayoutError, match=r"shards 0 and 3 are .* at \[1\] they have nan and 2\.0"):
        pack(shards, layout)


def test_what_place_refuses() -> None:
    with pytest.raises(LayoutError, match="dimension 0 is cut into blocks"):
        place(np.zeros((6, 2)), Layout([(3, "x"), UNSHARDED], MESH))
    with pytest.raises(LayoutError, match="layout has 1 dimensions but the tensor has rank 2"):
        place(np.zeros((6, 2)), Layout(["y"], MESH))


def test_fetch_layout() -> None:
    layout = Layout(["x", UNSHARDED], MESH)
    x = place(VALUES, layout)
    assert fetch_layout(x) == layout
    assert fetch_layout(x.to_jax()) == layout
    assert fetch_layout(jnp.ones(3)) is None
    assert fetch_layout(VALUES) is None


@pytest.mark.parametrize("wrong", [None, MESH, "x"])
@pytest.mark.parametrize("call", [pack, relayout, copy_to_mesh])
def test_anything_but_a_layout_is_an_error(call: Any, wrong: object) -> None:
    with pytest.raises(LayoutError, match=r"expected a Layout, got \w+; make one with"):
        call([1.0] * 8, wrong)


@pytest.mark.parametrize("number", [2**31, -(2**40)])
def test_an_integer_that_does_not_fit_is_an_error_and_does_not_wrap_around(number: int) -> None:
    layout = Layout([UNSHARDED], MESH)
    for place_it in (copy_to_mesh, relayout, lambda x, layout: pack([x] * 8, layout)):
        with pytest.raises(OverflowError, match=f"integer {number} does not fit int32, which jax"):
            place_it(np.array([1, number]), layout)
    assert copy_to_mesh(np.array([2**31 - 1]), layout).dtype == np.int32


def test_pack_and_copy_say_what_is_no_array() -> None:
    layout = Layout([UNSHARDED], MESH)
    with pytest.raises(TypeError, match="pack needs a list of shards, got NoneType"):
        pack(None, layout)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="list is not an array: "):
        copy_to_mesh([[1], [2, 3]], layout)
    with pytest.raises(RuntimeError, match="pack must be called outside of traced functions"):
        jax.jit(lambda: pack([[1.0]] * 8, layout))()


def test_relayout_of_a_host_array_is_a_dtensor() -> None:
    layout = Layout(["x", UNSHARDED], MESH)
    for source in (VALUES, VALUES.tolist()):
        assert relayout(source, layout).layout == layout
    assert isinstance(relayout(jnp.asarray(VALUES), layout), jax.Array)
    traced = jax.jit(lambda: relayout(VALUES, layout) * 2)()
    np.testing.assert_array_equal(np.asarray(traced), VALUES * 2)


def test_open_dimensions_are_whole_in_what_pack_makes() -> None:
    x = pack([VALUES] * 8, Layout([OPEN, OPEN], MESH))
    assert x.layout == Layout([UNSHARDED, UNSHARDED], MESH)
    assert relayout(x, Layout(["x", "y"], MESH)).layout.short() == '[{"x"}, {"y"}]'
