"""DTensors of layouts that do not divide: what a user sees is the true size, everywhere."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dtensor.compiler.api import jit
from dtensor.compiler.layouts import AUTO
from dtensor.compiler.relayout import copy_to_mesh, relayout
from dtensor.compiler.variables.engine import DVariable
from dtensor.dialect.errors import LayoutError
from dtensor.dialect.layout import Layout
from dtensor.runtime.array import DTensor
from dtensor.runtime.transfer import pack, unpack
from tests.py.uneven.on_meshes import FIVE, GRID, LINE

X = np.arange(30, dtype=np.float32).reshape(6, 5) - 7
ROWS = Layout(["y", None], GRID)
LAYOUTS = [
    ROWS,
    Layout(["x", "y"], GRID),
    Layout([None, ("x", "y")], GRID),
    Layout([("y", "x"), None], GRID),
    Layout(["x", None], LINE),
    Layout([None, None], GRID),
    Layout([GRID.axis("y").__class__("y", 1, 2), "x"], GRID),
]


def same(found: Any, wanted: Any) -> None:
    np.testing.assert_array_equal(np.asarray(found.to_jax()), wanted)


@pytest.mark.sweep
@pytest.mark.parametrize("after", LAYOUTS, ids=Layout.short)
@pytest.mark.parametrize("before", LAYOUTS, ids=Layout.short)
def test_there_and_back(before: Layout, after: Layout) -> None:
    x = copy_to_mesh(X, before)
    assert (x.shape, x.layout, x.size, x.nbytes) == (X.shape, before, X.size, X.nbytes)
    same(x, X)
    same(relayout(x, after), X)
    assert relayout(x, after).layout == after


@pytest.mark.sweep
@pytest.mark.parametrize(
    "dtype",
    [np.int8, np.bool_, jnp.bfloat16, np.complex64, np.uint32, jnp.int2, jnp.uint2, jnp.int4],
)
def test_element_types(dtype: Any) -> None:
    values = (X * 3).astype(dtype)
    x = copy_to_mesh(values, ROWS)
    same(x, values)
    same(relayout(x, LAYOUTS[1]), values)
    same(copy_to_mesh(jnp.asarray(values), ROWS), values)


@pytest.mark.parametrize("shape", [(1, 1), (3, 2), (7, 4), (0, 5), (5, 0)])
def test_shapes(shape: tuple[int, int]) -> None:
    values = np.ones(shape, np.float32)
    x = copy_to_mesh(values, Layout(["x", None], FIVE))
    same(x, values)
    same(x + 1, values + 1)
    assert float(x.sum().numpy()) == values.sum()


def test_nothing_along_one_dimension_and_padding_along_another() -> None:
    x = copy_to_mesh(np.ones((4, 0, 6), np.float32), Layout(["x", None, "y"], GRID))
    assert [shard.shape for shard in unpack(x)][-1] == (2, 0, 0)
    same(x, np.ones((4, 0, 6), np.float32))
    same(x * 2, np.ones((4, 0, 6), np.float32))


def test_random_keys() -> None:
    keys = jax.random.split(jax.random.key(3), 6)
    x = copy_to_mesh(keys, Layout(["y"], GRID))
    assert x.shape == (6,)
    np.testing.assert_array_equal(jax.random.key_data(x.to_jax()), jax.random.key_data(keys))
    drawn = jit(lambda k: jax.vmap(lambda key: jax.random.uniform(key, (3,)))(k))(x)
    wanted = jax.vmap(lambda key: jax.random.uniform(key, (3,)))(keys)
    np.testing.assert_array_equal(drawn.to_jax(), wanted)
    again = pickle.loads(pickle.dumps(x)).to_jax()
    np.testing.assert_array_equal(jax.random.key_data(again), jax.random.key_data(keys))


def test_to_jax_is_whole_where_it_is_not_divided() -> None:
    array = copy_to_mesh(X[:, :4], Layout(["y", "x"], GRID)).to_jax()
    assert array.shape == (6, 4)
    assert isinstance(array.sharding, jax.sharding.NamedSharding)
    assert array.sharding.spec == jax.sharding.PartitionSpec(None, "x")


def test_the_sign_of_zeros_is_kept() -> None:
    zeros = np.full((3, 5), -0.0, np.float32)
    for layout in (Layout(["x", None], LINE), Layout([None, ("x", "y")], GRID)):
        assert np.signbit(np.asarray(jit(lambda x: x * 1, in_layouts=layout)(zeros).to_jax())).all()


def test_shards_are_of_the_true_size() -> None:
    x = copy_to_mesh(X, ROWS)
    parts = unpack(x)
    assert [part.shape for part in parts[:4]] == [(2, 5), (2, 5), (2, 5), (0, 5)]
    again = pack(parts, ROWS)
    assert (again.shape, again.layout) == (X.shape, ROWS)
    same(again, X)
    both = Layout(["x", "y"], GRID)
    same(pack(unpack(relayout(x, both)), both), X)


def test_what_pack_refuses() -> None:
    parts = [np.zeros((n, 5), np.float32) for n in (2, 1, 2, 1)] * 2
    with pytest.raises(LayoutError, match=r"shard 0 has \(2, 5\), shard 1 has \(1, 5\)"):
        pack(parts, ROWS)


def test_what_is_printed() -> None:
    text = repr(copy_to_mesh(X, ROWS))
    assert "shape=(6, 5)" in text
    assert [line.partition("]")[0] for line in text.splitlines()[1:]] == [
        "[0:2, 0:5",
        "[2:4, 0:5",
        "[4:6, 0:5",
        "[6:6, 0:5",
    ]
    assert '"CPU:3": []' in str(copy_to_mesh(X, ROWS))


def test_copies_and_pickles() -> None:
    x = copy_to_mesh(X, ROWS)
    for again in (copy.copy(x), copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
        assert again.layout == ROWS
        same(again, X)


def test_operators_keep_the_layout() -> None:
    x = copy_to_mesh(X, ROWS)
    row = copy_to_mesh(X[0], Layout([None], GRID))
    for y, wanted in ((x * 2 + 1, X * 2 + 1), (-x, -X), (x + row, X + X[0]), (x > 0, X > 0)):
        assert y.layout == ROWS
        same(y, wanted)
    same(x.T @ x, X.T @ X)
    same(x[1:4], X[1:4])
    same(x[5], X[5])
    same(x.at[5].set(0.0), jnp.asarray(X).at[5].set(0.0))
    same(jnp_max(x), X.max(0))
    assert x.sum().numpy() == X.sum()
    assert len(x) == 6


def jnp_max(x: DTensor) -> Any:
    return x.max(axis=0)


def test_jax_sees_the_true_size() -> None:
    x = copy_to_mesh(X, ROWS)
    (leaf,) = jax.tree.leaves(x)
    assert leaf.shape == (6, 5)
    assert jax.jit(lambda a: a.sum())(x) == X.sum()
    same(jax.tree.map(lambda a: a + 1, x), X + 1)


def test_variables() -> None:
    v = DVariable(X, layout=ROWS)
    assert v.shape == (6, 5)
    v.assign_add(copy_to_mesh(X, ROWS))
    same(v.value(), 2 * X)
    v.assign(copy_to_mesh(X, LAYOUTS[1]))
    same(v.value(), X)
    assert "shape=(6, 5)" in repr(v)

    @jit
    def step(v: Any) -> Any:
        v.assign_sub(v.value() / v.value().sum())
        return v.value().sum()

    total = step(v)
    np.testing.assert_allclose(total.numpy(), (X - X / X.sum()).sum(), rtol=1e-5)
    np.testing.assert_allclose(v.value().to_jax(), X - X / X.sum(), rtol=1e-6)


def test_gradients_and_donation() -> None:
    def update(w: Any, x: Any) -> Any:
        gradient = jax.grad(lambda w: jnp.log(jnp.exp(x @ w.T).sum(1)).sum())(w)
        return w - 0.1 * gradient

    w, x = X / 9, X[:4] / 9
    step = jit(update, in_layouts=(ROWS, None), out_layouts=ROWS, donate_argnums=0)
    held = copy_to_mesh(w, ROWS)
    given = copy_to_mesh(x, Layout.replicated(GRID, 2))
    for _ in range(3):
        held, w = step(held, given), update(w, x)
    np.testing.assert_allclose(held.to_jax(), w, rtol=1e-5, atol=1e-6)
    assert held.layout == ROWS


def test_a_dtensor_under_jaxs_own_transformations() -> None:
    x = copy_to_mesh(X, ROWS)
    np.testing.assert_array_equal(jax.grad(lambda s: (x * s).sum())(2.0), X.sum())
    np.testing.assert_array_equal(
        jax.vmap(lambda s: x * s)(jnp.arange(3.0)), X * np.arange(3.0)[:, None, None]
    )


def test_export() -> None:
    compiled = jit(lambda a: (a * 2, a.sum(0)), in_layouts=(ROWS,)).lower(X).compile()
    exported = compiled.export()
    given = jax.device_put(X, copy_to_mesh(X, Layout.replicated(GRID, 2)).sharding)
    doubled, total = exported.call(given)
    np.testing.assert_array_equal(doubled, X * 2)
    np.testing.assert_array_equal(total, X.sum(0))


def test_automatic_layouts_beside_an_uneven_one() -> None:
    def total(x: Any, w: Any) -> Any:
        return jnp.tanh(x @ w).sum()

    found = jit(total, in_layouts=(ROWS, AUTO))(X / 9, X[:5] / 9)
    np.testing.assert_allclose(found.numpy(), total(X / 9, X[:5] / 9), rtol=1e-5)


def test_a_deleted_array_is_refused_also_by_what_was_compiled_for_another() -> None:
    same(copy_to_mesh(X, ROWS), X)
    gone = copy_to_mesh(X, ROWS)
    jit(lambda x: x + 1, donate_argnums=0)(gone)
    with pytest.raises(RuntimeError, match="argument x is deleted: its buffers were donated"):
        gone.to_jax()


@pytest.mark.parametrize("donated", [(), (0,)])
def test_nans_and_infinities_in_the_padding_are_not_what_jax_looks_for(donated: Any) -> None:
    ones = np.ones((6, 5), np.float32)
    layout = Layout(["y", "x"], GRID)
    ratio = jit(lambda x: x / x, in_layouts=layout, donate_argnums=donated)
    inverse = jit(lambda x: (1 / x, x.sum()), in_layouts=layout, donate_argnums=donated)
    with jax.debug_nans(True), jax.debug_infs(True):
        same(ratio(ones), ones)
        same(ratio(copy_to_mesh(ones, layout)), ones)
        same(inverse(copy_to_mesh(ones, layout))[0], ones)
        one = copy_to_mesh(ones, layout)
        same(one / (2 * one - one), ones)
        with pytest.raises(FloatingPointError, match="nan"):
            ratio(0 * ones)
        with pytest.raises(FloatingPointError, match="inf"):
            inverse(0 * ones)


def test_waiting_for_a_deleted_array_says_that_it_is_deleted() -> None:
    x = copy_to_mesh(X, ROWS)
    x.delete()
    with pytest.raises(RuntimeError, match="the array is deleted: its buffers were donated"):
        x.block_until_ready()
