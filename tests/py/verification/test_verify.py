"""dtensor.verify finds what is wrong, where it is wrong, and nothing where nothing is."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import dtensor
from dtensor.dialect.mlir import ir
from dtensor.passes.base import PassState
from dtensor.passes.collectives.optimize import OptimizeCollectivesPass
from dtensor.passes.cuts.fuse import FuseCutsPass
from dtensor.passes.ops import table
from dtensor.passes.ops.opdef import LOCAL
from dtensor.passes.uneven.values import Writer
from tests.py.verification.faults import turned

MESH = dtensor.create_mesh([("x", 2), ("y", 4)])


def laid(*specs: Any) -> tuple[dtensor.Layout, ...]:
    return tuple(dtensor.Layout(list(spec), MESH) for spec in specs)


def numbers(*shapes: tuple[int, ...], dtype: Any = np.float32) -> list[np.ndarray[Any, Any]]:
    rng = np.random.default_rng(7)
    return [np.asarray(rng.normal(size=shape) * 3).astype(dtype) for shape in shapes]


def line_of(mark: str) -> int:
    """The line of this file that ends with a mark."""
    text = Path(__file__).read_text(encoding="utf-8").splitlines()
    return next(i for i, line in enumerate(text, 1) if line.endswith(f"# {mark}"))


# What is wrong is found.


def test_a_definition_that_is_not_linear_is_found_at_its_line() -> None:
    a, b = numbers((8, 16), (16, 4))
    with dtensor.define_op("verify.cube", "i j -> i j", linear=(0,), fn=lambda v: v**3) as cube:

        def fn(a: Any, b: Any) -> Any:
            parts = jnp.tanh(a) @ b
            return cube(parts) + 1  # cubed

        report = dtensor.verify(fn, a, b, in_layouts=laid((None, "y"), ("y", None)))
    assert isinstance(report, dtensor.Verification)
    assert not report.ok
    assert len(report.differences) == 1
    first = report.first
    assert isinstance(first, dtensor.Difference)
    assert first.operation == "custom_call @verify.cube"
    assert first.location.startswith(f"test_verify.py:{line_of('cubed')}:")
    assert [axis.name for axis in first.layout.partial_axes] == ["y"]
    parts = np.tanh(a).astype(np.float64).reshape(8, 4, 4)
    pieces = [parts[:, k] @ b[4 * k : 4 * k + 4] for k in range(4)]
    row, column = first.index
    np.testing.assert_allclose(first.found, sum(p**3 for p in pieces)[row, column], rtol=1e-4)
    np.testing.assert_allclose(first.expected, sum(pieces)[row, column] ** 3, rtol=1e-4)
    assert first.error > first.bound > 0
    assert "custom_call @verify.cube" in str(report)


def test_an_expander_that_is_wrong_on_some_devices_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    right = table.opdef("stablehlo.iota")
    wrong = dataclasses.replace(right, algorithms=(LOCAL,))
    monkeypatch.setitem(table.DEFINITIONS, "stablehlo.iota", wrong)

    def fn(a: Any) -> Any:
        return a * 2 + lax.broadcasted_iota(a.dtype, a.shape, 0)  # counted

    report = dtensor.verify(fn, *numbers((8, 3)), in_layouts=laid(("y", None)))
    assert report.first is not None
    assert [d.operation for d in report.differences] == ["iota"]
    assert report.first.location.startswith(f"test_verify.py:{line_of('counted')}:")
    # The last quarter of the rows counts from 0 as well.
    assert (report.first.device, report.first.index[0]) == (3, 6)
    assert (report.first.found, report.first.expected) == (0, 6)


def test_what_is_wrong_in_a_loop_is_found_in_its_iteration(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(table.DEFINITIONS, "stablehlo.reverse", table.opdef("stablehlo.negate"))

    def fn(a: Any) -> Any:
        def body(c: Any, _: Any) -> Any:
            return jnp.tanh(jnp.flip(c, 0)), None  # flipped

        return lax.scan(body, a, None, length=3)

    report = dtensor.verify(fn, *numbers((8, 6)), in_layouts=laid(("y", None)))
    first = report.first
    assert first is not None
    assert [d.operation for d in report.differences] == ["reverse"]
    assert first.location.startswith(f"test_verify.py:{line_of('flipped')}:")
    assert first.where[0].startswith("iteration 0 of the loop at test_verify.py:")


def test_a_definition_that_is_wrong_is_named_where_it_gives_a_result() -> None:
    rows = dtensor.define_op("verify.flip", "i j -> i j", fn=lambda v: v[::-1], register=False)
    options = dtensor.CompileOptions(ops=[rows])
    report = dtensor.verify(rows, *numbers((8, 3)), in_layouts=laid(("y", None)), options=options)
    assert [d.operation for d in report.differences] == ["custom_call @verify.flip"]


@pytest.mark.parametrize(
    ("faulty", "said"),
    [(FuseCutsPass, "a pass before it"), (OptimizeCollectivesPass, "a pass after dtensor-expand")],
)
def test_a_pass_that_changes_the_program_is_told_by_the_results(
    monkeypatch: pytest.MonkeyPatch, faulty: Any, said: str
) -> None:
    run = faulty.run

    def wrong(self: Any, module: ir.Module, state: PassState) -> None:
        run(self, module, state)
        if len(state.result_names) == 1:  # the program itself, and not what looks inside
            turned(module)

    monkeypatch.setattr(faulty, "run", wrong)
    report = dtensor.verify(lambda a: a * 2 + 1, *numbers((8, 3)), in_layouts=laid(("y", None)))
    assert report.first is not None
    assert report.first.operation == "result"
    assert said in str(report)


def test_values_must_be_equal_where_nothing_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(table.DEFINITIONS, "stablehlo.reverse", table.opdef("stablehlo.negate"))
    a = np.arange(24, dtype=np.int32).reshape(8, 3)
    report = dtensor.verify(lambda a: jnp.flip(a, 0), a, in_layouts=laid(("x", None)))
    assert report.first is not None
    assert report.first.bound == 0
    assert "they must be equal" in str(report)


# What is right passes.


def block(w: dict[str, Any], x: Any) -> Any:
    def split(v: Any) -> Any:
        return v.reshape(*v.shape[:2], 4, -1).transpose(0, 2, 1, 3)

    q, k, v = (split(x @ w[n]) for n in "qkv")
    scores = jnp.where(jnp.tril(jnp.ones((8, 8), bool)), q @ k.swapaxes(2, 3) * 0.5, -1e9)
    mixed = (jax.nn.softmax(scores) @ v).transpose(0, 2, 1, 3).reshape(x.shape)
    x = x + mixed @ w["o"]
    return jnp.mean(jnp.square(x + jax.nn.gelu(x @ w["up"]) @ w["down"]))


@pytest.mark.sweep
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_transformer_block_and_its_gradients_pass(dtype: str) -> None:
    columns, rows = laid((None, "y"), ("y", None))
    layouts = {n: columns for n in ("q", "k", "v", "up")} | {n: rows for n in ("o", "down")}
    shapes = {n: (16, 16) for n in "qkvo"} | {"up": (16, 32), "down": (32, 16)}
    w = {n: numbers(shape)[0].astype(dtype) * np.asarray(0.1, dtype) for n, shape in shapes.items()}
    (x,) = numbers((4, 8, 16), dtype=dtype)
    report = dtensor.verify(
        jax.value_and_grad(block), w, x, in_layouts=(layouts, *laid(("x", None, None)))
    )
    assert report.ok, str(report)
    assert not report.not_compared
    assert report.operations > 80


def test_a_scan_over_a_split_stack_passes_and_says_how_far_it_looked() -> None:
    rows, w = numbers((6, 8, 4), (4, 4))

    def step(c: Any, r: Any) -> Any:  # which is not run for several blocks of trips at once
        small = lax.while_loop(lambda x: jnp.max(x) > 9, lambda x: x / 2, c @ w)
        return jnp.tanh(small) + r, (c * r).sum()

    def fn(rows: Any, w: Any) -> Any:
        return lax.scan(step, rows[0], rows)

    report = dtensor.verify(fn, rows, w, in_layouts=laid(("x", "y", None), (None, "y")))
    assert report.ok, str(report)
    assert [text[:12] for text in report.not_compared] == ["iterations 4"]


def orders(a: Any, at: Any) -> Any:
    """Sorts, searches and cuts along split dimensions."""
    return {
        "sort": jnp.sort(a, 0),
        "order": jnp.argsort(a, 0),
        "largest": lax.top_k(a.T, 3),
        "where": jnp.argmax(a, 0),
        "rows": a[at],
        "sums": jnp.zeros_like(a).at[at].add(a[: at.shape[0]]),
        "slice": lax.dynamic_slice(a, (at[0], 0), (3, 6)),
        "running": jnp.cumsum(a, 0),
    }


def waves(a: Any) -> Any:
    """Transforms and stencils."""
    around = jnp.roll(a, 1, 0) + jnp.roll(a, -1, 0) - 2 * a
    padded = jnp.pad(a, 1)
    kernel = jnp.ones((1, 1, 3, 3), a.dtype)
    return {
        "fft": jnp.fft.fft2(a),
        "roll": around,
        "pad": padded[2:, 1:-1] + padded[:-2, 1:-1],
        "conv": lax.conv_general_dilated(a[None, None], kernel, (1, 1), "SAME"),
        "pool": lax.reduce_window(a, -jnp.inf, lax.max, (2, 2), (2, 2), "VALID"),
        "flip": jnp.flip(a, 0),
    }


def choices(a: Any) -> Any:
    """Branches, searches of unknown length, and numbers without rounding."""
    return {
        "cond": lax.cond(a.sum() > 0, lambda v: v * 2, lambda v: v - v.max(0), a),
        "switch": lax.switch(2, [jnp.sin, jnp.cos, jnp.tanh], a),
        "while": lax.while_loop(lambda c: c[0].sum() < 40, lambda c: (c[0] + 1, c[1] * 2), (a, a)),
        "bits": jax.random.normal(jax.random.key(3), (8, 4)),
        "nan": jnp.log(a),
        "inf": 1 / (a * 0),
    }


def test_sorts_and_searches_pass() -> None:
    at = np.array([3, 0, 7, 3], np.int32)
    report = dtensor.verify(orders, *numbers((8, 6)), at, in_layouts=laid(("y", "x"), (None,)))
    assert report.ok, str(report)


def test_transforms_and_stencils_pass() -> None:
    report = dtensor.verify(waves, *numbers((8, 16)), in_layouts=laid(("x", "y")))
    assert report.ok, str(report)


def test_branches_nan_and_infinity_pass() -> None:
    report = dtensor.verify(choices, *numbers((8, 4)), in_layouts=laid(("y", "x")))
    assert report.ok, str(report)


def test_nothing_at_all_and_keys_pass() -> None:
    def fn(keys: Any, a: Any) -> Any:
        return jax.vmap(lambda key: jax.random.uniform(key, (3,)))(keys), a.sum(0) + 1

    keys = jax.random.split(jax.random.key(0), 8)
    empty = np.zeros((0, 4), np.float32)
    report = dtensor.verify(fn, keys, empty, in_layouts=laid(("y",), ("x", "y")))
    assert report.ok, str(report)


def test_what_jit_made_is_verified_with_its_own_layouts() -> None:
    def scaled(a: Any, n: int, *, b: Any) -> Any:
        return jnp.sort(a, axis=0) * n + b

    a, b = numbers((8, 6), (8, 6))
    step = dtensor.jit(scaled, in_layouts={"a": laid(("x", "y"))[0]}, static_argnums=1, mesh=MESH)
    report = dtensor.verify(step, a, 3, b=b)
    assert report.ok, report
    assert report.mesh == MESH
    assert dtensor.verify(scaled, a, 3, b=b, in_layouts={"b": laid(("x", None))[0]}).ok


# What it refuses.


def test_arrays_are_needed() -> None:
    shape = jax.ShapeDtypeStruct((8,), np.float32)
    with pytest.raises(TypeError, match="compiles a function, and got a value of type NoneType"):
        dtensor.verify(None)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="give arrays, not ShapeDtypeStructs"):
        dtensor.verify(lambda a: a, shape, in_layouts=laid(("y",)))


def test_variables_are_read_and_not_assigned() -> None:
    kept = dtensor.DVariable(dtensor.copy_to_mesh(np.ones(8, np.float32), *laid(("y",))))
    array = dtensor.copy_to_mesh(np.arange(8, dtype=np.float32), *laid(("x",)))
    x = np.ones(8, np.float32)
    found = dtensor.verify(lambda a: (a + kept) * array, x, mesh=MESH)
    assert found.ok, found
    assert found.operations >= 2
    with pytest.raises(dtensor.CompileError, match="assigns variables"):
        dtensor.verify(lambda a: kept.assign(a), x, mesh=MESH)


def uneven(a: Any, b: Any) -> Any:
    return jax.nn.softmax(jnp.tanh(a) @ b, axis=0), a.sum(), a[1:]


def test_uneven_dimensions_are_padded_with_nan_and_agree() -> None:
    a, b = numbers((13, 6), (6, 5))
    layouts = laid([("x", "y"), None])[0], laid([None, "y"])[0]
    checked = dtensor.verify(uneven, a, b, in_layouts=layouts)
    assert checked.ok, checked
    assert checked.operations > 10


def test_what_stands_behind_padded_rows_agrees() -> None:
    """Rows that are sorted, and transformed, shard by shard and whole."""
    split = laid([("x", "y")])

    def half(x: Any) -> Any:
        return jnp.fft.rfft(x)

    (x,) = numbers((4100,))
    for function, row in ((jnp.sort, x), (half, x), (jnp.fft.fft, x[:999].astype(np.complex64))):
        report = dtensor.verify(function, row, in_layouts=split)
        assert report.ok, str(report)


def test_padding_that_is_not_masked_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Writer, "masked", lambda self, value, dim, true, fill: value)
    a, b = numbers((13, 6), (6, 5))
    checked = dtensor.verify(uneven, a, b, in_layouts=(laid([("x", "y"), None])[0], None))
    assert not checked.ok
    assert "a pass before it changes the program" in str(checked)
