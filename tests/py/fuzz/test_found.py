"""Programs that were found wrong once, by random search; each with its name."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dtensor
from tests.py.fuzz.programs import Argument

MESH = dtensor.create_mesh([("x", 3), ("y", 2)], devices=list(range(6)))
LINE = dtensor.create_mesh([("x", 8)])


def numbers(*shape: int) -> np.ndarray[Any, Any]:
    return np.asarray(np.random.default_rng(3).normal(size=shape)).astype(np.float32)


def test_verify_looks_into_a_loop_whose_sort_compares_with_a_constant_from_outside() -> None:
    rows = dtensor.Layout([("y", "x")], MESH)
    report = dtensor.verify(
        lambda a: jax.scipy.stats.rankdata(a, axis=0), numbers(12), in_layouts=rows
    )
    assert report.ok, str(report)


def test_verify_looks_into_a_loop_that_carries_parts_of_a_sum() -> None:
    def total(t: Any) -> Any:
        return jax.lax.fori_loop(0, 3, lambda i, c: jnp.sin(c @ t.mT) @ t * 0.1, t).sum()

    columns = dtensor.Layout([None, ("y", "x")], MESH)
    report = dtensor.verify(jax.grad(total), numbers(12, 24), in_layouts=columns)
    assert report.ok, str(report)


def test_verify_rounds_halves_where_a_fusion_without_optimisation_would_not() -> None:
    def both(p: Any, q: Any) -> Any:
        return p[0] * q[0], q[0] * p[1] + q[1]

    def scan(a: Any) -> Any:
        return jax.lax.associative_scan(both, (jnp.tanh(a), a), axis=0)[1]

    rows = dtensor.Layout([None, None], MESH)
    report = dtensor.verify(scan, numbers(8, 8).astype(np.float16), in_layouts=rows)
    assert report.ok, str(report)


def test_verify_leaves_out_what_a_library_was_not_asked_for() -> None:
    layouts = (dtensor.Layout([None, None], MESH),)
    for _ in range(3):  # what memory holds differs
        report = dtensor.verify(
            lambda a: jnp.linalg.svd(a, compute_uv=False), numbers(12, 3), in_layouts=layouts
        )
        assert report.ok, str(report)


def test_verify_looks_into_a_loop_of_a_loop_that_starts_from_a_constant() -> None:
    def rows(c: Any, r: Any) -> Any:
        return jax.lax.scan(lambda e, s: (jnp.tanh(e + s), e), c, jnp.stack([r, r * 2]))

    whole = dtensor.Layout([None, None], MESH)
    report = dtensor.verify(
        lambda v: jax.lax.scan(rows, jnp.zeros_like(v[0]), v)[1], numbers(5, 6), in_layouts=whole
    )
    assert report.ok, str(report)


@pytest.mark.long
def test_verify_reads_what_it_looks_at() -> None:
    """XLA computes the gamma function's last steps again for each of the two that read them."""

    def both(a: Any, b: Any) -> Any:
        v = jax.scipy.special.gammainc(jnp.abs(a) + 1, jnp.abs(b)) * 1e6
        return jnp.floor(v), jnp.sin(v)

    a, b = 3 * numbers(3001, 2, 3)[:, 0], 3 * numbers(3001, 2, 3)[:, 1]
    report = dtensor.verify(both, a, b, in_layouts=dtensor.Layout([None, "x"], MESH))
    assert report.ok, str(report)


def test_verify_compares_a_logarithm_with_that_of_the_root_it_looks_at() -> None:
    """XLA writes log(sqrt(x)) as half of log(x)."""
    near = np.linspace(1, 1.1, 1000, dtype=np.float32)
    whole = dtensor.Layout([None], MESH)
    report = dtensor.verify(lambda x: jnp.log(jnp.sqrt(x)), near, in_layouts=whole)
    assert report.ok, str(report)


def test_verify_looks_into_a_small_loop_with_a_barrier() -> None:
    """XLA cannot emit a barrier in the one kernel that it makes of a small loop."""

    def kept(t: Any) -> Any:
        return jax.lax.fori_loop(0, 3, lambda i, c: jax.lax.optimization_barrier(c + t), t)

    report = dtensor.verify(kept, numbers(6), in_layouts=dtensor.Layout(["x"], MESH))
    assert report.ok, str(report)


def test_the_bound_of_a_result_counts_the_roundings_of_narrower_values() -> None:
    def wide(a: Any) -> Any:
        low = jnp.corrcoef(a + 0.1)
        assert low.dtype == jnp.bfloat16
        return jax.random.uniform(jax.random.key(1), low.shape, maxval=jnp.abs(low) + 1)

    whole = dtensor.Layout([None, None], MESH)
    narrow = numbers(6, 5).astype(jnp.bfloat16)
    report = dtensor.verify(wide, narrow, in_layouts=whole)
    assert report.ok, str(report)


def test_a_reflection_at_the_edge_of_a_split_dimension() -> None:
    for size in (8, 9, 11):
        a = numbers(size, 3)
        found = dtensor.jit(
            lambda a: jnp.pad(a, ((1, 1), (0, 0)), mode="reflect"),
            in_layouts=dtensor.Layout(["x", None], LINE),
            out_layouts=dtensor.Layout(["x", None], LINE),
        )(a)
        np.testing.assert_array_equal(
            np.asarray(found.to_jax()), np.pad(a, ((1, 1), (0, 0)), mode="reflect")
        )


def test_one_row_split_over_devices_is_reversed() -> None:
    def fn(a: Any) -> Any:
        row = dtensor.relayout(a[1:2], dtensor.Layout(["x", None], LINE))
        return jax.lax.rev(row, (0,)) + 1

    a = numbers(5, 3)
    found = dtensor.jit(fn, in_layouts=dtensor.Layout([None, None], LINE))(a)
    np.testing.assert_array_equal(np.asarray(found.to_jax()), a[1:2] + 1)


def test_blocks_of_a_dimension_that_grows_divide_it() -> None:
    """A mesh of 3 has reflections of 16 rows in 18, and the blocks are 4."""
    blocks = dtensor.Layout([(2, "y"), None], MESH)
    rows = dtensor.Layout(["x", None], MESH)
    a = numbers(16, 5)

    def fn(a: Any) -> Any:
        return jnp.pad(dtensor.relayout(a, blocks), ((1, 1), (0, 0)), mode="reflect")

    found = dtensor.jit(fn, in_layouts=rows)(a)
    expected = np.pad(a, ((1, 1), (0, 0)), mode="reflect")
    np.testing.assert_array_equal(np.asarray(found.to_jax()), expected)


def test_a_result_that_blocks_do_not_divide_is_not_laid_out_in_blocks() -> None:
    blocks = dtensor.Layout([(2, "y"), None], MESH)
    a = numbers(16, 5)

    def fn(a: Any) -> Any:
        return jnp.pad(dtensor.relayout(a, blocks), ((1, 2), (0, 0)))

    found = dtensor.jit(fn, in_layouts=dtensor.Layout([None, None], MESH))(a)
    np.testing.assert_array_equal(np.asarray(found.to_jax()), np.pad(a, ((1, 2), (0, 0))))


def test_the_gradient_of_overlapping_pools_whose_results_alone_do_not_divide() -> None:
    """11 windows become 12 over two devices, and the 24 elements stay."""

    def pooled(x: Any) -> Any:
        return (jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (4, 4), (2, 2), "VALID") ** 2).sum()

    a = numbers(4, 24)
    found = dtensor.jit(jax.grad(pooled), in_layouts=dtensor.Layout([None, "y"], MESH))(a)
    np.testing.assert_array_equal(np.asarray(found.to_jax()), np.asarray(jax.grad(pooled)(a)))


def test_verify_measures_a_log_gamma_next_to_its_zeros_by_its_terms() -> None:
    # XLA folds that of a constant exactly, and computes others to 5e-7 there.
    report = dtensor.verify(
        lambda a: jax.scipy.stats.norm.cdf(a) * jax.scipy.stats.t.logpdf(a, 3.0),
        np.float32(0.4),
        in_layouts=dtensor.Layout([], LINE),
    )
    assert report.ok, str(report)


def test_verify_rounds_scalars_made_of_constants_once() -> None:
    report = dtensor.verify(
        lambda a: a * jax.scipy.stats.t.logpdf(a, 3.0),
        numbers(3),
        in_layouts=dtensor.Layout([None], LINE),
    )
    assert report.ok, str(report)


def test_verify_leaves_out_what_a_library_makes_of_nan() -> None:
    def again(a: Any) -> Any:
        u, s, v = jnp.linalg.svd(jnp.corrcoef(a[:, None]), full_matrices=False)
        return (u * s[..., None, :]) @ v

    report = dtensor.verify(again, numbers(15), in_layouts=dtensor.Layout([None], LINE))
    assert report.ok, str(report)
    assert "not finite" in str(report)


def test_the_bound_of_what_is_made_of_parts_counts_the_roundings_of_their_sum() -> None:
    def program(a: Any) -> Any:
        cubes = jnp.einsum("...ij,...kj,...lj->...ikl", a, a, a) / 4
        sums = jax.lax.map(lambda row: jnp.cumsum(row, 0), cubes, batch_size=2)
        both = jnp.trace(jnp.concatenate([sums[2:], cubes[:2]])).astype(jnp.float32)
        return jax.grad(lambda t: (jnp.cumsum(t, 0) ** 2).sum())(both)

    a = jnp.asarray(numbers(4, 6), jnp.bfloat16)
    report = dtensor.verify(program, a, in_layouts=dtensor.Layout([None, "y"], MESH))
    assert report.ok, str(report)


def test_the_terms_of_a_sum_count_beside_values_that_jax_cannot_hold() -> None:
    # The counters of random bits have 64 bits, which jax has not unless it is told to.
    def program(a: Any, b: Any) -> Any:
        return jnp.matmul(b, a.mT, precision="highest"), jax.random.categorical(
            jax.random.key(1), b, axis=0
        )

    values = [Argument(name, (24, 11), "float32", None).value(941504) for name in ("a0", "v0")]
    report = dtensor.verify(
        program, *values, in_layouts=(dtensor.Layout(["x", None], LINE), None), mesh=LINE
    )
    assert report.ok, str(report)


def test_rows_that_nothing_is_added_to_keep_the_sign_of_their_zeros() -> None:
    def bits(a: Any) -> Any:
        return jax.lax.bitcast_convert_type(jax.ops.segment_sum(a, jnp.arange(3), 4), jnp.int32)

    got = dtensor.jit(bits, in_layouts=(dtensor.Layout([None, None], MESH),))(numbers(3, 9))
    np.testing.assert_array_equal(got.to_jax(), jax.jit(bits)(numbers(3, 9)))


def test_a_value_that_two_axes_would_make_partial_in_two_ways_is_not() -> None:
    # A largest value of each column is partial over the rows' axis; looking up positions of split
    # columns makes parts of a sum over theirs.
    def program(a: Any) -> Any:
        return a.max(0)[jnp.array([[1, 11], [0, 7]])] + a.prod(0).take(jnp.array([5, 2, 8]))[0]

    report = dtensor.verify(program, numbers(6, 12), in_layouts=dtensor.Layout(["x", "y"], MESH))
    assert report.ok, str(report)


def test_a_product_with_the_rows_that_one_shard_has() -> None:
    # A part of a sum becomes a part of a product: its ones must not be summed.
    grid = dtensor.create_mesh([("x", 2), ("y", 4)])

    def program(a: Any) -> Any:
        rows = jnp.take(a, jnp.array([3, 9]), axis=0, mode="wrap")
        return dtensor.relayout(rows.at[..., jnp.array([1, 0])].multiply(3), halves)

    halves = dtensor.Layout([(dtensor.AxisRef("y", 1, 2),)], grid)
    value = Argument("a0", (10,), "complex64", None).value(901121)
    work = dtensor.CostModel(dtensor.Link(0.0, 1e11), peak_flops=1e9, hbm_bytes_per_second=1e9)
    report = dtensor.verify(
        program,
        value,
        in_layouts=(dtensor.Layout(["x"], grid),),
        options=dtensor.CompileOptions(cost=work),
    )
    assert report.ok, str(report)


def test_a_running_sum_in_a_loop_of_what_a_constant_starts() -> None:
    # The first value of the sum is a constant outside of the loop, in another shape.
    mesh = dtensor.create_mesh([("x", 2), ("y", 2), ("z", 2)])

    def program(a: Any) -> Any:
        tiled = dtensor.relayout(a, dtensor.Layout([(2, "z"), ("y", "x")], mesh))

        def part(_: Any) -> Any:
            kept = tiled[:, 1:]
            return kept, jnp.cumsum(kept[::-1], 0)[::-1]

        count = jnp.sum(tiled != 0) % 3
        return jax.lax.fori_loop(0, count, lambda _, c: part(c), part(None))[1]

    work = dtensor.CostModel(dtensor.Link(0.0, 1e11), peak_flops=1e9, hbm_bytes_per_second=1e9)
    value = Argument("v0", (24, 4), "uint32", None).value(901160)
    options = dtensor.CompileOptions(cost=work)
    report = dtensor.verify(program, value, mesh=mesh, options=options)
    assert report.ok, str(report)


def test_maps_of_nothing_along_a_split_dimension() -> None:
    def program(a: Any, b: Any) -> Any:
        def picked(_: Any) -> Any:
            pairs = jnp.stack([b, sums], 1)
            return jax.vmap(lambda row, i: jax.lax.dynamic_index_in_dim(row, i, 0, False))(
                pairs, jnp.arange(b.shape[0]) % 2
            )

        sums = jnp.cumsum(jax.grad(lambda t: jnp.sum(jnp.sin(t) * jnp.cos(t * a)))(a) ** 2, 0)
        return jax.lax.map(picked, jnp.arange(2))[1]

    nothing = np.zeros(0, np.float32)
    layouts = dtensor.Layout(["x"], LINE), None
    link = dtensor.CompileOptions(cost=dtensor.CostModel(dtensor.Link(0.0, 1e6)))
    report = dtensor.verify(program, nothing, nothing, in_layouts=layouts, mesh=LINE, options=link)
    assert report.ok, str(report)


def test_the_gradient_of_a_recurrence_is_zero_where_nothing_comes_before() -> None:
    # What comes behind is infinite: its cosine is NaN, and nothing is multiplied by that there.
    def program(t: Any, b: Any) -> Any:
        def both(p: Any, q: Any) -> Any:
            return p[0] * q[0], q[0] * p[1] + q[1]

        return jnp.sin(jax.lax.associative_scan(both, (jnp.tanh(t), b), axis=1)[1]).sum()

    given = numbers(6, 24), np.full((6, 24), np.inf, np.float32)
    rows = dtensor.Layout(["x", None], MESH)
    report = dtensor.verify(jax.grad(program), *given, in_layouts=rows)
    assert report.ok, str(report)


def test_a_slice_in_steps_of_what_was_joined_may_take_nothing() -> None:
    def fn(a: Any) -> Any:
        joined = jnp.stack([a, a * 2], 2)
        nothing = jax.lax.slice(joined, (2, 0, 0), (2, 5, 2), (2, 1, 1))
        return nothing.sum(0), jnp.concatenate([joined[:1], nothing * 3])

    a = numbers(2, 5)
    found = dtensor.jit(fn, in_layouts=dtensor.Layout(["x", None], LINE))(a)
    for one, other in zip(found, jax.jit(fn)(a), strict=True):
        np.testing.assert_array_equal(np.asarray(one.to_jax()), np.asarray(other))


def test_a_longer_trial_that_nothing_grows_for() -> None:
    """Of 2 elements in 2 shards 3 are made, padded to 4; 6 would be more than twice as many."""

    def crop(x: Any) -> Any:
        rows = dtensor.relayout(x, dtensor.Layout(["y"], MESH))
        return jax.lax.pad(jax.scipy.special.gammainc(jnp.abs(rows) + 1, 2.0), 1.0, [(-1, 2, 0)])

    slow = dtensor.CostModel(link=dtensor.Link(0.0, 1e11), peak_flops=1e9, hbm_bytes_per_second=1e9)
    whole = dtensor.Layout([None], MESH)
    report = dtensor.verify(
        crop, numbers(2), in_layouts=(whole,), options=dtensor.CompileOptions(cost=slow)
    )
    assert report.ok, str(report)
