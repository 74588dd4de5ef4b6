"""`jax.lax.associative_scan` along split dimensions on 8 devices, against one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from dtensor.compiler.api import jit
from dtensor.dialect.layout import UNSHARDED, Layout
from dtensor.dialect.mesh import Mesh
from tests.py.passes.on_mesh import BOTH, GRID, LINE, kinds, run, sent
from tests.py.uneven.on_meshes import FIVE, check, gathered

ROWS = ["x", UNSHARDED]
RANDOM = np.random.default_rng(0)


def recurrence(a: Any, b: Any, reverse: bool = False, axis: int = 0) -> Any:
    """h[t] = a[t] h[t-1] + b[t], and the products of a."""

    def join(left: Any, right: Any) -> Any:
        return left[0] * right[0], left[1] * right[0] + right[1]

    return lax.associative_scan(join, (a, b), reverse=reverse, axis=axis)


def signs(shape: tuple[int, ...], dtype: Any = np.float32) -> np.ndarray[Any, Any]:
    """Ones of both signs and zeros, all products and sums of which are exact."""
    return RANDOM.choice([-1, 1, 1, 0], shape).astype(dtype)


@pytest.mark.sweep
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(
    ("mesh", "specs", "rows"),
    [
        (LINE, ROWS, 32),
        (LINE, ROWS, 104),
        (LINE, [UNSHARDED, "x"], 13),
        (GRID, ["x", "y"], 6),
        (GRID, ["y", "x"], 20),
        (GRID, [("y", "x"), UNSHARDED], 24),
        (GRID, BOTH, 8),
        (FIVE, ROWS, 35),
    ],
)
def test_recurrences_of_split_dimensions(
    mesh: Mesh, specs: list[Any], rows: int, reverse: bool
) -> None:
    a, b = signs((rows, 8)), signs((rows, 8))
    run(lambda a, b: recurrence(a, b, reverse), mesh, [specs, specs], a, b, out=specs)


@pytest.mark.sweep
@pytest.mark.parametrize(
    ("combine", "dtype"),
    [
        (jnp.add, np.int8),
        (jnp.add, np.float16),
        (jnp.add, np.complex64),
        (jnp.multiply, jnp.bfloat16),
        (jnp.maximum, np.float32),
        (jnp.minimum, np.uint32),
        (jnp.logical_or, np.bool_),
        (jnp.logical_xor, np.bool_),
    ],
)
def test_scans_by_any_operation(combine: Callable[..., Any], dtype: Any) -> None:
    x = signs((48, 3)).astype(dtype)
    compiled = run(lambda x: lax.associative_scan(combine, x), LINE, [ROWS], x, out=ROWS)
    assert kinds(compiled) == {"shard_permute"}
    assert sent(compiled) == 3 * 3 * x.dtype.itemsize


def test_the_earlier_operand_stays_the_earlier() -> None:
    """Keeping the last number that is not zero does not commute."""
    x = RANDOM.integers(0, 3, (40, 2)).astype(np.int32) * RANDOM.integers(1, 99, (40, 2))
    for reverse in (False, True):
        run(
            lambda x, reverse=reverse: lax.associative_scan(
                lambda a, b: jnp.where(b != 0, b, a), x, reverse=reverse
            ),
            LINE,
            [ROWS],
            x,
            out=ROWS,
        )


def test_only_totals_are_sent() -> None:
    a, b = signs((4096, 16)), signs((4096, 16))
    compiled = run(lambda a, b: recurrence(a, b)[1], LINE, [ROWS, ROWS], a, b, out=ROWS)
    assert sent(compiled) == (3 + 2) * 16 * 4  # what is multiplied last is not read
    assert len(compiled.collectives) <= 5


def test_nan_reaches_all_that_follows_and_nothing_before() -> None:
    a, b = signs((64, 2)), signs((64, 2))
    b[20, 0], a[50, 1] = np.nan, np.inf
    run(recurrence, LINE, [ROWS, ROWS], a, b, out=ROWS)


def test_a_scan_inside_a_loop() -> None:
    def layers(x: Any) -> Any:
        return lax.fori_loop(0, 3, lambda i, x: lax.associative_scan(jnp.maximum, x - i), x)

    compiled = run(layers, LINE, [ROWS], signs((64, 2)), out=ROWS)
    assert sent(compiled) == 3 * 3 * 2 * 4


def test_scans_that_read_the_same_are_one() -> None:
    """Two sums of what decays at the same rate: of three values. A maximum is combined apart."""

    def largest(left: Any, right: Any) -> Any:
        return left[0] * right[0], jnp.maximum(left[1] * right[0], right[1])

    def both(a: Any, b: Any, c: Any) -> Any:
        return recurrence(a, b), lax.associative_scan(largest, (a, c)), recurrence(a, c)[1]

    a, b, c = signs((64, 2)), signs((64, 2)), signs((64, 2))
    compiled = run(both, LINE, [ROWS] * 3, a, b, c, out=ROWS)
    assert sent(compiled) == (3 * (3 + 2) - 1) * 2 * 4  # in the first round both send `a`


def test_a_scan_of_what_another_gives_does_not_stand_before_it() -> None:
    """The products of `a` are those of either scan; where the first is, the second's `b` is not."""

    def chained(a: Any, b: Any) -> Any:
        first = recurrence(a, b)
        return first, recurrence(a, -first[1])

    run(chained, LINE, [ROWS, ROWS], signs((64, 2)), signs((64, 2)), out=ROWS)


def test_what_reads_the_pairs_keeps_them() -> None:
    """The gradient needs what is combined on the way; the scan stays as it is written."""
    a, b = signs((32, 4)), signs((32, 4))
    loss = jax.grad(lambda a, b: jnp.sum(recurrence(a, b)[1] ** 2), (0, 1))
    run(loss, LINE, [ROWS, ROWS], a, b, out=ROWS)


@pytest.mark.sweep
@pytest.mark.parametrize(
    ("mesh", "axes", "rows", "most"),
    [(LINE, "x", 64, 236), (GRID, ("y", "x"), 64, 236), (FIVE, "x", 80, 304)],
)
def test_a_gradient_sends_a_few_rows_at_each_level(
    mesh: Mesh, axes: Any, rows: int, most: float
) -> None:
    """The gradient crops with pads, and takes every second row of what they leave."""
    a = RANDOM.uniform(0.2, 0.9, (rows, 4)).astype(np.float32)
    b = RANDOM.normal(size=(rows, 4)).astype(np.float32)
    loss = jax.grad(lambda a, b: jnp.sum(recurrence(a, b)[1] ** 2), (0, 1))
    layout = Layout([axes, UNSHARDED], mesh)
    compiled = check(
        loss,
        a,
        b,
        mesh=mesh,
        in_layouts=(layout, layout),
        out_layouts=(layout, layout),
        error=1e-5,
        absolute=1e-4,
    )
    assert sum(c.bytes * (c.trip_count or 0) for c in compiled.collectives) <= most


def test_a_gradient_of_a_thousand_rows_is_planned() -> None:
    """Planning it met an operation with more than 64 others that have one strategy left."""
    a, b = signs((1024, 4)), signs((1024, 4))
    loss = jax.grad(lambda a, b: jnp.sum(recurrence(a, b)[1] ** 2), (0, 1))
    layout = Layout(ROWS, LINE)
    lowered = jit(loss, in_layouts=(layout, layout), out_layouts=(layout, layout)).lower(a, b)
    assert lowered.collectives


def test_what_only_looks_like_a_scan_stays() -> None:
    """Pairs of another operation on the second level."""

    def other(x: Any) -> Any:
        pairs = x[:-1:2] + x[1::2]
        odd = lax.associative_scan(jnp.multiply, pairs)
        even = jnp.concatenate([x[:1], odd[:-1] + x[2::2]])
        woven = [lax.pad(v, 0.0, [(k, 1 - k, 1), (0, 0, 0)]) for k, v in enumerate((even, odd))]
        return woven[0] + woven[1]

    run(other, LINE, [ROWS], signs((32, 4)), out=ROWS)


@pytest.mark.parametrize("rows", [13, 30, 33])
def test_a_scan_of_a_length_that_does_not_divide(rows: int) -> None:
    a, b = signs((rows, 4)), signs((rows, 4))
    layout = Layout(ROWS, LINE)
    compiled = check(
        recurrence, a, b, mesh=LINE, in_layouts=(layout, layout), out_layouts=(layout, layout)
    )
    assert not gathered(compiled)


# Each type on each mesh, the lengths in turn: each type and each mesh has them all.
BACKWARD = [
    (mesh, axes, dtype, (13, 100, 1001)[(i + k) % 3])
    for i, dtype in enumerate(["float32", "bfloat16", "complex64"])
    for k, (mesh, axes) in enumerate([(LINE, "x"), (FIVE, "x"), (GRID, ("y", "x"))])
]


@pytest.mark.sweep
@pytest.mark.parametrize(("mesh", "axes", "dtype", "rows"), BACKWARD)
def test_a_scan_from_the_last_row_of_a_length_that_does_not_divide(
    mesh: Mesh, axes: Any, dtype: str, rows: int
) -> None:
    """What is padded goes to where it is scanned last: a few rows, and the totals.

    The padding of results holds NaN here; both are read for that, and moved.
    """
    a, b = (signs((rows, 4), jnp.dtype(dtype)) for _ in range(2))
    layout = Layout([axes, UNSHARDED], mesh)

    def backward(a: Any, b: Any) -> Any:
        return recurrence(a, b, reverse=True)[1]

    compiled = check(backward, a, b, mesh=mesh, in_layouts=(layout, layout), out_layouts=layout)
    assert not gathered(compiled)
    devices = mesh.size
    padding = -rows % devices
    steps = (devices - 1).bit_length()
    sends = sum(c.bytes * (c.trip_count or 0) for c in compiled.collectives)
    assert sends <= (4 * padding + 2 * steps) * 4 * a.itemsize


def test_a_scan_of_matrices_from_the_last_one_of_thirteen() -> None:
    a = signs((13, 2, 2))
    layout = Layout(["x", UNSHARDED, UNSHARDED], FIVE)
    compiled = check(
        lambda a: lax.associative_scan(
            lambda p, q: jnp.einsum("tij,tjk->tik", q, p), a, reverse=True
        ),
        a,
        mesh=FIVE,
        in_layouts=(layout,),
        out_layouts=layout,
    )
    assert not gathered(compiled)


def test_what_combines_elements_may_read_one_of_a_vector() -> None:
    def scaled(a: Any, w: Any) -> Any:
        def larger(p: Any, q: Any) -> Any:
            return jnp.maximum(p * w[0], q * w[0]) / w[0]

        return lax.associative_scan(larger, a, axis=1)

    run(scaled, LINE, [[UNSHARDED, "x"], None], signs((3, 16)), np.array([2, 3], np.float32))
