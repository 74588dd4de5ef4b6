"""Gradients of `jax.lax.associative_scan` along split dimensions on 8 devices, against one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from dtensor.dialect.layout import UNSHARDED
from dtensor.dialect.mesh import Mesh
from tests.py.passes.on_mesh import GRID, LINE, kinds, run, sent
from tests.py.uneven.on_meshes import FIVE

ROWS = ["x", UNSHARDED]
SLICE = 3 * 4  # bytes of one place of the arrays here
LENGTH = 64  # a scan of 512 places is three levels deeper, each like the one above
ROUNDING = 2e-5  # of sums and products of up to 512 numbers, in another order


def array(rows: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).normal(size=(rows, 3)).astype(np.float32)


def affine(left: Any, right: Any) -> Any:
    return left[0] * right[0], left[1] * right[0] + right[1]


def turned(left: Any, right: Any) -> Any:
    """Products of complex numbers, in two arrays."""
    return left[0] * right[0] - left[1] * right[1], left[0] * right[1] + left[1] * right[0]


def less(left: Any, right: Any) -> Any:
    """The recurrence, in differences and with the sign turned twice."""
    return -(left[0] * -right[0]), right[1] - -left[1] * right[0]


def recurrence(a: Any, b: Any, **options: Any) -> Any:
    return lax.associative_scan(affine, (jax.nn.sigmoid(a), b), **options)


def gradients(loss: Callable[..., Any]) -> Callable[..., Any]:
    return jax.grad(lambda a, b: jnp.sum(jnp.sin(loss(a, b))), (0, 1))


def both_ways(a: Any, b: Any) -> Any:
    return recurrence(a, b)[1] * recurrence(a, b, reverse=True)[1]


# Per form how many slices each shard sends: a recurrence five, of three rounds in the last of which
# nobody reads the products, and two shifts by one.
FORMS: dict[str, tuple[Callable[..., Any], int]] = {
    "one": (lambda a, b: recurrence(a, b)[1], 12),
    "reverse": (lambda a, b: recurrence(a, b, reverse=True)[1], 12),
    "last": (lambda a, b: recurrence(a, b)[1] * (np.arange(LENGTH) > LENGTH - 2)[:, None], 12),
    "products too": (lambda a, b: sum(recurrence(a, b)), 20),
    "b is read again": (lambda a, b: recurrence(a, b)[1] * b, 12),
    "b is computed of a": (lambda a, b: recurrence(a, b * jnp.cos(a))[1], 12),
    "given a": (lambda a, b: lax.associative_scan(affine, (a / 4, b))[1] * a, 12),
    "two, one after the other": (lambda a, b: recurrence(a, recurrence(a, b)[1])[1], 24),
    "both ways": (both_ways, 24),
    "checkpoint": (jax.checkpoint(lambda a, b: recurrence(a, b)[1]), 18),
    "what is subtracted": (lambda a, b: lax.associative_scan(less, (a / 4, b))[1] * a, 12),
    "complex numbers": (
        lambda a, b: sum(lax.associative_scan(turned, (1 + a / LENGTH, b / LENGTH))),
        24,
    ),
    "sums": (lambda a, b: lax.associative_scan(jnp.add, a / 20) + b, 7),
    "sums from the end": (lambda a, b: lax.associative_scan(jnp.add, a / 20, reverse=True) + b, 7),
    "products": (lambda a, b: jnp.cumprod(1 + a / 90, 0) + b, 10),
}


@pytest.mark.sweep
@pytest.mark.parametrize("name", FORMS)
def test_a_gradient_is_a_scan_that_goes_the_other_way(name: str) -> None:
    loss, slices = FORMS[name]
    a, b = array(LENGTH), array(LENGTH, 1)
    compiled = run(gradients(loss), LINE, [ROWS, ROWS], a, b, out=ROWS, absolute=ROUNDING)
    assert kinds(compiled) == {"shard_permute"}
    assert sent(compiled) == slices * SLICE


@pytest.mark.sweep
@pytest.mark.parametrize(
    ("mesh", "specs", "rows"),
    [
        (LINE, ROWS, 13),
        (LINE, ROWS, 63),
        (FIVE, ROWS, 35),
        (GRID, [("x", "y"), UNSHARDED], 24),
        (GRID, ["y", UNSHARDED], 37),
    ],
)
def test_gradients_of_any_size(mesh: Mesh, specs: list[Any], rows: int) -> None:
    for reverse in (False, True):
        grads = gradients(lambda a, b, r=reverse: recurrence(a, b, reverse=r)[1])
        run(grads, mesh, [specs, specs], array(rows), array(rows, 1), absolute=ROUNDING)


def products(left: Any, right: Any) -> Any:
    """Of two operands, which decay a third one, each along a dimension of its own."""
    a, b, c = right
    return left[0] * a, left[1] * b, left[2] * (a * b) + c


def weighted(a: Any, b: Any) -> Any:
    """What each place adds decays as the operands decay along the rows and the columns."""
    operands = jnp.cos(a)[:, :, None], jnp.cos(b)[:, None, :], a[:, :, None] * b[:, None, :]
    return lax.associative_scan(products, operands)[2]


# Per form how many elements each shard sends: both scans take three rounds, in the last of which
# nobody reads the products, and two arrays of all columns are shifted by one.
BROADCAST: dict[str, tuple[Callable[..., Any], int]] = {
    "one": (lambda a, b: recurrence(a[:, :1], b)[1], 28),
    "reverse": (lambda a, b: recurrence(a[:, :1], b, reverse=True)[1], 28),
    "products too": (lambda a, b: sum(recurrence(a[:, :1], b)), 36),
    "of the middle": (lambda a, b: recurrence(a[:, None], jnp.stack([b, a], 1))[1], 60),
    "two of three": (weighted, 102),
}


@pytest.mark.sweep
@pytest.mark.parametrize("name", BROADCAST)
@pytest.mark.parametrize("rows", [64, 61, 50])
def test_gradients_of_operands_that_are_broadcast(name: str, rows: int) -> None:
    """What is sent does not depend on how often the rows can be halved."""
    loss, elements = BROADCAST[name]
    a, b = array(rows), array(rows, 1)
    compiled = run(gradients(loss), LINE, [ROWS, ROWS], a, b, out=ROWS, absolute=ROUNDING)
    assert kinds(compiled) == {"shard_permute"}
    if rows % 8 == 0:
        assert sent(compiled) == elements * 4


def test_gradients_of_complex_numbers_and_of_sixteen_bits() -> None:
    def loss(a: Any, b: Any) -> Any:
        turns = lax.associative_scan(affine, (0.9 * jnp.exp(1j * a), b + 0j))[1]
        return jnp.abs(turns) ** 2

    a, b = array(128), array(128, 1)
    compiled = run(gradients(loss), LINE, [ROWS, ROWS], a, b, absolute=1e-3)
    assert kinds(compiled) == {"shard_permute"}
    narrow = [x.astype(jnp.bfloat16) for x in (a, b)]
    grads = gradients(lambda a, b: recurrence(a, b)[1])
    run(grads, LINE, [ROWS, ROWS], *narrow, absolute=0.05)


def test_a_gradient_of_something_else_stays_what_it_is() -> None:
    """Not all that is taken apart by slices is the gradient of a scan."""

    def almost(a: Any, b: Any) -> Any:
        found, pull = jax.vjp(lambda a, b: recurrence(a, b)[1], a, b)
        down, up = pull(jnp.cos(found))
        return down.at[100].add(1.0), up * 2 + jnp.roll(found, 1, 0)

    run(almost, LINE, [ROWS, ROWS], array(128), array(128, 1), absolute=ROUNDING)


def test_gradients_of_layers_in_a_loop() -> None:
    """Each trip computes its scan again on the way back."""

    @jax.checkpoint
    def layer(h: Any, w: Any) -> Any:
        return lax.associative_scan(affine, (jax.nn.sigmoid(h * w), h))[1], None

    def loss(w: Any, h: Any) -> Any:
        return jnp.mean(lax.scan(layer, h, w)[0] ** 2)

    run(jax.grad(loss), LINE, [[UNSHARDED, UNSHARDED], ROWS], array(4), array(512, 1), error=1e-5)
