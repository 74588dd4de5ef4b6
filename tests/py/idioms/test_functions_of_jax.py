"""Functions of jax, called by themselves on DTensors and given layouts."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import equinox as eqx
import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from dtensor import UNSHARDED, Layout, copy_to_mesh, create_mesh, is_dtensor, named_sharding

MESH = create_mesh([("x", 2), ("y", 4)])
VALUES = np.arange(1, 33, dtype=np.float32).reshape(8, 4)
LAYOUTS = [Layout(specs, MESH) for specs in (["x", "y"], ["y", None], [("x", "y"), None])]
UNEVEN = Layout([None, ("x", "y")], MESH)
FUNCTIONS: list[Callable[[Any], Any]] = [
    lambda x: jnp.add(x, x),
    lambda x: jnp.subtract(1, x),
    lambda x: jnp.where(x > 3, x, 0),
    lambda x: jnp.concatenate([x, x], axis=1),
    lambda x: jnp.stack([x, 2 * x]),
    lambda x: jnp.einsum("ij,kj->ik", x, x),
    lambda x: jnp.asarray(x),
    lambda x: jnp.array([x, x]),
    lambda x: jnp.sum(x, axis=0),
    lambda x: jax.nn.gelu(x),
    lambda x: jax.lax.add(x, x),
    lambda x: jax.lax.sort(x),
]
OPERATORS = [operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv]
OPERATORS += [operator.mod, operator.pow, operator.eq, operator.ne, operator.lt, operator.ge]


@pytest.mark.parametrize("layout", [*LAYOUTS, UNEVEN], ids=Layout.short)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_it_takes_a_dtensor_and_gives_an_array(
    function: Callable[[Any], Any], layout: Layout
) -> None:
    result = function(copy_to_mesh(VALUES, layout))
    assert isinstance(result, jax.Array)
    np.testing.assert_allclose(result, function(VALUES), rtol=1e-6)  # order of sums of four


def test_no_element_moves() -> None:
    x: Any = copy_to_mesh(VALUES, LAYOUTS[0])
    places = [shard.unsafe_buffer_pointer() for shard in x.unpack()]
    array = jnp.asarray(x)
    assert [part.data.unsafe_buffer_pointer() for part in array.addressable_shards] == places
    assert jnp.add(x, 1).sharding.is_equivalent_to(x.sharding, 2)


@pytest.mark.parametrize("function", OPERATORS)
def test_an_operator_gives_a_dtensor_on_either_side(function: Callable[[Any, Any], Any]) -> None:
    x = copy_to_mesh(VALUES / 8, LAYOUTS[0])
    for left, right in ((x, x.to_jax() + 1), (x.to_jax() + 1, x)):
        result = function(left, right)
        assert is_dtensor(result)
        expected = function(np.asarray(jnp.asarray(left)), np.asarray(jnp.asarray(right)))
        np.testing.assert_allclose(result.to_jax(), expected, rtol=1e-6)  # of division and power
    assert is_dtensor(x.to_jax().T @ x)


def test_a_gradient_takes_a_dtensor_beside_its_argument() -> None:
    x: Any = copy_to_mesh(VALUES, LAYOUTS[1])
    slope = jax.grad(lambda v: jnp.vdot(v, jnp.concatenate([x[:4], x[4:]])))(x)
    assert slope.layout == x.layout
    np.testing.assert_array_equal(slope.to_jax(), VALUES)


def test_jax_takes_the_sharding_of_a_layout() -> None:
    rows = Layout(["x", UNSHARDED], MESH)
    sharding = named_sharding(rows)
    assert jax.device_put(VALUES, sharding).sharding == copy_to_mesh(VALUES, rows).sharding
    assert jnp.zeros((8, 4), device=sharding).sharding == sharding
    with pytest.raises(ValueError, match=r"invalid value: Layout\(\['x', UNSHARDED\], Mesh\(x=2, "):
        jax.device_put(VALUES, rows)


def test_layers_of_libraries_are_called_by_themselves() -> None:
    x: Any = copy_to_mesh(VALUES, LAYOUTS[0])
    dense = nn.Dense(3)
    weights = dense.init(jax.random.key(0), x)
    found, expected = dense.apply(weights, x), dense.apply(weights, VALUES)
    np.testing.assert_allclose(jnp.asarray(found), jnp.asarray(expected), rtol=1e-6)  # sums of four
    linear = eqx.nn.Linear(4, 2, key=jax.random.key(0))
    np.testing.assert_allclose(
        jax.vmap(linear)(x), jax.vmap(linear)(jnp.asarray(VALUES)), rtol=1e-6
    )
    loss = jnp.asarray(optax.softmax_cross_entropy(x, x))
    np.testing.assert_allclose(loss, optax.softmax_cross_entropy(VALUES, VALUES), rtol=1e-6)
