"""DTensors and jax.Arrays that a compiled function closes over are arguments of its program."""

import warnings
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

import dtensor
from dtensor import Layout, copy_to_mesh
from dtensor.runtime.placement import jax_mesh

MESH = dtensor.create_mesh([("x", 2), ("y", 4)])
ROWS = Layout(["x", None], MESH)
rng = np.random.default_rng(0)
A = rng.normal(size=(8, 16)).astype(np.float32)
W = rng.normal(size=(16, 8)).astype(np.float32)
ON_DEVICE = jnp.asarray(W)
U = rng.normal(size=(5, 16)).astype(np.float32)  # that no layout divides
K = jax.random.split(jax.random.key(3), 8)

Fn = Callable[..., Any]
FORMS: dict[str, Fn] = {
    "right": lambda a, w, u, k: a @ w,
    "left": lambda a, w, u, k: w.T @ a.T,
    "function": lambda a, w, u, k: jnp.dot(a, w) + jnp.sin(w)[:8],
    "lax": lambda a, w, u, k: lax.add(lax.dot(a, w), lax.slice(w, (0, 0), (8, 8))),
    "alone": lambda a, w, u, k: (w * 2, 2 - w, -w, w + w, w**2, w == w, divmod(w, 3)),
    "method": lambda a, w, u, k: (a * w.sum(), w.mean(0), w.astype(jnp.bfloat16), w.reshape(-1)),
    "index": lambda a, w, u, k: (w[0], w[1:3, -1], w[jnp.argmax(a[0])], a[w[0].astype(int) % 8]),
    "update": lambda a, w, u, k: (w.at[0].set(a[0, :8]), w.at[1:3].add(1), w.at[2].get()),
    "einsum": lambda a, w, u, k: jnp.einsum("ij,jk->ik", a, w),
    "join": lambda a, w, u, k: (jnp.concatenate([a.T, w]), jnp.stack([w, w]), jnp.asarray(w)),
    "tree": lambda a, w, u, k: jax.tree.map(lambda leaf: leaf.sum() + a, {"w": w, "u": [u]}),
    "result": lambda a, w, u, k: (a, w, u),
    "uneven": lambda a, w, u, k: (a @ u.T, u * 2, u.sum(0)),
    "keys": lambda a, w, u, k: jax.vmap(lambda k: jax.random.normal(k, (3,)))(k),
    "shape": lambda a, w, u, k: a.reshape(w.shape[1], -1),
    "scan": lambda a, w, u, k: lax.scan(lambda c, _: (jnp.tanh(c @ w @ w.T), c), a, None, 2),
    "cond": lambda a, w, u, k: lax.cond(a[0, 0] > 0, lambda: a @ w, lambda: a[:, :8]),
    "loop": lambda a, w, u, k: lax.fori_loop(0, 3, lambda i, c: c + w * i, w),
    "jit": lambda a, w, u, k: jax.jit(lambda b: b @ w)(a) + dtensor.jit(lambda b: b @ w)(a),
    "vmap": lambda a, w, u, k: jax.vmap(lambda row: row @ w)(a),
    "grad": lambda a, w, u, k: jax.grad(lambda a: jnp.sin(a @ w).sum())(a),
    "grad of it": lambda a, w, u, k: jax.grad(lambda w: jnp.sin(a @ w).sum())(w),
    "remat": lambda a, w, u, k: jax.grad(jax.checkpoint(lambda a: jnp.sin(a @ w).sum()))(a),
}


def check(found: Any, expected: Any) -> None:
    for one, other in zip(
        jax.tree.leaves(found, is_leaf=dtensor.is_dtensor), jax.tree.leaves(expected), strict=True
    ):
        assert (one.shape, one.dtype) == (other.shape, other.dtype)
        np.testing.assert_allclose(
            np.asarray(one.to_jax(), np.float32), np.asarray(other, np.float32), 1e-5, 1e-5
        )


@pytest.mark.parametrize("form", FORMS)
def test_a_dtensor_from_outside_is_an_argument(form: str) -> None:
    fn = FORMS[form]
    w, u = copy_to_mesh(W, Layout([None, "y"], MESH)), copy_to_mesh(U, Layout(["y", None], MESH))
    k = copy_to_mesh(K, Layout(["x"], MESH))
    step = dtensor.jit(lambda a: fn(a, w, u, k), in_layouts=ROWS)
    expected = jax.jit(fn)(A, W, U, K)
    check(step(A), expected)
    check(step(A), expected)
    lowered = step.lower(A)
    assert 'dense<"0x' not in lowered.as_text()
    assert step.eval_shape(A) == jax.eval_shape(fn, A, W, U, K)


def test_it_keeps_its_layout_and_its_name() -> None:
    w, held = copy_to_mesh(W, Layout(["x", "y"], MESH)), {"w": copy_to_mesh(W, ROWS)}

    def inner(a: Any) -> Any:
        return jax.grad(lambda b: (b @ held["w"]).sum())(a)[:, :8]

    step = dtensor.jit(lambda a: (inner(a) + jax.vmap(lambda b: b @ w)(a), w), in_layouts=ROWS)
    lowered = step.lower(A)
    text = lowered.explain()
    assert 'argument closure[\'w\']: float32 16x8, [{"x"}, {"y"}]' in text
    assert "argument closure['array 0']: float32 16x8, [{\"x\"}, {}]" in text
    assert step(A)[1].layout == w.layout
    assert lowered.compile().in_layouts == ((ROWS,), {})
    assert dtensor.jit(lambda: w * 2)().layout == w.layout  # it has the mesh, too
    check(
        dtensor.jit(lambda: w * list(range(8)) - ([1.5] * 8 - w))(),
        W * np.arange(8, dtype=np.float32) - 1.5 + W,
    )
    assert dtensor.verify(lambda a: a @ w, A, in_layouts=ROWS).ok


def test_a_split_array_of_jax_is_one_too() -> None:
    split = jax.device_put(W, NamedSharding(jax_mesh(MESH), P(None, "y")))
    uneven = copy_to_mesh(U, Layout(["y", None], MESH))
    forms: list[Fn] = [
        lambda a: a @ split,
        lambda a: lax.scan(lambda c, _: (jnp.tanh(c @ split @ split.T), None), a, None, 2)[0],
        lambda a: (split, jax.grad(lambda a: jnp.sin(a @ split).sum())(a)),
        lambda a: a @ uneven.to_jax().T,
    ]
    for fn in forms:
        step = dtensor.jit(fn, in_layouts=ROWS)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            lowered = step.lower(A)
        assert 'dense<"0x' not in lowered.as_text()
        assert len(lowered._source.args) == 2
        check(step(A), jax.tree.map(np.asarray, fn(jnp.asarray(A))))


def test_both_and_an_argument_of_the_same_array() -> None:
    w = copy_to_mesh(W, Layout([None, "y"], MESH))
    step = dtensor.jit(lambda a, b: a @ w + a @ w.to_jax() + a @ b, in_layouts=(ROWS, None))
    check(step(A, w), 3 * (A @ W))
    v = dtensor.DVariable(w, layout=w.layout)
    check(dtensor.jit(lambda a: a @ (w * v) + a @ (v - w), in_layouts=ROWS)(A), A @ (W * W))

    def update(a: Any) -> Any:
        v.assign_add(w)
        return a @ v

    step = dtensor.jit(update, in_layouts=ROWS)
    check(step(A), A @ (2 * W))
    check(step(A), A @ (3 * W))


def test_under_explicit_axes_it_has_its_sharding_in_jax_s_types() -> None:
    explicit = jax.make_mesh((2, 4), ("x", "y"), axis_types=(jax.sharding.AxisType.Explicit,) * 2)
    with jax.set_mesh(explicit):
        split = jax.device_put(W, NamedSharding(explicit, P(None, "y")))
        a = jax.device_put(A, NamedSharding(explicit, P("x", None)))
        tensor: Any = dtensor.from_jax(split)
        for fn in (lambda a: a @ split, lambda a: a @ tensor, lambda a: (a * 2) @ jnp.sin(tensor)):
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                step = dtensor.jit(fn)
                assert step(a).layout.short() == '[{"x"}, {"y"}]'
            assert len(step.lower(a)._source.args) == 2


@pytest.mark.parametrize("place", [dtensor.relayout, dtensor.copy_to_mesh])
@pytest.mark.parametrize("make", [lambda: W, lambda: W.tolist(), lambda: ON_DEVICE])
def test_an_array_on_the_host_that_is_laid_out_in_a_program_is_a_constant(
    place: Any, make: Any
) -> None:
    columns = Layout([None, "y"], MESH)
    step = dtensor.jit(lambda a: a @ place(make(), columns), in_layouts=ROWS)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = step(A)
    check(found, A @ W)
    assert found.layout.short() == '[{"x"}, {"y"}]'
    plain = jax.jit(lambda a: a @ place(make(), P(None, None)))
    with jax.set_mesh(jax_mesh(MESH)):
        np.testing.assert_allclose(plain(A), A @ W, rtol=1e-5)


def test_what_stays_a_constant_is_said() -> None:
    split = jax.device_put(W, NamedSharding(jax_mesh(MESH), P(None, "y")))
    inner = jax.jit(lambda b: b @ split)
    with pytest.warns(UserWarning, match=r"test_closures\.py:\d+: an array of float32\[16, 8\]"):
        check(dtensor.jit(lambda a: inner(a) * 2, in_layouts=ROWS)(A), 2 * (A @ W))
    other = copy_to_mesh(W, Layout(["z", None], dtensor.create_mesh([("z", 4)])))
    with pytest.raises(dtensor.LayoutError, match=r"the array 'other' lies on mesh\(z=4\), and"):
        dtensor.jit(lambda a: a @ other, in_layouts=ROWS)(A)
    array = other.to_jax()
    with pytest.warns(UserWarning, match="is a constant of the program, whole on each"):
        check(dtensor.jit(lambda a: a @ array, in_layouts=ROWS)(A), A @ W)


def test_a_program_keeps_the_array_that_it_found() -> None:
    w = copy_to_mesh(W, Layout([None, "y"], MESH))
    step = dtensor.jit(lambda a: a @ w, in_layouts=ROWS)
    check(step(A), A @ W)
    w, old = w * 2, w  # as under jax.jit
    check(step(A), A @ W)
    old.delete()
    with pytest.raises(RuntimeError, match="array 'w', which the compiled function closes over, h"):
        step(A)
    give = dtensor.jit(lambda b: b + w, donate_argnums=0)
    with pytest.raises(ValueError, match=r"b is donated, and argument closure\['w'\] is the same"):
        give(w)
    check(give(copy_to_mesh(W, w.layout)), 3 * W)


def test_what_cannot_take_it_says_so() -> None:
    w = copy_to_mesh(W, Layout([None, "y"], MESH))
    with pytest.raises(dtensor.CompileError, match="uses variables or arrays from outside, whose"):
        dtensor.auto_layouts(lambda a: a @ w, A, mesh=MESH)
    with pytest.raises(dtensor.CompileError, match="uses variables or arrays from outside, which"):
        dtensor.jit(lambda a: a @ w, in_layouts=ROWS).lower(A).compile().export()
    with pytest.raises(
        TypeError, match=r"pass it as an argument .*or compile .* with dtensor\.jit"
    ):
        jax.jit(lambda a: a @ w)(A)
