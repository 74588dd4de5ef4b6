"""Small programs as jax's documentation has them, with `dtensor.jit` for `jax.jit`, and layouts."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from jax import lax, random
from jax.experimental.ode import odeint
from jax.sharding import PartitionSpec as P

import dtensor
from dtensor import is_dtensor

MESH = dtensor.create_mesh([("data", 2), ("model", 4)])
ROWS, COLUMNS, BOTH = P("data"), P(None, "model"), P("data", "model")
VECTOR = P(("data", "model"))
RNG = np.random.default_rng(5)
X = RNG.normal(size=(8, 12)).astype(np.float32)
W = RNG.normal(size=(12, 8), scale=0.3).astype(np.float32)
SQUARE = RNG.normal(size=(8, 8), scale=0.3).astype(np.float32)
V = RNG.normal(size=8).astype(np.float32)
N = np.int32(5)


class Program(NamedTuple):
    """A function, arguments, and where those lie."""

    fn: Callable[..., Any]
    args: tuple[Any, ...]
    specs: Any
    how: dict[str, Any] = {}  # noqa: RUF012 - never changed


# Control flow.


def selu(x: Any, alpha: Any = 1.67, scale: Any = 1.05) -> Any:
    return scale * jnp.where(x > 0, x, alpha * jnp.exp(x) - alpha)


def collatz(n: Any) -> Any:
    def step(state: Any) -> Any:
        n, count = state
        return lax.cond(n % 2 == 0, lambda n: n // 2, lambda n: 3 * n + 1, n), count + 1

    return lax.while_loop(lambda state: state[0] > 1, step, (n, 0))


def power_iteration(a: Any, v: Any) -> Any:
    def step(_: Any, v: Any) -> Any:
        v = a.T @ (a @ v)
        return v / jnp.linalg.norm(v)

    return lax.fori_loop(0, 20, step, v)


def switched(i: Any, x: Any) -> Any:
    return lax.switch(i, [jnp.sin, lambda x: x[::-1], lambda x: x @ x.T @ x], x)


def newton(a: Any) -> Any:
    def body(x: Any) -> Any:
        return 0.5 * (x + a / x)

    return lax.while_loop(lambda x: jnp.max(jnp.abs(x * x - a)) > 1e-4, body, jnp.ones_like(a))


def rnn(params: Any, xs: Any) -> Any:
    def cell(h: Any, x: Any) -> Any:
        h = jnp.tanh(h @ params["hh"] + x @ params["xh"])
        return h, h

    return lax.scan(cell, jnp.zeros(8), xs)


def in_reverse(xs: Any) -> Any:
    return lax.scan(lambda c, x: (0.9 * c + x, c), jnp.zeros(12), xs, reverse=True, unroll=2)


def mapped(xs: Any) -> Any:
    return lax.map(lambda x: jnp.outer(x, x).sum(0), xs, batch_size=4)


def running(xs: Any) -> Any:
    return lax.associative_scan(jnp.maximum, xs), lax.cumsum(xs, axis=1), lax.cummax(xs, axis=0)


# Derivatives.


@jax.custom_jvp
def log1pexp(x: Any) -> Any:
    return jnp.log(1.0 + jnp.exp(x))


@log1pexp.defjvp
def _(primals: Any, tangents: Any) -> Any:
    (x,), (t,) = primals, tangents
    return log1pexp(x), (1 - 1 / (1 + jnp.exp(x))) * t


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def clip_gradient(bound: float, x: Any) -> Any:
    return x


clip_gradient.defvjp(lambda bound, x: (x, None), lambda bound, _, g: (jnp.clip(g, -bound, bound),))


@jax.custom_vjp
def fixed_point(a: Any, b: Any) -> Any:
    step = functools.partial(contraction, a, b)
    return lax.while_loop(
        lambda pair: jnp.max(jnp.abs(pair[0] - pair[1])) > 1e-6,
        lambda pair: (pair[1], step(pair[1])),
        (b, step(b)),
    )[1]


def contraction(a: Any, b: Any, x: Any) -> Any:
    return jnp.tanh(a @ x * 0.2) + b


def _fixed_point_fwd(a: Any, b: Any) -> Any:
    x = fixed_point(a, b)
    return x, (a, b, x)


def _fixed_point_bwd(saved: Any, g: Any) -> Any:
    a, b, x = saved
    _, pull = jax.vjp(lambda x: contraction(a, b, x), x)
    u = lax.fori_loop(0, 40, lambda _, u: g + pull(u)[0], g)
    return jax.vjp(lambda a, b: contraction(a, b, x), a, b)[1](u)


fixed_point.defvjp(_fixed_point_fwd, _fixed_point_bwd)


def mlp(params: Any, x: Any) -> Any:
    for w, b in params:
        x = jnp.tanh(x @ w + b)
    return x


PARAMS = [(W, np.zeros(8, np.float32)), (SQUARE, V), (SQUARE.T.copy(), V[::-1].copy())]


def remat_loss(params: Any, x: Any) -> Any:
    layer = jax.checkpoint(mlp, policy=jax.checkpoint_policies.dots_with_no_batch_dims_saveable)
    return jnp.mean(layer(params, x) ** 2)


def hvp(x: Any, v: Any) -> Any:
    return jax.jvp(jax.grad(lambda x: jnp.sum(jnp.sin(x) * jnp.cumsum(x))), (x,), (v,))[1]


def jacobians(x: Any) -> Any:
    def f(x: Any) -> Any:
        return jnp.stack([x[0] * x[1:], jnp.sin(x[1:]) ** 2])

    return jax.jacfwd(f)(x), jax.jacrev(f)(x), jax.hessian(lambda x: f(x).sum())(x)


def per_example_gradients(params: Any, x: Any) -> Any:
    return jax.vmap(jax.grad(lambda p, x: jnp.sum(mlp(p, x) ** 2)), in_axes=(None, 0))(params, x)


def straight_through(x: Any) -> Any:
    return jax.grad(lambda x: jnp.sum(jnp.cos(x + lax.stop_gradient(jnp.round(x) - x))))(x)


def linearized(x: Any, t: Any) -> Any:
    y, pushed = jax.linearize(lambda x: jnp.tanh(x) @ x.T, x)
    return y, pushed(t), jax.linear_transpose(pushed, x)(y)[0]


# vmap, collectives of names, random numbers.


def normalized(x: Any) -> Any:
    return jax.vmap(lambda x: x - lax.pmean(x, "batch"), axis_name="batch")(x)


def softmax_of_names(x: Any) -> Any:
    def softmax(x: Any) -> Any:
        e = jnp.exp(x - lax.pmax(x, "i"))
        return e / lax.psum(e, "i"), lax.axis_index("i")

    return jax.vmap(softmax, axis_name="i", in_axes=1, out_axes=(1, 0))(x)


def pairwise(x: Any, y: Any) -> Any:
    row: Any = jax.vmap(lambda x, y: jnp.linalg.norm(x - y), in_axes=(None, 0))
    every: Any = jax.vmap(row, in_axes=(0, None))
    return every(x, y)


def rows_by_matrix(x: Any, w: Any) -> Any:
    return jax.vmap(jnp.matmul, in_axes=(0, None))(x[:, None], w)


def dropout(key: Any, x: Any) -> Any:
    keep = random.bernoulli(key, 0.8, x.shape)
    return jnp.where(keep, x / 0.8, 0)


def walk(key: Any) -> Any:
    def step(carry: Any, key: Any) -> Any:
        carry = carry + random.normal(key, (8,))
        return carry, carry.max()

    return lax.scan(step, jnp.zeros(8), random.split(key, 6))


def many_keys(key: Any) -> Any:
    keys = random.split(key, 8)
    folded = jax.vmap(random.fold_in, in_axes=(None, 0))(key, jnp.arange(8))
    draws = jax.vmap(lambda k: random.choice(k, 10, (4,), replace=False))(folded)
    return jax.vmap(lambda k: random.uniform(k, (3,)))(keys), draws, random.permutation(key, 8)


# Trees.


@jax.tree_util.register_dataclass
@dataclasses.dataclass
class State:
    """A dataclass that is a tree, with a field that is none."""

    w: Any
    count: Any
    name: str = dataclasses.field(default="sgd", metadata={"static": True})


class Point(NamedTuple):
    """A named tuple."""

    x: Any
    y: Any


def updated(state: State, point: Point) -> State:
    gradient = jax.grad(lambda w: jnp.sum((point.x @ w - point.y) ** 2))(state.w)
    return dataclasses.replace(state, w=state.w - 0.01 * gradient, count=state.count + 1)


def of_tree(tree: Any) -> Any:
    total = jax.tree.reduce(jnp.add, jax.tree.map(jnp.sum, tree))
    flat, unravel = jax.flatten_util.ravel_pytree(tree)
    return total, unravel(flat * 2), jax.tree.leaves(tree), optax.tree.norm(tree)


# Solvers.


def conjugate_gradients(a: Any, b: Any) -> Any:
    matrix = a @ a.T + 4 * jnp.eye(8)
    return jax.scipy.sparse.linalg.cg(lambda x: matrix @ x, b, maxiter=20)[0]


def linear_solve(a: Any, b: Any) -> Any:
    matrix = a @ a.T + 4 * jnp.eye(8)

    def loss(b: Any) -> Any:
        x = lax.custom_linear_solve(
            lambda x: matrix @ x, b, lambda _, b: jnp.linalg.solve(matrix, b), symmetric=True
        )
        return jnp.sum(x**3)

    return jax.value_and_grad(loss)(b)


def root(a: Any) -> Any:
    def solve(f: Any, x: Any) -> Any:
        return lax.fori_loop(0, 30, lambda _, x: x - f(x) / (3 * x**2 + 1), x)

    def cube_root(a: Any) -> Any:
        return lax.custom_root(
            lambda x: x**3 + x - a, jnp.ones_like(a), solve, lambda g, y: y / g(jnp.ones_like(y))
        )

    return jax.value_and_grad(lambda a: cube_root(a).sum())(a)


def pendulum(theta: Any, length: Any) -> Any:
    def field(state: Any, t: Any, length: Any) -> Any:
        return jnp.stack([state[1], -9.8 / length * jnp.sin(state[0])])

    def angle(length: Any) -> Any:
        start = jnp.stack([theta, jnp.zeros_like(theta)])
        return odeint(field, start, jnp.linspace(0.0, 1.0, 5), length, rtol=1e-4)[-1, 0].sum()

    return jax.value_and_grad(angle)(length)


def minimized(a: Any, x: Any) -> Any:
    def loss(x: Any) -> Any:
        return jnp.sum((a @ x - 1) ** 2) + jnp.sum(x**4 + x**2)

    def step(x: Any, _: Any) -> Any:
        direction = jnp.linalg.solve(jax.hessian(loss)(x), jax.grad(loss)(x))
        sizes = jnp.array([1.0, 0.5, 0.1])
        losses = jax.vmap(lambda size: loss(x - size * direction))(sizes)
        return x - sizes[jnp.argmin(losses)] * direction, losses.min()

    return lax.scan(step, x, length=6)


def gaussian_process(x: Any, y: Any) -> Any:
    kernel = jnp.exp(-0.5 * jnp.sum((x[:, None] - x[None]) ** 2, -1)) + 1e-2 * jnp.eye(8)
    factor = jax.scipy.linalg.cho_factor(kernel)
    return y @ jax.scipy.linalg.cho_solve(factor, y), jnp.linalg.slogdet(kernel)[1]


# Training.


def accumulated(params: Any, x: Any) -> Any:
    def step(total: Any, part: Any) -> Any:
        value, gradient = jax.value_and_grad(remat_loss)(params, part)
        return jax.tree.map(jnp.add, total, gradient), value

    zeros = jax.tree.map(jnp.zeros_like, params)
    return lax.scan(step, zeros, x.reshape(4, 2, 12))


def trained(tx: Any) -> Callable[..., Any]:
    def run(params: Any, x: Any) -> Any:
        def step(carry: Any, _: Any) -> Any:
            params, state = carry
            value, gradient = jax.value_and_grad(remat_loss)(params, x)
            updates, state = tx.update(gradient, state, params)
            return (optax.apply_updates(params, updates), state), value

        (params, _), losses = lax.scan(step, (params, tx.init(params)), None, length=3)
        return params, losses

    return run


def attention(q: Any, k: Any, v: Any) -> Any:
    return jax.nn.dot_product_attention(q, k, v, is_causal=True)


def decoded(cache: Any, x: Any, i: Any) -> Any:
    cache = lax.dynamic_update_slice_in_dim(cache, x[None], i, 0)
    mask = jnp.arange(cache.shape[0]) <= i
    return cache, jax.nn.softmax(jnp.where(mask, cache @ x, -jnp.inf)) @ cache


def embedded(table: Any, ids: Any) -> Any:
    logits = table[ids] @ table.T
    return optax.softmax_cross_entropy_with_integer_labels(logits, ids).mean()


def moving_average(x: Any) -> Any:
    return jax.vmap(lambda row: jnp.convolve(row, jnp.ones(3) / 3, mode="same"))(x)


def counted(labels: Any) -> Any:
    return jnp.bincount(labels, length=5), jax.ops.segment_sum(jnp.ones(8), labels, 5)


def static_length(x: Any, n: int, *, mode: str) -> Any:
    return jnp.pad(x, ((0, n), (0, 0)), mode=mode)[:: n - 1]


HEADS = RNG.normal(size=(2, 8, 4, 8)).astype(np.float32)
IDS = np.array([3, 1, 4, 1, 0, 2, 4, 3], np.int32)
WEIGHTS = [(P(None, "model"), P("model"))] * 3
KEY = random.key(7)
SOME = (P("data"), None, P("data"))

PROGRAMS: dict[str, Program] = {
    "selu": Program(selu, (X,), (BOTH,)),
    "a while loop with a cond": Program(collatz, (np.int32(27),), (P(),)),
    "fori_loop": Program(power_iteration, (SQUARE, V), (BOTH, P("model"))),
    "switch": Program(switched, (np.int32(2), X), (P(), BOTH)),
    "a while loop over a vector": Program(newton, (np.abs(V) + 1,), (VECTOR,)),
    "scan": Program(rnn, ({"hh": SQUARE, "xh": W}, X), ({"hh": BOTH, "xh": COLUMNS}, COLUMNS)),
    "a reverse scan, unrolled": Program(in_reverse, (X,), (BOTH,)),
    "map in batches": Program(mapped, (X,), (ROWS,)),
    "cumulative": Program(running, (X,), (BOTH,)),
    "custom_jvp": Program(jax.vmap(jax.grad(log1pexp)), (V,), (VECTOR,)),
    "custom_vjp": Program(jax.grad(lambda x: jnp.sum(clip_gradient(0.1, x) ** 2)), (X,), (BOTH,)),
    "an implicit derivative": Program(
        jax.grad(lambda a, b: fixed_point(a, b).sum(), (0, 1)), (SQUARE, V), (BOTH, VECTOR)
    ),
    "checkpoint": Program(jax.value_and_grad(remat_loss), (PARAMS, X), (WEIGHTS, ROWS)),
    "Hessian-vector": Program(hvp, (V, V[::-1].copy()), (VECTOR, VECTOR)),
    "Jacobians": Program(jacobians, (V,), (VECTOR,)),
    "gradients per example": Program(per_example_gradients, (PARAMS, X), (WEIGHTS, ROWS)),
    "straight through": Program(straight_through, (X,), (BOTH,)),
    "linearize": Program(linearized, (X, X[::-1].copy()), (BOTH, ROWS)),
    "vmap with a name": Program(normalized, (X,), (BOTH,)),
    "collectives of a name": Program(softmax_of_names, (X,), (COLUMNS,)),
    "vmap of vmap": Program(pairwise, (X, X[::2].copy()), (ROWS, P("data"))),
    "vmap of matmul": Program(rows_by_matrix, (X, W), (ROWS, COLUMNS)),
    "dropout": Program(dropout, (KEY, X), (None, BOTH)),
    "a random walk": Program(walk, (KEY,), None),
    "many keys": Program(many_keys, (KEY,), None),
    "a dataclass": Program(
        updated,
        (State(W, np.int32(0)), Point(X, X @ W)),
        (State(COLUMNS, P()), Point(ROWS, BOTH)),
    ),
    "trees": Program(of_tree, ({"a": X, "b": (V, [N])},), ({"a": BOTH, "b": (VECTOR, [P()])},)),
    "conjugate gradients": Program(conjugate_gradients, (SQUARE, V), (BOTH, VECTOR)),
    "custom_linear_solve": Program(linear_solve, (SQUARE, V), (ROWS, VECTOR)),
    "custom_root": Program(root, (np.abs(V),), (VECTOR,)),
    "odeint": Program(pendulum, (V, np.abs(V) + 1), (VECTOR, VECTOR)),
    "Newton with a line search": Program(minimized, (SQUARE, V), (BOTH, VECTOR)),
    "a Gaussian process": Program(gaussian_process, (X, V), (ROWS, VECTOR)),
    "accumulated gradients": Program(accumulated, (PARAMS, X), (WEIGHTS, P(None, "model"))),
    "attention": Program(attention, (HEADS, HEADS, HEADS), P("data", None, "model")),
    "a cache": Program(decoded, (SQUARE, V, np.int32(3)), (BOTH, P("model"), P())),
    "an embedding": Program(embedded, (SQUARE[:5], IDS), (COLUMNS, P("data"))),
    "convolve": Program(moving_average, (X,), (BOTH,)),
    "bincount": Program(counted, (IDS,), (VECTOR,)),
    "static arguments": Program(
        static_length,
        (X, 4),
        (BOTH,),
        {"static_argnums": 1, "static_argnames": "mode", "kwargs": {"mode": "edge"}},
    ),
}
OPTIMIZERS: dict[str, Callable[[], Any]] = {
    "sgd": lambda: optax.sgd(optax.cosine_decay_schedule(0.1, 10), momentum=0.9, nesterov=True),
    "clipped adamw": lambda: optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(1e-2)),
    "adafactor": lambda: optax.adafactor(1e-2, min_dim_size_to_factor=4),
    "lion": lambda: optax.lion(1e-2),
    "several steps": lambda: optax.MultiSteps(optax.adam(1e-2), 2),
    "masked": lambda: optax.masked(
        optax.add_decayed_weights(0.1), lambda p: jax.tree.map(lambda x: x.ndim > 1, p)
    ),
    "injected": lambda: optax.inject_hyperparams(optax.rmsprop)(learning_rate=0.01),
    "ema": lambda: optax.chain(optax.adam(1e-2), optax.ema(0.9)),
}
PROGRAMS |= {
    f"optax, {name}": Program(trained(make()), (PARAMS, X), (WEIGHTS, ROWS))
    for name, make in OPTIMIZERS.items()
}


@pytest.mark.sweep
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_of_the_documentation(name: str) -> None:
    program = PROGRAMS[name]
    how = dict(program.how)
    kwargs = how.pop("kwargs", {})
    expected = jax.jit(program.fn, **how)(*program.args, **kwargs)
    run: Any = dtensor.jit(program.fn, in_layouts=program.specs, mesh=MESH, **how)
    found = run(*program.args, **kwargs)
    made = jax.tree.map(lambda x: x.to_jax(), found, is_leaf=is_dtensor)
    assert str(jax.tree.structure(expected)) == str(jax.tree.structure(made))
    wanted = jax.tree.leaves(expected)
    for have, want in zip(jax.tree.leaves(found, is_leaf=is_dtensor), wanted, strict=True):
        assert (have.shape, have.dtype) == (want.shape, want.dtype)
        # Sums in another order; iterations stop at 1e-4 of what they solve.
        np.testing.assert_allclose(have.to_jax(), want, rtol=2e-4, atol=2e-5)
