"""jax's transformations of compiled functions, and optimizers called outside of programs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from dtensor import Layout, copy_to_mesh, create_mesh, is_dtensor, jit

MESH = create_mesh([("x", 2), ("y", 4)])
V = np.linspace(-1.0, 2.0, 8, dtype=np.float32)
SPLIT = Layout(["y"], MESH)


def cubes(v: Any) -> Any:
    return jnp.sum(jnp.sin(v) ** 3 * v)


TRANSFORMS: dict[str, Callable[[Any, Any], Any]] = {
    "grad": lambda f, v: jax.grad(f)(v),
    "jacfwd": lambda f, v: jax.jacfwd(f)(v),
    "jacrev": lambda f, v: jax.jacrev(f)(v),
    "hessian": lambda f, v: jax.hessian(f)(v),
    "linearize": lambda f, v: jax.linearize(f, v)[1](v),
    "vjp": lambda f, v: jax.vjp(f, v)[1](jnp.float32(2)),
    "jvp": lambda f, v: jax.jvp(f, (v,), (v,)),
    "checkpoint": lambda f, v: jax.grad(jax.checkpoint(f))(v),
    "vmap": lambda f, v: jax.vmap(f)(v),
    "jit": lambda f, v: jax.jit(f)(v),
}
OF_TREES_OF_THEIR_OWN = ["jacfwd", "jacrev", "hessian"]


@pytest.mark.sweep
@pytest.mark.parametrize("name", TRANSFORMS)
@pytest.mark.parametrize("given", ["host", "array", "dtensor"])
def test_a_compiled_function_is_transformed(name: str, given: str) -> None:
    transform = TRANSFORMS[name]
    placed = copy_to_mesh(V, SPLIT)
    v: Any = {"host": V, "array": placed.to_jax(), "dtensor": placed}[given]
    step = jit(cubes, in_layouts=None if name == "vmap" else SPLIT)  # it sees one element then
    if given == "dtensor" and name in OF_TREES_OF_THEIR_OWN:  # which stand in the program, then
        found = jit(lambda v: transform(step, v))(v)
    else:
        found = transform(step, v)
    expected = jax.tree.leaves(transform(cubes, V))
    for array, values in zip(jax.tree.leaves(found), expected, strict=True):
        np.testing.assert_allclose(array, values, rtol=1e-5, atol=1e-6)  # sums over 4 shards


OPTIMIZERS: dict[str, Callable[[], Any]] = {
    "adam": lambda: optax.adam(0.1),
    "clipped": lambda: optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(0.1)),
    "scheduled": lambda: optax.nadam(optax.cosine_decay_schedule(0.1, 10)),
    "by layer": lambda: optax.lamb(0.1),
    "factored": lambda: optax.adafactor(0.1),
    "every second": lambda: optax.MultiSteps(optax.adam(0.1), 2),
}


@pytest.mark.sweep
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_an_optimizer_runs_outside_of_a_program(name: str) -> None:
    """Its update compiled, since optax itself runs parts of some under jax.jit; jax's likewise."""
    tx = OPTIMIZERS[name]()
    w = np.outer(V, V[:4])
    layouts = {"w": Layout(["x", "y"], MESH), "b": Layout([None], MESH)}

    def train(params: Any, update: Any) -> Any:
        state = tx.init(params)
        for _ in range(4):
            gradients = jax.grad(lambda p: jnp.sum((p["w"] + p["b"]) ** 3))(params)
            updates, state = update(gradients, state, params)
            params = optax.apply_updates(params, updates)
        return params

    plain = {"w": w, "b": V[:4]}
    expected = train(plain, jax.jit(tx.update))
    params = {key: copy_to_mesh(value, layouts[key]) for key, value in plain.items()}
    found = train(params, jit(tx.update))
    for key, value in expected.items():
        assert is_dtensor(found[key])
        assert found[key].layout.mesh == MESH
        np.testing.assert_allclose(found[key].to_jax(), value, rtol=1e-5, atol=1e-6)  # of sums
