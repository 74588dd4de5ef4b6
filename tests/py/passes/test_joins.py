"""Joins and slices of what is split as the result is, on a mesh against one device."""

from __future__ import annotations

import random
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from dtensor.dialect.layout import UNSHARDED
from dtensor.dialect.mesh import Mesh
from dtensor.passes.ops.rounds import elements_sent, rounds_of_cut, rounds_of_join
from dtensor.runtime.client import create_mesh
from tests.py.passes.on_mesh import GRID, LINE, kinds, run, sent

FIVE, UNLIKE = create_mesh([("x", 5)]), create_mesh([("x", 3), ("y", 2)])
MESHES: list[tuple[Mesh, Any]] = [
    (LINE, "x"),
    (GRID, ("x", "y")),
    (GRID, ("y", "x")),
    (GRID, "y"),
    (UNLIKE, ("x", "y")),
    (FIVE, "x"),
]
# Every mesh with numbers, every other element type on one mesh.
EACH_ONCE = [
    *[(*case, np.float32) for case in MESHES],
    *[(*MESHES[k], t) for k, t in enumerate([jnp.bfloat16, np.int8, np.bool_, np.complex64])],
]
SIZES = [(3, 1), (1, 3), (5, 3), (1, 2, 1), (7, 1), (2, 2, 1, 1)]  # per shard


def part(rows: int, start: int, dtype: Any) -> np.ndarray[Any, Any]:
    return (np.arange(start, start + rows * 6).reshape(rows, 6) % 120).astype(dtype)


def parts(sizes: tuple[int, ...], dtype: Any = np.float32) -> list[Any]:
    return [part(rows, 6 * sum(sizes[:k]), dtype) for k, rows in enumerate(sizes)]


def join(*values: Any) -> Any:
    return jnp.concatenate(values)


@pytest.mark.sweep
@pytest.mark.parametrize(("mesh", "axes", "dtype"), EACH_ONCE)
def test_unlike_parts(mesh: Mesh, axes: Any, dtype: Any) -> None:
    layout = [axes, UNSHARDED]
    for sizes in SIZES if dtype is np.float32 else SIZES[2:4]:
        split = mesh.size if isinstance(axes, tuple) else mesh.dim_size(axes)
        given = parts(tuple([size * split for size in sizes]), dtype)
        compiled = run(join, mesh, [layout] * len(given), *given, out=layout)
        assert kinds(compiled) == {"shard_permute"}


@pytest.mark.sweep
@pytest.mark.parametrize("sizes", [(17, 7), (41, 3, 5), (8, 1), (1, 1)])
@pytest.mark.parametrize(("mesh", "axes"), MESHES)
def test_parts_that_do_not_divide(mesh: Mesh, axes: Any, sizes: tuple[int, ...]) -> None:
    layout = [axes, UNSHARDED]
    run(join, mesh, [layout] * len(sizes), *parts(sizes), out=layout)


def test_along_another_dimension_beside_one_that_is_split() -> None:
    def function(a: Any, b: Any) -> Any:
        return jnp.concatenate([a, b], 1)

    a, b = part(48, 0, np.float32).reshape(6, 24, 2), part(16, 300, np.float32).reshape(6, 8, 2)
    layout = ["x", "y", UNSHARDED]
    compiled = run(function, GRID, [layout, layout], a, b, out=layout)
    assert kinds(compiled) == {"shard_permute"}
    # Shards of 6 and 2 elements: of the third of the result, elements 16 to 23, 6 must come.
    assert sent(compiled) == 6 * (3 * 2 * 4)


def test_each_element_is_sent_once_at_most() -> None:
    for sizes, most in (((24, 8), 4), ((8, 24), 4), ((56, 8), 7), ((120, 8), 7), ((40, 24), 8)):
        given = parts(sizes)
        layout = ["x", UNSHARDED]
        compiled = run(join, LINE, [layout] * 2, *given, out=layout)
        assert sent(compiled) == most * 6 * 4


def test_a_join_of_blocks_is_local_where_blocks_are_wanted() -> None:
    """Weights side by side, as one matrix: each device's product is cut where its weights end."""

    def function(x: Any, q: Any, k: Any) -> Any:
        both = x @ jnp.concatenate([q, k], 1)
        return both[:, :48], both[:, 48:]

    x, q, k = part(4, 0, np.float32), part(48, 0, np.float32).T, part(48, 9, np.float32).T
    columns = [UNSHARDED, "x"]
    compiled = run(function, LINE, [None, columns, columns], x, q, k)
    assert sent(compiled) == 0


CUTS = [(6, 0, 3), (6, 3, 6), (4, 1, 4), (8, 1, 6), (5, 3, 5)]  # elements, first and end, per shard


@pytest.mark.sweep
@pytest.mark.parametrize(("mesh", "axes", "dtype"), EACH_ONCE)
def test_slices_from_anywhere(mesh: Mesh, axes: Any, dtype: Any) -> None:
    layout = [axes, UNSHARDED]
    split = mesh.size if isinstance(axes, tuple) else mesh.dim_size(axes)
    for size, first, end in CUTS if dtype is np.float32 else CUTS[2:4]:
        a = part(size * split, 0, dtype)
        for more in range(1 + (end < size)):  # from where a shard begins on, and from inside it
            low, high = first * split + more, end * split + more
            compiled = run(lambda x, kept=slice(low, high): x[kept], mesh, [layout], a, out=layout)
            rounds = rounds_of_cut(len(a), low, high - low, split)
            assert sent(compiled) <= elements_sent(rounds)[0] * 6 * a.itemsize


@pytest.mark.sweep
@pytest.mark.parametrize(("mesh", "axes"), MESHES)
def test_slices_that_do_not_divide(mesh: Mesh, axes: Any) -> None:
    layout = [axes, UNSHARDED]
    for size, first, end in ((49, 3, 33), (48, 5, 32), (41, 0, 19)):
        kept = slice(first, end)
        run(lambda x, kept=kept: x[kept], mesh, [layout], part(size, 0, np.float32), out=layout)


PADS = [(7, 0, 1), (7, 1, 0), (6, 1, 1), (2, 0, 2), (3, 4, 2), (4, -1, 3), (4, 2, -2), (6, -2, -2)]


@pytest.mark.sweep
@pytest.mark.parametrize(("mesh", "axes", "dtype"), EACH_ONCE)
def test_pads_by_much(mesh: Mesh, axes: Any, dtype: Any) -> None:
    layout = [axes, UNSHARDED]
    split = mesh.size if isinstance(axes, tuple) else mesh.dim_size(axes)
    for size, low, high in PADS if dtype is np.float32 else PADS[2:5]:
        a = part(size * split, 1, dtype)
        for more in range(2):  # a number of shards in front, and one element less
            ends = (low * split - more, high * split + more, 0), (0, 0, 0)
            compiled = run(
                lambda x, ends=ends: lax.pad(x, jnp.ones((), x.dtype), ends),
                mesh,
                [layout],
                a,
                out=layout,
            )
            rounds = rounds_of_cut(len(a), -ends[0][0], (size + low + high) * split, split)
            assert sent(compiled) <= elements_sent(rounds)[0] * 6 * a.itemsize


@pytest.mark.parametrize("name", ["int4", "uint4", "float8_e5m2"])
def test_pads_of_narrow_elements(name: str) -> None:
    a = (jnp.arange(56 * 512).reshape(56, 512) % 3).astype(name)
    layout = ["x", UNSHARDED]
    run(lambda x: jnp.pad(x, ((0, 8), (0, 0))), LINE, [layout], a, out=layout)


def test_parts_of_a_sum_are_padded_as_they_are() -> None:
    def function(x: Any, w: Any) -> Any:
        return jnp.pad(x @ w, ((0, 8), (0, 0)))

    x, w = part(56, 0, np.float32), part(6, 0, np.float32)
    run(function, GRID, [["x", "y"], ["y", None]], x[:, :4], w[:4], out=["x", UNSHARDED])


@pytest.mark.sweep
@pytest.mark.parametrize(("mesh", "axes", "dtype"), EACH_ONCE)
def test_few_elements_are_given_by_those_that_own_them(mesh: Mesh, axes: Any, dtype: Any) -> None:
    split = mesh.size if isinstance(axes, tuple) else mesh.dim_size(axes)
    x = part(2 * split, 0, dtype)
    if np.issubdtype(dtype, np.inexact):
        x[3], x[4], x[5, ::2] = np.nan, -0.0, -np.inf
    for cut in (slice(3, 4), slice(-1, None), slice(4, 6), slice(1, 6, 4)):
        compiled = run(lambda a, cut=cut: jnp.stack([a[cut]] * 2), mesh, [[axes, UNSHARDED]], x)
        assert sent(compiled) <= 2 * x[cut].nbytes + 16, (cut, compiled.collectives)


def test_half_of_a_dimension_is_sent_once() -> None:
    layout = ["x", UNSHARDED]
    compiled = run(lambda x: x[:32], LINE, [layout], part(64, 0, np.float32), out=layout)
    assert sent(compiled) == 8 * 6 * 4  # the fourth shard gives all it has
    assert kinds(compiled) == {"shard_permute"}


def test_the_gradient_of_a_join() -> None:
    def loss(*values: Any) -> Any:
        joined = jnp.concatenate(values)
        return jnp.sum(joined * jnp.cumsum(joined, 0)) / 8

    given = parts((24, 8))
    layout = ["x", UNSHARDED]
    run(jax.grad(loss, (0, 1)), LINE, [layout] * 2, *given, error=1e-5)


def test_rounds_of_a_pad_bring_what_there_is() -> None:
    numbers = random.Random(2)
    for _ in range(300):
        shards = numbers.choice([2, 3, 4, 5, 8, 16])
        given, local = numbers.randint(1, 12), numbers.randint(1, 12)
        first, end = numbers.randint(-local * shards + 1, given * shards - 1), given * shards
        wanted = [i if 0 <= i < end else None for i in range(first, first + local * shards)]
        held = [list(range(shard * given, (shard + 1) * given)) for shard in range(shards)]
        found: list[list[Any]] = [(row + [None] * local)[:local] for row in held]
        for each in rounds_of_cut(end, first, local * shards, shards):
            for target, source in enumerate(each.sources):
                if source >= 0:
                    start, place = each.starts[source], each.places[target]
                    found[target][place : place + each.count] = held[source][start:][: each.count]
        elements = [element for row in found for element in row]
        for want, have in zip(wanted, elements, strict=True):
            assert want is None or want == have


def test_rounds_of_a_cut_bring_each_element_to_its_place() -> None:
    numbers = random.Random(1)
    for _ in range(300):
        shards = numbers.choice([2, 3, 4, 5, 8, 16])
        given, local = sorted((numbers.randint(1, 12), numbers.randint(1, 12)), reverse=True)
        first = numbers.randint(0, (given - local) * shards)
        held = [list(range(shard * given, (shard + 1) * given)) for shard in range(shards)]
        found = [elements[:local] for elements in held]
        moved = [[0] * shards, [0] * shards]
        for i in range(local * shards):
            ends = (first + i) // given, i // local
            for side in (0, 1):
                moved[side][ends[side]] += ends[0] != ends[1]
        rounds = rounds_of_cut(given * shards, first, local * shards, shards)
        for each in rounds:
            for target, source in enumerate(each.sources):
                if source >= 0:
                    start, place = each.starts[source], each.places[target]
                    piece = held[source][start : start + each.count]
                    found[target][place : place + each.count] = piece
        elements = [element for each in found for element in each]
        assert elements == list(range(first, first + local * shards))
        assert elements_sent(rounds)[0] == max(map(max, moved))


def _joined(sizes: tuple[int, ...], shards: int) -> list[int]:
    """What the rounds make of parts whose elements are their places in the result."""
    ends = [sum(sizes[:k]) for k in range(len(sizes))]
    held = [
        [
            start + shard * size // shards + i
            for start, size in zip(ends, sizes, strict=True)
            for i in range(size // shards)
        ]
        for shard in range(shards)
    ]
    found = [list(elements) for elements in held]
    for each in rounds_of_join(sizes, shards):
        for target, source in enumerate(each.sources):
            if source >= 0:
                start, place = each.starts[source], each.places[target]
                found[target][place : place + each.count] = held[source][start:][: each.count]
    return [element for elements in found for element in elements]


def _least(sizes: tuple[int, ...], shards: int) -> int:
    """The most that one shard must send or receive."""
    moved, place = [[0] * shards, [0] * shards], 0
    for size in sizes:
        for i in range(size):
            ends = i * shards // size, place * shards // sum(sizes)
            place += 1
            for side in (0, 1):
                moved[side][ends[side]] += ends[0] != ends[1]
    return max(map(max, moved))


def test_rounds_bring_each_element_to_its_place_and_are_as_long_as_the_busiest_shard() -> None:
    numbers = random.Random(0)
    for _ in range(300):
        shards = numbers.choice([2, 3, 4, 5, 6, 8, 16])
        sizes = tuple([shards * numbers.randint(1, 9) for _ in range(numbers.randint(2, 5))])
        assert _joined(sizes, shards) == list(range(sum(sizes)))
        assert elements_sent(rounds_of_join(sizes, shards))[0] == _least(sizes, shards)


def test_what_is_wanted_split_and_whole_is_not_cut_out_of_what_was_gathered() -> None:
    x = np.random.default_rng(0).integers(0, 40, (8, 12)).astype(np.float32)
    compiled = run(lambda a: (a.sum(1), jnp.sort(a.sum(1))[3]), GRID, [["y", "x"]], x)
    assert kinds(compiled) == {"all_reduce", "all_gather"}
    assert "partition-id" not in compiled.as_text()  # no device takes its own part of anything
