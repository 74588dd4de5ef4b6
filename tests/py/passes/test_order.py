"""Sorts, largest elements and Fourier transforms of split dimensions, on 8 devices against one."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dtensor.compiler.api import jit
from dtensor.compiler.options import CompileOptions
from dtensor.dialect.layout import UNSHARDED, Layout
from dtensor.dialect.mesh import Mesh
from dtensor.passes.cost.model import CostModel, Link
from dtensor.runtime.client import create_mesh
from tests.py.passes.on_mesh import BOTH, GRID, LINE, kinds, run, sent

THREE = create_mesh([("x", 3), ("y", 2)])
ROWS = ["x", UNSHARDED]


def numbers(shape: tuple[int, ...], dtype: Any = np.float32) -> np.ndarray[Any, Any]:
    """Few different values, so that many are equal."""
    return np.random.default_rng(0).integers(0, 9, shape).astype(dtype)


@pytest.mark.sweep
@pytest.mark.parametrize("taken", [1, 3, 5, 24])
@pytest.mark.parametrize(
    ("mesh", "specs"),
    [
        (LINE, [UNSHARDED, "x"]),
        (GRID, ["x", "y"]),
        (GRID, ["y", "x"]),
        (GRID, [UNSHARDED, ("y", "x")]),
        (GRID, BOTH),
    ],
)
def test_the_largest_of_a_split_dimension(mesh: Mesh, specs: list[Any], taken: int) -> None:
    x = numbers((8, 24))
    x[1, 3], x[1, 20], x[2] = np.inf, np.inf, -np.inf
    run(lambda a: jax.lax.top_k(a, taken), mesh, [specs], x)


@pytest.mark.parametrize("dtype", [np.int8, np.uint32, np.float16])
def test_the_largest_of_any_type(dtype: Any) -> None:
    x = numbers((3, 64), dtype)
    run(lambda a: (jax.lax.top_k(a, 5), jax.lax.top_k(a[0], 7)), LINE, [[UNSHARDED, "x"]], x)


def test_only_candidates_are_sent() -> None:
    x = numbers((3, 4096))
    x[0, [5, 700, 4000]], x[1] = np.nan, 3
    compiled = run(lambda a: jax.lax.top_k(a, 4), LINE, [[UNSHARDED, "x"]], x)
    assert kinds(compiled) == {"shard_permute"}
    assert sent(compiled) == 3 * 3 * 4 * (4 + 4)  # by pairs, three times
    # Six shards make no pairs of pairs, and of five elements no shard has the seven largest.
    compiled = run(lambda a: jax.lax.top_k(a, 4), THREE, [[UNSHARDED, ("y", "x")]], x[:1, :4092])
    assert kinds(compiled) == {"all_gather"}
    compiled = run(lambda a: jax.lax.top_k(a, 4), THREE, [[UNSHARDED, ("y", "x")]], x[:, :4092])
    assert sent(compiled) == 2 * 5 * 4 * (4 + 4)  # each shard has one of six rows, and sends five
    run(lambda a: jax.lax.top_k(a, 7), LINE, [[UNSHARDED, "x"]], x[:, :40])


@pytest.mark.parametrize(("mesh", "axes"), [(LINE, "x"), (GRID, ("x", "y")), (THREE, "x")])
@pytest.mark.parametrize("taken", [3, 300])
def test_only_candidates_of_blocks_that_are_split_are_sent(
    mesh: Mesh, axes: Any, taken: int
) -> None:
    """A beam search takes the best of all words after all beams."""
    x = numbers((2, 4, 1536))
    x[0, 1:3, [5, 700, 1500]], x[1, 2] = np.nan, 9
    compiled = run(
        lambda a: jax.lax.top_k(a.reshape(2, -1), taken), mesh, [[UNSHARDED, UNSHARDED, axes]], x
    )
    if taken == 3:  # of all beams together: three make no pairs, and are gathered
        assert kinds(compiled) == {"all_gather" if mesh is THREE else "shard_permute"}
        assert sent(compiled) == 2 * 3 * (4 + 4) * (2 if mesh is THREE else 3)


@pytest.mark.parametrize("alpha", [1e-6, 1e-12])
def test_of_equal_numbers_in_several_blocks_the_first_are_taken(alpha: float) -> None:
    """Gathered, or exchanged by pairs: shards stand in another order than the numbers."""
    x = np.zeros((3, 4, 64), np.float32)
    x[0, 3, :2], x[0, 0, 62], x[1], x[2, 1:, 40] = 1, 1, np.nan, -0.0
    options = CompileOptions(cost=CostModel(link=Link(alpha=alpha, bytes_per_second=1e9)))
    for mesh, axes in ((LINE, "x"), (GRID, ("y", "x")), (THREE, "x")):
        a = x[:, :, :63] if mesh is THREE else x
        layout = Layout([UNSHARDED, UNSHARDED, axes], mesh)

        def best(a: Any) -> Any:
            return jax.lax.top_k(a.reshape(3, -1), 9)

        compiled = jit(best, mesh=mesh, in_layouts=(layout,), options=options).lower(a).compile()
        for have, want in zip(compiled(a), jax.jit(best)(a), strict=True):
            np.testing.assert_array_equal(np.asarray(have), np.asarray(want))


def test_a_slow_start_of_collectives_asks_for_one_gather() -> None:
    """Of several algorithms the cheapest on the machine is taken."""
    x = numbers((3, 4096))
    for alpha, kind in ((1e-6, "all_gather"), (1e-12, "shard_permute")):
        link = Link(alpha=alpha, bytes_per_second=1e9)
        lowered = jit(
            lambda a: jax.lax.top_k(a, 4),
            mesh=LINE,
            in_layouts=(Layout([UNSHARDED, "x"], LINE),),
            options=CompileOptions(cost=CostModel(link=link)),
        ).lower(x)
        assert {collective.kind for collective in lowered.collectives} == {kind}


def test_sorts_move_the_axis_to_another_dimension_and_back() -> None:
    x = numbers((64, 16))
    for sort in (lambda a: jnp.sort(a, 0), lambda a: jnp.argsort(a, 0)):
        compiled = run(sort, LINE, [ROWS], x, out=ROWS)
        assert kinds(compiled) == {"all_to_all"}
        assert sent(compiled) == 2 * 7 / 8 * x.nbytes / 8


SPLITS = [(LINE, "x"), (GRID, ("y", "x")), (THREE, ("x", "y"))]  # gathering sends less on fewer


def awkward(size: int, seed: int = 0, least: float = -1e-40) -> np.ndarray[Any, Any]:
    """Many equal numbers, both zeros, both infinities and NaN, and one next to zero."""
    rng = np.random.default_rng(seed)
    x = rng.integers(-3, 4, size).astype(np.float32)
    x[rng.integers(0, size, size // 4)] = -0.0
    x[rng.integers(0, size, 7)] = [np.nan, -np.nan, np.inf, -np.inf, np.nan, 1e-30, least]
    return x


@pytest.mark.sweep
@pytest.mark.parametrize(("mesh", "axes"), SPLITS)
def test_sorts_of_a_split_dimension_exchange_it(mesh: Mesh, axes: Any) -> None:
    def sort(a: Any) -> Any:
        found = jnp.sort(a)
        return found, jnp.signbit(found)

    def down(a: Any) -> Any:
        found = jnp.sort(a, descending=True)
        return found, jnp.signbit(found)

    for seed, (function, least) in enumerate([(sort, -1e-30), (jnp.argsort, -1e-40), (down, 1e-9)]):
        compiled = run(function, mesh, [[axes]], awkward(1152, seed, least))
        assert {"all_to_all", "shard_permute"} <= kinds(compiled)
        compiled = run(function, mesh, [[axes]], awkward(1152, seed, least)[:1147])
        assert {"all_to_all", "shard_permute"} <= kinds(compiled)


def test_numbers_next_to_zero_are_sorted() -> None:
    """As by NumPy: XLA's CPU compares them as zeros, and leaves them where they are."""
    x = np.tile(np.array([1e-40, 0, -1e-40, 2, -0.0, -1, 3e-45, -2e-42], np.float32), 144)
    layout = Layout(["x"], LINE)
    found = np.asarray(jit(jnp.sort, mesh=LINE, in_layouts=(layout,))(x).to_jax())
    np.testing.assert_array_equal(found, np.sort(x))
    assert np.signbit(found[found == 0]).tolist() == [False, True] * 144


@pytest.mark.sweep
@pytest.mark.parametrize(
    "kind", [np.int32, np.uint8, np.int16, np.float16, np.bool_, jnp.bfloat16, np.complex64]
)
def test_sorts_of_any_type_exchange_it(kind: Any) -> None:
    x = np.random.default_rng(1).integers(0, 5, (1152, 2)).astype(kind)

    for sort in (jnp.sort, jnp.argsort):
        run(lambda a, sort=sort: sort(a, 0), LINE, [["x", UNSHARDED]], x)
    run(lambda a: jnp.sort(a, 0), GRID, [["x", "y"]], x.repeat(2, 1))


@pytest.mark.sweep
@pytest.mark.parametrize("keys", [1, 2, 3])
def test_sorts_of_several_operands_exchange_them(keys: int) -> None:
    a, b = (np.random.default_rng(seed).integers(0, 4, 1152) for seed in (0, 1))
    values = a.astype(np.float32), b.astype(np.int8), np.arange(1152, dtype=np.int32)

    def sort(*operands: Any) -> Any:
        return jax.lax.sort(operands, num_keys=keys)

    compiled = run(sort, LINE, [["x"]] * 3, *values)
    assert "all_to_all" in kinds(compiled)
    run(lambda x, y: jnp.lexsort((x, y)), LINE, [["x"]] * 2, *values[:2])
    run(lambda x, y: jax.lax.sort_key_val(x, y), THREE, [[("y", "x")]] * 2, *values[:2])


def test_every_order_of_ones_behind_zeros_is_sorted() -> None:
    """A network that sorts zeros and ones sorts everything: Knuth's principle."""
    rng = np.random.default_rng(2)
    for mesh, size in ((GRID, 72), (THREE, 54), (LINE, 832)):
        axes = {GRID: "y", THREE: ("x", "y"), LINE: "x"}[mesh]
        p = {GRID: 4, THREE: 6, LINE: 8}[mesh]
        size = p * p * -(-size // p // p)
        shards = rng.integers(0, size // p + 1, (200, p, 1))  # zeros in each shard
        columns = (np.arange(size // p) >= shards).reshape(200, size).T.astype(np.int8)
        run(lambda a: jnp.sort(a, 0), mesh, [[axes, UNSHARDED]], columns)


def test_a_sort_sends_what_columnsort_does() -> None:
    size = 8192
    x = np.random.default_rng(3).permutation(size).astype(np.int32)
    share = 2 * 7 / 8 + 1  # of a shard: two exchanges, and a half there and back
    compiled = run(jnp.sort, LINE, [["x"]], x, out=["x"])
    assert sent(compiled) == share * x.nbytes / 8
    compiled = run(jnp.sort, LINE, [["x"]], x.astype(np.float32), out=["x"])
    assert sent(compiled) == share * x.nbytes / 8
    compiled = run(jnp.argsort, LINE, [["x"]], x.astype(np.float32), out=["x"])
    # Places, of 2 bytes, are not sent where nothing reads them.
    assert sent(compiled) == (share * 4 + 1.75 * 2) * size / 8


@pytest.mark.parametrize("size", [8, 96, 780, 1000])
def test_short_and_uneven_dimensions_are_gathered_and_sorted(size: int) -> None:
    run(lambda a: (jnp.sort(a), jnp.argsort(a)), LINE, [["x"]], awkward(size))


CUBE = np.random.default_rng(0).normal(size=(8, 16, 32)).astype(np.float32)


@pytest.mark.parametrize(
    ("mesh", "specs"),
    [(LINE, ["x", None, None]), (GRID, ["x", "y", None]), (GRID, ["y", None, "x"])],
)
def test_transforms_of_split_dimensions(mesh: Mesh, specs: list[Any]) -> None:
    def transforms(x: Any) -> Any:
        fft = jnp.fft
        z = x + 1j * x[::-1]
        found = [fft.fft(z, axis=d) for d in range(3)] + [fft.fft2(z), fft.ifftn(z), fft.rfftn(x)]
        return [*found, fft.irfftn(fft.rfftn(x) * 2)]

    specs = [UNSHARDED if spec is None else spec for spec in specs]
    run(transforms, mesh, [specs], CUBE, absolute=1e-3)  # sums of 4096 floats, up to 300


def test_a_transform_of_two_dimensions_moves_the_axis_and_back() -> None:
    x = CUBE[0].astype(np.complex64)
    compiled = run(jnp.fft.fft2, LINE, [ROWS], x, out=ROWS, absolute=1e-3)
    assert sent(compiled) == 2 * 7 / 8 * x.nbytes / 8

    def poisson(a: Any) -> Any:
        return jnp.fft.ifft2(jnp.fft.fft2(a) * 2)

    compiled = run(poisson, LINE, [ROWS], x, out=ROWS, absolute=1e-3)
    assert sent(compiled) == 2 * 7 / 8 * x.nbytes / 8


def test_pencils_of_three_dimensions_move_one_axis_at_a_time() -> None:
    specs = ["x", "y", UNSHARDED]
    compiled = run(jnp.fft.fftn, GRID, [specs], CUBE.astype(np.complex64), absolute=1e-3)
    assert kinds(compiled) == {"all_to_all"}
    assert sent(compiled) <= (3 / 4 + 1 / 2) * CUBE.nbytes * 2 / 8 * 2


def waves(shape: tuple[int, ...], dtype: Any = np.complex64) -> np.ndarray[Any, Any]:
    rng = np.random.default_rng(4)
    return (rng.normal(size=shape) + 1j * rng.normal(size=shape)).astype(dtype)


@pytest.mark.sweep
@pytest.mark.parametrize(
    ("mesh", "axes", "size"),
    [
        (LINE, "x", 64),
        (LINE, "x", 4096),
        (LINE, "x", 448),  # 8 shards of 7 times 8
        (GRID, ("y", "x"), 1152),
        (THREE, ("x", "y"), 180),
    ],
)
def test_a_split_row_is_transformed_in_four_steps(mesh: Mesh, axes: Any, size: int) -> None:
    for transform in (jnp.fft.fft, jnp.fft.ifft):
        x = waves((3, size))
        compiled = run(
            transform, mesh, [[UNSHARDED, axes]], x, absolute=1e-3, out=[UNSHARDED, axes]
        )
        p = mesh.size  # on less than four shards gathering sends as little
        assert kinds(compiled) == {"all_to_all"}
        assert sent(compiled) == pytest.approx(3 * (p - 1) / p * x.nbytes / p)


def test_four_steps_are_as_exact_as_one_transform() -> None:
    x = waves((1 << 16,))
    exact = np.fft.fft(x.astype(np.complex128))
    size = np.abs(exact).max()
    compiled = run(jnp.fft.fft, LINE, [["x"]], x, absolute=1e-2, out=[UNSHARDED])
    assert "all_to_all" in kinds(compiled)
    error = np.abs(np.asarray(compiled(x)) - exact).max() / size
    assert error < 16 * 2**-24 * 4  # log2 N roundings, each of some of the sums


def test_four_steps_in_double_precision() -> None:
    with jax.enable_x64(True):
        x = waves((4096,), np.complex128)
        run(jnp.fft.fft, LINE, [["x"]], x, absolute=1e-11)


def test_rows_that_cannot_be_cut_twice_and_real_ones_are_put_together() -> None:
    run(jnp.fft.fft, LINE, [["x"]], waves((40,)), absolute=1e-4)
    run(jnp.fft.rfft, LINE, [["x"]], waves((64,)).real, absolute=1e-4)


@pytest.mark.parametrize("function", [lambda a: jnp.sort(a, 0), lambda a: jnp.fft.fft(a, axis=0)])
def test_what_nobody_laid_out_stays_where_it_was_ordered(function: Any) -> None:
    """Columns are sorted and transformed each by itself; nothing is moved back."""
    x = numbers((1024, 16), np.complex64 if "fft" in function.__code__.co_names else np.float32)
    compiled = run(function, LINE, [ROWS], x, error=1e-4, absolute=1e-4)
    assert compiled.out_layouts.short() == '[{}, {"x"}]'
    assert sent(compiled) == 7 / 8 * x.nbytes / 8
