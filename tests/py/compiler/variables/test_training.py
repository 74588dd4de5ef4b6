"""Training loops that update variables."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import dtensor
from dtensor.compiler.api import jit
from dtensor.compiler.relayout import copy_to_mesh
from dtensor.compiler.variables.engine import DVariable
from dtensor.dialect.layout import UNSHARDED, Layout
from tests.py.compiler.variables.support import (
    BOTH,
    COLUMNS,
    MESH,
    ROWS,
    SCALAR,
    VALUES,
    WHOLE,
    values,
    variable,
)


@pytest.mark.sweep
@pytest.mark.parametrize(
    ("w_layout", "b_layout", "x_layout"),
    [
        (WHOLE, Layout([UNSHARDED], MESH), ROWS),
        (COLUMNS, Layout(["y"], MESH), ROWS),
        (BOTH, Layout(["y"], MESH), WHOLE),
        (Layout(["y", UNSHARDED], MESH), Layout(["x"], MESH), COLUMNS),
    ],
    ids=["data", "data_and_model", "both", "contraction"],
)
@pytest.mark.parametrize("style", ["arguments", "closure"])
def test_training_is_that_of_one_device(
    w_layout: Layout, b_layout: Layout, x_layout: Layout, style: str
) -> None:
    random = np.random.default_rng(0)
    shapes = [(8, 4), (4,), (12, 8), (12, 4)]
    w0, b0, x, y = (random.normal(size=shape).astype(np.float32) for shape in shapes)
    params = {"w": DVariable(w0, layout=w_layout), "b": DVariable(b0, layout=b_layout)}
    steps = DVariable(0, layout=SCALAR, name="steps")

    def loss(params: Any, x: Any, y: Any) -> Any:
        return jnp.mean((x @ params["w"].value() + params["b"] - y) ** 2)

    def update(params: Any, x: Any, y: Any) -> Any:
        value, gradients = jax.value_and_grad(loss)(params, x, y)
        for name, parameter in params.items():
            parameter.assign_sub(0.5 * gradients[name])
        steps.assign_add(1)
        return value

    given: list[Any] = [copy_to_mesh(x, x_layout), y]
    if style == "arguments":
        step = jit(update)
        given.insert(0, params)
    else:
        step = jit(lambda x, y: update(params, x, y))
    w, b = w0.astype(float), b0.astype(float)
    for _ in range(5):
        error = x @ w + b - y
        expected = (error**2).mean()
        w -= 0.5 * 2 * x.T @ error / error.size
        b -= 0.5 * 2 * error.sum(0) / error.size
        # f32 against f64 over five steps: 1e-5
        np.testing.assert_allclose(values(step(*given)), expected, rtol=1e-5)
    np.testing.assert_allclose(values(params["w"]), w, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(values(params["b"]), b, rtol=1e-5, atol=1e-5)
    assert (params["w"].value().layout, params["b"].value().layout) == (w_layout, b_layout)
    assert int(steps) == 5
    assert len(step._programs) == 1


def test_optax_updates_variables_by_their_values() -> None:
    optimizer = optax.sgd(0.1, momentum=0.9)
    variables = {"w": variable(BOTH), "b": DVariable(VALUES[0], layout=Layout(["y"], MESH))}

    def loss(params: Any, x: Any) -> Any:
        return jnp.mean((params["w"] @ x + params["b"].sum()) ** 2)

    @jit
    def step(state: Any, x: Any) -> Any:
        values = jax.tree.map(lambda v: v.value(), variables, is_leaf=dtensor.is_dtensor)
        gradients = jax.grad(loss)(variables, x)
        updates, state = optimizer.update(gradients, state, values)
        new = optax.apply_updates(values, updates)
        jax.tree.map(lambda v, n: v.assign(n), variables, new, is_leaf=dtensor.is_dtensor)
        return state

    params = {"w": VALUES, "b": VALUES[0]}
    state, expected_state = jit(optimizer.init)(variables), optimizer.init(params)
    for n in range(3):
        x = np.full(16, n, np.float32)
        state = step(state, x)
        updates, expected_state = optimizer.update(jax.grad(loss)(params, x), expected_state)
        params = optax.apply_updates(params, updates)
    for name, expected in params.items():
        # f32 sums over shards, three steps: 1e-5
        np.testing.assert_allclose(values(variables[name]), expected, rtol=1e-5, atol=1e-5)
