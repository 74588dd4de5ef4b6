"""From JAX functions to StableHLO."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import PartitionSpec

import dtensor
from dtensor.compiler.jax_frontend import TracedArray, TracedProgram, trace
from dtensor.compiler.relayout import relayout
from dtensor.dialect.context import make_context, parse_module
from dtensor.dialect.errors import CompileError
from dtensor.dialect.layout import UNSHARDED, Layout
from dtensor.runtime.client import create_mesh

MESH = create_mesh([("x", 2), ("y", 4)])
MATRIX = jax.ShapeDtypeStruct((4, 8), np.float32)
NUMBER = jax.ShapeDtypeStruct((), np.int32)


def traced(fn: Any, *args: Any, **kwargs: Any) -> TracedProgram:
    return trace(fn, args, kwargs, mesh=MESH)


def text_of(program: TracedProgram) -> str:
    with make_context():
        return str(parse_module(program.bytecode).operation.get_asm(enable_debug_info=True))


def test_arguments_and_results_have_the_names_the_user_knows() -> None:
    def f(params: Any, x: Any, *rest: Any, scale: Any) -> Any:
        return {"loss": (x @ params["w"][0]).sum() * scale}, None, rest[1]

    program = traced(
        f, {"w": [MATRIX]}, jax.ShapeDtypeStruct((2, 4), "bfloat16"), NUMBER, NUMBER, scale=NUMBER
    )
    assert program.args == (
        TracedArray((4, 8), "float32", "params['w'][0]"),
        TracedArray((2, 4), "bfloat16", "x"),
        TracedArray((), "int32", "rest[0]"),
        TracedArray((), "int32", "rest[1]"),
        TracedArray((), "int32", "scale"),
    )
    assert [r.name for r in program.results] == ["result[0]['loss']", "result[2]"]
    assert program.out_tree == jax.tree.structure(({"loss": 0}, None, 0))


def test_unused_arguments_stay_and_locations_are_kept() -> None:
    program = traced(lambda a, b: jnp.sin(b), MATRIX, MATRIX)
    text = text_of(program)
    assert "%arg1: tensor<4x8xf32>" in text
    assert "test_jax_frontend.py" in text


def test_code_that_no_result_needs_is_left_out_before_it_is_lowered() -> None:
    @jax.custom_vjp
    def double(x: Any) -> Any:
        return x * 2

    double.defvjp(lambda x: (x * 2, x), lambda x, g: (g * 2,))

    def step(x: Any, unused: Any) -> Any:
        def body(c: Any, _: Any) -> Any:  # its tangent has no lowering
            return jax.jvp(double, (c,), (c,))[0], None

        return jax.lax.scan(body, x, None, length=3)[0]

    program = traced(step, MATRIX, NUMBER)
    assert [a.name for a in program.args] == ["x", "unused"]
    x = np.arange(32, dtype=np.float32).reshape(4, 8)
    result = dtensor.jit(step, mesh=MESH)(x, 1)
    assert np.array_equal(result.to_jax(), jax.jit(step)(x, 1))


def test_static_arguments_are_compiled_in() -> None:
    def f(n: int, x: Any, mode: str) -> Any:
        return x * n if mode == "times" else x + n

    program = trace(
        f,
        (3, MATRIX),
        {"mode": "times"},
        mesh=MESH,
        static_argnums=(0,),
        static_argnames=("mode", "n"),
    )
    assert [a.name for a in program.args] == ["x"]
    assert "stablehlo.multiply" in text_of(program)


def test_the_meshes_of_constraints_inside_are_found() -> None:
    layout = Layout(["x", UNSHARDED], MESH)

    def body(c: Any, _: Any) -> Any:
        return jax.checkpoint(lambda c: relayout(c, layout))(c), None

    program = traced(lambda x: jax.lax.scan(body, x, None, length=2)[0], MATRIX)
    assert program.meshes == (MESH,)
    assert traced(jnp.sin, MATRIX).meshes == ()


def test_bare_partition_specs_mean_the_mesh_of_the_call() -> None:
    program = traced(lambda x: jax.lax.with_sharding_constraint(x, PartitionSpec("y")), MATRIX)
    assert 'sdy.sharding_constraint %arg0 <@mesh, [{"y"}, {}]>' in text_of(program)


def test_errors_of_the_function_come_through() -> None:
    with pytest.raises(TypeError, match="contracting dimensions to have the same shape"):
        traced(lambda x: x @ x, MATRIX)


def test_a_symbolic_dimension_is_refused() -> None:
    (rows,) = jax.export.symbolic_shape("rows")
    with pytest.raises(CompileError, match="argument x has a dimension of rows elements, whose"):
        traced(lambda x: x + 1, jax.ShapeDtypeStruct((rows, 8), np.float32))
