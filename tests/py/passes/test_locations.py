"""Locations: the ids they carry, and the user's line through what JAX makes of a program."""

import inspect
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from dtensor.compiler.api import jit
from dtensor.dialect.context import make_context, parse_module
from dtensor.dialect.diagnostics import Place, place_of
from dtensor.dialect.layout import UNSHARDED, Layout
from dtensor.dialect.mlir import ir, ops_of
from dtensor.passes.locations import (
    all_ids,
    forget_ids,
    location_text,
    operation_name,
    short_path,
    tag,
    tagged_id,
)
from dtensor.runtime.client import create_mesh

MESH = create_mesh([("x", 2), ("y", 4)])
ROWS = Layout(["x", UNSHARDED], MESH)
COLUMNS = Layout([UNSHARDED, "x"], MESH)
X = np.ones((8, 16), np.float32)
W = np.ones((16, 4), np.float32)
STDLIB = inspect.__file__
LIBRARY = jax.__file__


@pytest.fixture(autouse=True)
def _context() -> Any:
    with make_context():
        yield


def file(name: str, line: int, column: int = 1) -> ir.Location:
    return ir.Location.file(name, line, column)


# Ids.


def test_the_outermost_id_counts_and_all_are_kept() -> None:
    inner = tag(file("a.py", 1), 7)
    outer = tag(inner, 8)
    assert tagged_id(outer) == 8
    assert all_ids(outer) == [8, 7]
    assert tagged_id(file("a.py", 1)) is None
    assert all_ids(file("a.py", 1)) == []


def test_ids_are_found_inside_names_calls_and_fusions() -> None:
    op = tag(file("a.py", 1), 7)
    name = ir.Location.name("dot", op)
    call = ir.Location.callsite(name, [file("b.py", 2)])
    fused = ir.Location.fused([file("c.py", 3), call])
    for location in (name, call, fused):
        assert tagged_id(location) == 7
        assert all_ids(location) == [7]
    both = ir.Location.fused([tag(file("a.py", 1), 7), tag(file("b.py", 2), 9)])
    assert all_ids(both) == [7, 9]


def test_other_metadata_is_no_id() -> None:
    location = ir.Location.fused([file("a.py", 1)], ir.StringAttr.get("note"))
    assert tagged_id(location) is None


# The line.


def test_the_line_is_the_first_that_is_not_of_a_library() -> None:
    stack = [file(LIBRARY, 10), file("/home/me/net.py", 20, 3), file("/home/me/go.py", 30)]
    location = ir.Location.callsite(stack[0], stack[1:])
    assert location_text(location) == f"net.py:20:3 (via {short_path(LIBRARY)}:10)"
    assert location_text(tag(location, 5)) == location_text(location)


def test_where_all_is_library_the_outermost_is_named() -> None:
    location = ir.Location.callsite(file(LIBRARY, 10), [file(STDLIB, 20, 3)])
    assert location_text(location).startswith("inspect.py:20:3 (via ")


def test_what_has_no_line_has_no_text() -> None:
    assert location_text(ir.Location.unknown()) == ""
    assert operation_name(file("a.py", 1)) == ""


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/home/me/net.py", "net.py"),
        ("/home/me/gpt/train.py", "gpt/train.py"),
        ("/home/me/gpt/__init__.py", "gpt/__init__.py"),
        ("/v/lib/site-packages/flax/linear.py", "flax/linear.py"),
        ("/v/lib/dist-packages/flax/linear.py", "flax/linear.py"),
    ],
)
def test_paths_are_short(path: str, expected: str) -> None:
    assert short_path(path) == expected


def test_the_path_of_transformations() -> None:
    inner = ir.Location.name("jit(step)/transpose(jvp())/dot_general", file("a.py", 1))
    location = tag(ir.Location.callsite(ir.Location.name("f", inner), [file("b.py", 2)]), 3)
    assert operation_name(location) == "jit(step)/transpose(jvp())/dot_general"


# Locations of many parts: MLIR keeps one of each, however often it is named, and however deep.


def shared(frame: ir.Location) -> ir.Location:
    """A location with 2 ** 60 ways to `frame`."""
    location = tag(frame, 7)
    for _ in range(60):
        location = ir.Location.callsite(location, [location])
    return location


def deep(frame: ir.Location) -> ir.Location:
    """A location with `frame` behind 3,000 others."""
    location = tag(frame, 7)
    for line in range(3000):
        location = ir.Location.name("f", ir.Location.callsite(location, [file("b.py", line + 1)]))
    return location


@pytest.mark.parametrize("make", [shared, deep])
def test_each_part_is_looked_at_once(make: Callable[[ir.Location], ir.Location]) -> None:
    location = make(ir.Location.name("jit(f)/dot", file("/home/me/net.py", 20, 3)))
    assert all_ids(location) == [7]
    assert tagged_id(location) == 7
    assert operation_name(location) == "jit(f)/dot"
    assert location_text(location) == "net.py:20:3"
    assert operation_name(make(file("a.py", 1))) == ""
    assert location_text(make(ir.Location.unknown())) == ("b.py:1:1" if make is deep else "")
    assert location_text(make(file(STDLIB, 1)))  # the user's line is looked for in vain


@pytest.mark.parametrize("make", [shared, deep])
def test_ids_are_taken_out_of_parts(make: Callable[[ir.Location], ir.Location]) -> None:
    module = parse_module("func.func @f() { return }")
    function = ops_of(module.body)[0]
    function.location = make(file("a.py", 1))
    forget_ids(module)
    assert tagged_id(function.location) is None
    assert place_of(function) == Place("a.py", 1, 1)


# Through JAX: each function's line with the matmul that makes the sum is found again.


def lines_of(function: Any, *args: Any, in_layouts: Any) -> list[str]:
    """Where the collectives of the compiled function stand: file and line."""
    lowered = jit(function, in_layouts=in_layouts, out_layouts=None).lower(*args)
    found = [c.location for c in lowered.compile().collectives]
    assert found
    return [location.split(" ")[0].rsplit(":", 1)[0] for location in found]


def line(function: Any, text: str) -> str:
    source, first = inspect.getsourcelines(function)
    (offset,) = [i for i, s in enumerate(source) if text in s]
    return f"test_locations.py:{first + offset}"


def loss(w: Any, x: Any) -> Any:
    return jnp.tanh(x @ w).sum()  # the sum


def test_a_plain_function() -> None:
    def f(x: Any, w: Any) -> Any:
        y = x + 1
        return jnp.tanh(y @ w)  # here

    found = lines_of(f, X, W, in_layouts=(COLUMNS, Layout(["x", UNSHARDED], MESH)))
    assert found == [line(f, "# here")]


def test_the_gradient_of_a_line_is_on_that_line() -> None:
    def f(w: Any, x: Any) -> Any:
        return jax.grad(loss)(w, x)

    found = lines_of(f, W, X, in_layouts=(Layout.replicated(MESH, 2), ROWS))
    assert set(found) == {line(loss, "# the sum")}


def test_lines_inside_scan() -> None:
    def f(x: Any, w: Any) -> Any:
        def body(carry: Any, _: Any) -> Any:
            h = jnp.tanh(carry @ w)  # inside
            return carry + h @ w.T, None

        return jax.lax.scan(body, x, None, length=3)[0]

    tall = np.ones((512, 16), np.float32)
    found = lines_of(f, tall, W[:, :2], in_layouts=(COLUMNS, Layout(["x", UNSHARDED], MESH)))
    assert line(f, "# inside") in found


def test_lines_inside_vmap() -> None:
    def f(x: Any, w: Any) -> Any:
        return jax.vmap(lambda row: jnp.tanh(row @ w))(x)  # mapped

    found = lines_of(f, X, W, in_layouts=(COLUMNS, Layout(["x", UNSHARDED], MESH)))
    assert found == [line(f, "# mapped")]


def test_lines_inside_nested_jit() -> None:
    def inner(x: Any, w: Any) -> Any:
        return jnp.tanh(x @ w)  # nested

    def f(x: Any, w: Any) -> Any:
        return jax.jit(inner)(x, w) + 1

    found = lines_of(f, X, W, in_layouts=(COLUMNS, Layout(["x", UNSHARDED], MESH)))
    assert found == [line(inner, "# nested")]


def test_what_a_library_does_is_on_the_line_that_calls_it() -> None:
    def f(x: Any) -> Any:
        return jax.nn.logsumexp(x, axis=1)  # library

    layout = Layout([UNSHARDED, "x"], MESH)
    compiled = jit(f, in_layouts=(layout,)).lower(X).compile()
    texts = [c.location for c in compiled.collectives]
    assert texts
    assert all(text.startswith(line(f, "# library")) for text in texts)


def test_what_an_optimiser_does_is_on_the_line_of_its_update() -> None:
    optimiser = optax.clip_by_global_norm(1.0)

    def f(g: Any) -> Any:
        updates, _ = optimiser.update({"w": g}, optimiser.init({"w": g}))  # update
        return updates

    compiled = jit(f, in_layouts=(ROWS,)).lower(X).compile()
    texts = [c.location for c in compiled.collectives]
    assert texts
    assert all(t.startswith(line(f, "# update")) and "(via optax/" in t for t in texts)
