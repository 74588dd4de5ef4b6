"""dtensor.verify looks into shard_map: each shard's operations, and what the region gives."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import PartitionSpec as P

import dtensor
from dtensor.compiler.verification.verify import verify_lowered
from dtensor.dialect.mlir import ir
from dtensor.passes.base import PassState
from dtensor.passes.cuts.fuse import FuseCutsPass
from dtensor.passes.ops import table
from dtensor.passes.ops.opdef import LOCAL
from tests.py.verification.faults import turned

MESH = dtensor.create_mesh([("x", 2), ("y", 4)])
AUTOMATIC = jax.make_mesh((2, 4), ("x", "y"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
A = np.random.default_rng(7).normal(size=(8, 16)).astype(np.float32) * 3
W = np.random.default_rng(8).normal(size=(16, 6)).astype(np.float32)
LAYOUTS = [
    (dtensor.Layout(a, MESH), dtensor.Layout(w, MESH))
    for a, w in [(("y", None), (None, "x")), ((None, "x"), ("x", None)), ((None,) * 2, (None,) * 2)]
]


def over_y(body: Any, *specs: Any, **options: Any) -> Any:
    """A region that is manual over `y`, and leaves `x` to the planner."""
    *given, made = specs or (P("y"), P("y"))
    return jax.shard_map(
        body, mesh=AUTOMATIC, in_specs=tuple(given), out_specs=made, axis_names={"y"}, **options
    )


def line_of(mark: str) -> int:
    text = Path(__file__).read_text(encoding="utf-8").splitlines()
    return next(i for i, line in enumerate(text, 1) if line.endswith(f"# {mark}"))


# What is wrong is found.


def flipped(v: Any) -> Any:
    return v * 2 + jnp.flip(v, 1) - lax.psum(v, "y")  # flipped


def in_branch(v: Any) -> Any:
    return lax.cond(lax.psum(v.sum(), "y") < 1e9, lambda: jnp.flip(v, 1), lambda: v)  # flipped here


def in_loop(v: Any) -> Any:
    return lax.fori_loop(0, 3, lambda _, c: jnp.flip(c, 1) * 2, v)  # flipped there


def nested(v: Any) -> Any:
    whole: Any = jax.shard_map(
        lambda u: u + lax.psum(u, "x"), in_specs=P(None, "x"), out_specs=P(None, "x")
    )
    return whole(jnp.flip(v, 1))  # flipped before


@pytest.mark.sweep
@pytest.mark.parametrize(
    ("body", "mark"),
    [
        (flipped, "flipped"),
        (in_branch, "flipped here"),
        (in_loop, "flipped there"),
        (nested, "flipped before"),
    ],
)
def test_a_rule_that_is_wrong_inside_is_found_in_its_shard(
    monkeypatch: pytest.MonkeyPatch, body: Any, mark: str
) -> None:
    monkeypatch.setitem(table.DEFINITIONS, "stablehlo.reverse", table.opdef("stablehlo.negate"))
    layout = dtensor.Layout(["y", "x"], MESH)
    report = dtensor.verify(lambda a: over_y(body)(jnp.tanh(a)) + 1, A, in_layouts=(layout,))
    assert [d.operation for d in report.differences] == ["reverse"], str(report)
    first = report.differences[0]
    assert first.location.startswith(f"test_shard_map.py:{line_of(mark)}:")
    assert any(where.startswith("shard y=0 of shard_map") for where in first.where)
    assert first.shape == (2, 16)
    row, column = first.index
    if body is flipped:  # the first shard of rows, of which each half was reversed by itself
        half = np.tanh(A[:2]).reshape(2, 2, 8)[:, :, ::-1].reshape(2, 16)
        np.testing.assert_allclose(first.found, half[row, column], rtol=1e-5)
        np.testing.assert_allclose(first.expected, np.tanh(A[row, 15 - column]), rtol=1e-5)


def test_an_expander_that_is_wrong_on_some_devices_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    wrong = dataclasses.replace(table.opdef("stablehlo.iota"), algorithms=(LOCAL,))
    monkeypatch.setitem(table.DEFINITIONS, "stablehlo.iota", wrong)

    def body(v: Any) -> Any:
        return v + lax.broadcasted_iota(v.dtype, v.shape, 1)

    report = dtensor.verify(over_y(body), A, in_layouts=(dtensor.Layout(["y", "x"], MESH),))
    assert [d.operation for d in report.differences] == ["iota"]
    first = report.differences[0]
    assert (first.device, first.index) == (4, (0, 8))  # the second half of the columns


def test_what_stands_beside_a_shard_map_in_a_loop_is_compared(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(table.DEFINITIONS, "stablehlo.reverse", table.opdef("stablehlo.negate"))

    def fn(a: Any) -> Any:
        mapped = over_y(lambda v: v + lax.psum(v, "y"))
        return lax.fori_loop(0, 5, lambda _, c: mapped(jnp.flip(c, 0)), a)

    report = dtensor.verify(fn, A, in_layouts=LAYOUTS[0][:1])
    assert [d.operation for d in report.differences] == ["reverse"]
    assert report.differences[0].where[0].startswith("iteration 0 of the loop")


def _halved(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pass before the plan turns products into differences."""
    run = FuseCutsPass.run

    def wrong(self: Any, module: ir.Module, state: PassState) -> None:
        run(self, module, state)
        turned(module, "stablehlo.multiply")

    monkeypatch.setattr(FuseCutsPass, "run", wrong)


@pytest.mark.parametrize("looped", [False, True], ids=["alone", "in a loop"])
def test_a_pass_that_is_wrong_is_told_by_the_results(
    monkeypatch: pytest.MonkeyPatch, looped: bool
) -> None:
    def fn(a: Any) -> Any:
        body: Any = jax.shard_map(
            lambda v: v * 2 + lax.psum(v, "y"), mesh=AUTOMATIC, in_specs=P("y"), out_specs=P("y")
        )
        return lax.scan(lambda c, _: (body(c), None), a, None, 3)[0] if looped else body(a)

    _halved(monkeypatch)
    report = dtensor.verify(fn, A, in_layouts=LAYOUTS[0][:1])
    assert [d.operation for d in report.differences] == ["result"]
    assert "a pass before it changes the program" in str(report)


FILE = """
sdy.mesh @mesh = <["x"=2, "y"=4]>
func.func @main(%a: tensor<8x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"y"}, {}]>})
    -> tensor<8x16xf32> {
  %0 = sdy.manual_computation(%a) in_shardings=[<@mesh, [{"y", ?}, {?}]>]
      out_shardings=[<@mesh, [{"y", ?}, {?}]>] manual_axes={"y"} (%v: tensor<2x16xf32>) {
    %r = stablehlo.reverse %v, dims = [1] : tensor<2x16xf32>
    %s = stablehlo.multiply %r, %v : tensor<2x16xf32>
    sdy.return %s : tensor<2x16xf32>
  } : (tensor<8x16xf32>) -> tensor<8x16xf32>
  return %0 : tensor<8x16xf32>
}
"""


def test_the_results_of_a_file_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    report = verify_lowered(dtensor.lower_mlir(FILE), [A])
    assert report.ok, str(report)
    assert not report.not_compared
    _halved(monkeypatch)
    report = verify_lowered(dtensor.lower_mlir(FILE), [A])
    assert [d.operation for d in report.differences] == ["result[0]"]


# What is right passes, and all of it is looked at.


def loop(v: Any, w: Any) -> Any:
    def step(c: Any, _: Any) -> Any:
        s = lax.psum((c @ w).sum(), "y")
        return jnp.tanh(c + s) + lax.axis_index("y"), s

    return lax.scan(step, v, None, length=4)


def moves(v: Any, w: Any) -> Any:
    shifted = lax.ppermute(v, "y", [(0, 1), (2, 3)])
    pieces = lax.all_to_all(v @ w, "y", 0, 1, tiled=False) if v.shape[0] == 4 else v
    return lax.pmax(shifted, "y") + pieces, lax.all_gather(v, "y").sum((0, 1))


def cancels(v: Any, w: Any) -> Any:
    """A sum over devices whose terms are much larger than it."""
    sign = jnp.where(lax.axis_index("y") % 2 == 0, 1.0, -1.0)
    return lax.psum(lax.pmean(v @ w, "y") * sign * 1e6 + v @ w, "y"), v @ w


def normal(v: Any, w: Any) -> Any:
    key = jax.random.fold_in(jax.random.key(0), lax.axis_index("y"))
    return v + jax.random.normal(key, v.shape), w.sum() + 0 * v[0]


RIGHT = {
    "a loop": (loop, (P("y"), P())),
    "moves": (moves, (P("y"), P())),
    "sums that cancel": (cancels, (P(), P("y"))),
    "keys": (normal, (P("y"), P())),
}


# Each as it is split, and otherwise or whole in turn.
RIGHTLY = [(name, how) for k, name in enumerate(RIGHT) for how in (0, 1 + k % 2)]


@pytest.mark.sweep
@pytest.mark.parametrize(("name", "how"), RIGHTLY)
def test_what_is_right_passes(name: str, how: int) -> None:
    body, made = RIGHT[name]
    mapped = over_y(body, P("y"), P(), made, check_vma=False)
    report = dtensor.verify(mapped, A, W, in_layouts=LAYOUTS[how])
    assert report.ok, str(report)
    assert not [text for text in report.not_compared if "iterations 4" not in text]
    assert report.values > 30  # of each shard by itself


def test_gradients_pass() -> None:
    loss = over_y(lambda v, w: lax.pmean(((v @ w) ** 2).sum(), "y"), P("y"), P(), P())
    for layouts in LAYOUTS:
        report = dtensor.verify(jax.grad(loss, argnums=(0, 1)), A, W, in_layouts=layouts)
        assert report.ok, str(report)
        assert not report.not_compared


def test_where_nothing_is_left_to_the_planner_the_region_is_compared_as_a_whole() -> None:
    def body(v: Any, w: Any) -> Any:
        made = lax.psum_scatter(v @ w, "x", scatter_dimension=1, tiled=True)
        return made + lax.axis_index("y")

    fn = jax.shard_map(body, mesh=AUTOMATIC, in_specs=(P("y", "x"), P("x")), out_specs=P("y", "x"))
    report = dtensor.verify(fn, A, W, in_layouts=LAYOUTS[0])
    assert report.ok, str(report)
    assert not report.not_compared
    assert report.values >= 8


def test_shards_that_go_different_ways_are_told() -> None:
    def body(v: Any) -> Any:
        return lax.cond(v.sum() > 0, lambda: jnp.sort(v, 1), lambda: v * 2)

    def loops(v: Any) -> Any:
        return lax.fori_loop(0, lax.axis_index("y"), lambda _, c: c * 2, v)

    for fn in (body, loops):
        report = dtensor.verify(over_y(fn, check_vma=False), A, in_layouts=LAYOUTS[0][:1])
        assert report.ok, str(report)
        assert any("shards go different ways" in text for text in report.not_compared)


def test_what_stands_beside_a_callback_is_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    def body(v: Any) -> Any:
        jax.debug.callback(lambda _: None, v.sum())
        return jnp.flip(v, 1)

    layouts = (dtensor.Layout(["y", "x"], MESH),)
    report = dtensor.verify(over_y(body), A, in_layouts=layouts)
    assert report.ok, str(report)
    assert any("results as a whole" in text for text in report.not_compared)
    monkeypatch.setitem(table.DEFINITIONS, "stablehlo.reverse", table.opdef("stablehlo.negate"))
    report = dtensor.verify(over_y(body), A, in_layouts=layouts)
    assert [d.operation for d in report.differences] == ["reverse"]
