"""Programs that contain jax.shard_map: its regions run as written, what is around is laid out."""

from __future__ import annotations

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
RNG = np.random.default_rng(5)
A = RNG.normal(size=(8, 16)).astype(np.float32)
B = RNG.normal(size=(16, 12)).astype(np.float32)


def split(fn: Any, in_specs: Any, out_specs: Any) -> Any:
    return jax.shard_map(fn, mesh=DEVICES, in_specs=in_specs, out_specs=out_specs)


def product(a: Any, b: Any) -> Any:
    """A matmul whose contraction is split, summed by hand."""
    parts = split(lambda a, b: lax.psum(a @ b, "y"), (P("x", "y"), P("y", None)), P("x", None))
    return jnp.tanh(parts(jnp.sin(a), b)) * 2


def ring(a: Any, b: Any) -> Any:
    """Every collective there is, and the coordinate of a device."""

    def body(a: Any, b: Any) -> Any:
        moved = lax.ppermute(a, "x", [(0, 1), (1, 0)]) + lax.axis_index("y")
        every = lax.all_gather(b, "y", axis=1, tiled=True)
        own = lax.psum_scatter(moved @ every, "y", scatter_dimension=1, tiled=True)
        swapped = lax.all_to_all(own, "x", split_axis=1, concat_axis=0, tiled=True)
        return swapped + lax.pmax(jnp.max(own), ("x", "y"))

    return split(body, (P("x", None), P(None, "y")), P(None, ("y", "x")))(a, b + 1)


@pytest.mark.parametrize("fn", [product, ring], ids=["product", "ring"])
def test_values_are_those_of_jax(fn: Any) -> None:
    want = jax.jit(fn)(A, B[:, :8])
    for layout in all_layouts(A.shape)[::3]:
        got = dtensor.jit(fn, mesh=MESH, in_layouts=(layout, None))(A, B[:, :8])
        np.testing.assert_allclose(got.to_jax(), want, rtol=2e-5, atol=1e-5, err_msg=layout.short())


def test_what_fits_moves_nothing_and_its_own_collectives_are_counted() -> None:
    layouts = (dtensor.Layout(["x", "y"], MESH), dtensor.Layout(["y", None], MESH))
    compiled = dtensor.jit(product, in_layouts=layouts).lower(A, B).compile()
    assert [(c.kind, c.mesh_axes, c.reason) for c in compiled.collectives] == [
        ("all_reduce", ("y",), "written in shard_map")
    ]
    assert compiled.wire_bytes == 2 * 3 / 4 * 4 * 12 * 4
    moved = dtensor.jit(product, in_layouts=(layouts[0], dtensor.Layout([None, "y"], MESH)))
    first = moved.lower(A, B).compile().collectives[0]
    assert first.kind == "all_to_all"
    assert 'operand 1 of shard_map must have [{"y"}, {}]' in first.reason


def test_what_comes_in_may_go_out_twice_and_laid_out_otherwise() -> None:
    def same(a: Any) -> Any:
        return split(lambda s: (s, s, s * 2), P("x", None), (P("x", None), P(None, "x"), P("x")))(a)

    want = jax.jit(same)(A)
    got = dtensor.jit(same, in_layouts=dtensor.Layout(["y", "x"], MESH))(A)
    for mine, theirs in zip(got, want, strict=True):
        np.testing.assert_array_equal(mine.to_jax(), theirs)


def test_scalars_truth_values_and_dimensions_of_one() -> None:
    def mixed(a: Any, n: Any, flags: Any) -> Any:
        def body(a: Any, n: Any, flags: Any) -> Any:
            return lax.psum(a.sum() * n, ("x", "y")), ~flags, lax.all_gather(a[:, :1], "x")

        specs = (P("x", "y"), P(), P(None, "y"))
        outs = (P(), P(None, "y"), P(None, None, "y"))
        return jax.shard_map(body, mesh=DEVICES, in_specs=specs, out_specs=outs, check_vma=False)(
            a, n, flags
        )

    flags = A[:1, :8] > 0
    want = jax.jit(mixed)(A, np.float32(3), flags)
    got = dtensor.jit(mixed, mesh=MESH)(A, np.float32(3), flags)
    for mine, theirs in zip(got, want, strict=True):
        np.testing.assert_allclose(mine.to_jax(), theirs, rtol=1e-5)


def test_results_of_several_ranks_that_nothing_reads() -> None:
    def body(a: Any) -> Any:
        return jnp.sin(a), a[..., None], a

    fn = lambda a: split(body, P("x"), (P("x"), P("x"), P("x")))(a)[0]  # noqa: E731
    got = dtensor.jit(fn, in_layouts=dtensor.Layout(["x", None], MESH))(A)
    np.testing.assert_allclose(got.to_jax(), np.sin(A), rtol=1e-6)


def test_gradients() -> None:
    def loss(a: Any, b: Any) -> Any:
        return jnp.sum(product(a, b) ** 2)

    want = jax.jit(jax.grad(loss, argnums=(0, 1)))(A, B)
    layouts = (dtensor.Layout(["x", "y"], MESH), dtensor.Layout(["y", None], MESH))
    got = dtensor.jit(jax.grad(loss, argnums=(0, 1)), in_layouts=layouts)(A, B)
    for mine, theirs in zip(got, want, strict=True):
        np.testing.assert_allclose(mine.to_jax(), theirs, rtol=2e-5, atol=1e-5)


@pytest.mark.parametrize("axes", [{"x": 1}, {"x": 1, "y": 1}, {"x": 1, "y": 8}, {"y": 8, "x": 1}])
@pytest.mark.parametrize("manual", [{"x"}, {"x", "y"}])
def test_axes_of_one_device(axes: dict[str, int], manual: set[str]) -> None:
    mesh = jax.make_mesh(tuple(axes.values()), tuple(axes), axis_types=(AxisType.Auto,) * len(axes))

    def exchanged(a: Any) -> Any:
        summed = lax.psum(a, "x") + lax.all_gather(a, "x").sum(0) + lax.axis_index("x")
        moved = lax.ppermute(a, "x", [(0, 0)]) * lax.all_to_all(a, "x", 0, 1, tiled=True)
        return summed + moved - lax.psum_scatter(a, "x", tiled=True) + lax.ppermute(a, "x", [])

    def program(a: Any) -> Any:
        region = jax.shard_map(
            exchanged,
            mesh=mesh,
            in_specs=P("x"),
            out_specs=P("x"),
            axis_names=manual & set(axes),
            check_vma=False,
        )
        return region(jnp.sin(a)).sum(1)

    a = np.arange(96, dtype=np.float32).reshape(16, 6)
    b = np.sin(a)
    found = dtensor.jit(program, mesh=mesh, in_layouts=P("x"), returns="jax")(a)
    np.testing.assert_allclose(found, (b + b * b).sum(1), rtol=1e-5)  # order of sums


def test_in_a_loop() -> None:
    def steps(a: Any) -> Any:
        mean = split(lambda s: lax.pmean(s, "x"), P("x", "y"), P(None, "y"))
        return lax.fori_loop(0, 3, lambda _, x: x * 0.5 + jnp.tile(mean(x), (2, 1)), a)

    want = jax.jit(steps)(A)
    layout = dtensor.Layout(["x", "y"], MESH)
    compiled = dtensor.jit(steps, in_layouts=layout).lower(A).compile()
    np.testing.assert_allclose(compiled(A).to_jax(), want, rtol=1e-6)
    assert {c.trip_count for c in compiled.collectives if c.reason == "written in shard_map"} == {3}
