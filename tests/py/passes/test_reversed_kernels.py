"""Convolutions of what is reversed, whose results are reversed again, on 8 devices against one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from dtensor.dialect.layout import UNSHARDED
from tests.py.passes.on_mesh import GRID, LINE, kinds, numbers, run, sent

KERNEL = np.random.default_rng(3).integers(-2, 3, (5, 4)).astype(np.float32)
BELOW = ["x", UNSHARDED]


def correlated(mode: Any) -> Callable[[Any], Any]:
    return lambda x: jax.scipy.signal.correlate2d(x, jnp.asarray(KERNEL), mode=mode)


@pytest.mark.sweep
@pytest.mark.parametrize("mode", ["same", "full", "valid"])
def test_correlations_and_their_gradients_send_few_rows(mode: Any) -> None:
    program = correlated(mode)
    gradient = jax.grad(lambda x: jnp.sum(program(x) ** 2))
    for x in (numbers((192, 24)), numbers((189, 23))):
        for times, function in enumerate((program, gradient), 1):
            compiled = run(function, LINE, [BELOW], x, out=BELOW)
            rows, columns = (10, 27) if mode == "full" else (4, 24)
            assert kinds(compiled) <= {"halo_exchange"}
            assert sent(compiled) <= times * rows * columns * 4
    run(program, GRID, [["y", "x"]], numbers((192, 24)))


def test_a_kernel_that_is_given_has_its_gradient() -> None:
    def loss(k: Any, x: Any) -> Any:
        return jnp.sum(jax.scipy.signal.correlate2d(x, k, mode="same") ** 2)

    compiled = run(jax.grad(loss), LINE, [None, BELOW], KERNEL, numbers((192, 24)))
    assert compiled.wire_bytes < 192 * 24 * 4


def walked(x: Any, dims: tuple[int, ...], **how: Any) -> Any:
    """Along some dimensions of images, with channels behind."""
    kernel = jnp.arange(24.0).reshape(3, 2, 2, 2) - 9
    found = lax.conv_general_dilated(
        jnp.flip(x, dims), kernel, dimension_numbers=("NHWC", "HWIO", "NHWC"), **how
    )
    return jnp.flip(found, dims)


@pytest.mark.sweep
@pytest.mark.parametrize("dims", [(1,), (1, 2), (2,), (0, 1), (1, 3)])
@pytest.mark.parametrize(
    "how",
    [
        {"window_strides": (1, 1), "padding": [(2, 1), (0, 3)]},
        {"window_strides": (1, 1), "padding": [(0, 2), (1, 0)], "rhs_dilation": (2, 3)},
        {"window_strides": (1, 1), "padding": [(1, 2), (2, 0)], "lhs_dilation": (2, 1)},
        {"window_strides": (2, 1), "padding": [(1, 2), (2, 0)]},
    ],
)
def test_windows_of_images(how: dict[str, Any], dims: tuple[int, ...]) -> None:
    x = numbers((2, 16, 9, 2))
    run(lambda x: walked(x, dims, **how), LINE, [[UNSHARDED, "x", UNSHARDED, UNSHARDED]], x)


def causal(x: Any, k: Any) -> Any:
    """Each element of what came before it."""
    return jnp.convolve(x, k)[: x.shape[0]]


def padded(x: Any, k: Any) -> Any:
    return jnp.convolve(jnp.pad(x, (k.shape[0] - 1, 0)), k, mode="valid")


def middle(x: Any, k: Any) -> Any:
    return jnp.convolve(x, k)[3:-5]


@pytest.mark.parametrize("program", [causal, padded, middle])
def test_windows_that_nobody_reads_are_left_out(program: Callable[..., Any]) -> None:
    kernel = jnp.asarray([1.0, -2.0, 3.0, 1.0, 2.0])
    x = numbers((192,))
    out = None if program is middle else ["x"]
    compiled = run(program, LINE, [["x"], None], x, kernel, out=out)
    # Of the middle shards have 24 results, and the last 20, which are 23 each in the end.
    assert compiled.wire_bytes == (4 * 4 if program is not middle else 80)
    columns = jax.vmap(program, (1, 1), 1)
    run(columns, GRID, [["y", "x"], None], numbers((192, 6)), jnp.tile(kernel[:, None], 6))
    gradient = jax.grad(lambda x, k: jnp.sum(program(x, k) ** 2), (0, 1))
    run(gradient, LINE, [["x"], None], x, kernel)
    run(program, LINE, [["x"], None], numbers((189,)), kernel[:1])
