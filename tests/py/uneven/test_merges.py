"""What is computed of dimensions that a reshape merges, of which an inner one does not divide.

Values against one device, with NaN in the padding; nothing is put together.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dtensor.compiler.mlir_frontend import compile_mlir
from dtensor.dialect.layout import UNSHARDED, Layout
from tests.py.uneven.on_meshes import GRID, check, cuts, gathered, sent

RANDOM = np.random.default_rng(5)
ROWS, COLUMNS, WIDTH, WORDS = 13, 19, 3, 7
MATRIX = RANDOM.normal(size=(ROWS, COLUMNS)).astype(np.float32)
TOKENS = RANDOM.normal(size=(ROWS, COLUMNS, WIDTH)).astype(np.float32)
UP = RANDOM.normal(size=(WIDTH, WORDS)).astype(np.float32)
WORD = RANDOM.integers(0, WORDS, (ROWS, COLUMNS)).astype(np.int32)
SCALAR = 4  # bytes


def loss(x: Any, words: Any) -> Any:
    """As optax and flax have it, of tokens in one dimension."""
    logits = jax.nn.log_softmax((x @ UP).reshape(-1, WORDS))
    return -(logits * jax.nn.one_hot(words.reshape(-1), WORDS)).sum(-1).mean()


def feed_forward(x: Any) -> Any:
    flat = jnp.tanh(x.reshape(-1, WIDTH) @ UP + jnp.arange(7.0))
    return (flat @ UP.T).reshape(x.shape)


def of_each_word(x: Any, words: Any) -> Any:
    return jax.ops.segment_sum(x.reshape(-1, WIDTH), words.reshape(-1), WORDS)


def embedded(words: Any) -> Any:
    return jnp.tanh(jnp.asarray(UP.T)[words.reshape(-1)] @ UP).reshape(*words.shape, WORDS)


def standardised(x: Any) -> Any:
    """Whose variance has a choice by a scalar."""
    flat = x.reshape(-1, WIDTH)
    return ((flat - flat.mean(-1, keepdims=True)) / flat.std(-1, keepdims=True)).reshape(x.shape)


def solved(b: Any) -> Any:
    """Conjugate gradients, whose scalars are `jnp.vdot`."""
    return jax.scipy.sparse.linalg.cg(lambda x: 3 * x + 0.1 * x * jnp.abs(b), b, maxiter=3)[0]


@pytest.mark.sweep
@pytest.mark.parametrize(
    ("function", "values", "scalars"),
    [
        (lambda x: jnp.vdot(x, x + 1), (MATRIX,), 1),
        (lambda x: jnp.where(x > 0, x, 9.0).ravel().min(), (MATRIX,), 1),
        (lambda x: x.reshape(-1).std(), (MATRIX,), 2),
        (lambda x: (jnp.arange(ROWS * COLUMNS) * x.reshape(-1)).sum(), (MATRIX,), 1),
        (lambda x: jnp.exp(x.ravel()).reshape(x.shape), (MATRIX,), 0),
        (lambda x: jnp.tanh(x.reshape(-1, WIDTH).T).sum(1), (TOKENS,), WIDTH),
        (lambda x: x.reshape(-1, WIDTH).T @ x.reshape(-1, WIDTH), (TOKENS,), WIDTH**2),
        (feed_forward, (TOKENS,), 0),
        (jax.grad(lambda x: (feed_forward(x) ** 2).sum()), (TOKENS,), 0),
        (loss, (TOKENS, WORD), 1),
        (jax.grad(loss), (TOKENS, WORD), 0),
        (solved, (MATRIX,), 12),
        (lambda words: jnp.bincount(words.ravel(), length=WORDS), (WORD,), WORDS),
        (of_each_word, (TOKENS, WORD), WIDTH * WORDS),
        (jax.grad(lambda x, words: (of_each_word(x, words) ** 2).sum()), (TOKENS, WORD), 21),
        (embedded, (WORD,), 0),
        (standardised, (TOKENS,), 0),
        (jnp.argmax, (MATRIX,), 4),
        (lambda x: jnp.unravel_index(jnp.nanargmin(x), x.shape), (MATRIX,), 4),
    ],
)
def test_nothing_is_put_together(
    function: Callable[..., Any], values: tuple[Any, ...], scalars: int
) -> None:
    layouts = tuple([Layout(["x", "y", *[UNSHARDED] * (v.ndim - 2)], GRID) for v in values])
    compiled = check(function, *values, in_layouts=layouts, error=1e-4, absolute=1e-4)
    assert not gathered(compiled)
    assert not cuts(compiled)
    assert sent(compiled) <= 2 * scalars * SCALAR


def test_the_largest_of_merged_dimensions_are_among_those_of_each_row() -> None:
    """As in a beam search, whose vocabulary is split; ties are of the first row."""

    def step(total: Any, logits: Any) -> Any:
        scores = total[..., None] + jax.nn.log_softmax(logits)
        best, place = jax.lax.top_k(scores.reshape(2, -1), 3)
        return best, place // COLUMNS, place % COLUMNS

    total, logits = jnp.zeros((2, 3)), np.round(RANDOM.normal(size=(2, 3, COLUMNS)) / 2)
    layouts = Layout.replicated(GRID, 2), Layout([UNSHARDED, UNSHARDED, ("x", "y")], GRID)
    compiled = check(step, total, logits.astype(np.float32), in_layouts=layouts, error=1e-6)
    assert not cuts(compiled)
    candidates = 2 * 3 * 3 * 8 * 2 * SCALAR
    assert sent(compiled) <= candidates + 4 * 2 * 3 * SCALAR


# Each type and shape in two of three layouts: of the largest, and of the largest five.
LARGEST = [
    (shape, dtype, count, ([("x", "y")], ["y", "x"], ["x", ("y",)])[(i + j + count) % 3])
    for i, dtype in enumerate([np.float32, np.int8, jnp.bfloat16])
    for j, shape in enumerate([(13, 5), (2, 3, 11), (1, 9)])
    for count in (1, 5)
]


@pytest.mark.sweep
@pytest.mark.parametrize(("shape", "dtype", "count", "specs"), LARGEST)
def test_the_largest_of_all(
    shape: tuple[int, ...], dtype: Any, count: int, specs: list[Any]
) -> None:
    x = RANDOM.integers(-3, 4, shape).astype(dtype)
    if dtype is not np.int8:
        x.reshape(-1)[3] = np.nan
    layout = Layout([UNSHARDED] * (len(shape) - len(specs)) + specs, GRID)
    check(lambda x: jax.lax.top_k(x.reshape(-1), count), x, in_layouts=(layout,))


def test_what_needs_merged_dimensions_is_merged_where_it_is_smallest() -> None:
    """Scores of words are more than what they are computed of."""

    def sorted_scores(x: Any) -> Any:
        return jnp.cumsum(x.reshape(-1, WIDTH) @ UP, 0)

    layout = Layout(["x", "y", UNSHARDED], GRID)
    compiled = check(sorted_scores, TOKENS, in_layouts=(layout,), error=1e-4, absolute=1e-4)
    whole = 16 * 20 * WIDTH * 4
    assert sum(c.bytes for c in compiled.collectives if "f32" in str(c)) <= 2 * whole


def test_a_map_over_merged_dimensions_names_them_and_stays() -> None:
    compiled = compile_mlir(
        """
        func.func @main(%a: tensor<3x13xf32>) -> tensor<39xf32> {
          %0 = stablehlo.reshape %a : (tensor<3x13xf32>) -> tensor<39xf32>
          %1 = "stablehlo.map"(%0, %0) ({
            ^bb0(%x: tensor<f32>, %y: tensor<f32>):
              %s = stablehlo.multiply %x, %y : tensor<f32>
              stablehlo.return %s : tensor<f32>
          }) {dimensions = array<i64: 0>} : (tensor<39xf32>, tensor<39xf32>) -> tensor<39xf32>
          return %1 : tensor<39xf32>
        }
        """,
        mesh=GRID,
        in_layouts=[Layout([UNSHARDED, "y"], GRID)],
        out_layouts=[Layout([UNSHARDED], GRID)],
    )
    a = MATRIX[:3, :13]
    (found,) = compiled(a)
    np.testing.assert_array_equal(np.asarray(found), (a * a).reshape(-1))


def test_positions_along_merged_dimensions_are_rounded_once() -> None:
    """A place of two digits, each of which bfloat16 rounds, is another number."""
    x = np.ones((54, 37), jnp.bfloat16)

    def weighted(x: Any) -> Any:
        flat = x.reshape(-1)
        return (flat * jnp.arange(flat.size, dtype=flat.dtype)).reshape(x.shape)

    check(weighted, x, in_layouts=(Layout([UNSHARDED, "y"], GRID),))


def test_other_dimensions_are_parted_where_rows_stay_merged() -> None:
    """As heads are, of tokens in one dimension."""
    x = RANDOM.normal(size=(ROWS, COLUMNS, 6)).astype(np.float32)

    def heads(x: Any) -> Any:
        apart = jnp.tanh(x.reshape(-1, 6)).reshape(-1, 2, 3)
        return jax.nn.softmax(apart).sum(1).reshape(ROWS, COLUMNS, 3)

    layout = Layout(["x", "y", UNSHARDED], GRID)
    compiled = check(heads, x, in_layouts=(layout,), error=1e-4, absolute=1e-4)
    assert not gathered(compiled)
    assert not cuts(compiled)
