"""Medians, quantiles and single places of a sort of a split dimension, on 8 devices against one."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dtensor.compiler.api import jit
from dtensor.compiler.mlir_frontend import compile_mlir
from dtensor.compiler.stages import Compiled
from dtensor.dialect.layout import UNSHARDED, Layout
from dtensor.dialect.mesh import Mesh
from dtensor.runtime.client import create_mesh
from tests.py.passes.on_mesh import GRID, LINE, kinds, run, sent

THREE = create_mesh([("x", 3), ("y", 2)])


def awkward(size: int, seed: int = 0) -> np.ndarray[Any, Any]:
    """Many equal numbers, both zeros, both infinities and NaN."""
    rng = np.random.default_rng(seed)
    x = rng.integers(-3, 4, size).astype(np.float32)
    x[rng.integers(0, size, size // 3)] = -0.0
    x[rng.integers(0, size, 6)] = [np.nan, -np.nan, np.inf, -np.inf, 1e-30, -1e-40]
    return x


def rounds(compiled: Compiled) -> int:
    """How often counts are added up."""
    sums = [each for each in compiled.collectives if each.kind == "all_reduce"]
    return sum(each.trip_count or 0 for each in sums)


@pytest.mark.sweep
@pytest.mark.parametrize(
    ("mesh", "axes"), [(LINE, "x"), (GRID, "y"), (GRID, ("y", "x")), (THREE, ("x", "y"))]
)
def test_places_of_a_sort_are_counted(mesh: Mesh, axes: Any) -> None:
    def places(a: Any) -> Any:
        up = jnp.sort(a)
        found = [up[0], up[2700], up[-2:]]
        return found, jnp.signbit(jnp.concatenate([jnp.atleast_1d(x) for x in found]))

    for seed in range(3):
        compiled = run(places, mesh, [[axes]], awkward(4608, seed))
        assert rounds(compiled) >= 8


@pytest.mark.parametrize(
    ("mesh", "axes"), [(LINE, "x"), (GRID, "y"), (GRID, ("y", "x")), (THREE, ("x", "y"))]
)
def test_places_near_an_end_are_taken_of_each_shard(mesh: Mesh, axes: Any) -> None:
    def first(a: Any) -> Any:
        found = jnp.sort(a)[:7], -jnp.sort(-a)[2:5], jnp.sort(a)[3]
        return found, [jnp.signbit(each) for each in found]

    def last(a: Any) -> Any:
        found = jnp.sort(a)[-5:], jnp.sort(a)[a.shape[0] - 3], jnp.sort(-a)[-2]
        return found, [jnp.signbit(each) for each in found]

    for size in (4608, 4605, 48):
        for function in (first, last):
            compiled = run(function, mesh, [[axes]], awkward(size))
            if function is first or size != 4605:
                assert "all_gather" in kinds(compiled)
                assert rounds(compiled) == 0


def test_rows_near_an_end() -> None:
    x = awkward(6 * 4608).reshape(6, 4608)
    for axis, specs in ((1, ["x", "y"]), (0, ["y", "x"])):
        y = x if axis else x.T

        def ends(a: Any, axis: int = axis) -> Any:
            found = jnp.sort(a, axis)
            return jax.lax.slice_in_dim(found, 1, 4, axis=axis)

        compiled = run(ends, GRID, [specs], y)
        assert kinds(compiled) == {"all_gather", "all_to_all"}  # a row for each of four shards
        few = y[:2] if axis else y[:, :2]
        assert kinds(run(ends, GRID, [specs], few)) == {"all_gather"}


@pytest.mark.parametrize("size", [24, 1536])
def test_every_place_is_right(size: int) -> None:
    """Equal zeros of both signs come in the order in which they stood."""

    def at(a: Any, place: Any) -> Any:
        found = jax.lax.dynamic_index_in_dim(jnp.sort(a), place, keepdims=False)
        many = jnp.sort(a)[jnp.array([0, 0]) + place]
        return found, jnp.signbit(found), many, jnp.signbit(many)

    x = awkward(size)
    zero = int((x < 0).sum())
    for place in (-2, 1, zero, zero + 1, zero + size // 3, size // 2, size - 1, size + 5):
        compiled = run(at, LINE, [["x"], None], x, np.int32(place))
        assert size == 24 or rounds(compiled) >= 8


@pytest.mark.sweep
@pytest.mark.parametrize(
    "kind", [np.int8, np.uint16, np.int32, np.float16, jnp.bfloat16, np.uint32]
)
def test_places_of_any_type(kind: Any) -> None:
    x = np.random.default_rng(1).integers(0, 120, (4800, 3)).astype(kind)

    def places(a: Any) -> Any:
        return jnp.sort(a, 0)[1700], jnp.sort(a, 0)[-1:]

    compiled = run(places, LINE, [["x", UNSHARDED]], x)
    assert rounds(compiled) >= 2


def test_places_in_double_precision() -> None:
    with jax.enable_x64(True):
        x = np.random.default_rng(2).normal(size=240)
        run(lambda a: (jnp.sort(a)[100], jnp.median(a)), LINE, [["x"]], x)
        many = np.random.default_rng(2).integers(0, 1 << 64, 4000, np.uint64)
        many = np.concatenate([many, many.view(np.float64).view(np.uint64)])
        compiled = run(lambda a: jnp.sort(a)[100:102], LINE, [["x"]], many)
        assert rounds(compiled) >= 64
        big = np.random.default_rng(2).integers(-(1 << 62), 1 << 62, 240)
        run(lambda a: (jnp.sort(a)[100], jnp.sort(a.view(jnp.uint64))[7]), LINE, [["x"]], big)


@pytest.mark.sweep
@pytest.mark.parametrize(
    "specs", [["x", "y"], ["y", "x"], [("y", "x"), UNSHARDED], [UNSHARDED, "y"]]
)
def test_statistics_of_rows_and_columns(specs: list[Any]) -> None:
    x = np.random.default_rng(3).normal(size=(64, 24)).astype(np.float32)
    x[3, 5] = np.nan

    def statistics(a: Any) -> Any:
        quarters = jnp.quantile(a, jnp.array([0.25, 0.5, 0.9]), axis=1)
        return jnp.median(a, 0), jnp.median(a, 1), quarters, jnp.percentile(a, 30, axis=0)

    run(statistics, GRID, [specs], x, absolute=1e-6)  # rounding where two places are mixed


def test_a_median_sends_counts() -> None:
    x = np.random.default_rng(4).normal(size=1 << 16).astype(np.float32)
    compiled = run(jnp.median, LINE, [["x"]], x)
    bits, places = 32, 2  # one at a time, where starting a collective takes no time
    # The second has the key of the first, or the next one: how many there are, and which is next.
    sums = bits + 2 + places
    assert sent(compiled) == pytest.approx(sums * 2 * 7 / 8 * 4 + 7 * places * 4, abs=2)


@pytest.mark.sweep
@pytest.mark.parametrize("size", [4096, 4095, 25])
def test_a_place_and_the_next_one(size: int) -> None:
    """Of equal numbers, of both zeros and at the ends; counts of few elements share words."""

    def places(a: Any) -> Any:
        up = jnp.sort(a)
        found = up[jnp.array([0, 1, size // 2, size // 2 + 1, size // 2 + 2, size - 1, 7, size])]
        return found, jnp.signbit(found)

    for seed in range(3):
        x = awkward(size, seed)
        compiled = run(places, LINE, [["x"]], x)
        assert size == 25 or sent(compiled) < 2 * size
    run(places, GRID, [["y"]], np.sort(np.random.default_rng(6).normal(size=size)))


def test_a_slow_start_of_collectives_asks_for_few() -> None:
    x = np.random.default_rng(4).normal(size=1 << 16).astype(np.float32)
    compiled = jit(jnp.median, mesh=LINE, in_layouts=(Layout(["x"], LINE),)).lower(x).compile()
    # Of 4 bits; the key behind it and where it begins; whether there is a NaN; and the elements.
    assert rounds(compiled) == 8 + 2 + 2
    np.testing.assert_allclose(compiled(x).to_jax(), np.median(x), rtol=1e-6)


@pytest.mark.sweep
@pytest.mark.parametrize("size", [4096, 4100])
def test_a_median_of_what_is_a_number_counts_it(size: int) -> None:
    """What is sorted is counted too: in whatever order it stands."""
    x = awkward(size)
    x[::5] = np.nan

    def statistics(a: Any) -> Any:
        return jnp.nanmedian(a), jnp.nanquantile(a, 0.3)

    compiled = run(statistics, LINE, [["x"]], x, error=1e-6)
    assert kinds(compiled) <= {"all_reduce", "all_gather"}
    assert sent(compiled) < size
    x[:] = np.nan
    run(statistics, LINE, [["x"]], x)


@pytest.mark.sweep
@pytest.mark.parametrize(
    ("mesh", "specs"),
    [
        (LINE, ["x", UNSHARDED, UNSHARDED]),
        (GRID, ["y", "x", UNSHARDED]),
        (GRID, [("x", "y"), UNSHARDED, UNSHARDED]),
        (GRID, [UNSHARDED, "y", "x"]),
        (THREE, ["x", UNSHARDED, "y"]),
    ],
)
def test_each_row_has_places_of_its_own(mesh: Mesh, specs: list[Any]) -> None:
    def statistics(a: Any, at: Any) -> Any:
        quarters = jnp.nanquantile(a, jnp.array([0.25, 0.9]), axis=0, method="lower")
        taken = jnp.take_along_axis(jnp.sort(a, 0), at, 0)
        return jnp.nanmedian(a, 0), quarters, taken, jnp.signbit(taken)

    for size in (4800, 210) if mesh is not GRID else (4800,):
        x = np.stack([awkward(size, k) for k in range(15)], 1).reshape(size, 5, 3)
        x[:: size // 70, 1], x[:, 2, 0] = np.nan, np.nan
        if size == 210:
            x += 0  # no -0, which a sum over CPU devices loses: not all is counted
        at = np.random.default_rng(5).integers(-size, size, (4, 5, 3)).astype(np.int32)
        compiled = run(statistics, mesh, [specs, None], x, at, error=1e-6)
        if size == 4800 and specs[0] != UNSHARDED:
            assert rounds(compiled) >= 2 * 32  # of two sorts, bit by bit
            assert sent(compiled) < x.nbytes / 2


@pytest.mark.parametrize("specs", [["x", UNSHARDED, "y"], [UNSHARDED, "y", "x"]])
def test_places_of_rows_along_a_dimension_between_others(specs: list[Any]) -> None:
    x = np.random.default_rng(7).permutation(6 * 2400 * 8).reshape(6, 2400, 8)
    at = np.random.default_rng(8).integers(0, 2400, (6, 3, 8)).astype(np.int32)
    run(lambda a, k: jnp.take_along_axis(jnp.sort(a, 1), k, 1), GRID, [specs, None], x, at)


def test_many_places_and_short_dimensions_are_sorted() -> None:
    x = awkward(96)
    run(lambda a: jnp.sort(a)[::3], LINE, [["x"]], x)
    run(lambda a: jnp.sort(a)[3], LINE, [["x"]], x[:16])
    run(lambda a: (jnp.sort(a)[3], jnp.sort(a) + 1), LINE, [["x"]], x)


LOOKED_UP = """
func.func @main(%places: tensor<3x32xi32>, %table: tensor<32x40xf32>) -> tensor<3x32xf32> {
  %sorted = "stablehlo.sort"(%places) <{dimension = 1 : i64}> ({
  ^bb0(%a: tensor<i32>, %b: tensor<i32>):
    %is_less = stablehlo.compare LT, %a, %b, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %is_less : tensor<i1>
  }) : (tensor<3x32xi32>) -> tensor<3x32xi32>
  %rows = "stablehlo.gather"(%table, %sorted) <{
    dimension_numbers = #stablehlo.gather<
      collapsed_slice_dims = [1], operand_batching_dims = [0],
      start_indices_batching_dims = [1], start_index_map = [1], index_vector_dim = 2>,
    slice_sizes = array<i64: 1, 1>
  }> : (tensor<32x40xf32>, tensor<3x32xi32>) -> tensor<3x32xf32>
  return %rows : tensor<3x32xf32>
}
"""


def test_what_is_looked_up_at_sorted_numbers_reads_all_of_them() -> None:
    """Three numbers are read of each row of a table, at places that a sort gives."""
    rng = np.random.default_rng(0)
    places = rng.integers(0, 40, (3, 32)).astype(np.int32)
    table = rng.normal(size=(32, 40)).astype(np.float32)
    layouts = [Layout([UNSHARDED, "x"], LINE), Layout(["x", UNSHARDED], LINE)]
    (found,) = compile_mlir(LOOKED_UP, mesh=LINE, in_layouts=layouts)(places, table)
    expected = np.take_along_axis(table, np.sort(places, 1).T, 1).T
    np.testing.assert_array_equal(found.to_jax(), expected)


@pytest.mark.parametrize("place", [0, 17, 300])
def test_what_nobody_reads_of_a_partition_is_not_computed(place: int) -> None:
    def found(a: Any) -> Any:
        return jnp.partition(a, place)[place]

    compiled = run(found, LINE, [["x"]], np.nan_to_num(awkward(4608)))
    assert compiled.wire_bytes < 4608 * 4 * 7 / 8
