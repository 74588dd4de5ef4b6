"""`print(compiled)` and `explain` of programs with many equal layers."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import dtensor
from dtensor.compiler.summary import groups_of, summary
from dtensor.dialect.layout import Layout
from dtensor.passes.cost.units import quantity, seconds_text
from dtensor.passes.reports.grouping import common
from dtensor.runtime.client import create_mesh

MESH = create_mesh([("x", 2), ("y", 4)])
ROWS = Layout(["x", None], MESH)
UP, DOWN = Layout(["x", "y"], MESH), Layout(["y", "x"], MESH)


def loss(params: Any, a: Any) -> Any:
    for layer in params:
        a = a + jnp.tanh(a @ layer["up"]) @ layer["down"]
    return (a**2).mean()


def step(params: Any, a: Any) -> Any:
    return jax.tree.map(lambda p, g: p - 0.1 * g, params, jax.grad(loss)(params, a))


@cache
def lowered(layers: int) -> dtensor.Lowered:
    shapes = {"up": (8, 128), "down": (128, 8)}
    one = {name: jax.ShapeDtypeStruct(shape, jnp.float32) for name, shape in shapes.items()}
    layouts = [{"up": UP, "down": DOWN}] * layers
    jitted = dtensor.jit(step, in_layouts=(layouts, ROWS), donate_argnums=0)
    return jitted.lower([one] * layers, jax.ShapeDtypeStruct((64, 8), jnp.float32))


@cache
def two_layers() -> dtensor.Compiled:
    return lowered(2).compile()


def test_a_step_of_many_layers_fits_sixty_lines() -> None:
    result = lowered(48)._result
    assert len(result.collectives) > 200
    text = summary("step", result, None)
    assert len(text.splitlines()) <= 60
    few = summary("step", lowered(6)._result, None)
    assert len(text.splitlines()) == len(few.splitlines())  # layers do not count


def test_a_program_in_print() -> None:
    lines = str(two_layers()).splitlines()
    assert lines[0] == "step on mesh(x=2, y=4)"
    size = quantity(two_layers().wire_bytes, "B")
    count = len(two_layers().collectives)
    assert lines[1].startswith(f"  per device and call: {size} on the wire in {count} collectives,")
    assert re.match(r"  [\d.]+ [nu]s planned, [\d.]+ [nu]s of them to communicate", lines[2])
    assert lines[3].startswith("  memory of a device: arguments ")
    assert lines[4] == "  collectives, most bytes per device and call first:"
    gathers = [i for i, line in enumerate(lines) if "x all_gather over x of f32 8x32 at " in line]
    assert re.search(r" 2x all_gather .* at test_summary\.py:\d+:\d+$", lines[gathers[0]])
    assert lines[gathers[0] + 1].endswith(
        """: params[*]['up'] gives [{"x"}, {"y"}], dot_general needs [{}, {"y"}]"""
    )


def test_every_collective_is_in_one_group_the_largest_first() -> None:
    collectives = lowered(6)._result.collectives
    groups = groups_of(collectives)
    assert sorted(id(c) for group in groups for c in group.members) == sorted(map(id, collectives))
    sizes = [group.bytes for group in groups]
    assert sizes == sorted(sizes, reverse=True)
    assert sum(sizes) == sum(c.bytes * (c.trip_count or 1) for c in collectives)
    assert all(collectives[group.first] is group.members[0] for group in groups)


def test_seconds_are_those_of_the_machine() -> None:
    collectives = lowered(6)._result.collectives
    assert all(c.seconds == pytest.approx(1.7e-9 + c.bytes / 1e11) for c in collectives)
    (plan,) = lowered(6)._result.ledger.of_kind("plan")
    total = sum(group.seconds for group in groups_of(collectives))
    assert total == pytest.approx(plan.communication, rel=0.01)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "0 ns"),
        (9.996e-7, "1 us"),
        (9.99e-7, "999 ns"),
        (0.0123, "12.3 ms"),
        (72.34, "72.3 s"),
    ],
)
def test_times_have_three_digits(seconds: float, text: str) -> None:
    assert seconds_text(seconds) == text


def test_warnings_come_first_and_equal_ones_once() -> None:
    def f(a: Any) -> Any:
        for _ in range(3):
            a = jax.pure_callback(np.sin, jax.ShapeDtypeStruct(a.shape, a.dtype), a)
        return a

    text = str(dtensor.jit(f, in_layouts=ROWS).lower(np.ones((4, 8), np.float32)).compile())
    assert text.splitlines()[1].startswith("  3x fallback: stablehlo.custom_call @")
    assert text.count("fallback") == 1
    assert "per device and call" in text.splitlines()[2]


def test_loops_count_their_turns() -> None:
    def f(a: Any, w: Any) -> Any:
        return jax.lax.scan(lambda c, _: (jnp.tanh(c @ w) @ w.T, None), a, None, length=3)[0]

    layouts = (ROWS, Layout([None, "y"], MESH))
    compiled = dtensor.jit(f, in_layouts=layouts).lower(np.ones((4, 8)), np.ones((8, 96))).compile()
    assert re.search(
        r"\n +\d+ B +[\d.]+ ns  of 3 turns all_reduce over y of f32 2x8 at ", str(compiled)
    )


def test_what_moves_nothing_says_so() -> None:
    text = str(dtensor.jit(jnp.tanh, in_layouts=ROWS).lower(np.ones((4, 8))).compile())
    assert " 0 B on the wire in 0 collectives, " in text
    assert len(text.splitlines()) == 3


def test_the_largest_groups_alone() -> None:
    head, *lines = two_layers().explain(top=2).splitlines()
    groups = groups_of(two_layers().collectives)
    assert head == (
        f"{len(two_layers().collectives)} collectives in {len(groups)} groups, most bytes first"
    )
    assert "s planned" in lines[0]
    numbers = [int(found) for line in lines for found in re.findall(r", collective (\d+): ", line)]
    assert numbers == [group.first for group in groups[:2]]
    assert len(lines) == 4, "the plan, a line for each group, and one for the others"
    assert f" more in {len(groups) - 2} groups" in lines[3]


def test_the_last_key_names_the_arrays_of_all_layers() -> None:
    lines = two_layers().explain("up").splitlines()
    assert lines[0] == """argument params[0]['up']: float32 8x128, [{"x"}, {"y"}]"""
    assert "  and 1 more, params[*]['up'], alike" in lines
    assert "  and 1 more, result[*]['up'], alike" in lines
    moves = lines[lines.index("moved by") + 1 :]
    assert "2x all_gather over x at test_summary.py:" in moves[0]
    assert "params[*]['up'] gives" in moves[0]


def adam(params: Any, first: Any, second: Any, a: Any) -> Any:
    gradients = jax.grad(loss)(params, a)
    first = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, first, gradients)
    second = jax.tree.map(lambda v, g: 0.9 * v + 0.1 * g * g, second, gradients)
    updated = jax.tree.map(lambda p, m, v: p - m / (jnp.sqrt(v) + 1e-5), params, first, second)
    return updated, first, second


@cache
def many_layers() -> dtensor.Lowered:
    shapes = {"up": (8, 128), "down": (128, 8)}
    one = {name: jax.ShapeDtypeStruct(shape, jnp.float32) for name, shape in shapes.items()}
    layouts, params = [{"up": UP, "down": DOWN}] * 48, [one] * 48
    jitted = dtensor.jit(adam, in_layouts=(layouts, layouts, layouts, ROWS))
    return jitted.lower(params, params, params, jax.ShapeDtypeStruct((64, 8), jnp.float32))


@pytest.mark.long
def test_arrays_of_many_layers_and_of_adam_are_told_in_twelve_lines() -> None:
    lines = many_layers().explain("up").splitlines()
    assert len(lines) <= 12
    assert lines[:3] == [
        """argument params[0]['up']: float32 8x128, [{"x"}, {"y"}]""",
        '  axis "x": given at argument 1',
        '  axis "y": given at argument 1',
    ]
    arrays = "params[*]['up'], first[*]['up'], second[*]['up']"
    assert lines[3] == f"  and 143 more, {arrays}, alike"
    assert lines[4].startswith("result result[0][0]['up']: float32 8x128, ")
    assert sum(line.startswith('  axis "x": ') for line in lines[4:]) == 1


def test_memory_is_told_in_fifteen_lines() -> None:
    lines = many_layers().explain("memory").splitlines()
    assert len(lines) <= 15
    memory = many_layers().memory
    assert memory is not None
    peak, arguments = (quantity(b, "B") for b in (memory.peak_bytes, memory.argument_bytes))
    assert lines[0].startswith(f"{peak} at the peak of one device, {arguments} of them arguments")
    assert any("48x argument params[*]['up']: float32 4x32" in line for line in lines)
    assert sum(map(_count, lines[1:])) == len(memory.tensors)


def _count(line: str) -> int:
    """How many tensors a line speaks of."""
    found = re.match(r" +[\d.]+ k?B  (\d+)(?:x | more in )", line)
    return 1 if found is None else int(found[1])


def test_an_array_called_memory_is_told_of_before_memory() -> None:
    def f(memory: Any) -> Any:
        return memory + 1

    text = dtensor.jit(f, in_layouts=ROWS).lower(np.ones((4, 8))).explain("memory")
    assert text.startswith("argument memory: ")


def test_one_array_tells_of_its_own_moves() -> None:
    text = two_layers().explain("params[1]['up']")
    assert text.count("all_gather") == 1
    assert "params[1]['up'] gives" in text
    assert "params[0]" not in text


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0 B"), (999, "999 B"), (999.6, "1 kB"), (14_680_064, "14.7 MB"), (2e18, "2e+03 PB")],
)
def test_quantities(number: float, text: str) -> None:
    assert quantity(number, "B") == text


def test_texts_that_differ_in_numbers() -> None:
    assert common(["layer 3 of 48", "layer 12 of 48"]) == "layer * of 48"
    assert common(["one"]) == "one"


def test_a_loop_of_unknown_length_sends_more_than_is_counted() -> None:
    def halved(x: jax.Array) -> jax.Array:
        return lax.while_loop(lambda x: jnp.sum(x) > 1, lambda x: x / 2, x)

    given = jax.ShapeDtypeStruct((4096, 64), jnp.float32)
    compiled = dtensor.jit(halved, in_layouts=ROWS).lower(given).compile()
    (inside,) = {c.bytes for c in compiled.collectives if c.trip_count is None}
    (line,) = [line for line in str(compiled).splitlines() if "on the wire" in line]
    more = f" and {quantity(inside, 'B')} in each further turn of loops of unknown length, "
    assert more in line
