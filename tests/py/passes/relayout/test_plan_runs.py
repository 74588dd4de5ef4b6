"""Relayout plans, carried out on 8 devices, give what the layouts say: element by element."""

import functools
import itertools
import random
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from dtensor.dialect.layout import Layout
from dtensor.dialect.mesh import Mesh
from dtensor.dialect.mlir import ir
from dtensor.passes.collectives.optimize import OptimizeCollectivesPass
from dtensor.passes.expansion.context import ExpansionContext
from dtensor.passes.relayout import search
from dtensor.passes.relayout.realise import apply_steps
from dtensor.passes.relayout.search import plan
from tests.py.passes.relayout.run_local import (
    Array,
    local_module,
    partial_groups,
    run_text,
    shard,
    tensor_type,
)

MESH = Mesh([("x", 2), ("y", 4)])
SHAPE = (8, 24)
BATCH = 48  # relayouts in one program: compiling is what takes time

WORDS = (
    "{}",
    '{"x"}',
    '{"y"}',
    '{"x", "y"}',
    '{"y", "x"}',
    '{2, "x"}',
    '{2, "y"}',
    '{"x", 2, "y":(2)2}',
    '{"y":(1)2}',
    '{"y":(2)2}',
    '{"y":(2)2, "y":(1)2}',
    '{"y":(1)2, "x", "y":(2)2}',
    '{3, "x"}',
    '{3, "y"}',
    '{"x", 3, "y"}',
)
PARTIAL = ("", '"x"', '"y"', '("x", "y")', '"y":(1)2', '("x", "y":(2)2)')


def identity(kind: str, dtype: Any) -> int:
    """A value that changes no element of `whole_array` under a reduction."""
    if np.issubdtype(dtype, np.unsignedinteger):
        return {"max": 0, "min": 255}[kind]
    ones = 1 if dtype == np.bool_ else -1
    return {"sum": 0, "max": -20, "min": 20, "or": 0, "and": ones, "prod": 1}[kind]


@functools.cache
def layouts(kind: str) -> list[Layout]:
    """Every layout of SHAPE from the words above, complete or partial with one reduction."""
    found = []
    for first, second in itertools.product(WORDS, WORDS):
        for axes in PARTIAL:
            text = f"#dtensor.layout<@mesh, [{first}, {second}]"
            text += f", partial = {{{kind}: {axes}}}>" if axes else ">"
            try:
                layout = Layout.parse(text, MESH)
            except ValueError:
                continue
            if layout.problem(SHAPE) is None:
                found.append(layout)
    return found


def pairs(kind: str, count: int, seed: int) -> list[tuple[Layout, Layout]]:
    """A sample of pairs of layouts that is the same in every run."""
    chosen = random.Random(seed)
    every = layouts(kind)
    return [(chosen.choice(every), chosen.choice(every)) for _ in range(count)]


def whole_array(dtype: Any, kind: str, seed: int) -> Array:
    numbers = np.random.default_rng(seed)
    if dtype == np.bool_:
        return numbers.integers(0, 2, SHAPE).astype(dtype)
    low = 0 if np.issubdtype(dtype, np.unsignedinteger) else -9
    array = numbers.integers(low, 9, SHAPE)
    if np.issubdtype(dtype, np.complexfloating):
        return (array + 1j * numbers.integers(-9, 9, SHAPE)).astype(dtype)
    if kind == "prod":
        array = 2 ** (array % 4)
    return array.astype(dtype)


def reduce(kind: str, parts: Sequence[Array]) -> Array:
    functions: dict[str, Any] = {
        "sum": np.add,
        "max": np.maximum,
        "min": np.minimum,
        "prod": np.multiply,
        "and": np.bitwise_and,
        "or": np.bitwise_or,
    }
    return functools.reduce(functions[kind], parts)


def give(whole: Array, layout: Layout, kind: str) -> list[Array]:
    """What each device holds at first: parts that combine to `whole` where it is partial."""
    shards = [shard(whole, layout, device) for device in range(MESH.size)]
    if not layout.partial:
        return shards
    for group in partial_groups(layout):
        complete = shards[group[0]]
        others = [np.full_like(complete, identity(kind, whole.dtype)) for _ in group[1:]]
        if kind == "sum" and whole.dtype != np.bool_:
            others = [np.full_like(complete, 2 * i - 3) for i in range(len(others))]
            complete = complete - reduce("sum", others)
        held = [*others, complete]  # the last device of a group has the most to say
        for device, part in zip(group, held, strict=True):
            shards[device] = part
    return shards


def check(whole: Array, layout: Layout, kind: str, got: list[Array]) -> None:
    for group in partial_groups(layout):
        if layout.partial:
            combined = reduce(kind, [got[device] for device in group])
            np.testing.assert_array_equal(combined, shard(whole, layout, group[0]))
            continue
        for device in group:
            np.testing.assert_array_equal(got[device], shard(whole, layout, device))


def run(moves: list[tuple[Layout, Layout]], dtype: Any, kind: str, end: str | None = None) -> None:
    """Relayouts of values that are partial with `kind` before, and with `end`, or it, after."""
    dtype = np.dtype(dtype)
    name = str(dtype)
    wholes = [whole_array(dtype, kind, i) for i in range(len(moves))]
    inputs = [give(w, before, kind) for w, (before, _) in zip(wholes, moves, strict=True)]
    types = [tensor_type(before.local_shape(SHAPE), name) for before, _ in moves]

    def body(ctx: ExpansionContext, values: list[ir.Value[Any]]) -> list[ir.Value[Any]]:
        return [
            apply_steps(value, plan(before, after, SHAPE, dtype.itemsize), ctx)
            for value, (before, after) in zip(values, moves, strict=True)
        ]

    text = local_module(MESH, types, body)
    outs = [(after.local_shape(SHAPE), name) for _, after in moves]
    results = run_text(MESH, text, inputs, outs)
    for whole, (before, after), got in zip(wholes, moves, results, strict=True):
        try:
            check(whole, after, kind if end is None else end, got)
        except AssertionError as wrong:
            steps = plan(before, after, SHAPE, dtype.itemsize)
            raise AssertionError(f"{before} to {after} by {steps}: {wrong}") from None


@pytest.mark.sweep
@pytest.mark.parametrize("batch", range(6))
def test_any_layout_to_any_other_in_f32(batch: int) -> None:
    run(pairs("sum", BATCH, batch), np.float32, "sum")


@pytest.mark.sweep
@pytest.mark.parametrize(
    ("dtype", "kind"),
    [
        (jnp.bfloat16, "sum"),
        (np.int32, "sum"),
        (np.int32, "max"),
        (np.float32, "min"),
        (jnp.bfloat16, "max"),
        (np.int8, "min"),
        (np.uint8, "max"),
        (np.int32, "and"),
        (np.int32, "or"),
        (np.bool_, "and"),
        (np.bool_, "or"),
        (np.complex64, "sum"),
        (np.float32, "prod"),
    ],
)
def test_every_element_type_and_reduction(dtype: Any, kind: str) -> None:
    run(pairs(kind, 24, 100), dtype, kind)


@pytest.mark.sweep
@pytest.mark.parametrize(
    ("kind", "end"), [("sum", "prod"), ("sum", "max"), ("max", "sum"), ("min", "max")]
)
def test_parts_of_one_reduction_become_parts_of_another(kind: str, end: str) -> None:
    """What is combined by one reduction has none of the other's identities among it."""
    chosen = random.Random(end)
    befores = [layout for layout in layouts(kind) if layout.partial]
    afters = [layout for layout in layouts(end) if layout.partial]
    moves = [(chosen.choice(befores), chosen.choice(afters)) for _ in range(40)]
    run([pair for pair in moves if _are_apart(*pair)], np.float32, kind, end)


def _are_apart(before: Layout, after: Layout) -> bool:
    """Whether no axis is partial on both sides."""
    names = [{axis.name for axis, _ in layout.partial} for layout in (before, after)]
    return not names[0] & names[1]


def test_a_chain_of_layouts_and_the_same_chain_optimised() -> None:
    """Reduced, gathered, sliced and back, several times over: rewriting changes no element."""
    words = ("{}", '{"x"}', '{"y"}', '{"x", "y"}')
    complete = [
        layout
        for first, second in itertools.product(words, words)
        for layout in layouts("sum")
        if layout.asm() == f"#dtensor.layout<@mesh, [{first}, {second}]>"
    ]
    parts = [layout for layout in layouts("sum") if layout.partial]
    chosen = random.Random(5)
    chains = [[chosen.choice(parts), *chosen.choices(complete, k=3)] for _ in range(12)]
    chains += [[chosen.choice(parts), *[layout] * 3] for layout in complete]
    wholes = [whole_array(np.float32, "sum", i) for i in range(len(chains))]
    inputs = [give(w, chain[0], "sum") for w, chain in zip(wholes, chains, strict=True)]
    types = [tensor_type(chain[0].local_shape(SHAPE), "float32") for chain in chains]

    def body(ctx: ExpansionContext, values: list[ir.Value[Any]]) -> list[ir.Value[Any]]:
        results = []
        for value, chain in zip(values, chains, strict=True):
            whole = Layout.replicated(MESH, 2)
            for before, after in pairwise(chain):
                value = apply_steps(value, plan(before, whole, SHAPE, 4), ctx)
                value = apply_steps(value, plan(whole, after, SHAPE, 4), ctx)
            results.append(value)
        return results

    plain = local_module(MESH, types, body)
    optimised = local_module(MESH, types, body, [OptimizeCollectivesPass()])
    assert 4 * collectives_in(optimised) < 3 * collectives_in(plain)
    outs = [(chain[-1].local_shape(SHAPE), "float32") for chain in chains]
    for text in (plain, optimised):
        results = run_text(MESH, text, inputs, outs)
        for whole, chain, got in zip(wholes, chains, results, strict=True):
            check(whole, chain[-1], "sum", got)


def collectives_in(text: str) -> int:
    names = ("all_gather", "all_reduce", "reduce_scatter", "all_to_all", "collective_permute")
    return sum(text.count(f"stablehlo.{name}") for name in names)


def test_the_plain_route_that_a_search_too_long_falls_back_to(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(search, "MAX_LAYOUTS", 0)
    search._plan.cache_clear()
    try:
        run(pairs("sum", 24, 9), np.float32, "sum")
    finally:
        search._plan.cache_clear()
