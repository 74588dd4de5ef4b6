"""`dtensor.define_op`: operations that dtensor does not know, said to be split as they may be."""

from __future__ import annotations

import functools
import importlib
import pickle
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental import pallas as pl

import dtensor
from dtensor.compiler.define_op import forget_registered
from tests.py.line.layouts import all_layouts, mesh

# An FFI target that every jaxlib registers for CPU: the Cholesky factor of each matrix.
TARGET = "lapack_spotrf_ffi"


@pytest.fixture(autouse=True)
def _nothing_is_registered() -> Iterator[None]:
    yield
    forget_registered()


def _layouts(*specs: list[Any]) -> tuple[dtensor.Layout, ...]:
    return tuple(dtensor.Layout(spec, mesh()) for spec in specs)


# A kernel: rows of a matrix, scaled; and flash-like attention of whole heads.


def _scale_kernel(x_ref: Any, s_ref: Any, o_ref: Any) -> None:
    o_ref[...] = x_ref[...] * s_ref[...] + pl.program_id(0).astype(jnp.float32) * 0


def _scale_rows(x: Any, s: Any) -> Any:
    rows, columns = x.shape
    return pl.pallas_call(
        _scale_kernel,
        grid=(rows,),
        in_specs=[
            pl.BlockSpec((1, columns), lambda i: (i, 0)),
            pl.BlockSpec((1, columns), lambda i: (0, 0)),
        ],
        out_specs=pl.BlockSpec((1, columns), lambda i: (i, 0)),
        out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype),
        interpret=True,
    )(x, s)


def test_a_pallas_kernel_runs_on_shards_in_every_layout() -> None:
    scale = dtensor.define_op("test.scale", "m n, _ n -> m n", fn=_scale_rows, flops="m n")
    x = np.arange(8 * 16, dtype=np.float32).reshape(8, 16)
    s = np.linspace(1, 2, 16, dtype=np.float32)[None]
    want = _scale_rows(x, s)
    for layout in all_layouts(x.shape):
        step = dtensor.jit(scale, in_layouts=(layout, None), mesh=mesh())
        compiled = step.lower(x, s).compile()
        assert compiled.wire_bytes == 0
        assert compiled.local_flops >= 8 * 16 / layout.shard_count
        np.testing.assert_array_equal(np.asarray(compiled(x, s).to_jax()), want)


def _attention(q: Any, k: Any, v: Any) -> Any:
    return jnp.einsum("bhqk,bhkd->bhqd", jax.nn.softmax(jnp.einsum("bhqd,bhkd->bhqk", q, k)), v)


def test_attention_is_split_over_batch_and_heads_alone() -> None:
    attend = dtensor.define_op(
        "test.attend",
        "b h q d, b h k d, b h k d -> b h q d",
        whole=("q", "k", "d"),
        flops="4 b h q k d",
        fn=_attention,
    )
    rng = np.random.default_rng(0)
    q, k, v = (rng.normal(size=(2, 4, n, 8)).astype(np.float32) for n in (16, 32, 32))
    want = _attention(q, k, v)
    given = _layouts(["x", "y", None, None]) * 3
    step = dtensor.jit(attend, in_layouts=given)
    compiled = step.lower(q, k, v).compile()
    assert (compiled.wire_bytes, compiled.local_flops > 0) == (0, True)
    np.testing.assert_allclose(np.asarray(compiled(q, k, v).to_jax()), want, rtol=1e-5, atol=1e-6)
    # Queries, keys and features that are split are made whole first.
    for spec in (["x", None, "y", None], [None, None, "y", None], [None, None, None, "y"]):
        step = dtensor.jit(attend, in_layouts=_layouts(spec) * 3)
        assert step.lower(q, k, v).compile().wire_bytes > 0
        found = np.asarray(step(q, k, v).to_jax())
        np.testing.assert_allclose(found, want, rtol=1e-5, atol=1e-6)


def test_a_split_factor_that_is_reduced_makes_parts() -> None:
    matmul = dtensor.define_op(
        "test.matmul",
        "m k, k n -> m n",
        reduce={"k": "sum"},
        linear=(0, 1),
        flops="2 m k n",
        fn=jnp.matmul,
    )
    a = np.arange(8 * 16, dtype=np.float32).reshape(8, 16) % 7
    b = np.arange(16 * 24, dtype=np.float32).reshape(16, 24) % 5
    for left in all_layouts(a.shape)[::2]:
        for right in all_layouts(b.shape)[::4]:
            step = dtensor.jit(matmul, in_layouts=(left, right))
            np.testing.assert_array_equal(np.asarray(step(a, b).to_jax()), a @ b)
    step = dtensor.jit(matmul, in_layouts=_layouts([None, "y"], ["y", None]))
    compiled = step.lower(a, b).compile()
    assert [c.kind for c in compiled.collectives] in (["all_reduce"], ["reduce_scatter"])
    assert compiled.local_flops == pytest.approx(2 * 8 * 16 * 24 / 4)


def _factor(a: Any) -> Any:
    out = jax.ShapeDtypeStruct(a.shape, a.dtype), jax.ShapeDtypeStruct(a.shape[:-2], jnp.int32)
    return jax.ffi.ffi_call(TARGET, out)(a, uplo=np.uint8(ord("U")))[1]


def test_an_ffi_call_is_split_over_what_its_definition_names() -> None:
    a = np.broadcast_to(np.eye(3, dtype=np.float32) * 4, (8, 16, 3, 3))
    layout = dtensor.Layout(["x", "y", None, None], mesh())
    undefined = dtensor.jit(_factor, in_layouts=layout).lower(a).compile()
    assert undefined.wire_bytes > 0
    with dtensor.define_op(TARGET, "... i j -> ... i j, ...", whole=("i", "j")):
        compiled = dtensor.jit(_factor, in_layouts=layout).lower(a).compile()
    assert compiled.wire_bytes == 0
    assert compiled.out_layouts == dtensor.Layout(["x", "y"], mesh())
    np.testing.assert_array_equal(np.asarray(compiled(a).to_jax()), np.zeros((8, 16), np.int32))


RULED = """func.func @main(%a: tensor<8x16x3x3xf32>) -> tensor<8x16x3x3xf32> {
  %0:2 = stablehlo.custom_call @test_factor(%a) {
    TYPED = {uplo = 76 : ui8},
    operand_layouts = [dense<[2, 3, 1, 0]> : tensor<4xindex>],
    result_layouts = [dense<[2, 3, 1, 0]> : tensor<4xindex>, dense<[1, 0]> : tensor<2xindex>],
    sdy.sharding_rule = #sdy.op_sharding_rule<([i, j, k, l])->([i, j, m, n], [i, j]) RULE>
  } : (tensor<8x16x3x3xf32>) -> (tensor<8x16x3x3xf32>, tensor<8x16xi32>)
  return %0#0 : tensor<8x16x3x3xf32>
}
"""


@pytest.mark.parametrize("typed", ["api_version = 4 : i32, backend_config", "mhlo.backend_config"])
@pytest.mark.parametrize(("more", "is_split"), [("", True), (" need_replication={i, j}", False)])
def test_an_ffi_call_is_split_as_its_rule_of_shardy_says(
    more: str, is_split: bool, typed: str
) -> None:
    jax.jit(jnp.linalg.cholesky).lower(jnp.eye(2))  # LAPACK is loaded when jax first lowers a call
    library = importlib.import_module("jaxlib.cpu._lapack").registrations()
    jax.ffi.register_ffi_target("test_factor", library[TARGET], platform="cpu")
    factors = np.tril(np.random.default_rng(3).uniform(1, 2, (8, 16, 3, 3))).astype(np.float32)
    text = RULED.replace("RULE", "{i=8, j=16, k=3, l=3, m=3, n=3}" + more + ", custom")
    text = text.replace("TYPED", typed)
    layout = dtensor.Layout(["x", "y", None, None], mesh())
    compiled = dtensor.compile_mlir(text, in_layouts=[layout])
    assert (compiled.wire_bytes == 0) == is_split
    a = factors @ factors.swapaxes(-1, -2)
    found = np.tril(np.asarray(compiled(a)[0].to_jax()))
    np.testing.assert_allclose(found, np.linalg.cholesky(a), rtol=1e-4)


def test_a_definition_stands_for_its_own_function_and_not_for_another_of_its_name() -> None:
    first = dtensor.define_op("test.act", "... -> ...", fn=lambda x: x * 2)
    first.unregister()
    second = dtensor.define_op("test.act", "... -> ...", fn=lambda x: x * 9)
    x = np.arange(8, dtype=np.float32)
    layout = dtensor.Layout(["x"], mesh())
    found = dtensor.jit(lambda x: (first(x), second(x)), in_layouts=layout)(x)
    np.testing.assert_array_equal(np.asarray(found[0].to_jax()), x * 2)
    np.testing.assert_array_equal(np.asarray(found[1].to_jax()), x * 9)
    third = dtensor.define_op("test.act", "... -> ...", fn=lambda x: x + 1, register=False)
    options = dtensor.CompileOptions(ops=[third])
    found = dtensor.jit(lambda x: (second(x), third(x)), in_layouts=layout, options=options)(x)
    np.testing.assert_array_equal(np.asarray(found[0].to_jax()), x * 9)
    np.testing.assert_array_equal(np.asarray(found[1].to_jax()), x + 1)


@pytest.mark.parametrize(
    ("a_axis", "b_axis", "a_shape", "b_shape"),
    [(0, None, (4, 8, 6), (6, 3)), (2, 1, (8, 6, 4), (6, 4, 3)), (None, 0, (8, 6), (4, 6, 3))],
)
@pytest.mark.parametrize("is_registered", [True, False])
def test_a_definition_under_vmap_is_one_with_a_factor_more(
    a_axis: Any, b_axis: Any, a_shape: Any, b_shape: Any, is_registered: bool
) -> None:
    product = dtensor.define_op(
        *("test.product", "m k, k n -> m n"),
        reduce={"k": "sum"},
        flops="2 m k n",
        fn=jnp.matmul,
        register=is_registered,
    )
    a, b = (np.arange(np.prod(s), dtype=np.float32).reshape(s) % 7 for s in (a_shape, b_shape))
    mapped = jax.vmap(product, in_axes=(a_axis, b_axis))
    want = jax.vmap(jnp.matmul, in_axes=(a_axis, b_axis))(a, b)
    spec: list[Any] = [None] * a.ndim
    spec[a.ndim - 1 if a_axis is None else a_axis] = "y"
    options = dtensor.CompileOptions(ops=() if is_registered else [product])
    step = dtensor.jit(mapped, in_layouts=(*_layouts(spec), None), options=options)
    compiled = step.lower(a, b).compile()
    np.testing.assert_array_equal(np.asarray(compiled(a, b).to_jax()), want)
    assert compiled.local_flops == pytest.approx(2 * 4 * 8 * 6 * 3 / 4, rel=0.1)
    kinds = {c.kind for c in compiled.collectives}
    assert bool(kinds) == (a_axis is None)  # what is split is the contraction, or the batch


def test_a_kernel_in_a_body_counts_what_its_definition_says() -> None:
    own = dtensor.define_op(
        "test.factor", "... i j -> ...", whole=("i", "j"), flops="... i i j", fn=_factor
    )
    a = np.broadcast_to(np.eye(3, dtype=np.float32) * 4, (8, 16, 3, 3))
    layout = dtensor.Layout(["x", "y", None, None], mesh())
    compiled = dtensor.jit(own, in_layouts=layout).lower(a).compile()
    assert compiled.local_flops == 8 * 16 * 27 / layout.shard_count
    np.testing.assert_array_equal(np.asarray(compiled(a).to_jax()), np.zeros((8, 16), np.int32))


def test_a_composite_that_nobody_defined_is_its_decomposition() -> None:
    def scale(x: Any, *, by: float) -> Any:
        inner = jax.lax.composite(lambda y: jnp.cumsum(y, axis=0) - y.mean(), name="test.inner")
        return dtensor.relayout(inner(x) * by, dtensor.Layout([None, "y"], mesh()))

    def call(x: Any) -> Any:
        one = jax.lax.composite(scale, name="test.outer", version=2)(x, by=2.0)
        return jax.lax.cond(x[0, 0] > 0, lambda: one, lambda: inner_only(x))

    def inner_only(x: Any) -> Any:
        return jax.lax.composite(lambda y: y + 1, name="test.plain")(x)

    x = np.arange(8 * 12, dtype=np.float32).reshape(8, 12)
    for first in (x, x + 1):
        compiled = dtensor.jit(call, in_layouts=dtensor.Layout(["x", None], mesh()))
        expected = jax.jit(call)(first)
        np.testing.assert_allclose(compiled(first).to_jax(), expected, rtol=1e-6)


def test_a_composite_is_known_by_its_name() -> None:
    def call(x: Any) -> Any:
        return jax.lax.composite(lambda y: jnp.cumsum(y, axis=1), name="test.scan")(x) + 1

    x = np.arange(8 * 16, dtype=np.float32).reshape(8, 16)
    own = dtensor.define_op(
        "test.scan",
        "b t -> b t",
        whole="t",
        fn=functools.partial(jnp.cumsum, axis=1),
        register=False,
    )
    options = dtensor.CompileOptions(ops=[own])
    layout = dtensor.Layout([("x", "y"), None], mesh())
    compiled = dtensor.jit(call, in_layouts=layout, options=options).lower(x).compile()
    assert compiled.wire_bytes == 0
    np.testing.assert_array_equal(np.asarray(compiled(x).to_jax()), np.cumsum(x, 1) + 1)
    with (
        dtensor.define_op("test.scan", "b t -> b t", whole="t"),
        pytest.raises(dtensor.CompileError, match="defined without fn="),
    ):
        dtensor.jit(call, in_layouts=layout)(x)


def test_one_function_is_compiled_for_each_set_of_definitions() -> None:
    a = np.broadcast_to(np.eye(3, dtype=np.float32) * 4, (8, 3, 3))
    step = dtensor.jit(_factor, in_layouts=dtensor.Layout(["x", None, None], mesh()))
    layout = step(a).layout
    with dtensor.define_op(TARGET, "b i j -> b i j, b", whole=("b", "i", "j")):
        assert step(a).layout == dtensor.Layout([None], mesh())
    assert step(a).layout == layout
    assert len(step._programs) == 2


def test_programs_of_defined_operations_are_pickled() -> None:
    dtensor.define_op("test.other", "a -> a", fn=lambda x: x)  # is not in the program
    own = dtensor.define_op(TARGET, "b i j -> b i j, b", whole=("i", "j"), register=False)
    a = np.broadcast_to(np.eye(3, dtype=np.float32) * 4, (8, 3, 3))
    layout = dtensor.Layout(["x", None, None], mesh())
    options = dtensor.CompileOptions(ops=(own,))
    compiled = dtensor.jit(_factor, in_layouts=layout, options=options).lower(a).compile()
    again = pickle.loads(pickle.dumps(compiled))
    np.testing.assert_array_equal(np.asarray(again(a).to_jax()), np.zeros(8, np.int32))


WRONG = {
    "no arrow": (("a b",), {}, "'a b' has no '->'; write `b m, b n -> b m n`"),
    "no factor": (("a 2 -> a",), {}, "'2' is no factor; a factor is a name"),
    "twice": (("a a -> a",), {}, "'a' is twice in 'a a'"),
    "unknown whole": (("row -> row",), {"whole": ("rwo",)}, "did you mean 'row'"),
    "unknown reduction": (("a b -> a",), {"reduce": {"b": "mean"}}, "there are sum, max"),
    "reduced but kept": (("a -> a",), {"reduce": {"a": "sum"}}, "every result has it"),
    "whole and reduced": (
        ("a b -> a",),
        {"whole": "b", "reduce": {"b": "sum"}},
        "'b' is whole and reduced; name it in one of them",
    ),
    "no such operand": (("a -> a",), {"linear": (1,)}, "linear names operand 1; the signature has"),
    "flops": (("a -> a",), {"flops": "2 a c"}, "flops has 'c'; write products"),
    "no dot": (("a -> a",), {"fn": jnp.sin}, "the name has no dot"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_definition_is_one_sentence(case: str) -> None:
    (signature,), more, message = WRONG[case]
    with pytest.raises(dtensor.CompileError) as caught:
        dtensor.define_op("name", signature, **more)  # type: ignore[arg-type]
    assert message in str(caught.value)
    assert str(caught.value).startswith("operation 'name': ")
    assert "\n" not in str(caught.value)


def test_a_second_definition_of_a_name_is_refused() -> None:
    first = dtensor.define_op("target", "a -> a")
    assert dtensor.define_op("target", "a -> a") == first
    with pytest.raises(dtensor.CompileError, match="defined as 'a -> a' already"):
        dtensor.define_op("target", "a b -> a b")
    with pytest.raises(dtensor.CompileError, match="ops defines 'target' twice"):
        dtensor.CompileOptions(ops=(first, first))
    with pytest.raises(TypeError, match="defined without fn="):
        first(1)


CALLS = {
    "rank": ("a -> a", "operand 0 has rank 2; its signature is 'a'"),
    "operands": ("a b, a b -> a b", "has 1 operands; its signature has 2"),
    "sizes": ("a b -> b a", "factor 'b' has 16 elements, and 8 in result 0"),
    "shapes": ("a b -> a b", None),
}


@pytest.mark.parametrize("case", CALLS)
def test_a_call_that_is_not_as_defined_is_refused_at_its_line(case: str) -> None:
    signature, message = CALLS[case]
    x = np.ones((8, 16), np.float32)
    own = dtensor.define_op("test.roll", signature, fn=lambda y: y * 2, register=False)
    step = dtensor.jit(
        own,
        in_layouts=dtensor.Layout(["x", "y"], mesh()),
        options=dtensor.CompileOptions(ops=(own,)),
    )
    if message is None:
        np.testing.assert_array_equal(np.asarray(step(x).to_jax()), x * 2)
        return
    with pytest.raises(dtensor.CompileError, match="test") as caught:
        step(x)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("fn", "message"),
    [
        (
            lambda y: y[:3].sum(),
            'on one shard "test.fixed" gives tensor<f32>, and not tensor<4xf32>',
        ),
        (lambda y: y.reshape(8), "'test.fixed': its function cannot be traced for one shard"),
    ],
)
def test_a_function_that_does_not_work_by_shards_is_refused(fn: Any, message: str) -> None:
    own = dtensor.define_op("test.fixed", "a -> a", fn=fn, register=False)
    options = dtensor.CompileOptions(ops=(own,))
    step = dtensor.jit(
        lambda x: jax.lax.composite(lambda y: y * 2, name="test.fixed")(x),
        in_layouts=dtensor.Layout(["x"], mesh()),
        options=options,
    )
    with pytest.raises(dtensor.CompileError) as caught:
        step(np.ones(8, np.float32))
    assert message in str(caught.value)


def test_a_definition_is_its_text() -> None:
    made = dtensor.define_op("target", "b i, i -> b", reduce={"i": "sum"}, register=False)
    assert isinstance(made, dtensor.DefinedOp)
    assert (made.factors, made.reduce) == (("b", "i"), (("i", "sum"),))


def test_called_on_dtensors_it_gives_them_and_checks_its_signature() -> None:
    rows, other = _layouts(["x", None], [None, "y"])
    scale = dtensor.define_op("test.doubled", "i j -> i j", fn=lambda x: x * 2)
    given = np.arange(96, dtype=np.float32).reshape(8, 12)
    for layout in (rows, other):
        found = scale(dtensor.copy_to_mesh(given, layout))
        assert found.layout == layout
        np.testing.assert_array_equal(np.asarray(found.to_jax()), 2 * given)
    assert type(scale(jnp.asarray(given))) is type(jnp.asarray(given))
    turned = dtensor.define_op("test.turned", "i j -> j i", fn=lambda x: x)
    with pytest.raises(dtensor.LocatedError, match="factor 'j' has 12 elements, and 8 in result 0"):
        turned(dtensor.copy_to_mesh(given, rows))
