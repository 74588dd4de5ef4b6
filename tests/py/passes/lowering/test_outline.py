"""Sums that are read by many kernels, as calls of functions, on 8 devices and one."""

from __future__ import annotations

import re
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dtensor.compiler.api import jit
from dtensor.dialect.layout import UNSHARDED, Layout
from tests.py.on_host import on_host
from tests.py.passes.on_mesh import GRID, run

LAYERS = 6
CALLEE = re.compile(r"call @(dtensor_\w+)\(")


def normed(x: Any) -> Any:
    """Each row with a mean of 0 and a variance of 1."""
    centred = x - x.mean(-1, keepdims=True)
    return centred * jax.lax.rsqrt((centred * centred).mean(-1, keepdims=True) + 1e-5)


def layers(x: Any, up: Any, down: Any) -> Any:
    """A residual stream: each layer reads the sum of all before it."""
    for k in range(LAYERS):
        x = x + jnp.tanh(normed(x) @ up[k]) @ down[k]
        x = x + 0.25 * normed(x)
    return x


def loss(x: Any, up: Any, down: Any) -> Any:
    """A number, whose gradient reads every sum again."""
    return (layers(x, up, down) ** 2).mean()


def whole(x: Any, up: Any, down: Any) -> Any:
    """A residual stream of whole numbers, all sums of which are exact."""
    for k in range(LAYERS):
        x = x + (x % 5 + x.sum(-1, keepdims=True) % 3) @ up[k] % 7 @ down[k] % 11
        x = x + x % 3 * (x.max(-1, keepdims=True) % 2)
    return x


def values(rows: int, width: int) -> list[Any]:
    """An input and the weights of all layers."""
    make = np.random.default_rng(0).normal
    shapes = (rows, width), (LAYERS, width, 2 * width), (LAYERS, 2 * width, width)
    return [jnp.asarray(0.3 * make(size=shape), jnp.float32) for shape in shapes]


def callees(function: Any, *args: Any, layouts: Any) -> list[str]:
    """The functions that the program of one device calls, one as often as it does."""
    lowered = jit(function, in_layouts=tuple(Layout(s, GRID) for s in layouts)).lower(*args)
    return CALLEE.findall(lowered.as_text())


ROWS = [["x", UNSHARDED], [UNSHARDED] * 3, [UNSHARDED] * 3]
BOTH = [["x", UNSHARDED], [UNSHARDED, UNSHARDED, "y"], [UNSHARDED, "y", UNSHARDED]]
TURNED = [["y", "x"], [UNSHARDED, "x", UNSHARDED], [UNSHARDED, UNSHARDED, "x"]]


@pytest.mark.sweep
@pytest.mark.parametrize(("rows", "width"), [(64, 32), (51, 30)])
@pytest.mark.parametrize("layouts", [ROWS, BOTH, TURNED])
def test_layers_and_their_gradients_are_those_of_one_device(
    layouts: Any, rows: int, width: int
) -> None:
    step = jax.value_and_grad(loss, argnums=(0, 1, 2))
    run(step, GRID, layouts, *values(rows, width), error=2e-4, absolute=2e-5)


@pytest.mark.sweep
@pytest.mark.parametrize("dtype", [np.int32, np.uint8])
@pytest.mark.parametrize(("rows", "width"), [(256, 32), (151, 30)])
@pytest.mark.parametrize("layouts", [ROWS, BOTH, TURNED])
def test_layers_of_whole_numbers_are_exact(layouts: Any, rows: int, width: int, dtype: Any) -> None:
    args = [(9 * value).astype(jnp.int32).astype(dtype) for value in values(rows, width)]
    run(whole, GRID, layouts, *args)


def test_equal_layers_call_one_function() -> None:
    found = callees(jax.grad(loss, argnums=(0, 1, 2)), *values(64, 32), layouts=ROWS)
    assert len(found) > 2 * LAYERS
    assert max(map(found.count, found)) >= LAYERS - 2  # the first and the last differ


def test_sums_that_few_kernels_read_are_no_calls() -> None:
    def two(x: Any, up: Any, down: Any) -> Any:
        return x + jnp.tanh(x @ up[0]) @ down[0] + normed(x)

    assert not callees(two, *values(64, 32), layouts=ROWS)


def test_a_loop_over_layers_calls_nothing() -> None:
    def scanned(x: Any, up: Any, down: Any) -> Any:
        body: Any = lambda x, w: (x + jnp.tanh(normed(x) @ w[0]) @ w[1], None)  # noqa: E731
        return jax.lax.scan(body, x, (up, down))[0]

    assert not callees(jax.grad(lambda *a: scanned(*a).sum()), *values(64, 32), layouts=ROWS)


def test_layers_in_a_loop_are_those_of_one_device() -> None:
    def repeated(x: Any, up: Any, down: Any) -> Any:
        body: Any = lambda _, x: normed(layers(x, up, down))  # noqa: E731
        return jax.lax.fori_loop(0, 3, body, x)

    args = values(256, 32)
    assert callees(repeated, *args, layouts=BOTH)
    run(repeated, GRID, BOTH, *args, error=2e-4, absolute=2e-5)


def test_donated_arguments_may_be_terms_of_the_sums() -> None:
    args = values(64, 32)
    expected = layers(*args)
    layouts = tuple(Layout(s, GRID) for s in ROWS)
    step = jit(layers, in_layouts=layouts, donate_argnums=(0,))
    np.testing.assert_allclose(on_host(step(*args))[0], expected, rtol=2e-4, atol=2e-5)
