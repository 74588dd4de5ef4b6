"""Typed random keys: arguments, results, carried state and eager operations, against jax.jit."""

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import NamedSharding, PartitionSpec

import dtensor
from dtensor import DTensor, Layout, LayoutError, copy_to_mesh, from_jax, jit, random, relayout
from dtensor.runtime.placement import jax_mesh

MESH = dtensor.create_mesh([("x", 2), ("y", 4)])
KEY = jax.random.key(7)
KEYS = jax.random.split(jax.random.key(3), 8)
GENERATORS = ["threefry2x32", "rbg"]


def data(keys: Any) -> Any:
    array = keys.to_jax() if isinstance(keys, DTensor) else keys
    return np.asarray(jax.random.key_data(array))


def layout(*entries: Any) -> Layout:
    return Layout(list(entries), MESH)


@pytest.mark.parametrize("place", [lambda k: k, lambda k: copy_to_mesh(k, layout())])
def test_a_key_is_an_argument(place: Callable[[Any], Any]) -> None:
    def noise(key: Any, x: Any) -> Any:
        return x + jax.random.normal(key, x.shape)

    x = np.arange(24, dtype=np.float32).reshape(4, 6)
    step = jit(noise, in_layouts=(None, layout("x", None)))
    found = step(place(KEY), x)
    assert found.layout.short() == '[{"x"}, {}]'
    np.testing.assert_array_equal(found.to_jax(), jax.jit(noise)(KEY, x))


@pytest.mark.parametrize(
    ("generator", "entry"), [("threefry2x32", "y"), ("threefry2x32", ("x", "y")), ("rbg", "x")]
)
def test_split_keys_are_results_and_arguments(generator: str, entry: Any) -> None:
    key = jax.random.key(11, impl=generator)
    split = jit(lambda k: jax.random.split(k, 8), mesh=MESH, out_layouts=layout(entry))
    keys = split(key)
    assert (keys.shape, keys.dtype, keys.ndim) == ((8,), key.dtype, 1)
    assert keys.layout == layout(entry)
    np.testing.assert_array_equal(data(keys), data(jax.random.split(key, 8)))

    def draw(keys: Any) -> Any:
        return jax.vmap(lambda k: jax.random.uniform(k, (3,)))(keys)

    program = jit(draw)
    drawn = program(keys)
    # rbg's numbers come from one operation, which is not divided; what is made of them is.
    assert drawn.layout == layout(entry, None)
    np.testing.assert_array_equal(drawn.to_jax(), jax.jit(draw)(jax.random.split(key, 8)))
    compiled = program.lower(keys).compile()
    assert compiled.in_layouts[0][0] == layout(entry)
    assert compiled(keys).shape == (8, 3)


def test_the_data_of_a_key_is_never_divided() -> None:
    split = jit(lambda k: jax.random.split(k, 8), mesh=MESH).lower(KEY).compile()
    (info,) = split.program.results
    assert info.layout.dims[-1].axes == ()
    assert split.out_layouts.rank == 1

    def pairs(keys: Any, w: Any) -> Any:  # the columns of w are those of the data
        return jax.random.key_data(keys).astype(np.float32) * w

    ways = layout("x", "y")
    with pytest.raises(LayoutError, match=r"argument keys cannot have the layout .* rank 1"):
        jit(pairs, in_layouts=(ways, None)).lower(KEYS, np.ones((8, 2), np.float32))
    columns = Layout([None, "x"], MESH)
    compiled = jit(pairs, in_layouts=(None, columns)).lower(KEYS, np.ones((8, 2), np.float32))
    assert compiled.compile().program.args[0].layout.dims[-1].axes == ()


def scanned(key: Any) -> Any:
    def body(key: Any, x: Any) -> Any:
        key, sub = jax.random.split(key)
        return key, x * jax.random.normal(sub, (4,))

    return jax.lax.scan(body, key, jnp.arange(3.0))


def looped(key: Any) -> Any:
    def body(state: Any) -> Any:
        i, key, total = state
        key, sub = jax.random.split(key)
        return i + 1, key, total + jax.random.uniform(sub, (4,))

    return jax.lax.while_loop(lambda s: s[0] < 3, body, (0, key, jnp.zeros(4)))[1:]


def chosen(key: Any) -> Any:
    first, second = jax.random.split(key)
    return jax.lax.cond(
        jax.random.bernoulli(key),
        lambda: (first, jax.random.normal(first, (4,))),
        lambda: (second, jax.random.uniform(second, (4,))),
    )


@pytest.mark.parametrize(("fn", "entry"), [(scanned, "y"), (looped, None), (chosen, "x")])
def test_a_key_is_carried(fn: Callable[[Any], Any], entry: Any) -> None:
    expected_key, expected = jax.jit(fn)(KEY)
    last = (None,) * (expected.ndim - 1)
    key, values = jit(fn, mesh=MESH, out_layouts=(None, layout(*last, entry)))(KEY)
    assert isinstance(key, DTensor)
    assert key.dtype == KEY.dtype
    np.testing.assert_array_equal(data(key), data(expected_key))
    np.testing.assert_allclose(values.to_jax(), expected, rtol=1e-6)  # XLA fuses otherwise


def test_a_program_of_keys_takes_its_own_results_without_a_move() -> None:
    def step(key: Any, w: Any) -> Any:
        key, sub = jax.random.split(key)
        return key, w + jax.random.normal(sub, w.shape)

    program = jit(step, in_layouts=(None, layout("x")), donate_argnums=(0, 1))
    state: Any = (jax.random.key(4), np.zeros(6, np.float32))
    expected: Any = (jax.random.key(4), np.zeros(6, np.float32))
    for _ in range(3):
        state, expected = program(*state), jax.jit(step)(*expected)
    np.testing.assert_array_equal(data(state[0]), data(expected[0]))
    np.testing.assert_array_equal(state[1].to_jax(), expected[1])
    assert program.lower(*state).compile().ledger["records"] is not None


def test_a_key_in_another_layout_is_moved_and_recorded() -> None:
    def draw(keys: Any) -> Any:
        return jax.vmap(lambda k: jax.random.uniform(k, (3,)))(keys)

    compiled = jit(draw, in_layouts=(layout("x"),)).lower(KEYS).compile()
    expected = jax.jit(draw)(KEYS)
    elsewhere = jax.device_put(KEYS, NamedSharding(jax_mesh(MESH), PartitionSpec("y")))
    other = dtensor.create_mesh([("z", 8)])
    for keys in (KEYS, elsewhere, copy_to_mesh(KEYS, Layout(["z"], other))):
        np.testing.assert_array_equal(compiled(keys).to_jax(), expected)
    moved = [r for r in compiled.ledger["records"] if r["kind"] == "moved argument"]
    assert len(moved) == 2
    with pytest.raises(TypeError, match=r"argument keys: compiled for key<fry>\[8\], called with"):
        compiled(KEYS[:4])
    with pytest.raises(TypeError, match=r"called with uint32\[8,2\]|called with uint32\[8, 2\]"):
        compiled(data(KEYS))


def test_a_constraint_on_keys() -> None:
    def draw(key: Any) -> Any:
        keys = relayout(jax.random.split(key, 8), layout("y"))
        keys = jax.lax.with_sharding_constraint(
            keys, NamedSharding(jax_mesh(MESH), PartitionSpec("y"))
        )
        return keys, jax.vmap(jax.random.bits)(keys)

    keys, bits = jit(draw, mesh=MESH)(KEY)
    assert (keys.layout, bits.layout) == (layout("y"), layout("y"))
    np.testing.assert_array_equal(bits.to_jax(), jax.jit(draw)(KEY)[1])


@pytest.mark.parametrize("generator", GENERATORS)
def test_arrays_of_keys_are_dtensors(generator: str) -> None:
    keys = jax.random.split(jax.random.key(5, impl=generator), 8)
    sharded = copy_to_mesh(keys, layout("y"))
    assert sharded.shape == (8,)
    assert sharded.dtype == keys.dtype
    assert sharded.local_shape == (2,)
    assert sharded.to_jax().sharding == NamedSharding(jax_mesh(MESH), PartitionSpec("y"))
    shards = sharded.unpack()
    assert [shard.shape for shard in shards] == [(2,)] * 8
    np.testing.assert_array_equal(data(shards[1]), data(keys[2:4]))
    again = dtensor.pack(shards, layout("y"))
    assert again.layout == layout("y")
    np.testing.assert_array_equal(data(again), data(keys))
    few = copy_to_mesh(keys[:5], layout("y"))
    np.testing.assert_array_equal(data(dtensor.pack(few.unpack(), few.layout)), data(keys[:5]))
    assert from_jax(sharded.to_jax()).layout == layout("y")
    moved = relayout(sharded, layout("x"))
    assert moved.layout == layout("x")
    np.testing.assert_array_equal(data(moved), data(keys))
    (copied,) = pickle.loads(pickle.dumps([sharded]))
    assert (copied.layout, copied.dtype) == (sharded.layout, sharded.dtype)
    np.testing.assert_array_equal(data(copied), data(keys))
    tree = jax.tree.map(lambda k: k, {"k": sharded})
    assert tree["k"].layout == layout("y")
    on_other = relayout(sharded, Layout(["z"], dtensor.create_mesh([("z", 4)], devices=range(4))))
    np.testing.assert_array_equal(data(on_other), data(keys))


def test_keys_print_their_data() -> None:
    key = copy_to_mesh(jax.random.wrap_key_data(jnp.array([3, 5], np.uint32)), layout())
    assert repr(key) == ("DTensor(shape=(), dtype=key<fry>, layout=[], mesh=mesh(x=2, y=4))\n[3 5]")
    assert str(key).startswith("DTensor([3 5], layout=")
    keys = jax.random.wrap_key_data(jnp.arange(8, dtype=np.uint32).reshape(4, 2))
    assert repr(copy_to_mesh(keys, layout("x"))).splitlines()[1:] == [
        "[0:2] [[0 1] [2 3]]",
        "[2:4] [[4 5] [6 7]]",
    ]
    with pytest.raises(TypeError, match=r"NumPy has no arrays of key<fry>; read the data of the"):
        key.numpy()


def test_keys_in_eager_operations() -> None:
    keys = copy_to_mesh(KEYS, layout("x"))
    for _ in range(2):  # the second call finds the program of the first
        third = keys[2]
        assert third.dtype == KEYS.dtype
        np.testing.assert_array_equal(data(third), data(KEYS[2]))
        numbers = random.stateless_random_normal((6, 4), third, layout=layout("x", "y"))
        expected = random.stateless_random_normal((6, 4), KEYS[2], layout=layout(None, "x"))
        np.testing.assert_array_equal(numbers.to_jax(), expected.to_jax())
    drawn = dtensor.call_with_layout(lambda k: jax.vmap(jax.random.uniform)(k), layout("x"), keys)
    np.testing.assert_array_equal(drawn.to_jax(), jax.vmap(jax.random.uniform)(KEYS))
    made = dtensor.call_with_layout(lambda: jax.random.key(3), layout())
    np.testing.assert_array_equal(data(made), data(jax.random.key(3)))
    np.testing.assert_array_equal(data(keys.reshape(2, 4)), data(KEYS.reshape(2, 4)))
    with pytest.raises(TypeError, match=r"seed is an array of keys, of shape \[8\]"):
        random.stateless_random_normal((4,), keys)
    with pytest.raises(TypeError, match=r"key<fry>"):
        keys + 1


def test_a_program_of_keys_in_a_loop_may_call_python() -> None:
    def draw(key: Any, x: Any) -> Any:
        def body(_: Any, carry: Any) -> Any:
            key, x = carry
            key, one = jax.random.split(key)
            return key, x + jax.random.normal(one, x.shape)

        key, x = jax.lax.fori_loop(0, 3, body, (key, x))
        shape = jax.ShapeDtypeStruct(x.shape, x.dtype)
        return key, jax.pure_callback(lambda x: np.asarray(x) * 2, shape, x)

    x = np.arange(8, dtype=np.float32)
    found = jit(draw, in_layouts=(None, layout("y")))(KEY, x)
    expected = jax.jit(draw)(KEY, x)
    np.testing.assert_array_equal(data(found[0]), data(expected[0]))
    np.testing.assert_allclose(np.asarray(found[1].to_jax()), expected[1], rtol=1e-6)


def test_keys_are_saved_and_restored(tmp_path: Path) -> None:
    def state(keys: Any, entry: str) -> tuple[Any, dict[str, Any]]:
        variable = dtensor.DVariable(copy_to_mesh(keys[0], layout()))
        return variable, {"k": copy_to_mesh(keys, layout(entry)), "v": variable}

    _, old = state(KEYS, "y")
    on_mesh = copy_to_mesh(KEYS, layout("x")).to_jax()
    path = dtensor.DTensorCheckpoint(MESH, state=old, array=on_mesh).write(tmp_path / "c")
    other = jax.random.split(jax.random.key(9), 8)
    variable, new = state(other, "x")
    checkpoint = dtensor.DTensorCheckpoint(MESH, state=new, array=other)
    checkpoint.read(path)
    assert new["k"].layout == layout("x")
    np.testing.assert_array_equal(data(variable.value()), data(KEYS[0]))
    for found in (new["k"], checkpoint.array):  # type: ignore[attr-defined]
        np.testing.assert_array_equal(data(found), data(KEYS))
    dtensor.name_based_save(MESH, tmp_path / "n", {"k": old["k"]})
    restored = dtensor.name_based_restore(MESH, tmp_path / "n", {"k": new["k"]})
    assert restored["k"].layout == layout("x")
    np.testing.assert_array_equal(data(restored["k"]), data(KEYS))


def test_a_variable_of_keys_is_made_assigned_and_updated_in_programs() -> None:
    other = jax.random.split(jax.random.key(9), len(KEYS))
    mine = layout("y")
    for source in (KEYS, lambda: KEYS, lambda: jax.random.split(jax.random.key(3), 8)):
        variable = dtensor.DVariable(source, layout=mine, name="k")
        assert (variable.dtype, variable.layout) == (KEYS.dtype, mine)
        np.testing.assert_array_equal(data(variable), data(KEYS))
    variable.assign(KEYS)
    np.testing.assert_array_equal(data(variable), data(KEYS))
    variable.assign(copy_to_mesh(other, layout("x")))
    np.testing.assert_array_equal(data(variable), data(other))

    @jit
    def step(v: Any) -> Any:
        first = v.value()[0]
        v.assign(jax.random.split(first, len(KEYS)))
        return jax.random.normal(first)

    for _ in range(2):
        expected = jax.random.split(other[0], len(KEYS))
        assert float(step(variable)) == float(jax.random.normal(other[0]))
        np.testing.assert_array_equal(data(variable), data(expected))
        assert variable.layout == mine
        other = expected
    jit(lambda: variable.assign(KEYS, read_value=False))()
    np.testing.assert_array_equal(data(variable), data(KEYS))
    for wrong in (
        1,
        np.ones(len(KEYS), np.float32),
        jax.random.split(jax.random.key(0, impl="rbg")),
    ):
        with pytest.raises(
            TypeError, match=r"'k' is of key<fry> and cannot take a value of .*; give"
        ):
            variable.assign(wrong)


def test_a_layout_alone_restores_keys_and_other_generators_are_refused(tmp_path: Path) -> None:
    folder, rbg = tmp_path / "c", jax.random.key(1, impl="rbg")
    saved: dict[str, Any] = {"k": copy_to_mesh(KEYS, layout("y")), "rbg": rbg}
    dtensor.name_based_save(MESH, folder, saved)
    wanted = {"k": layout("x"), "rbg": Layout([], MESH)}
    for name, found in dtensor.name_based_restore(MESH, folder, wanted).items():
        assert (found.dtype, found.layout) == (saved[name].dtype, wanted[name])
        np.testing.assert_array_equal(data(found), data(saved[name]))
    assert "uint32, threefry2x32 keys" in str(dtensor.list_checkpoint(folder))
    other = jax.random.key(1, impl="unsafe_rbg")
    with pytest.raises(dtensor.CheckpointError, match="keys of rbg, but those of unsafe_rbg are"):
        dtensor.name_based_restore(MESH, folder, {"rbg": other})


def test_explanations_speak_of_keys() -> None:
    compiled = jit(jax.vmap(jax.random.normal), in_layouts=layout("y")).lower(KEYS).compile()
    assert compiled.explain("args[0]").startswith('argument args[0]: key<fry> 8, [{"y"}]')
