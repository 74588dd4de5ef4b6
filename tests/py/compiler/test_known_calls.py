"""Calls like those before, which are found again without asking each argument."""

import gc
import sys
from collections.abc import Callable
from contextlib import nullcontext
from types import FrameType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

from dtensor import DTensor, Layout, budget, copy_to_mesh, create_mesh, is_dtensor, jit
from dtensor.compiler import program
from dtensor.compiler.eager.calls import call
from dtensor.runtime.placement import jax_mesh

MESH = create_mesh([("x", 2), ("y", 3)])
ROWS, COLUMNS = Layout(["x", None], MESH), Layout([None, "y"], MESH)
VALUES = np.arange(24, dtype=np.float32).reshape(4, 6)


def array(layout: Layout = ROWS, factor: int = 1) -> DTensor:
    return copy_to_mesh(VALUES * factor, layout)


def values(x: DTensor) -> np.ndarray[Any, Any]:
    return np.asarray(x.to_jax())


def python_calls(call: Callable[[], Any]) -> int:
    """How many functions written in Python a call enters."""
    entered = []

    def note(frame: FrameType, event: str, arg: Any) -> None:
        if event == "call":
            entered.append(frame.f_code.co_qualname)

    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
    return len(entered)


@pytest.mark.parametrize("stage", ["jit", "compiled"])
def test_no_python_is_called_for_each_array(stage: str) -> None:
    def step(xs: list[jax.Array]) -> list[jax.Array]:
        return [x + 1 for x in xs]

    calls = []
    for count in (1, 16):
        xs = [array() for _ in range(count)]
        run: Any = jit(step)
        if stage == "compiled":
            run = run.lower(xs).compile()
        run(xs)
        calls.append(python_calls(lambda run=run, xs=xs: run(xs)))  # type: ignore[misc]
    assert calls[0] == calls[1] < 16


def test_arguments_by_position_are_not_taken_for_those_by_keyword() -> None:
    @jit
    def step(*xs: Any, **named: Any) -> Any:
        if named:
            return xs[0] - named["k"]
        return xs[0][0] * xs[1]["k"]

    a, b = array(), array(factor=3)
    for _ in range(2):
        np.testing.assert_array_equal(values(step(a, k=b)), VALUES - VALUES * 3)
        np.testing.assert_array_equal(values(step((a,), {"k": b})), VALUES * VALUES * 3)


def test_layouts_types_and_structures_alternate() -> None:
    @jit
    def step(tree: Any) -> Any:
        return jax.tree.map(lambda x: x * 2, tree)

    trees: list[Any] = [
        [array(ROWS), array(COLUMNS)],
        [array(COLUMNS), array(ROWS)],
        (array(ROWS), array(COLUMNS)),
        {"a": array(ROWS), "b": None},
        {"a": array(ROWS), "c": None},
        [copy_to_mesh(VALUES.astype(np.int32), ROWS)],
    ]
    for _ in range(3):
        for tree in trees:
            result = step(tree)
            assert str(jax.tree.structure(result)) == str(jax.tree.structure(tree))
            for given, made in zip(jax.tree.leaves(tree), jax.tree.leaves(result), strict=True):
                np.testing.assert_array_equal(np.asarray(made), np.asarray(given) * 2)
    assert len(step._programs) == len(trees)


class Pair:
    """A node of jax's trees that looks like a DTensor to whoever asks for its type only."""

    def __init__(self, first: Any, second: Any) -> None:
        self.first, self.second = first, second
        self._type = getattr(first, "_type", None)


jax.tree_util.register_pytree_node(
    Pair, lambda pair: ((pair.first, pair.second), None), lambda _, children: Pair(*children)
)


@pytest.mark.parametrize("stage", ["jit", "compiled"])
def test_a_node_of_a_registered_class_is_opened_each_time(stage: str) -> None:
    def step(x: Any) -> Any:
        return x.first - x.second if isinstance(x, Pair) else x * 5

    run: Any = jit(step)
    a, b = array(), array(factor=4)
    pairs = run.lower(Pair(a, b)).compile() if stage == "compiled" else run
    for _ in range(3):
        np.testing.assert_array_equal(values(run(a)), VALUES * 5)
        np.testing.assert_array_equal(values(pairs(Pair(a, b))), VALUES - VALUES * 4)
        np.testing.assert_array_equal(values(pairs(Pair(b, a))), VALUES * 4 - VALUES)


def test_a_setting_of_jax_that_changes_is_seen() -> None:
    step = jit(lambda x: x + np.float64(1) / 3)
    x = copy_to_mesh(np.arange(4, dtype=np.int32), Layout(["x"], MESH))
    for _ in range(2):
        assert step(x).dtype == np.float32
        with jax.enable_x64(True):
            assert step(x).dtype == np.float64


def test_random_numbers_are_those_of_the_setting_around_the_call() -> None:
    def step(x: Any) -> Any:
        return x * jax.random.uniform(jax.random.key(1), x.shape)

    ours, eager = jit(step), copy_to_mesh(np.ones(4, np.float32), Layout(["x"], MESH))
    for _ in range(2):
        for is_partitionable in (True, False):
            with jax.threefry_partitionable(is_partitionable):
                expected = jax.jit(step)(np.ones(4, np.float32))
                np.testing.assert_array_equal(values(ours(eager)), expected)
                np.testing.assert_array_equal(values(call(step, (eager,), {}, "step")), expected)


def test_a_deleted_array_of_a_known_call_is_named() -> None:
    step = jit(lambda tree: tree["a"] + tree["b"])
    a, b = array(), array(factor=2)
    step({"a": a, "b": b})
    b.to_jax().delete()
    with pytest.raises(RuntimeError, match=r"argument tree\['b'\] is deleted"):
        step({"a": a, "b": b})


def test_arrays_and_numbers_of_all_kinds_alternate() -> None:
    mesh = jax_mesh(MESH)
    small = jnp.asarray(VALUES)
    kinds: list[Any] = [
        array(),
        array(COLUMNS),
        VALUES,
        VALUES.astype(np.int32),
        VALUES[:2],
        small[:2],
        VALUES.astype(np.int64),
        small,
        small.astype(jnp.bfloat16),
        jax.device_put(VALUES, NamedSharding(mesh, P("x"))),
        jax.device_put(VALUES, NamedSharding(mesh, P(None, "y"))),
        jax.device_put(VALUES, jax.devices()[1]),
        jnp.full((4, 6), 2),
        *(3, 3.0, True, 3j, np.float32(3), jnp.float32(3)),
    ]
    step = jit(lambda a, k: (a * k, k + 1), mesh=MESH)
    plain = jax.jit(lambda a, k: (a * k, k + 1))
    compiled = [step.lower(x, k).compile() for x, k in zip(kinds, reversed(kinds), strict=True)]
    for _ in range(3):
        for x, k, again in zip(kinds, reversed(kinds), compiled, strict=True):
            expected = plain(
                *[np.asarray(v.to_jax()) if is_dtensor(v) else on_host(v) for v in (x, k)]
            )
            for run in (step, again):
                for made, wanted in zip(run(x, k), expected, strict=True):
                    assert (made.dtype, made.shape) == (wanted.dtype, wanted.shape)
                    np.testing.assert_array_equal(np.asarray(made.to_jax()), np.asarray(wanted))


@pytest.mark.sweep
@pytest.mark.parametrize("dtype", ["int4", "uint4", "int2"])
@pytest.mark.parametrize("mesh_is_set", [False, True])
def test_elements_of_less_than_a_byte_lie_where_the_program_takes_them(
    dtype: str, mesh_is_set: bool
) -> None:
    x = VALUES.astype(np.int8) % 2
    small = jnp.asarray(x, dtype)
    mesh = jax_mesh(MESH)
    for spec in (P("x"), P("x", None), P(None, "y"), P()):
        sharding = NamedSharding(mesh, spec)
        step = jit(lambda a: a.astype(jnp.int32).sum(0), in_layouts=sharding, returns="jax")
        with jax.set_mesh(mesh) if mesh_is_set else nullcontext():
            for given in (jax.device_put(small, sharding), small, copy_to_mesh(small, COLUMNS)):
                np.testing.assert_array_equal(step(given), x.sum(0))


def on_host(value: Any) -> Any:
    """The value where no device holds it; a number stays one."""
    return np.asarray(value) if isinstance(value, jax.Array | np.ndarray) else value


@pytest.mark.parametrize("kind", ["NumPy", "jax", "number"])
def test_what_lies_nowhere_compiles_no_other_program(kind: str) -> None:
    compiled: list[str] = []

    def listen(event: str, duration_secs: float, **rest: str | int) -> None:
        if event.endswith("backend_compile_duration"):
            compiled.append(event)

    value: Any = {"NumPy": VALUES, "jax": jnp.asarray(VALUES), "number": 2.0}[kind]
    uneven: Any = value if kind == "number" else value[:3]
    step = jit(lambda a, k: a * k, in_layouts=ROWS if kind != "number" else None, mesh=MESH)
    for x, k in ((array(), value), (copy_to_mesh(VALUES[:3], ROWS), uneven)):
        step.lower(x, k).compile()  # what jax itself needs, to cut and to pad
        values(step(x, k))
        step.clear_cache()
        jax.monitoring.register_event_duration_secs_listener(listen)
        try:
            for _ in range(2):
                expected = np.asarray(x.to_jax()) * np.asarray(k)
                np.testing.assert_array_equal(values(step(x, k)), expected)
        finally:
            jax.monitoring.unregister_event_duration_listener(listen)
        assert len(compiled) == 1
        compiled.clear()


def test_a_number_that_the_element_type_lacks_is_refused_in_known_calls_too() -> None:
    step = jit(lambda a, n: a * n)
    x = array()
    np.testing.assert_array_equal(values(step(x, 2)), VALUES * 2)
    with pytest.raises(OverflowError, match=r"argument n is 1099511627776, .* int32"):
        step(x, 2**40)


def test_a_caller_may_write_to_an_array_behind_a_known_call() -> None:
    step = jit(lambda a: a @ a @ a, in_layouts=Layout([None, None], create_mesh([("x", 1)])))
    size = 300
    for _ in range(20):
        memory = np.ones(size * size + 16, np.float32)
        start = -memory.ctypes.data // 4 % 16  # where jax would take the memory itself for a buffer
        given = memory[start : start + size * size].reshape(size, size)
        result = step(given)
        given[:] = 0
        assert (values(result) == size * size).all()


def test_programs_that_were_not_used_for_longest_leave(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program, "MOST_PROGRAMS", 3)
    step, compiled = jit(lambda x: x + 1), list[int]()
    compile = step._caller

    def noted(types: Any, *rest: Any) -> Any:
        compiled.append(types[0].shape[0])
        return compile(types, *rest)

    monkeypatch.setattr(step, "_caller", noted)
    arrays = {n: copy_to_mesh(np.ones(n, np.float32), Layout(["x"], MESH)) for n in range(2, 8)}
    for n in (2, 3, 4, 2, 5, 2, 6, 2, 7, 2, 3, 3):  # 2 stays, since it is used again and again
        with budget(max_bytes=0):
            np.testing.assert_array_equal(step(arrays[n]).to_jax(), 2.0)
    assert compiled == [2, 3, 4, 5, 6, 7, 3]
    assert len(step._programs) == len(step._known) == 3
    gc.collect()
    assert len(step._sent) == 4  # 2 is known, and no longer looked for
