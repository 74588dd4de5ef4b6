"""Ops that treat rows, matrices or windows each by itself: every label by numbers."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dtensor.dialect.context import make_context
from dtensor.dialect.errors import CompileError
from dtensor.dialect.layout import Layout
from dtensor.dialect.mesh import Mesh
from dtensor.dialect.mlir import ir
from dtensor.passes.ops.rule import FactorKind, OpInfo
from dtensor.passes.ops.table import rule_of
from tests.py.passes.rule_oracle import NUMPY_TYPES, Array, Report, check_rule, letters, op_module
from tests.py.passes.rule_shards import expanded

F32_EPS = 2.0**-23
MOVES = {"f32": 4, "bf16": 4, "i32": 6, "i1": 2}  # reductions that an element type has


def factor_sizes(report: Report) -> list[int]:
    return sorted(factor.size for factor in report.rule.factors if factor.kind.is_local)


# Slices at computed places.


@pytest.mark.sweep
@pytest.mark.parametrize("element", list(MOVES))
@pytest.mark.parametrize("start", [-3, 2, 9])
def test_dynamic_slice(element: str, start: int) -> None:
    t = f"4x6x8x{element}"
    op = (
        "stablehlo.dynamic_slice %a, %i, %j, %k, sizes = [4, 2, 8] : "
        f"(tensor<{t}>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<4x2x8x{element}>"
    )
    report = check_rule(
        op_module(f"a: {t}, i: i32, j: i32, k: i32", op, f"4x2x8x{element}"),
        inputs={k: np.array(start + k, np.int32) for k in (1, 2, 3)},
        max_pairs=6,
    )
    assert factor_sizes(report) == [4, 6, 8]
    assert letters(report) == "abc"
    assert len(report.passes) == MOVES[element]


@pytest.mark.sweep
@pytest.mark.parametrize("element", list(MOVES))
@pytest.mark.parametrize("start", [-3, 2, 9])
def test_dynamic_update_slice(element: str, start: int) -> None:
    t, u = f"4x6x8x{element}", f"4x2x8x{element}"
    op = (
        f"stablehlo.dynamic_update_slice %a, %u, %i, %j, %k : (tensor<{t}>, tensor<{u}>, "
        f"tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<{t}>"
    )
    report = check_rule(
        op_module(f"a: {t}, u: {u}, i: i32, j: i32, k: i32", op, t),
        inputs={k: np.array(start + k, np.int32) for k in (2, 3, 4)},
        max_pairs=6,
    )
    assert factor_sizes(report) == [4, 6, 8]
    assert list(report.rule.why_whole) == [(1, 1)]
    assert len(report.passes) == MOVES[element]
    assert all(way[0][:2] == (way[1][0],) * 2 for way in report.passes)


@pytest.mark.sweep
@pytest.mark.parametrize(
    ("element", "start_type", "taken"),
    [("f32", "i32", 1), ("f32", "ui8", 5), ("i1", "i64", 5), ("complex<f32>", "ui32", 1)],
)
def test_elements_of_a_split_dimension_are_their_owners(
    element: str, start_type: str, taken: int
) -> None:
    t, u, i = f"3x12x4x{element}", f"3x{taken}x1x{element}", start_type
    starts = f"tensor<{i}>, tensor<{i}>, tensor<{i}>"
    arguments = ", ".join(f"{name}: {i}" for name in ("i", "j", "k"))
    places = {"i": (0, 7, 2), "u": (0, 200, 9)}[i[0]]
    cut = f"stablehlo.dynamic_slice %a, %i, %j, %k, sizes = [3, {taken}, 1] : "
    report = check_rule(
        op_module(f"a: {t}, {arguments}", f"{cut}(tensor<{t}>, {starts}) -> tensor<{u}>", u),
        inputs={k + 1: np.array(place, NUMPY_TYPES[i]) for k, place in enumerate(places)},
        max_pairs=8,
    )
    owner = "or" if element == "i1" else "sum"
    assert [f.reduction for f in report.rule.factors] == [None, owner, owner]
    write = "stablehlo.dynamic_update_slice %a, %u, %i, %j, %k : "
    check_rule(
        op_module(
            f"a: {t}, u: {u}, {arguments}",
            f"{write}(tensor<{t}>, tensor<{u}>, {starts}) -> tensor<{t}>",
            t,
        ),
        inputs={k + 2: np.array(place, NUMPY_TYPES[i]) for k, place in enumerate(places)},
        max_pairs=8,
    )


def test_slices_of_nothing() -> None:
    t = "tensor<0xf32>"
    op = f"stablehlo.dynamic_slice %a, %i, sizes = [0] : ({t}, tensor<i32>) -> {t}"
    check_rule(op_module("a: 0xf32, i: i32", op, "0xf32"))
    op = (
        "stablehlo.dynamic_update_slice %a, %u, %i : "
        "(tensor<8xf32>, tensor<0xf32>, tensor<i32>) -> tensor<8xf32>"
    )
    check_rule(op_module("a: 8xf32, u: 0xf32, i: i32", op, "8xf32"))


# Random bits.


@pytest.mark.sweep
@pytest.mark.parametrize("algorithm", ["THREE_FRY", "PHILOX"])
@pytest.mark.parametrize("element", ["ui32", "ui64"])
def test_rng_bit_generator_gives_each_shard_its_piece(algorithm: str, element: str) -> None:
    op = (
        f"stablehlo.rng_bit_generator %s, algorithm = {algorithm} : "
        f"(tensor<2xui64>) -> (tensor<2xui64>, tensor<4x6x{element}>)"
    )
    report = check_rule(
        op_module("s: 2xui64", op, f"2xui64, 4x6x{element}"),
        inputs={0: np.array([7, 2**63 + 5], np.uint64)},
    )
    assert letters(report) == "ab"
    assert report.passes == []


def test_rng_is_refused_on_more_than_one_device() -> None:
    op = (
        "stablehlo.rng %a, %b, %s, distribution = UNIFORM : "
        "(tensor<f32>, tensor<f32>, tensor<2xi64>) -> tensor<4x6xf32>"
    )
    text = op_module("a: f32, b: f32, s: 2xi64", op, "4x6xf32")
    with make_context(), ir.Location.unknown():
        for mesh in (Mesh({"x": 1}), Mesh({"x": 2})):
            layouts = [Layout.replicated(mesh, rank) for rank in (0, 0, 1)]
            if mesh.size == 1:
                expanded(text, mesh, layouts, [Layout.replicated(mesh, 2)], "one")
                continue
            with pytest.raises(CompileError, match="the 2 devices of mesh @mesh would disagree"):
                expanded(text, mesh, layouts, [Layout.replicated(mesh, 2)], "two")


# Sorting.


@pytest.mark.sweep
@pytest.mark.parametrize("element", ["f32", "bf16", "i32"])
@pytest.mark.parametrize("dimension", [0, 1, 2])
def test_sort_by_key(element: str, dimension: int) -> None:
    t = f"tensor<{element}>"
    k, v = f"4x6x2x{element}", "4x6x2xi32"
    op = (
        f'"stablehlo.sort"(%k, %v) <{{dimension = {dimension} : i64, is_stable = true}}> ({{\n'
        f"^bb0(%a: {t}, %b: {t}, %c: tensor<i32>, %d: tensor<i32>):\n"
        f"  %p = stablehlo.compare LT, %a, %b : ({t}, {t}) -> tensor<i1>\n"
        f"  stablehlo.return %p : tensor<i1>\n}}) : (tensor<{k}>, tensor<{v}>) "
        f"-> (tensor<{k}>, tensor<{v}>)"
    )
    ids = np.random.default_rng(0).permutation(48).reshape(4, 6, 2).astype(np.int32)
    report = check_rule(op_module(f"k: {k}, v: {v}", op, f"{k}, {v}"), inputs={1: ids})
    assert factor_sizes(report) == sorted({4, 6, 2} - {(4, 6, 2)[dimension]})
    assert report.passes == []
    sorted_by = [f for f in report.rule.factors if f.kind is FactorKind.ORDER]
    assert [f.size for f in sorted_by] == [(4, 6, 2)[dimension]]


@pytest.mark.parametrize("element", ["f32", "bf16", "i32"])
def test_top_k(element: str) -> None:
    op = (
        f"chlo.top_k(%a, k = 3) : tensor<4x6x{element}> -> (tensor<4x3x{element}>, tensor<4x3xi32>)"
    )
    values = np.random.default_rng(0).integers(-3, 3, (4, 6))
    text = op_module(f"a: 4x6x{element}", op, f"4x3x{element}, 4x3xi32")
    report = (
        check_rule(text)
        if element == "bf16"
        else check_rule(
            text, inputs={0: values.astype({"f32": np.float32, "i32": np.int32}[element])}
        )
    )
    assert factor_sizes(report) == [4]


# Linear algebra.


def well_conditioned(*shape: int) -> Array:
    rng = np.random.default_rng(0)
    half = rng.standard_normal(shape).astype(np.float32)
    return half @ np.swapaxes(half, -1, -2) + 3 * np.eye(shape[-1], dtype=np.float32)


def test_cholesky() -> None:
    t = "4x6x3x3xf32"
    op = f"stablehlo.cholesky %a, lower = true : tensor<{t}>"
    report = check_rule(
        op_module(f"a: {t}", op, t), inputs={0: well_conditioned(4, 6, 3, 3)}, tolerance=F32_EPS * 8
    )
    assert factor_sizes(report) == [4, 6]
    assert report.passes == []


@pytest.mark.parametrize("left", [True, False])
def test_triangular_solve(left: bool) -> None:
    b = "4x3x6xf32" if left else "4x6x3xf32"
    op = (
        '"stablehlo.triangular_solve"(%a, %b) <{left_side = '
        f"{str(left).lower()}, lower = true, unit_diagonal = false, "
        "transpose_a = #stablehlo<transpose NO_TRANSPOSE>}> : "
        f"(tensor<4x3x3xf32>, tensor<{b}>) -> tensor<{b}>"
    )
    report = check_rule(
        op_module(f"a: 4x3x3xf32, b: {b}", op, b),
        inputs={0: np.linalg.cholesky(well_conditioned(4, 3, 3))},
        tolerance=F32_EPS * 16,
        max_pairs=30,
    )
    assert factor_sizes(report) == [4, 6]
    assert report.passes == []


@pytest.mark.parametrize(
    ("kind", "before", "after"),
    [
        ("FFT", "4x6x8xcomplex<f32>", "4x6x8xcomplex<f32>"),
        ("IFFT", "4x6x8xcomplex<f32>", "4x6x8xcomplex<f32>"),
        ("RFFT", "4x6x8xf32", "4x6x5xcomplex<f32>"),
        ("IRFFT", "4x6x5xcomplex<f32>", "4x6x8xf32"),
    ],
)
def test_fft(kind: str, before: str, after: str) -> None:
    op = f"stablehlo.fft %a, type = {kind}, length = [8] : (tensor<{before}>) -> tensor<{after}>"
    report = check_rule(op_module(f"a: {before}", op, after), tolerance=F32_EPS * 8, max_pairs=30)
    assert factor_sizes(report) == [4, 6]
    assert report.passes == [(("sum",), ("sum",))]


# Batch norm.


# Custom calls.

ATTRIBUTES = (
    'mhlo.backend_config = {uplo = 76 : ui8}, mhlo.frontend_attributes = {num_batch_dims = "2"}, '
    "operand_layouts = [dense<[2, 3, 1, 0]> : tensor<4xindex>], "
    "result_layouts = [dense<[2, 3, 1, 0]> : tensor<4xindex>, dense<[1, 0]> : tensor<2xindex>], "
    "sdy.sharding_rule = #sdy.op_sharding_rule<([i, j, k, l])->([i, j, m, n], [i, j]) "
    "{i=4, j=6, k=3, l=3, m=3, n=3}, custom>"
)


@pytest.fixture
def lapack() -> None:
    """LAPACK's calls exist once jax has lowered one; before that, running one ends the process."""
    jax.jit(jnp.linalg.cholesky).lower(jnp.eye(2))


def custom_call(target: str, attributes: str) -> str:
    t = "4x6x3x3xf32"
    op = (
        f"stablehlo.custom_call @{target}(%a) {{{attributes}}} : "
        f"(tensor<{t}>) -> (tensor<{t}>, tensor<4x6xi32>)"
    )
    return op_module(f"a: {t}", op, f"{t}, 4x6xi32")


@pytest.mark.usefixtures("lapack")
@pytest.mark.parametrize("attributes", [ATTRIBUTES, ATTRIBUTES.partition(", sdy.")[0]])
def test_lapack_call_splits_batch_dimensions(attributes: str) -> None:
    report = check_rule(
        custom_call("lapack_spotrf_ffi", attributes),
        inputs={0: well_conditioned(4, 6, 3, 3)},
        tolerance=F32_EPS * 8,
        max_pairs=30,
    )
    assert factor_sizes(report) == [4, 6]


@pytest.mark.parametrize(
    ("target", "attributes"),
    [
        ("lapack_spotrf_ffi", ATTRIBUTES.replace("num_batch_dims", "batch")),
        ("lapack_spotrf_ffi", ATTRIBUTES.replace('= "2"', '= "two"')),
        ("CustomSPMDPartitioning", ATTRIBUTES),
        ("xla_ffi_python_cpu_callback", ATTRIBUTES),
        ("lapack_spotrf_ffi", ATTRIBUTES + ", has_side_effect = true"),
    ],
)
def test_other_calls_have_no_rule(target: str, attributes: str) -> None:
    with make_context(), ir.Location.unknown():
        module = ir.Module.parse(custom_call(target, attributes))
        function = next(iter(module.body.operations)).operation
        op = next(iter(function.regions[0].blocks[0].operations)).operation
        shapes = ((4, 6, 3, 3),), ((4, 6, 3, 3), (4, 6))
        assert rule_of(OpInfo(op, op.name, *shapes, ("f32",), ("f32", "i32"))) is None
