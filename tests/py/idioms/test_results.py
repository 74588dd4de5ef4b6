"""What a call returns, and DTensors in jax's trees, transformations and other libraries."""

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import orbax.checkpoint as ocp
import pytest
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

import dtensor
from dtensor import DTensor, Layout, copy_to_mesh, is_dtensor, jit, relayout
from dtensor.runtime.placement import jax_mesh

MESH = dtensor.create_mesh([("x", 2), ("y", 4)])
ROWS, COLUMNS = Layout(["x", None], MESH), Layout([None, "y"], MESH)
X = np.arange(24, dtype=np.float32).reshape(6, 4) / 10
V = np.arange(1, 5, dtype=np.float32)


def scaled(x: Any) -> Any:
    return {"y": x * 2, "total": x.sum()}


def test_results_are_dtensors_whatever_the_arguments_are() -> None:
    on_mesh = jax.device_put(X, NamedSharding(jax_mesh(MESH), P("x")))
    for x in (X, jnp.asarray(X), on_mesh, copy_to_mesh(X, ROWS)):
        found = jit(scaled, mesh=MESH)(x)
        assert isinstance(found["y"], DTensor)
        assert isinstance(found["total"], DTensor)


def test_results_are_jax_arrays_on_request() -> None:
    program = jit(scaled, in_layouts=ROWS, returns="jax")
    expected = jax.jit(scaled)(X)
    for x in (X, copy_to_mesh(X, ROWS), copy_to_mesh(X, COLUMNS)):
        found = program(x)
        assert not is_dtensor(found["y"])
        assert found["y"].sharding == NamedSharding(jax_mesh(MESH), P("x", None))
        jax.tree.map(np.testing.assert_allclose, found, expected)
    again = program(program(X)["y"])  # results are arguments
    np.testing.assert_allclose(again["y"], X * 4)
    assert not is_dtensor(program.lower(X).compile()(X)["y"])
    keys = jit(jax.random.split, mesh=MESH, returns="jax")(jax.random.key(0))
    assert keys.dtype == jax.random.key(0).dtype
    with pytest.raises(ValueError, match="returns is 'numpy'; it must be 'dtensor' or 'jax'"):
        jit(scaled, returns="numpy")  # type: ignore[call-overload]


def test_what_is_made_of_numbers_alone_gives_way_to_other_types() -> None:
    def rates(step: Any, x: Any) -> Any:
        return step * 0.1, jnp.where(x > 1, 1.0, 0.5), x + step

    expected = jax.jit(rates)(2.0, X)
    found = jit(rates, in_layouts=(None, ROWS), mesh=MESH)(2.0, X)
    arrays = jit(rates, in_layouts=(None, ROWS), mesh=MESH, returns="jax")(2.0, X)
    half = jnp.ones(4, jnp.bfloat16)
    for mine, array, theirs in zip(found, arrays, expected, strict=True):
        assert mine.weak_type == array.weak_type == theirs.weak_type
        assert (array * half).dtype == (theirs * half).dtype
        np.testing.assert_array_equal(np.asarray(array), np.asarray(theirs))
    assert arrays[1].sharding == NamedSharding(jax_mesh(MESH), P("x", None))
    again = jit(rates, in_layouts=(None, ROWS), mesh=MESH, returns="jax")(arrays[0], X)
    assert again[0].weak_type


def test_gradients_of_integers_are_without_values() -> None:
    step = jax.grad(lambda p: jnp.sum(p["w"] * p["n"]), allow_int=True)
    params = {"w": V, "n": np.arange(4)}
    expected = jax.jit(step)(params)
    program = jit(step, in_layouts=({"w": Layout(["y"], MESH), "n": Layout(["x"], MESH)},))
    found = program(params)
    assert found["n"].dtype == expected["n"].dtype == jax.dtypes.float0
    assert found["n"].shape == (4,)
    np.testing.assert_array_equal(found["w"].to_jax(), expected["w"])
    assert jax.eval_shape(program, params)["n"].dtype == jax.dtypes.float0


def test_variables_are_assigned_where_results_are_jax_arrays() -> None:
    total = dtensor.DVariable(copy_to_mesh(V, Layout(["y"], MESH)))

    def add(x: Any) -> Any:
        total.assign_add(x)
        return total * 2

    found = jit(add, returns="jax")(V)
    assert not is_dtensor(found)
    np.testing.assert_array_equal(found, V * 4)
    np.testing.assert_array_equal(total.value().to_jax(), V * 2)


def test_a_dtensor_has_a_sharding() -> None:
    x = copy_to_mesh(X, ROWS)
    assert x.sharding == NamedSharding(jax_mesh(MESH), P("x", None))
    y = jax.device_put(X, x.sharding)
    assert dtensor.from_jax(y).layout == ROWS


def test_what_jax_puts_into_the_hosts_memory_is_an_array() -> None:
    """No DTensor lies there; it goes to the mesh again as any array does."""
    x = copy_to_mesh(np.arange(32, dtype=np.float32).reshape(8, 4), ROWS)
    there = NamedSharding(jax_mesh(MESH), P("x"), memory_kind="pinned_host")
    (host,) = jax.tree.leaves(jax.device_put({"x": x}, there), is_leaf=is_dtensor)
    assert type(host) is type(x.to_jax())
    assert host.sharding.memory_kind == "pinned_host"
    step = jit(lambda x: x + 1)
    otherwise = jit(lambda x: x + 1, in_layouts=COLUMNS).lower(x).compile()
    for found in (step(host), otherwise(host), dtensor.DVariable(host, layout=ROWS) + 1):
        np.testing.assert_array_equal(found.to_jax(), np.arange(1, 33).reshape(8, 4))
    assert step(host).layout == x.layout


def test_a_result_that_a_program_puts_into_the_hosts_memory_stays_on_the_devices() -> None:
    there = NamedSharding(jax_mesh(MESH), P("x"), memory_kind="pinned_host")
    for place in (there, jax.memory.Space.Host):
        with pytest.warns(UserWarning, match=r"result\['m'\] is put into the host's memory"):
            found = jit(lambda x, to=place: {"m": jax.device_put(x * 2, to)}, in_layouts=ROWS)(X)
        np.testing.assert_array_equal(found["m"].to_jax(), X * 2)


def test_trees_of_dtensors_in_several_layouts_and_arrays() -> None:
    first = {"a": copy_to_mesh(X, ROWS), "b": copy_to_mesh(V, Layout(["y"], MESH))}
    second = {"a": copy_to_mesh(X, COLUMNS), "b": copy_to_mesh(V, Layout(["x"], MESH))}
    plain = {"a": jnp.asarray(X), "b": jnp.asarray(V)}
    for found in (
        jax.tree.map(jnp.add, first, second),
        jax.tree.map(lambda a, b: a.to_jax() + b, first, plain, is_leaf=is_dtensor),
        jax.tree.map(lambda a, b: a + b, first, second, is_leaf=is_dtensor),
    ):
        np.testing.assert_allclose(np.asarray(jax.tree.leaves(found)[0]), 2 * X)
    zeros = jax.tree.map(jnp.zeros_like, first)
    assert zeros["a"].layout == ROWS
    shapes = jax.tree.map(lambda x: x.shape, first)
    assert shapes == {"a": (6, 4), "b": (4,)}


def cubes(v: Any) -> Any:
    return jnp.sum(v**3 * jnp.arange(1.0, 5.0))


@pytest.mark.parametrize("fn", [cubes, jit(cubes)], ids=["jnp", "jit"])
def test_derivatives_at_dtensors(fn: Any) -> None:
    v = copy_to_mesh(V, Layout(["y"], MESH))
    expected = jax.grad(cubes)(V)
    gradient = jax.grad(fn)(v)
    assert gradient.layout == v.layout
    np.testing.assert_allclose(gradient.to_jax(), expected, rtol=1e-6)
    value, again = jax.value_and_grad(fn)(v)
    np.testing.assert_allclose(value, cubes(V), rtol=1e-6)
    np.testing.assert_allclose(again.to_jax(), expected, rtol=1e-6)
    (pulled,) = jax.vjp(fn, v)[1](jnp.ones(()))
    assert pulled.layout == v.layout
    _, tangent = jax.jvp(fn, (v,), (v,))
    np.testing.assert_allclose(tangent, expected @ V, rtol=1e-6)
    # Forward over reverse makes trees of jax's own, so it stands inside of the program.
    hessian = jit(jax.hessian(fn))(v)
    assert hessian.layout.short() == '[{"y"}, {}]'
    np.testing.assert_allclose(hessian.to_jax(), jax.hessian(cubes)(V), rtol=1e-6)


def test_optax_runs_on_trees_of_dtensors_one_by_one() -> None:
    params = {"w": copy_to_mesh(X, ROWS), "b": copy_to_mesh(V, Layout(["y"], MESH))}
    grads = {"w": copy_to_mesh(np.cos(X), COLUMNS), "b": copy_to_mesh(V, Layout([None], MESH))}
    plain, plain_grads = {"w": X, "b": V}, {"w": np.cos(X), "b": V}
    tx = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(1e-2))
    state, plain_state = tx.init(params), tx.init(plain)
    for _ in range(2):
        updates, state = tx.update(grads, state, params)
        params = optax.apply_updates(params, updates)
        updates, plain_state = tx.update(plain_grads, plain_state, plain)
        plain = optax.apply_updates(plain, updates)
    assert isinstance(params["w"], DTensor)
    for found, expected in zip(jax.tree.leaves(params), jax.tree.leaves(plain), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_orbax_saves_and_restores_results_that_are_jax_arrays(tmp_path: Path) -> None:
    init = jit(lambda x: {"w": x * 2, "step": 3}, in_layouts=ROWS, returns="jax")
    state = init(X)
    wanted = jax.tree.map(ocp.utils.to_shape_dtype_struct, state)
    with ocp.StandardCheckpointer() as checkpointer:
        checkpointer.save(tmp_path / "a", state)
        checkpointer.wait_until_finished()
        restored = checkpointer.restore(tmp_path / "a", wanted)
    step = jit(lambda s: s["w"] + s["step"])
    assert step(restored).layout == ROWS
    np.testing.assert_allclose(step(restored).to_jax(), X * 2 + 3)
    assert relayout(restored["w"], P(None, "y")).sharding.spec == P(None, "y")
