"""Python's operators on DTensors, against NumPy."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dtensor
from dtensor import UNSHARDED, DTensor
from dtensor.compiler.eager.calls import programs
from dtensor.runtime.clients.coordination import resets
from dtensor.runtime.eager import Engine, Slot
from tests.py.eager.support import MESH_2X4, MESH_3X2, assert_same, layout, message, placed, whole

FLOATS = np.linspace(0.5, 7.5, 24, dtype=np.float32).reshape(6, 4)
OTHERS = np.linspace(3.0, 1.0, 24, dtype=np.float32).reshape(6, 4)
INTS = np.arange(24, dtype=np.int32).reshape(6, 4)
COUNTS = INTS % 5 + 1
BOOLS = INTS % 3 == 0

ARITHMETIC = [
    operator.add,
    operator.sub,
    operator.mul,
    operator.truediv,
    operator.floordiv,
    operator.mod,
    operator.pow,
    divmod,
]
COMPARISONS = [operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne]
BITS = [operator.and_, operator.or_, operator.xor, operator.lshift, operator.rshift]


@pytest.mark.sweep
@pytest.mark.parametrize("op", [*ARITHMETIC, *COMPARISONS], ids=lambda op: op.__name__)
def test_two_arrays_of_different_layouts(op: Callable[..., Any]) -> None:
    x = placed(FLOATS, MESH_2X4, "x", UNSHARDED)
    y = placed(OTHERS, MESH_2X4, UNSHARDED, "y")
    assert_same(op(x, y), op(FLOATS, OTHERS), 1e-5)


@pytest.mark.parametrize("op", BITS, ids=lambda op: op.__name__)
def test_bits(op: Callable[..., Any]) -> None:
    x, y = placed(INTS, MESH_3X2, "x", "y"), placed(COUNTS, MESH_3X2, "x", "y")
    assert_same(op(x, y), op(INTS, COUNTS))
    assert op(x, y).dtype == np.int32
    assert_same(op(100, x), op(100, INTS))


@pytest.mark.sweep
@pytest.mark.parametrize("op", [*ARITHMETIC, *COMPARISONS], ids=lambda op: op.__name__)
def test_numbers_on_both_sides(op: Callable[..., Any]) -> None:
    x = placed(FLOATS, MESH_3X2, "x", "y")
    for result in (op(x, 2.0), *([] if op is divmod else [op(x, 2)])):
        assert_same(result, op(FLOATS, np.float32(2)), 1e-5)
    assert_same(op(2.0, x), op(np.float32(2), FLOATS), 1e-5)


@pytest.mark.parametrize("specs", [("x", "y"), (UNSHARDED, UNSHARDED), ("y", UNSHARDED)])
def test_elementwise_results_keep_the_layout(specs: tuple[Any, ...]) -> None:
    x = placed(FLOATS, MESH_3X2, *specs)
    for result in (x + x, x * 2.0, 1 - x, x < 3, -x, abs(x)):
        assert result.layout == layout(MESH_3X2, *specs)


def test_unary_operators() -> None:
    x = placed(-FLOATS, MESH_3X2, "x", UNSHARDED)
    assert_same(-x, FLOATS)
    assert_same(+x, -FLOATS)
    assert_same(abs(x), FLOATS)
    assert_same(~placed(INTS, MESH_3X2, "x", "y"), ~INTS)
    assert_same(~placed(BOOLS, MESH_3X2, "x", "y"), ~BOOLS)
    assert_same(round(x), np.round(-FLOATS))
    assert_same(round(x, 1), np.round(-FLOATS, 1), 1e-5)


@pytest.mark.parametrize(
    ("left", "right", "result"),
    [
        ((UNSHARDED, UNSHARDED), (UNSHARDED, UNSHARDED), (UNSHARDED, UNSHARDED)),
        ((UNSHARDED, "x"), ("x", UNSHARDED), (UNSHARDED, UNSHARDED)),
        (("y", "x"), ("x", UNSHARDED), ("y", UNSHARDED)),
    ],
)
def test_the_matmuls_of_the_guide(left: Any, right: Any, result: Any) -> None:
    a, b = np.array([[1, 2, 3], [4, 5, 6]]), np.array([[6, 5], [4, 3], [2, 1]])
    product = placed(a, MESH_3X2, *left) @ placed(b, MESH_3X2, *right)
    assert_same(product, np.array([[20, 14], [56, 41]]))
    assert product.layout == layout(MESH_3X2, *result)


def test_assignment_operators_make_new_arrays() -> None:
    x = before = placed(FLOATS, MESH_3X2, "x", "y")
    x += 1
    x *= x
    assert_same(x, (FLOATS + 1) ** 2)
    assert_same(before, FLOATS)


def test_numbers_give_way_to_the_type_of_the_array() -> None:
    x = dtensor.copy_to_mesh(FLOATS.astype(np.float16), layout(MESH_3X2, "x", "y"))
    assert (x * 2.5).dtype == (x + 1).dtype == (x**2).dtype == np.float16
    assert (placed(INTS, MESH_3X2) * 2.5).dtype == np.float32
    assert (placed(INTS, MESH_3X2) + True).dtype == np.int32
    assert (placed(FLOATS, MESH_3X2) * 1j).dtype == np.complex64
    assert (x + np.float32(1)).dtype == np.float32  # NumPy's own scalars have a type


def test_integers_out_of_range_are_errors_and_do_not_wrap_around() -> None:
    x = placed(np.arange(6, dtype=np.int8), MESH_3X2, "x")
    text = message(lambda: x + 300, OverflowError)
    assert text == (
        "300 is outside of int8, -128 to 127; cast the array first, with x.astype(dtype)"
    )
    with pytest.raises(OverflowError):
        x < 1000  # noqa: B015
    large = placed(np.arange(6, dtype=np.uint32), MESH_3X2, "x") + 4_000_000_000
    assert_same(large, np.arange(6, dtype=np.uint32) + 4_000_000_000)


def test_negative_zero_and_one_and_true_are_told_apart() -> None:
    x = placed(np.zeros(6, np.float32), MESH_3X2, "x")
    assert not np.signbit(whole(x * 0.0)).any()
    assert np.signbit(whole(x * -0.0)).all()
    assert (placed(BOOLS, MESH_3X2) * True).dtype == np.bool_
    assert (placed(BOOLS, MESH_3X2) * 1).dtype == np.int32


def test_equality_is_by_element_so_that_arrays_have_no_hash() -> None:
    x = placed(INTS, MESH_3X2, "x", "y")
    assert_same(x == 3, INTS == 3)
    nothing: Any = None
    assert not (x == nothing)
    assert x != "text"
    assert 5 in x
    assert 99 not in x
    with pytest.raises(TypeError, match="unhashable type"):
        hash(x)


def test_operands_of_other_kinds_are_left_to_them() -> None:
    class Other:
        def __radd__(self, x: object) -> str:
            return "mine"

    x = placed(FLOATS, MESH_3X2)
    assert x + Other() == "mine"
    with pytest.raises(TypeError, match="unsupported operand"):
        x + "text"


def test_iteration_goes_over_the_first_dimension_of_sharded_arrays_too() -> None:
    rows = list(placed(FLOATS, MESH_3X2, "x", "y"))
    assert len(rows) == 6
    assert all(isinstance(row, DTensor) for row in rows)
    assert_same(rows, list(FLOATS))
    first, *_ = placed(FLOATS, MESH_3X2, "x", "y")
    assert_same(first, FLOATS[0])
    with pytest.raises(TypeError, match="iteration over an array without dimensions"):
        iter(placed(1.0, MESH_3X2))


def test_incompatible_shapes_are_one_line() -> None:
    x, y = placed(FLOATS, MESH_3X2, "x", "y"), placed(FLOATS.T, MESH_3X2)
    assert message(lambda: x + y, TypeError) == (
        "+: add got incompatible shapes for broadcasting: (6, 4), (4, 6)."
    )


def test_x64_is_part_of_what_a_program_is_for() -> None:
    x = placed(INTS, MESH_3X2)
    assert (x * 2.5).dtype == x.astype(float).dtype == np.float32
    with jax.enable_x64(True):
        assert (x * 2.5).dtype == x.astype(float).dtype == np.float64
    assert (x * 2.5).dtype == x.astype(float).dtype == np.float32


def test_operators_take_the_settings_of_jax_of_their_call() -> None:
    x, ints = placed(FLOATS, MESH_2X4, "x"), placed(INTS, MESH_2X4, "x")
    row = placed(FLOATS[0], MESH_2X4)
    mixed: list[Callable[[], Any]] = [lambda: x + ints, lambda: ints * 2.5]
    for run in (*mixed, lambda: x + row):
        run()  # type: ignore[no-untyped-call]
    with jax.numpy_dtype_promotion("strict"):
        for run in mixed:
            assert "strict" in message(run, Exception)
    with jax.numpy_rank_promotion("raise"):
        assert "rank_promotion" in message(lambda: x + row, ValueError)
    assert_same(x + ints, FLOATS + INTS)


def test_what_holds_values_but_is_no_array_is_not_compared() -> None:
    x = placed(INTS, MESH_2X4, "x")
    others: tuple[Any, ...] = ((0, 1, 2, 3), {1}, {}, [x])
    for other in others:
        for op in (operator.eq, operator.ne):
            found = message(lambda op=op, other=other: op(x, other), TypeError)  # type: ignore[misc]
            assert f"a {type(other).__name__} compares no elements" in found
        for op in (operator.add, operator.mul, lambda x, y: y * x):
            found = message(lambda op=op, other=other: op(x, other), TypeError)  # type: ignore[misc]
            assert f"a {type(other).__name__} computes no elements" in found
    assert not (x == "text")
    assert x != None  # noqa: E711


def test_pow_of_three_arguments_and_operators_of_keys_are_refused() -> None:
    x: Any = placed(INTS, MESH_2X4, "x")
    found = message(lambda: pow(x, 2, 3), TypeError)
    assert found == "pow() of a DTensor takes no third argument; write x ** y % z"
    assert_same(pow(x, 2), INTS**2)
    keys = dtensor.copy_to_mesh(jax.random.split(jax.random.key(0), 4), layout(MESH_2X4, "x"))
    for y in (1, 1.0, keys):
        found = message(lambda y=y: keys + y, TypeError)  # type: ignore[misc]
        assert found.startswith("+: add does not accept dtype")


@pytest.mark.parametrize("specs", [("x",), ()])
def test_the_truth_of_several_elements_is_ambiguous(specs: Any) -> None:
    x = placed(INTS, MESH_2X4, *specs)
    found = message(lambda: bool(x > 0), ValueError)
    assert found.endswith("is ambiguous; use x.any() or x.all()")
    assert "is ambiguous; use x.size > 0" in message(lambda: bool(x[:0]), ValueError)
    for read in (float, int, lambda x: x.item()):
        assert "is not one number; index it, or reduce it" in message(lambda: read(x), ValueError)  # noqa: B023
    assert bool((x == x).all())


def test_round_gives_integers_unless_decimals_are_asked_for() -> None:
    x = placed(FLOATS, MESH_2X4, "x")
    for args in ((), (1,), (0,)):
        expected = round(jnp.asarray(FLOATS), *args)
        assert_same(round(x, *args), expected)
        assert round(x, *args).dtype == expected.dtype


def test_programs_can_be_forgotten() -> None:
    x = placed(FLOATS, MESH_3X2, "x", "y")
    assert_same(x * 2.5 + x.sum(), FLOATS * 2.5 + FLOATS.sum(), 1e-5)
    assert programs
    for reset in resets:
        reset()
    assert not programs
    assert_same(x * 2.5 + x.sum(), FLOATS * 2.5 + FLOATS.sum(), 1e-5)


def test_the_engine_loads_each_part_when_it_is_first_asked_for() -> None:
    x = placed(FLOATS, MESH_3X2)
    engine = Slot.engine
    Slot.engine = Engine()
    try:
        assert_same(x + x, FLOATS + FLOATS)
        assert [*vars(Slot.engine)] == ["binary"]
        with pytest.raises(AttributeError, match="the engine has no 'ternary'; it has unary, bin"):
            Slot.engine.ternary  # noqa: B018
    finally:
        Slot.engine = engine
