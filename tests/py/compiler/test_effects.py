"""Calls of Python from a program: how often each is made, in which order, and what it answers."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.experimental import checkify, io_callback
from jax.sharding import AxisType
from jax.sharding import PartitionSpec as P

import dtensor
from tests.py.line.layouts import all_layouts

MESH = dtensor.create_mesh([("x", 2), ("y", 4)])
DEVICES = jax.make_mesh((2, 4), ("x", "y"), axis_types=(AxisType.Auto,) * 2)
A = np.arange(128, dtype=np.float32).reshape(8, 16)
ROWS = dtensor.Layout(["x", "y"], MESH)


class Log:
    """What Python functions were called with: a name and the first element."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, float]] = []

    def note(self, name: str) -> Callable[[Any], Any]:
        """A function that notes its call, late if the number is even, and returns its argument."""

        def call(value: Any) -> Any:
            number = float(np.asarray(value).ravel()[0])
            time.sleep(0.0 if number % 2 else 0.002)
            self.calls.append((name, number))
            return value

        return call


@pytest.fixture(name="log")
def _log() -> Log:
    return Log()


def like(value: Any) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(value.shape, value.dtype)


def mapped(fn: Any, *axes: str) -> Any:
    """A shard_map over axes, rows split over x."""
    return jax.shard_map(
        fn,
        mesh=DEVICES,
        in_specs=P("x"),
        out_specs=P("x"),
        axis_names=set(axes),
        check_vma=False,
    )


# Outside of shard_map.


def test_debug_callbacks_in_a_loop_are_made_once_for_each_turn(log: Log) -> None:
    def fn(a: Any) -> Any:
        def step(k: Any, a: Any) -> Any:
            jax.debug.callback(log.note("turn"), k)
            return jnp.sin(a)

        return lax.fori_loop(0, 9, step, a)

    dtensor.jit(fn, in_layouts=(ROWS,))(A).block_until_ready()
    assert sorted(log.calls) == [("turn", float(k)) for k in range(9)]


def test_io_callbacks_are_made_once_and_answer_all_devices(log: Log) -> None:
    """Each call gives another value: all devices must have got the same one."""
    count = iter(range(100))

    def fn(a: Any) -> Any:
        given = io_callback(lambda: np.float32(next(count)), jax.ShapeDtypeStruct((), np.float32))
        return a * 2 + given + io_callback(log.note("whole"), like(a), a)

    for n, layout in enumerate(all_layouts(A.shape)[::4]):
        got = dtensor.jit(fn, in_layouts=(layout,))(A)
        np.testing.assert_array_equal(got.to_jax(), A * 3 + n)
        assert log.calls == [("whole", 0.0)] * (n + 1)


@pytest.mark.parametrize(
    "dtype", ["bool", "int4", "int8", "uint32", "bfloat16", "float16", "float8_e4m3fn", "complex64"]
)
def test_answers_arrive_to_the_bit(dtype: str) -> None:
    values = np.array([0.0, -0.0, 1, 2, -3, 5, 6, 7]) * (1 if dtype != "uint32" else 1e6)
    answer = np.abs(values).astype(dtype) if dtype == "uint32" else values.astype(jnp.dtype(dtype))

    def fn(a: Any) -> Any:
        return io_callback(lambda _: answer, jax.ShapeDtypeStruct((8,), answer.dtype), a)

    got = dtensor.jit(fn, in_layouts=(dtensor.Layout(["y"], MESH),))(np.zeros(8, np.float32))
    assert np.asarray(got.to_jax()).tobytes() == answer.tobytes()


def test_ordered_calls_keep_their_order_in_loops_and_branches(log: Log) -> None:
    def fn(a: Any) -> Any:
        def step(k: Any, total: Any) -> Any:
            def even(k: Any) -> Any:
                return io_callback(log.note("even"), like(k), k, ordered=True)

            jax.debug.callback(log.note("debug"), k, ordered=True)
            return total + lax.cond(k % 2 == 0, even, lambda k: -k, k)

        first = io_callback(log.note("first"), like(a), a, ordered=True)
        return first + lax.fori_loop(0, 5, step, jnp.int32(0)).astype(a.dtype)

    want = A + (0 - 1 + 2 - 3 + 4)
    for layout in all_layouts(A.shape)[::5]:
        log.calls.clear()
        np.testing.assert_array_equal(dtensor.jit(fn, in_layouts=(layout,))(A).to_jax(), want)
        io = [call for call in log.calls if call[0] != "debug"]
        assert io == [("first", 0.0), ("even", 0.0), ("even", 2.0), ("even", 4.0)]
        debug = [call for call in log.calls if call[0] == "debug"]
        assert debug == [("debug", float(k)) for k in range(5)]


def test_python_may_end_a_loop_over_what_is_split(log: Log) -> None:
    def more(total: Any) -> Any:
        log.note("turn")(total)
        return np.bool_(len(log.calls) % 4 != 0)

    def fn(a: Any) -> Any:
        flag = jax.ShapeDtypeStruct((), bool)
        return lax.while_loop(
            lambda a: io_callback(more, flag, a.sum(), ordered=True),
            lambda a: jnp.tanh(a @ a.T @ a),
            a,
        )

    values = A / 1000
    got = dtensor.jit(fn, in_layouts=(ROWS,))(values)
    assert len(log.calls) == 4
    np.testing.assert_allclose(got.to_jax(), jax.jit(fn)(values), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("gives", [True, False], ids=["with results", "without results"])
def test_ordered_calls_are_made_when_the_program_returns(log: Log, gives: bool) -> None:
    def fn(a: Any) -> Any:
        total = a.sum()
        io_callback(log.note("run"), like(total), total, ordered=True)
        return total if gives else None

    run = dtensor.jit(fn, mesh=MESH)
    for k in range(6):
        run(dtensor.copy_to_mesh(np.full((8,), k / 8, np.float32), dtensor.Layout(["y"], MESH)))
        assert log.calls == [("run", float(n)) for n in range(k + 1)]


# Inside.


@pytest.mark.parametrize("ordered", [False, True])
def test_inside_shard_map_each_shard_calls(log: Log, ordered: bool) -> None:
    def body(s: Any) -> Any:
        if not ordered:
            jax.debug.callback(log.note("debug"), s)
        return s + io_callback(log.note("io"), like(s), s, ordered=ordered)

    fn = mapped(body, "x", "y")
    got = dtensor.jit(lambda a: fn(a) * 2, in_layouts=(ROWS,))(A)
    np.testing.assert_array_equal(got.to_jax(), A * 4)
    shards = [("io", 0.0)] * 4 + [("io", 64.0)] * 4
    debug = [] if ordered else [("debug", 0.0)] * 4 + [("debug", 64.0)] * 4
    assert sorted(log.calls) == debug + shards


def test_a_shard_map_of_nothing_but_a_call(log: Log) -> None:
    def fn(a: Any) -> Any:
        def body(s: Any) -> tuple[()]:
            jax.debug.callback(log.note("debug"), s[0, 0] * 0 + lax.axis_index("x"))
            return ()

        for axes in ({"x"}, {"x", "y"}):
            jax.shard_map(
                body, mesh=DEVICES, in_specs=P("x"), out_specs=(), axis_names=axes, check_vma=False
            )(a)
        return jnp.sin(a)

    dtensor.jit(fn, in_layouts=(ROWS,))(A).block_until_ready()
    assert sorted(log.calls) == [("debug", 0.0)] * 5 + [("debug", 1.0)] * 5


def test_where_axes_are_left_free_each_manual_shard_calls_once(log: Log) -> None:
    def body(s: Any) -> Any:
        jax.debug.callback(log.note("debug"), s)
        return jnp.tanh(s)

    got = dtensor.jit(mapped(body, "x"), in_layouts=(ROWS,))(A)
    np.testing.assert_allclose(got.to_jax(), np.tanh(A), rtol=1e-6)
    assert sorted(log.calls) == [("debug", 0.0), ("debug", 64.0)]


def test_answers_where_axes_are_left_free_need_a_region_over_them(log: Log) -> None:
    def call(s: Any) -> Any:
        return io_callback(log.note("io"), like(s), s)

    def nested(s: Any) -> Any:
        inner: Any = jax.shard_map(
            call, in_specs=P(None, "y"), out_specs=P(None, "y"), axis_names={"y"}, check_vma=False
        )
        return inner(s * 2)

    with pytest.raises(
        dtensor.CompileError,
        match=r"test_effects.py:\d+: io_callback in a shard_map that leaves y to the compiler",
    ):
        dtensor.jit(mapped(call, "x"), in_layouts=(ROWS,))(A)
    np.testing.assert_array_equal(
        dtensor.jit(mapped(nested, "x"), in_layouts=(ROWS,))(A).to_jax(), A * 2
    )
    assert len(log.calls) == 8


def test_an_ordered_debug_callback_beside_shard_map_is_an_error(log: Log) -> None:
    def fn(a: Any) -> Any:
        jax.debug.callback(log.note("debug"), a, ordered=True)
        return mapped(jnp.sin, "x", "y")(a)

    with pytest.raises(
        dtensor.CompileError, match=r"test_effects.py:\d+: jax.debug with ordered=True"
    ):
        dtensor.jit(fn, in_layouts=(ROWS,))(A)


# Checks that become values.


@pytest.mark.parametrize("is_inside", [False, True], ids=["outside", "in shard_map"])
def test_checkify_says_what_jax_says(is_inside: bool) -> None:
    def body(s: Any) -> Any:
        checkify.check(jnp.all(s > 0), "the least is {least}", least=s.min())
        return jnp.log(s)

    checked = checkify.checkify(mapped(body, "x", "y") if is_inside else body)
    run = dtensor.jit(checked, in_layouts=(ROWS,), returns="jax")
    for values in (A + 1, A - 5):
        want, _ = jax.jit(checked)(values)
        error, logarithms = run(values)
        assert error.get() == want.get()
        np.testing.assert_allclose(logarithms[4:], np.log(values[4:]), rtol=1e-6)


@pytest.mark.parametrize(
    ("fn", "errors"),
    [
        (lambda a, i: jnp.log(a - i), checkify.float_checks),
        (lambda a, i: a[i], checkify.index_checks),
        (lambda a, i: a // (i - 9), checkify.div_checks),
    ],
    ids=["nan", "index", "division"],
)
def test_automatic_checks(fn: Any, errors: Any) -> None:
    checked = checkify.checkify(fn, errors=errors)
    want, _ = jax.jit(checked)(A, 9)
    error, _ = dtensor.jit(checked, in_layouts=(ROWS, None), returns="jax")(A, 9)
    assert want.get() is not None
    assert error.get() == want.get()


def test_checkify_around_a_compiled_function_checks_what_is_in_it() -> None:
    def body(s: Any) -> Any:
        checkify.check(jnp.all(s > 0), "the least is {least}", least=s.min())
        return jnp.log(s)

    run = dtensor.jit(body, in_layouts=(ROWS,))
    for values in (A + 1, A - 5):
        want, _ = checkify.checkify(body)(jnp.asarray(values))
        error, logarithms = checkify.checkify(run)(values)
        assert error.get() == want.get()
        np.testing.assert_allclose(logarithms[4:], np.log(values[4:]), rtol=1e-6)


def test_automatic_checks_around_a_compiled_function_that_ran_before() -> None:
    run = dtensor.jit(lambda a: jnp.log(a), in_layouts=(ROWS,), returns="jax")
    run(A - 5)
    error, _ = checkify.checkify(run, errors=checkify.float_checks)(A - 5)
    assert "nan generated by primitive: log" in str(error.get())


@pytest.mark.parametrize("dims", [["x", None], [None, ("x", "y")], [None, None]])
def test_checkify_around_a_compiled_function_checks_what_dtensors_hold(dims: Any) -> None:
    def body(s: Any) -> Any:
        checkify.check(jnp.all(s > 0), "the least is {least}", least=s.min())
        return jnp.log(s)

    layout = dtensor.Layout(dims, MESH)
    run = dtensor.jit(body)
    seen = dtensor.jit(jnp.log, out_layouts=layout)
    for values in (A[:, :7] + 1, A[:, :7] - 5):  # 7 columns, which no axis divides
        x = dtensor.copy_to_mesh(values, layout)
        want, _ = checkify.checkify(body)(jnp.asarray(values))
        error, logarithms = checkify.checkify(run)(x)
        assert error.get() == want.get()
        np.testing.assert_allclose(logarithms[4:], np.log(values[4:]), rtol=1e-6)
        first, second = seen(x), seen(x)  # known by now, and run as a program outside
        assert isinstance(first, dtensor.DTensor)
        assert isinstance(second, dtensor.DTensor)
        error, _ = checkify.checkify(seen, errors=checkify.float_checks)(x)
        assert (error.get() is not None) == bool((values < 0).any())


def test_a_check_without_checkify_is_refused() -> None:
    def body(s: Any) -> Any:
        checkify.check(jnp.all(s > 0), "not positive")
        return s

    with pytest.raises(
        dtensor.CompileError,
        match=r"test_effects\.py:\d+: checkify\.check has nobody to tell; write dtensor\.jit",
    ):
        dtensor.jit(body, in_layouts=(ROWS,))(A)
