"""Lowered collectives, run on 8 devices, against NumPy."""

import functools
import math
from typing import Any

import jax
import numpy as np
import pytest

from dtensor.dialect.axes import AxisRef
from dtensor.dialect.context import make_context
from dtensor.dialect.mesh import Mesh
from dtensor.dialect.mlir import ir
from tests.py.passes.relayout.run_local import Array, element_type, lower_text, run_text

MESH = Mesh([("x", 2), ("y", 4)])
AXES = {
    '"x"': (AxisRef("x", 1, 2),),
    '"y"': (AxisRef("y", 1, 4),),
    '"x", "y"': (AxisRef("x", 1, 2), AxisRef("y", 1, 4)),
    '"y", "x"': (AxisRef("y", 1, 4), AxisRef("x", 1, 2)),
    '"y":(1)2': (AxisRef("y", 1, 2),),
    '"y":(2)2': (AxisRef("y", 2, 2),),
    '"y":(2)2, "x", "y":(1)2': (AxisRef("y", 2, 2), AxisRef("x", 1, 2), AxisRef("y", 1, 2)),
}


def coordinate(device: int, axes: tuple[AxisRef, ...]) -> int:
    """A device's coordinate along axes, by hand: device (x, y) is number 4 x + y."""
    digits = {("x", 1, 2): device // 4, ("y", 1, 4): device % 4}
    digits |= {("y", 1, 2): device % 4 // 2, ("y", 2, 2): device % 2}
    number = 0
    for axis in axes:
        number = number * axis.size + digits[axis.name, axis.pre, axis.size]
    return number


def group_of(device: int, axes: tuple[AxisRef, ...]) -> list[int]:
    """The devices that share all other coordinates with a device, in order of the axes."""
    other = [("x", 1, 2), ("y", 1, 2), ("y", 2, 2)]
    for axis in axes:
        parts = [("y", 1, 2), ("y", 2, 2)] if axis.name == "y" and axis.size == 4 else []
        for part in [*parts, (axis.name, axis.pre, axis.size)]:
            if part in other:
                other.remove(part)
    key = [coordinate(device, (AxisRef(*o),)) for o in other]
    alike = [d for d in range(8) if [coordinate(d, (AxisRef(*o),)) for o in other] == key]
    return sorted(alike, key=lambda d: coordinate(d, axes))


def run(
    body: str,
    shards: list[Array],
    result: tuple[int, ...],
    dtype: str | None = None,
) -> list[Array]:
    """Run `body`, which defines %r from %a, on every device."""
    element = str(shards[0].dtype)
    dtype = dtype or element
    argument = "x".join([*map(str, shards[0].shape), element_type(element)])
    output = "x".join([*map(str, result), element_type(dtype)])
    text = (
        f'"dtensor.mesh"() {{sym_name = "mesh", mesh = {MESH.asm()}}} : () -> ()\n'
        f"func.func public @main(%a: tensor<{argument}>) -> tensor<{output}> {{\n"
        f"{body}\nreturn %r : tensor<{output}> }}"
    )
    with make_context(), ir.Location.unknown():
        lowered = lower_text(ir.Module.parse(text), MESH)
    return run_text(MESH, lowered, [shards], [(result, dtype)])[0]


def numbers(shape: tuple[int, ...], dtype: Any = np.float32) -> list[Array]:
    source = np.random.default_rng(0)
    if dtype == np.bool_:
        return [source.integers(0, 2, shape).astype(np.bool_) for _ in range(8)]
    return [source.integers(0, 100, shape).astype(dtype) for _ in range(8)]


@pytest.mark.parametrize("axes", AXES)
def test_axis_index(axes: str) -> None:
    got = run(
        f'%i = "dtensor.axis_index"() {{axes = #dtensor.axes<@mesh, [{axes}]>}} '
        ": () -> tensor<i32>\n"
        "%r = stablehlo.reshape %i : (tensor<i32>) -> tensor<1xi32>",
        numbers((1,)),
        (1,),
        "int32",
    )
    assert [int(g[0]) for g in got] == [coordinate(d, AXES[axes]) for d in range(8)]


@pytest.mark.parametrize("axes", AXES)
def test_all_gather_and_all_slice(axes: str) -> None:
    shards = numbers((3, 2))
    parts = math.prod(a.size for a in AXES[axes])
    attribute = f"axes = #dtensor.axes<@mesh, [{axes}]>, dim = 1 : i64"
    wide = f"tensor<3x{2 * parts}xf32>"
    gather = f'%r = "dtensor.all_gather"(%a) {{{attribute}}} : (tensor<3x2xf32>) -> {wide}'
    got = run(gather, shards, (3, 2 * parts))
    for device in range(8):
        group = group_of(device, AXES[axes])
        np.testing.assert_array_equal(got[device], np.concatenate([shards[d] for d in group], 1))
    sliced = f'%r = "dtensor.all_slice"(%a) {{{attribute}}} : ({wide}) -> tensor<3x2xf32>'
    back = run(sliced, got, (3, 2))
    for device in range(8):
        np.testing.assert_array_equal(back[device], shards[device])


@pytest.mark.sweep
@pytest.mark.parametrize("kind", ["sum", "max", "min", "prod", "and", "or"])
@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.bool_, np.uint8])
def test_all_reduce_and_reduce_scatter(kind: str, dtype: Any) -> None:
    if kind in ("and", "or") and dtype == np.float32:
        return
    functions: dict[str, Any] = {
        "sum": np.logical_or if dtype == np.bool_ else np.add,
        "prod": np.multiply,
        "max": np.maximum,
        "min": np.minimum,
        "and": np.bitwise_and,
        "or": np.bitwise_or,
    }
    shards = [s % 5 + 1 if dtype != np.bool_ else s for s in numbers((8, 3), dtype)]
    element = element_type(str(shards[0].dtype))
    whole, part = f"tensor<8x3x{element}>", f"tensor<2x3x{element}>"
    attribute = f'axes = #dtensor.axes<@mesh, ["y"]>, reduction = "{kind}"'
    reduced = f'%r = "dtensor.all_reduce"(%a) {{{attribute}}} : ({whole}) -> {whole}'
    got = run(reduced, shards, (8, 3))
    scatter = f'"dtensor.reduce_scatter"(%a) {{{attribute}, dim = 0 : i64}} : ({whole}) -> {part}'
    scattered = run(f"%r = {scatter}", shards, (2, 3))
    for device in range(8):
        group = group_of(device, AXES['"y"'])
        expected = functools.reduce(functions[kind], [shards[d] for d in group])
        np.testing.assert_array_equal(got[device], expected)
        mine = np.split(expected, 4)[coordinate(device, AXES['"y"'])]
        np.testing.assert_array_equal(scattered[device], mine)


SPECIAL = [-np.inf, -3.0, -0.0, 0.0, 2.0**-6, 1.0, 2.5, np.inf]
FLOATS = ["float16", "bfloat16", "float32", "float64"]
SMALL_FLOATS = ["float8_e5m2", "float8_e4m3fn", "float8_e4m3", "float8_e3m4"]


@pytest.mark.sweep
@pytest.mark.parametrize("kind", ["max", "min"])
@pytest.mark.parametrize("dtype", [*FLOATS, *SMALL_FLOATS])
def test_the_greatest_and_least_of_floats_keep_nan(kind: str, dtype: str) -> None:
    """Every pair of special values meets on two of four devices, and NaNs of both signs too."""
    has_infinity = not dtype.endswith("fn")
    values = [v for v in SPECIAL if has_infinity or np.isfinite(v)] + [np.nan, -np.nan]
    pairs = np.array([[a, b] for a in values for b in values]).T
    pairs = np.pad(pairs, ((0, 0), (0, -pairs.shape[1] % 4)))
    count = pairs.shape[1]
    shards = [pairs[d % 4 // 2].reshape(count, 1).astype(dtype) for d in range(8)]
    element = element_type(dtype)
    whole, part = f"tensor<{count}x1x{element}>", f"tensor<{count // 4}x1x{element}>"
    attribute = f'axes = #dtensor.axes<@mesh, ["y"]>, reduction = "{kind}"'
    with jax.enable_x64(True):
        got = run(
            f'%r = "dtensor.all_reduce"(%a) {{{attribute}}} : ({whole}) -> {whole}',
            shards,
            (count, 1),
        )
        scattered = run(
            f'%r = "dtensor.reduce_scatter"(%a) {{{attribute}, dim = 0 : i64}} '
            f": ({whole}) -> {part}",
            shards,
            (count // 4, 1),
        )
    pick = np.maximum if kind == "max" else np.minimum
    expected = pick(pairs[0], pairs[1])[:, None]
    for device in range(8):
        assert got[device].dtype == dtype
        np.testing.assert_array_equal(got[device].astype(np.float64), expected)
        mine = np.split(expected, 4)[device % 4]
        np.testing.assert_array_equal(scattered[device].astype(np.float64), mine)


def test_variadic_all_reduce() -> None:
    got = run(
        "%b = stablehlo.add %a, %a : tensor<3x2xf32>\n"
        '%s:2 = "dtensor.all_reduce"(%a, %b) {axes = #dtensor.axes<@mesh, ["x"]>, '
        'reduction = "sum"} : (tensor<3x2xf32>, tensor<3x2xf32>) '
        "-> (tensor<3x2xf32>, tensor<3x2xf32>)\n"
        "%r = stablehlo.subtract %s#1, %s#0 : tensor<3x2xf32>",
        shards := numbers((3, 2)),
        (3, 2),
    )
    for device in range(8):
        np.testing.assert_array_equal(got[device], shards[device] + shards[(device + 4) % 8])


@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.complex64])
@pytest.mark.parametrize(("low", "high"), [(0, 2), (3, 0), (1, 3), (0, 0)])
def test_halo_exchange(low: int, high: int, dtype: Any) -> None:
    shards = numbers((2, 3), dtype)
    element = element_type(str(np.dtype(dtype)))
    got = run(
        '%r = "dtensor.halo_exchange"(%a) {axes = #dtensor.axes<@mesh, ["y"]>, dim = 1 : i64, '
        f"low = {low} : i64, high = {high} : i64}} : (tensor<2x3x{element}>) "
        f"-> tensor<2x{3 + low + high}x{element}>",
        shards,
        (2, 3 + low + high),
    )
    zeros = np.zeros((2, 3), dtype)
    for device in range(8):
        y = device % 4
        below = shards[device - 1] if y > 0 else zeros
        above = shards[device + 1] if y < 3 else zeros
        expected = np.concatenate([below[:, 3 - low :], shards[device], above[:, :high]], 1)
        np.testing.assert_array_equal(got[device], expected)


def test_coordinates_are_known_inside_loops_and_branches() -> None:
    """They are computed in front of the loop and used in it without being carried."""
    shards = numbers((4, 3))
    got = run(
        """
  %zero = stablehlo.constant dense<0> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %three = stablehlo.constant dense<3> : tensor<i32>
  %f = stablehlo.constant dense<0.0> : tensor<1x3xf32>
  %w:2 = stablehlo.while(%i = %zero, %v = %f) : tensor<i32>, tensor<1x3xf32> cond {
    %c = stablehlo.compare LT, %i, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  } do {
    %n = stablehlo.add %i, %one : tensor<i32>
    %p = stablehlo.compare EQ, %i, %one : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %b = "stablehlo.if"(%p) ({
      %s = "dtensor.all_slice"(%a) {axes = #dtensor.axes<@mesh, ["y"]>, dim = 0 : i64}
          : (tensor<4x3xf32>) -> tensor<1x3xf32>
      stablehlo.return %s : tensor<1x3xf32>
    }, {
      stablehlo.return %v : tensor<1x3xf32>
    }) : (tensor<i1>) -> tensor<1x3xf32>
    stablehlo.return %n, %b : tensor<i32>, tensor<1x3xf32>
  }
  %r = stablehlo.add %w#1, %w#1 : tensor<1x3xf32>
""",
        shards,
        (1, 3),
    )
    for device in range(8):
        np.testing.assert_array_equal(got[device], 2 * shards[device][device % 4][None])


SUM = """%s = "dtensor.all_reduce"(%v) {axes = #dtensor.axes<@mesh, ["y"]>, reduction = "sum"}
        : (tensor<2x3xf32>) -> tensor<2x3xf32>"""
ANY = """%s = "dtensor.all_reduce"(%c) {axes = #dtensor.axes<@mesh, ["x"]>, reduction = "or"}
        : (tensor<i1>) -> tensor<i1>"""
WRITTEN = """%s = "stablehlo.all_reduce"(%c) <{replica_groups = dense<[[0, 1, 2, 3, 4, 5, 6, 7]]>
        : tensor<1x8xi64>, channel_handle = #stablehlo.channel_handle<handle = 9, type = 1>,
        use_global_device_ids}> ({
    ^bb0(%p: tensor<i1>, %q: tensor<i1>):
      %o = stablehlo.or %p, %q : tensor<i1>
      stablehlo.return %o : tensor<i1>
    }) : (tensor<i1>) -> tensor<i1>"""
NEVER = "%s = stablehlo.not %t : tensor<i1>"


@pytest.mark.parametrize("values", ["%v = %a", "%v = %f"])
@pytest.mark.parametrize(("condition", "body"), [(ANY, ""), (WRITTEN, ""), (NEVER, SUM)])
def test_a_loop_that_changes_nothing_and_may_not_be_dropped(
    condition: str, body: str, values: str
) -> None:
    """XLA drops what never changes, and ended the process where a loop then carried nothing."""
    shards = numbers((2, 3))
    got = run(
        f"""
  %f = stablehlo.constant dense<5.0> : tensor<2x3xf32>
  %c = stablehlo.constant dense<false> : tensor<i1>
  %t = stablehlo.constant dense<true> : tensor<i1>
  %r = stablehlo.while({values}) : tensor<2x3xf32> cond {{
    {condition}
    stablehlo.return %s : tensor<i1>
  }} do {{
    {body}
    stablehlo.return %v : tensor<2x3xf32>
  }}
""",
        shards,
        (2, 3),
    )
    for device in range(8):
        want = shards[device] if values == "%v = %a" else np.full((2, 3), 5.0, np.float32)
        np.testing.assert_array_equal(got[device], want)


def test_shards_move_to_an_axis_that_held_copies() -> None:
    shards = numbers((2, 3))
    for device in range(8):
        shards[device] = shards[device // 4 * 4]  # replicated over y
    got = run(
        '%r = "dtensor.collective_permute"(%a) {from = #dtensor.axes<@mesh, ["x"]>, '
        'to = #dtensor.axes<@mesh, ["y":(2)2]>} : (tensor<2x3xf32>) -> tensor<2x3xf32>',
        shards,
        (2, 3),
    )
    for device in range(8):
        np.testing.assert_array_equal(got[device], shards[4 * (device % 2)])


@pytest.mark.parametrize("devices", [8, 512])
def test_groups_of_any_mesh_are_written_once(devices: int) -> None:
    mesh = Mesh([("a", devices // 4), ("b", 4)])
    text = (
        f'"dtensor.mesh"() {{sym_name = "mesh", mesh = {mesh.asm()}}} : () -> ()\n'
        "func.func public @main(%a: tensor<4xf32>) -> tensor<4xf32> {\n"
    )
    for i in range(3):
        text += (
            f'%{i} = "dtensor.all_reduce"({"%a" if not i else f"%{i - 1}"}) '
            '{axes = #dtensor.axes<@mesh, ["a"]>, reduction = "max"} : '
            "(tensor<4xf32>) -> tensor<4xf32>\n"
        )
    with make_context(), ir.Location.unknown():
        lowered = lower_text(ir.Module.parse(text + "return %2 : tensor<4xf32> }"), mesh)
    assert lowered.count("stablehlo.all_reduce") == 3
    assert all(f"<handle = {i}, type = 1>" in lowered for i in (1, 2, 3))
    assert f"tensor<4x{devices // 4}xi64>" in lowered
