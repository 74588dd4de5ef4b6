"""jax.shard_map over some axes of the mesh, and inside another one: the rest is planned inside."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import AxisType
from jax.sharding import PartitionSpec as P

import dtensor
from tests.py.line.layouts import all_layouts

MESH = dtensor.create_mesh([("x", 2), ("y", 4)])
DEVICES = jax.make_mesh((2, 4), ("x", "y"), axis_types=(AxisType.Auto,) * 2)
CUBE = dtensor.create_mesh([("a", 2), ("b", 2), ("c", 2)])
CUBE_DEVICES = jax.make_mesh((2, 2, 2), ("a", "b", "c"), axis_types=(AxisType.Auto,) * 3)
RNG = np.random.default_rng(5)
A = RNG.normal(size=(8, 16)).astype(np.float32)
B = RNG.normal(size=(16, 12)).astype(np.float32)

Fn = Callable[..., Any]


def over(axes: str, fn: Fn, in_specs: Any, out_specs: Any, mesh: Any = DEVICES) -> Fn:
    """A shard_map that is manual over some axes."""
    mapped: Fn = jax.shard_map(
        fn,
        mesh=mesh,
        in_specs=in_specs,
        out_specs=out_specs,
        axis_names=set(axes),
        check_vma=False,
    )
    return mapped


def check(
    fn: Fn, *args: Any, layouts: Any, mesh: dtensor.Mesh = MESH, tolerance: float = 2e-5
) -> Any:
    """Compare with jax.jit; sums are taken in another order."""
    want = jax.tree.leaves(jax.jit(fn)(*args))
    compiled = dtensor.jit(fn, mesh=mesh, in_layouts=layouts).lower(*args).compile()
    got = jax.tree.leaves(compiled(*args), is_leaf=lambda leaf: isinstance(leaf, dtensor.DTensor))
    for mine, theirs in zip(got, want, strict=True):
        np.testing.assert_allclose(
            mine.to_jax(), theirs, rtol=tolerance, atol=tolerance, err_msg=str(layouts)
        )
    return compiled


def ring(axis: str) -> list[tuple[int, int]]:
    """Every device sends to the next."""
    size = MESH.axis_size(axis)
    return [(k, (k + 1) % size) for k in range(size)]


# By name: what is done over an axis to shards of 8x16 that it cuts along the rows, and the result.
COLLECTIVES: dict[str, tuple[Callable[[Any, str], Any], Callable[[str], Any]]] = {
    "psum": (lax.psum, lambda axis: P()),
    "pmean": (lax.pmean, lambda axis: P()),
    "pmax": (lax.pmax, lambda axis: P()),
    "pmin": (lax.pmin, lambda axis: P()),
    "all_gather": (lambda s, axis: lax.all_gather(s, axis, axis=1, tiled=True), lambda axis: P()),
    "all_gather of a new dimension": (lax.all_gather, lambda axis: P()),
    "ppermute": (lambda s, axis: lax.ppermute(s, axis, ring(axis)), P),
    "ppermute from one": (lambda s, axis: lax.ppermute(s, axis, [(1, 0)]), P),
    "all_to_all": (
        lambda s, axis: lax.all_to_all(s, axis, 1, 0, tiled=True),
        lambda axis: P(None, axis),
    ),
    "all_to_all along one dimension": (
        lambda s, axis: lax.all_to_all(s, axis, 1, 1, tiled=True),
        P,
    ),
    "all_to_all of pieces": (
        lambda s, axis: lax.all_to_all(s.reshape(-1, MESH.axis_size(axis), 4), axis, 1, 0),
        lambda axis: P(None, None, axis),
    ),
    "psum_scatter": (
        lambda s, axis: lax.psum_scatter(s, axis, scatter_dimension=1, tiled=True),
        lambda axis: P(None, axis),
    ),
    "axis_index": (lambda s, axis: s + lax.axis_index(axis), P),
    "axis_size": (lambda s, axis: s * lax.axis_size(axis), P),
}


@pytest.mark.sweep
@pytest.mark.parametrize("axis", ["x", "y"])
@pytest.mark.parametrize("name", COLLECTIVES)
def test_collectives_over_the_manual_axis(name: str, axis: str) -> None:
    """What stands around, and inside beside them, is split over the other axis too."""
    body, out = COLLECTIVES[name]

    def fn(a: Any) -> Any:
        inside = over(axis, lambda s: jnp.tanh(body(s * 2, axis)), P(axis), out(axis))
        return inside(jnp.sin(a)) + 1

    for layout in all_layouts(A.shape)[::5]:
        check(fn, A, layouts=(layout,))


def product(a: Any, b: Any) -> Any:
    """A contraction that both axes split: over x by hand, over y by the planner."""

    def body(a: Any, b: Any) -> Any:
        columns = a.shape[1]
        rows = lax.dynamic_slice_in_dim(b, lax.axis_index("x") * columns, columns)
        return lax.psum(jax.nn.relu(a) @ rows, "x")

    return over("x", body, (P(None, "x"), P()), P())(a, b) * 2


def nested(a: Any, b: Any) -> Any:
    """A region over y in one over x, with work of its own around it."""

    def outer(a: Any, b: Any) -> Any:
        def inner(a: Any, b: Any) -> Any:
            return lax.psum(a @ b, "y") + lax.axis_index("y") * lax.axis_index("x")

        specs = (P(None, "y"), P("y", None))
        parts = jax.shard_map(
            inner, in_specs=specs, out_specs=P(), axis_names={"y"}, check_vma=False
        )
        return lax.pmean(jnp.tanh(parts(jnp.cos(a), b)), "x")

    return over("x", outer, (P("x"), P()), P())(a, b)


@pytest.mark.sweep
@pytest.mark.parametrize("fn", [product, nested], ids=["product", "nested"])
@pytest.mark.parametrize("takes_gradient", [False, True], ids=["values", "gradient"])
def test_values_and_gradients_are_those_of_jax(fn: Fn, takes_gradient: bool) -> None:
    def loss(a: Any, b: Any) -> Any:
        return jnp.sum(fn(a, b) ** 2)

    run = jax.grad(loss, argnums=(0, 1)) if takes_gradient else fn
    for rows, columns in zip(all_layouts(A.shape)[::5], all_layouts(B.shape)[1::5], strict=False):
        check(run, A, B, layouts=(rows, columns), tolerance=1e-4)


def test_what_is_split_outside_stays_split_inside() -> None:
    """Nothing is moved for work that the other axis splits, and it is divided."""

    def fn(a: Any, b: Any) -> Any:
        return over("x", lambda a, b: jnp.tanh(a) @ b, (P("x"), P()), P("x"))(a, b)

    layouts = (dtensor.Layout(["x", None], MESH), dtensor.Layout([None, "y"], MESH))
    compiled = check(fn, A, B, layouts=layouts)
    assert compiled.collectives == ()
    assert compiled.cost_analysis()["flops"] <= 2 * 8 * 16 * 12 / 8 + 8 * 16
    assert compiled.out_layouts.short() == '[{"x"}, {"y"}]'


@pytest.mark.parametrize("writes", ["jax", "dtensor"])
def test_a_constraint_inside_splits_over_what_is_left(writes: str) -> None:
    def body(a: Any) -> Any:
        if writes == "dtensor":
            return dtensor.relayout(jnp.exp(a), dtensor.Layout([None, "y"], MESH)) * 2
        inside = jax.sharding.NamedSharding(DEVICES, P(None, "y"))
        return lax.with_sharding_constraint(jnp.exp(a), inside) * 2

    fn = over("x", body, P("x"), P("x"))
    compiled = dtensor.jit(fn, in_layouts=(dtensor.Layout(["x", None], MESH),)).lower(A).compile()
    np.testing.assert_allclose(compiled(A).to_jax(), np.exp(A) * 2, rtol=1e-6)
    assert compiled.out_layouts.short() == '[{"x"}, {"y"}]'


@pytest.mark.parametrize(
    ("axes", "message"),
    [
        ("x", "inside a shard_map that is manual over x; name axes that it leaves"),
        ("xy", "inside the body of dtensor.manual, whose values are the shards of one device"),
    ],
)
def test_a_constraint_inside_over_what_is_manual_is_an_error(axes: str, message: str) -> None:
    def body(a: Any) -> Any:
        return dtensor.relayout(a, dtensor.Layout(["x", None], MESH)) + 1

    fn = dtensor.jit(over(axes, body, P("x"), P("x")), mesh=MESH)
    with pytest.raises(dtensor.CompileError, match=rf"test_shard_map_free.py:\d+:.*{message}"):
        fn(A)


def test_loops_and_branches_inside() -> None:
    """Carried values are laid out inside; a predicate may differ between shards that are manual."""

    def body(a: Any) -> Any:
        def step(_: Any, carry: Any) -> Any:
            return jnp.tanh(carry @ carry.T @ carry) + lax.pmean(carry, "x")

        a = lax.fori_loop(0, 3, step, a)
        return lax.cond(lax.axis_index("x") > 0, jnp.sin, jnp.cos, a)

    def fn(a: Any) -> Any:
        return over("x", body, P("x"), P("x"))(a)

    for layout in all_layouts(A.shape)[::5]:
        check(fn, A, layouts=(layout,), tolerance=1e-4)


def test_three_axes_one_in_another() -> None:
    """One axis is manual outside, one inside, and one is left to the planner in both."""

    def inner(a: Any) -> Any:
        return lax.all_gather(a, "b", axis=1, tiled=True) * (1 + lax.axis_index("b"))

    def outer(a: Any) -> Any:
        specs = P(None, "b")
        parts = jax.shard_map(inner, in_specs=specs, out_specs=specs, axis_names={"b"})
        return lax.psum(jnp.sin(parts(a)).sum(0), "a")

    def fn(a: Any) -> Any:
        return over("a", outer, P("a"), P(), CUBE_DEVICES)(a * 2)

    layouts: list[list[Any]] = [["a", "c"], ["c", "a"], [("a", "c"), "b"], [None, ("c", "b")]]
    for layout in layouts:
        check(fn, A, layouts=(dtensor.Layout(layout, CUBE),), mesh=CUBE, tolerance=1e-4)


def test_two_axes_of_three() -> None:
    """A dimension that both manual axes cut, and what is over both of them."""

    def body(a: Any) -> Any:
        own = a * (1 + lax.axis_index(("b", "a")))
        every = lax.all_gather(jnp.sin(a), ("a", "b"), axis=1, tiled=True)
        return lax.psum(own.T @ every, ("a", "b")), own

    def fn(a: Any) -> Any:
        rows = P(("a", "b"))
        return over("ab", body, rows, (P(), rows), CUBE_DEVICES)(a + 1)

    layouts: list[list[Any]] = [[("a", "b"), "c"], ["c", ("b", "a")], [None, None]]
    for layout in layouts:
        check(fn, A, layouts=(dtensor.Layout(layout, CUBE),), mesh=CUBE, tolerance=1e-4)


def test_a_region_in_one_that_has_no_axis_left() -> None:
    """Only an axis of one device is left to be manual over."""
    axes = ("x", "y", "one")
    devices = jax.make_mesh((2, 4, 1), axes, axis_types=(AxisType.Auto,) * 3)
    mesh = dtensor.create_mesh([("x", 2), ("y", 4), ("one", 1)])

    def outer(a: Any) -> Any:
        inner: Fn = jax.shard_map(
            lambda s: lax.psum(s, "one") + 1,
            in_specs=P("one"),
            out_specs=P("one"),
            axis_names={"one"},
        )
        return lax.psum(inner(a), "x")

    def fn(a: Any) -> Any:
        return over("xy", outer, P("x", "y"), P(None, "y"), devices)(a)

    check(fn, A, layouts=(dtensor.Layout(["x", None], mesh),), mesh=mesh)


def test_uneven_dimensions_around_and_inside() -> None:
    """What a free axis does not divide is padded outside, and whole inside."""

    def fn(a: Any) -> Any:
        return over("x", lambda s: lax.psum(jnp.cumsum(s * 2, 1), "x"), P("x"), P())(a + 1).sum(1)

    uneven = RNG.normal(size=(6, 10)).astype(np.float32)
    check(fn, uneven, layouts=(dtensor.Layout(["x", "y"], MESH),))


def test_a_constraint_inside_that_does_not_divide() -> None:
    def body(a: Any) -> Any:
        split = dtensor.relayout(jnp.exp(a), dtensor.Layout([None, "y"], MESH))
        return lax.psum(jax.nn.softmax(split, -1) @ split.T, "x")

    uneven = RNG.normal(size=(6, 10)).astype(np.float32)
    want = np.zeros((3, 3), np.float32)
    for shard in (np.exp(uneven[:3]), np.exp(uneven[3:])):
        want += np.asarray(jax.nn.softmax(shard, -1)) @ shard.T
    layout = dtensor.Layout(["x", None], MESH)
    got = dtensor.jit(over("x", body, P("x"), P()), in_layouts=(layout,))(uneven)
    np.testing.assert_allclose(got.to_jax(), want, rtol=1e-4)


@pytest.mark.parametrize("axes", ["x", "xy"])
def test_what_the_manual_axes_do_not_divide_is_an_error(axes: str) -> None:
    fn = over(axes, lambda s: s * 2, P("x"), P("x"))
    with pytest.raises(ValueError, match="axis sizes that are not evenly divisible"):
        dtensor.jit(fn, mesh=MESH)(A[:5])


def test_sums_of_bfloat16() -> None:
    """jax.jit of this aborts on CPUs: XLA finds a copy in the body of its all_reduce."""
    fn = over("x", lambda s: lax.psum(s.astype(jnp.bfloat16), "x"), P("x"), P())
    whole = np.arange(128, dtype=np.float32).reshape(8, 16)
    got = dtensor.jit(fn, in_layouts=(dtensor.Layout(["x", "y"], MESH),))(whole)
    np.testing.assert_array_equal(got.to_jax(), whole[:4] + whole[4:])


def test_verify_and_the_reports_of_such_a_program() -> None:
    def fn(a: Any, b: Any) -> Any:
        return jnp.tanh(product(jnp.sin(a), b))

    layouts = (dtensor.Layout(["x", "y"], MESH), dtensor.Layout(["y", None], MESH))
    report = dtensor.verify(fn, A, B, in_layouts=layouts)
    assert report.ok, str(report)
    assert report.values >= 1
    assert not report.not_compared
    lowered = dtensor.jit(fn, in_layouts=layouts).lower(A, B)
    reasons = [c.reason for c in lowered.collectives]
    assert reasons.count("written in shard_map") == 1
    assert len(reasons) > 1
    assert all(reasons)
    assert "shard_map at" in lowered.compile().explain()
    memory = lowered.memory
    assert memory is not None
    assert memory.peak_bytes > 0


SHARDY = """
sdy.mesh @mesh = <["x"=2, "y"=4]>
func.func @main(%a: tensor<8x16xf32>, %w: tensor<16x12xf32>) -> tensor<8x12xf32> {
  %0 = sdy.manual_computation(%a, %w)
      in_shardings=[<@mesh, [{"x", ?}, {?}]>, <@mesh, [{}, {"y"}]>]
      out_shardings=[<@mesh, [{"x"}, {?}]>]
      manual_axes={"x"} (%b: tensor<4x16xf32>, %v: tensor<16x12xf32>) {
    %1 = stablehlo.tanh %b : tensor<4x16xf32>
    %2 = stablehlo.dot_general %1, %v, contracting_dims = [1] x [0]
        : (tensor<4x16xf32>, tensor<16x12xf32>) -> tensor<4x12xf32>
    sdy.return %2 : tensor<4x12xf32>
  } : (tensor<8x16xf32>, tensor<16x12xf32>) -> tensor<8x12xf32>
  return %0 : tensor<8x12xf32>
}
"""


def test_shardys_text() -> None:
    """Axes that are left may be asked for at the border, too; what is closed takes none."""
    compiled = dtensor.compile_mlir(SHARDY, mesh=MESH)
    (result,) = compiled(A, B)
    np.testing.assert_allclose(result.to_jax(), np.tanh(A) @ B, rtol=1e-5, atol=1e-5)
    assert result.layout.short() == '[{"x"}, {"y"}]'
