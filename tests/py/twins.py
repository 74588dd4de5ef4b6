"""Programs for machines that are not here, run on CPUs: what these lack is done in another way.

A program is lowered and planned for a target. Then each call of a library of the target is replaced
by what JAX writes for a CPU, of the same local shapes: its twin.
"""

from __future__ import annotations

import dataclasses
import functools
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax._src.lax import linalg
from jax.extend.random import threefry2x32_p

import dtensor
from dtensor.compiler.stages import Compiled
from dtensor.dialect.callbacks import target_of
from dtensor.dialect.context import make_context, parse_module
from dtensor.dialect.mlir import bytecode_of, chlo, ir, passmanager
from tests.py.passes.on_mesh import SLOW
from tests.py.passes.rule_labels import NUMPY_TYPES

Twin = Callable[..., Any]
NARROW = {"bfloat16": np.float32}  # of which NumPy knows no differences


def run_for(
    target: str,
    function: Callable[..., Any],
    mesh: dtensor.Mesh,
    specs: Sequence[Sequence[Any]],
    *values: Any,
    error: float = 0.0,
    out: Sequence[Any] | None = None,
    instead: Callable[..., Any] | None = None,
) -> Compiled:
    """A function planned for a target and run on the CPUs of a mesh, against one device.

    Args:
        target: such as "gpu:h100:8".
        function: of arrays.
        mesh: CPUs.
        specs: per argument what splits each dimension.
        values: the arguments.
        error: how far results may lie apart, relative to their largest element.
        out: how every result is laid out; None leaves it open.
        instead: what gives the same on one device, where the function does not run there.
    """
    layouts = tuple([dtensor.Layout(list(spec), mesh) for spec in specs])
    result = None if out is None else dtensor.Layout(list(out), mesh)
    jitted = dtensor.jit(function, mesh=mesh, in_layouts=layouts, out_layouts=result, options=SLOW)
    lowered = jitted.lower(*values, target=target)
    plan = lowered._plan()
    with make_context():
        module = parse_module(plan.bytecode)
        replace_twins(module)
        bytecode = bytecode_of(module)
    source = dataclasses.replace(lowered._source, target=None)
    compiled = Compiled(source, dataclasses.replace(plan, bytecode=bytecode))
    wanted, got = jax.jit(instead or function)(*values), compiled(*values)
    for want, have in zip(jax.tree.leaves(wanted), jax.tree.leaves(got), strict=True):
        scale = float(jnp.max(jnp.where(jnp.isfinite(want), jnp.abs(want), 0), initial=0))
        wide = NARROW.get(str(want.dtype))
        there, here = np.asarray(have, wide), np.asarray(want, wide)
        np.testing.assert_allclose(there, here, rtol=0, atol=error * scale)
    return compiled


def replace_twins(module: ir.Module) -> None:
    """Replace what CPUs lack."""
    found: list[tuple[ir.Operation, Twin]] = []

    def find(op: ir.Operation) -> ir.WalkResult:
        twin = twin_of(op)
        found.extend([] if twin is None else [(op, twin)])
        return ir.WalkResult.ADVANCE

    module.operation.walk(find)
    for op, twin in found:
        _replace(op, twin)


def _replace(op: ir.Operation, twin: Twin) -> None:
    with op.context:
        types = [ir.RankedTensorType(value.type) for value in op.operands]
        shapes = [
            jax.ShapeDtypeStruct(tuple(t.shape), NUMPY_TYPES[str(t.element_type)]) for t in types
        ]
        with jax.enable_x64(True):
            text = jax.jit(twin, keep_unused=True).lower(*shapes).as_text()
        other = ir.Module.parse(text)
        passmanager.PassManager.parse("builtin.module(inline,symbol-dce)").run(other.operation)
        (function,) = other.body.operations
        block = function.operation.regions[0].blocks[0]
        for argument, value in zip(block.arguments, op.operands, strict=True):
            argument.replace_all_uses_with(value)
        *inner, last = [view.operation for view in block.operations]
        for each in inner:
            each.move_before(op)
        for result, value in zip(op.results, last.operands, strict=True):
            assert result.type == value.type, f"{result.type} of {op}, {value.type} of its twin"
            result.replace_all_uses_with(value)
        op.erase()


def twin_of(op: ir.Operation) -> Twin | None:
    """What does the same as an operation that CPUs lack; None of others."""
    if op.name == "chlo.ragged_dot":
        return _ragged_dot(op)
    twin = TWINS.get(target_of(op)) if op.name == "stablehlo.custom_call" else None
    return None if twin is None else twin(_config(op) | {"results": len(op.results)})


def _config(op: ir.Operation) -> dict[str, Any]:
    name = "mhlo.backend_config"
    if name not in op.attributes:
        text = ir.StringAttr(op.attributes["backend_config"]).value or "{}"
        return dict(json.loads(text))
    config = ir.DictAttr(op.attributes[name])
    entries = [config[i] for i in range(len(config))]
    return {entry.name: getattr(entry.attr, "value", entry.attr) for entry in entries}


def _ragged_dot(op: ir.Operation) -> Twin:
    numbers = chlo.RaggedDotDimensionNumbers(op.attributes["ragged_dot_dimension_numbers"])
    dims = lax.RaggedDotDimensionNumbers(
        (
            (list(numbers.lhs_contracting_dimensions), list(numbers.rhs_contracting_dimensions)),
            (list(numbers.lhs_batching_dimensions), list(numbers.rhs_batching_dimensions)),
        ),
        list(numbers.lhs_ragged_dimensions),
        list(numbers.rhs_group_dimensions),
    )
    element = str(ir.RankedTensorType(op.results[0].type).element_type)

    def twin(left: Any, right: Any, sizes: Any) -> Any:
        return lax.ragged_dot_general(
            left, right, sizes, dims, preferred_element_type=NUMPY_TYPES[element]
        )

    return twin


def _lu(a: Any) -> Any:
    lu, pivots, _ = lax.linalg.lu(a)
    return lu, pivots + 1, jnp.zeros(a.shape[:-2], jnp.int32)


def _syrk(a: Any, c: Any, alpha: Any, beta: Any) -> Any:
    return alpha * jnp.matmul(a, a.mT, precision="highest") + beta * c


def _qr_with_pivots(a: Any, pivots: Any) -> Any:
    return linalg.geqp3(a, pivots)


def _attention(
    config: dict[str, Any], q: Any, k: Any, v: Any, bias: Any = None, lengths: Sequence[Any] = ()
) -> Any:
    """Attention `bnth`, and the logarithms of its sums, of what cuDNN is told."""
    own = config["cudnn_fmha_backend_config"]
    numbers = own.get("bmm2_dot_dimension_numbers") or own["bmm1_grad_gemm1_dot_dimension_numbers"]
    if numbers["rhs_batch_dimensions"][1] == "2":
        q, k, v = (x.swapaxes(1, 2) for x in (q, k, v))
    k, v = (jnp.repeat(x, q.shape[1] // x.shape[1], axis=1) for x in (k, v))
    scores = jnp.einsum("bnth,bnsh->bnts", *(x.astype(jnp.float32) for x in (q, k)))
    said = own["intermediate_tensor_shape"]["dimensions"]
    assert tuple(map(int, said)) == scores.shape, "the sizes that the call says"
    scores = scores * own["fmha_scale"]
    if bias is not None:
        scores = scores + bias
    query, key = (lax.broadcasted_iota(jnp.int32, scores.shape, d) for d in (2, 3))
    shown = query >= key if "CAUSAL" in own["mask_type"] else query >= 0
    for place, length in zip((query, key), lengths, strict=False):
        shown &= place < length[:, None, None, None]
    scores = jnp.where(shown, scores, -1e30)
    made = jnp.einsum("bnts,bnsh->bnth", jax.nn.softmax(scores), v.astype(jnp.float32))
    if lengths:
        made = jnp.where((query < lengths[0][:, None, None, None])[..., :1], made, 0)
    return made.astype(q.dtype), jax.nn.logsumexp(scores, -1)


def _fused_attention(has_bias: bool, config: dict[str, Any]) -> Twin:
    def twin(q: Any, k: Any, v: Any, *rest: Any) -> Any:
        bias, lengths = (rest[0], rest[1:]) if has_bias else (None, rest)
        made = _attention(config, q, k, v, bias, lengths)[: config["results"] - 1]
        return *made, jnp.zeros(0, jnp.uint8)

    return twin


def _fused_gradients(has_bias: bool, config: dict[str, Any]) -> Twin:
    def twin(q: Any, k: Any, v: Any, _: Any, given: Any, *rest: Any) -> Any:
        bias, lengths = (rest[:1], rest[2:]) if has_bias else ((), rest[1:])

        def attend(q: Any, k: Any, v: Any, *bias: Any) -> Any:
            made = _attention(config, q, k, v, bias[0] if bias else None, lengths)[0]
            return made if given.shape == made.shape else made.swapaxes(1, 2)

        gradients = jax.vjp(attend, q, k, v, *bias)[1](given)
        own = config["cudnn_fmha_backend_config"]["bmm1_grad_gemm1_dot_dimension_numbers"]
        if own["rhs_batch_dimensions"][1] == "2":
            gradients = *(x.swapaxes(1, 2) for x in gradients[:3]), *gradients[3:]
        return *gradients, jnp.zeros(0, jnp.uint8)

    return twin


def _scaled_dot(config: dict[str, Any]) -> Twin:
    element = config["scaled_dot_backend_config"]["dequantize_type"].lower()

    def twin(a: Any, b: Any, *scales: Any) -> Any:
        sides = []
        for side, scale in zip((a, b), scales, strict=True):
            many = jnp.repeat(scale.astype(jnp.float32), side.shape[2] // scale.shape[2], axis=2)
            sides.append(side.astype(jnp.float32) * many)
        return jnp.einsum("bmk,bnk->bmn", *sides).astype(NUMPY_TYPES[element])

    return twin


# By the name of what is called, of what it is told.
TWINS: Mapping[str, Callable[[dict[str, Any]], Twin]] = {
    "cu_lu_pivots_to_permutation": lambda config: (
        lambda pivots: lax.linalg.lu_pivots_to_permutation(pivots, pivots.shape[-1])
    ),
    "cu_threefry2x32_ffi": lambda config: lambda *words: threefry2x32_p.bind(*words),
    "cuhybrid_geqp3": lambda config: _qr_with_pivots,
    "cusolver_getrf_ffi": lambda config: _lu,
    "cusolver_orgqr_ffi": lambda config: lax.linalg.householder_product,
    "cusolver_syrk_ffi": lambda config: _syrk,
    "cusparse_gtsv2_ffi": lambda config: lax.linalg.tridiagonal_solve,
    "__op$block_scaled_dot": _scaled_dot,
    "__cudnn$fmhaSoftmax": functools.partial(_fused_attention, False),
    "__cudnn$fmhaScaleBiasSoftmax": functools.partial(_fused_attention, True),
    "__cudnn$fmhaSoftmaxBackward": functools.partial(_fused_gradients, False),
    "__cudnn$fmhaScaleBiasSoftmaxBackward": functools.partial(_fused_gradients, True),
}
