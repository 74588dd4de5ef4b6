"""`relayout` inside traced functions: jax carries it through its transformations."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.interpreters import mlir as jax_mlir

from dtensor.compiler.relayout import relayout
from dtensor.dialect.errors import LayoutError
from dtensor.dialect.layout import OPEN, UNSHARDED, Layout
from dtensor.dialect.mesh import Mesh

MESH = Mesh({"x": 2, "y": 4})
ROWS = Layout(["x", UNSHARDED], MESH)
X = np.linspace(-1, 1, 128, dtype=np.float32).reshape(8, 16)
W = np.linspace(-1, 1, 256, dtype=np.float32).reshape(16, 16)

Layer = Callable[[Any, Any], Any]


def layer(constrained: bool) -> Layer:
    def apply(x: Any, w: Any) -> Any:
        h = jnp.tanh(x @ w)
        return relayout(h, ROWS) if constrained else h

    return apply


def loss(f: Layer) -> Layer:
    return lambda x, w: (f(x, w) ** 2).sum()


def scanned(f: Layer) -> Layer:
    return lambda x, w: jax.lax.scan(lambda c, _: (f(c, w), None), x, None, length=3)[0].sum()


def branched(f: Layer) -> Layer:
    return lambda x, w: jax.lax.cond(x.sum() > 0, lambda: f(x, w), lambda: x).sum()


def looped(f: Layer) -> Layer:
    return lambda x, w: jax.lax.fori_loop(0, 2, lambda _, c: f(c, w), x)


PROGRAMS: dict[str, Callable[[Layer], Layer]] = {
    "plain": lambda f: f,
    "grad": lambda f: jax.grad(loss(f), (0, 1)),
    "grad of grad": lambda f: jax.grad(lambda x, w: jax.grad(loss(f))(x, w).sum()),
    "jvp": lambda f: lambda x, w: jax.jvp(f, (x, w), (x, w)),
    "linearize": lambda f: lambda x, w: jax.linearize(f, x, w)[1](x, w),
    "scan": scanned,
    "grad of scan": lambda f: jax.grad(scanned(f)),
    "remat": lambda f: jax.grad(loss(jax.checkpoint(f))),
    "grad of scan of remat": lambda f: jax.grad(scanned(jax.checkpoint(f))),
    "cond": lambda f: jax.grad(branched(f)),
    "while": looped,
    "nested jit": lambda f: loss(jax.jit(f)),
    "custom rule": lambda f: jax.grad(loss(_with_rule(f))),
}


def _with_rule(f: Layer) -> Layer:
    ruled = jax.custom_vjp(f)
    ruled.defvjp(lambda x, w: (f(x, w), (x, w)), lambda saved, ct: jax.vjp(f, *saved)[1](ct))
    return ruled


def constraints(fn: Callable[..., Any], *args: Any) -> list[str]:
    text = jax.jit(fn).lower(*args).as_text()
    return [line for line in text.splitlines() if '"dtensor.relayout"' in line]


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_constraint_arrives_and_changes_no_value(name: str) -> None:
    with_it, without = PROGRAMS[name](layer(True)), PROGRAMS[name](layer(False))
    lines = constraints(with_it, X, W)
    assert lines
    assert all(r"layout = \"#dtensor.layout<@mesh, [{\"x\"}, {}]>\"" in _plain(li) for li in lines)
    expected = jax.tree.leaves(jax.jit(without)(X, W))
    for found, value in zip(jax.tree.leaves(jax.jit(with_it)(X, W)), expected, strict=True):
        np.testing.assert_array_equal(found, value)


def _plain(line: str) -> str:
    return line.replace("\\22", '\\"').replace('"#', '\\"#').replace('>"', '>\\"')


@pytest.mark.parametrize(
    ("axis", "dims"),
    [(0, '{?}, {"x"}, {}'), (1, '{"x"}, {?}, {}'), (2, '{"x"}, {}, {?}')],
)
def test_vmap_leaves_the_new_dimension_open(axis: int, dims: str) -> None:
    batched = jax.vmap(lambda x: relayout(x, ROWS), in_axes=axis, out_axes=axis)
    x = np.zeros(np.insert((8, 16), axis, 3), np.float32)
    (line,) = constraints(batched, x)
    assert f"[{dims}]" in line.replace("\\22", '"')
    np.testing.assert_array_equal(jax.jit(batched)(x), x)


def test_vmap_of_grad_of_scan() -> None:
    gradient = jax.vmap(jax.grad(scanned(layer(True))), in_axes=(0, None))
    plain = jax.vmap(jax.grad(scanned(layer(False))), in_axes=(0, None))
    xs = np.stack([X, -X, 2 * X])
    np.testing.assert_array_equal(jax.jit(gradient)(xs, W), jax.jit(plain)(xs, W))


def test_the_identity_is_made_once_per_type() -> None:
    def f(x: Any) -> Any:
        return relayout(relayout(x, ROWS) + 1, Layout([OPEN, "y"], MESH)).astype(jnp.bfloat16)

    text = jax.jit(lambda x: relayout(f(x), ROWS)).lower(X).as_text()
    assert text.count("stablehlo.composite") == 3
    assert text.count("func.func private @dtensor_relayout") == 2


def test_eager_transformations_work_too() -> None:
    found = jax.grad(loss(layer(True)))(X, W)
    np.testing.assert_allclose(found, jax.grad(loss(layer(False)))(X, W), rtol=1e-6)


def test_export_keeps_the_constraint() -> None:
    exported = jax.export.export(jax.jit(layer(True)))(X, W)
    assert "dtensor.relayout" in str(exported.mlir_module())
    np.testing.assert_array_equal(exported.call(X, W), jax.jit(layer(False))(X, W))


def test_what_a_constraint_refuses() -> None:
    with pytest.raises(LayoutError, match="layout has 1 dimensions but the tensor has rank 2"):
        jax.jit(lambda x: relayout(x, Layout(["x"], MESH)))(X)
    with pytest.raises(LayoutError, match="dimension 0 has 8 elements, not divisible by the 6 blo"):
        jax.jit(lambda x: relayout(x, Layout([(3, "x"), None], MESH)))(X)
    with pytest.raises(LayoutError, match="a constraint in a program must be complete"):
        jax.jit(lambda x: relayout(x, Layout([None, None], MESH, partial={"sum": "x"})))(X)


def test_the_module_is_valid() -> None:
    lowered: Any = jax.jit(layer(True)).lower(X, W)
    module = lowered.compiler_ir("stablehlo")
    assert module.operation.verify()
    assert isinstance(module, jax_mlir.ir.Module)
