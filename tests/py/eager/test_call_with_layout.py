"""`call_with_layout`: results are created in their shards."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dtensor
from dtensor import UNSHARDED, DTensor, LayoutError
from dtensor.compiler import program as kept
from dtensor.compiler.call_with_layout import call_with_layout
from tests.py.eager.support import MESH_2X4, MESH_3X2, assert_same, layout, lowered, message, placed

MIB = 2**20
XY = layout(MESH_3X2, "x", "y")


def test_the_calls_of_the_guide() -> None:
    ones = call_with_layout(jnp.ones, XY, shape=(6, 4))
    assert isinstance(ones, DTensor)
    assert ones.layout == XY
    assert_same(ones, np.ones((6, 4)))
    jitted = jax.jit(jnp.ones, static_argnames="shape")
    assert_same(call_with_layout(jitted, XY, shape=(6, 4)), np.ones((6, 4)))
    key = jax.random.key(3)
    normal = call_with_layout(jax.random.normal, XY, key, shape=(6, 4))
    assert_same(normal, jax.random.normal(key, (6, 4)))
    old = jax.random.PRNGKey(3)
    assert_same(call_with_layout(jax.random.normal, XY, old, (6, 4)), np.asarray(normal_of(old)))


def normal_of(key: jax.Array) -> jax.Array:
    return jax.random.normal(key, (6, 4))


@pytest.mark.parametrize("specs", [("x", "y"), (("x", "y"), UNSHARDED), (UNSHARDED, "y")])
def test_no_device_ever_holds_more_than_its_shard_of_ones(specs: Any) -> None:
    wanted = layout(MESH_2X4, *specs)
    compiled = lowered(jnp.ones, wanted, shape=(4096, 4096)).compile()
    analysis = compiled.memory_analysis()
    shard = 64 * MIB // wanted.shard_count
    assert analysis.output_size_in_bytes == shard
    assert analysis.argument_size_in_bytes == 0
    assert analysis.temp_size_in_bytes < 1024


def test_random_numbers_take_an_eighth_of_the_memory_of_one_device() -> None:
    key, shape = jax.random.key(0), (4096, 4096)
    one_device = jax.jit(lambda key: jax.random.normal(key, shape)).lower(key).compile()
    alone: Any = one_device.memory_analysis()
    wanted = layout(MESH_2X4, "x", "y")
    shard: Any = lowered(jax.random.normal, wanted, key, shape).compile()
    shard = shard.memory_analysis()
    assert alone.output_size_in_bytes == 64 * MIB
    assert shard.output_size_in_bytes == alone.output_size_in_bytes // 8
    assert shard.temp_size_in_bytes <= alone.temp_size_in_bytes // 8 + 4096


def test_the_function_runs_in_the_program_and_nowhere_else() -> None:
    seen: list[bool] = []

    def make() -> Any:
        made = jnp.full((6, 4), 7.0)
        seen.append(isinstance(made, jax.core.Tracer))
        return made

    for _ in range(3):
        assert_same(call_with_layout(make, XY), np.full((6, 4), 7.0))
    assert seen == [True]


def test_a_python_number_becomes_an_array() -> None:
    made = call_with_layout(lambda: 3.0, layout(MESH_3X2))
    assert isinstance(made, DTensor)
    assert made.item() == 3.0


def test_without_a_layout_the_function_is_called_as_it_is() -> None:
    made = call_with_layout(jnp.ones, None, (2, 3))
    assert isinstance(made, jax.Array)


def test_one_layout_serves_all_results_or_a_tree_one_each() -> None:
    def pair() -> Any:
        return {"w": jnp.ones((6, 4)), "b": jnp.zeros(4)}

    rows, halves = layout(MESH_3X2, "x", UNSHARDED), layout(MESH_3X2, "y")
    made = call_with_layout(pair, {"w": rows, "b": halves})
    assert made["w"].layout == rows
    assert made["b"].layout == halves
    both = call_with_layout(lambda: (jnp.ones((6, 4)), jnp.zeros((3, 2))), rows)
    assert [one.layout for one in both] == [rows, rows]
    text = message(lambda: call_with_layout(pair, rows), LayoutError)
    assert "the layout has 2 dimensions" in text or "rank 1" in text


def test_arguments_are_dtensors_and_numbers() -> None:
    x = placed(np.arange(24.0).reshape(6, 4), MESH_3X2, UNSHARDED, "y")
    made = call_with_layout(lambda x, s, n: x * s + n, XY, x, np.float32(2), n=1)
    assert made.layout == XY
    assert_same(made, np.arange(24.0).reshape(6, 4) * 2 + 1)
    large = np.ones((6, 4))
    text = message(lambda: call_with_layout(jnp.add, XY, x, large), LayoutError)
    assert text.startswith("add: argument 1 is a plain NumPy array of float64[6, 4]")


def test_a_layout_that_does_not_fit_is_an_error() -> None:
    text = message(lambda: call_with_layout(jnp.ones, XY, (6,)), LayoutError)
    assert "rank 1" in text
    text = message(lambda: call_with_layout(jnp.ones, "x,y", (6, 4)), LayoutError)
    assert text == "call_with_layout got layout 'x,y'; give a Layout, or a tree of them"


def test_in_a_traced_function_the_layout_is_a_constraint() -> None:
    def step(x: Any) -> Any:
        return call_with_layout(jnp.ones, XY, (6, 4)) * 2 + x

    compiled = dtensor.jit(step).lower(placed(1.0, MESH_3X2)).compile()
    assert compiled.out_layouts == XY
    assert_same(compiled(placed(1.0, MESH_3X2)), np.full((6, 4), 3.0))
    assert float(jax.jit(step)(1.0)[0, 0]) == 3.0


def test_errors_of_the_function_are_its_own() -> None:
    def broken() -> Any:
        raise KeyError("weights")

    with pytest.raises(KeyError, match="weights"):
        call_with_layout(broken, XY)


def test_none_among_the_results_stays_none() -> None:
    rows = layout(MESH_3X2, "x", UNSHARDED)
    ones, nothing = call_with_layout(lambda: (jnp.ones((6, 4)), None), rows)
    assert (ones.layout, nothing) == (rows, None)
    assert call_with_layout(lambda: None, rows) is None
    jitted = dtensor.jit(lambda x, y: (x, y), in_layouts=rows, out_layouts=rows)
    assert jitted(np.ones((6, 4), np.float32), None)[1] is None


def test_what_cannot_lie_on_a_mesh_is_named() -> None:
    def text() -> str:
        return "weights"

    found = message(lambda: call_with_layout(text, XY), TypeError)
    assert found.startswith("text returns a str, which cannot lie on a mesh")
    assert message(lambda: call_with_layout("w".upper, XY), TypeError).startswith("upper returns")
    found = message(lambda: call_with_layout(3, XY), TypeError)  # type: ignore[arg-type]
    assert found == "call_with_layout needs a function first, got int"
    found = message(lambda: call_with_layout(jnp.ones, MESH_3X2, (6, 4)), LayoutError)
    assert found.startswith("call_with_layout got layout mesh(x=3, y=2); give a Layout")


def test_programs_of_functions_made_for_one_call_leave_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(kept, "MOST_PROGRAMS", 3)
    table = kept.Programs()
    for number in range(9):
        table[number] = len
    assert list(table) == [6, 7, 8]


def test_operations_defined_between_two_calls() -> None:
    def twice(x: Any) -> Any:
        return jax.lax.composite(lambda x: x * 2, "calls.twice")(x)

    x = placed(np.arange(24.0).reshape(6, 4), MESH_3X2, "x", "y")
    assert_same(call_with_layout(twice, XY, x), x.to_jax() * 2)
    defined = dtensor.define_op("calls.twice", "i j -> i j", fn=lambda x: x * 5)
    try:
        assert_same(call_with_layout(twice, XY, x), x.to_jax() * 5)
    finally:
        defined.unregister()
    assert_same(call_with_layout(twice, XY, x), x.to_jax() * 2)


def test_a_program_keeps_no_context_of_mlir() -> None:
    compiled = lowered(lambda: jnp.ones((6, 4)) * 3, XY).compile()
    ledger = compiled._result.ledger
    assert ledger.facts is not None
    assert all(isinstance(where, str) for where in ledger.op_locations)
    assert all(isinstance(where, str | None) for where in ledger.facts.locations)
    assert any(op["location"] for op in compiled.ledger["ops"])
