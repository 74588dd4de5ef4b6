"""The table of operations. Everything about an op is in the file that its line names.

The lines are strings, so that a file is read when a program has one of its operations.
"""

from __future__ import annotations

import importlib
from dataclasses import replace
from typing import Final

from dtensor.passes.ops.opdef import UNKNOWN, OpDef
from dtensor.passes.ops.rule import OpInfo, OpRule

_ELEMENTWISE = """
chlo.conj chlo.constant_like chlo.is_inf chlo.is_neg_inf chlo.is_pos_inf chlo.next_after chlo.square
stablehlo.abs stablehlo.add stablehlo.and stablehlo.ceil stablehlo.clamp stablehlo.compare
stablehlo.complex stablehlo.count_leading_zeros stablehlo.floor stablehlo.imag stablehlo.is_finite
stablehlo.map stablehlo.maximum stablehlo.minimum stablehlo.negate stablehlo.not stablehlo.or
stablehlo.popcnt stablehlo.real stablehlo.reduce_precision stablehlo.round_nearest_afz
stablehlo.round_nearest_even stablehlo.select stablehlo.shift_left stablehlo.shift_right_arithmetic
stablehlo.shift_right_logical stablehlo.sign stablehlo.subtract stablehlo.xor
"""
_COSTLY = """
chlo._asin_acos_kernel chlo.acos chlo.acosh chlo.asin chlo.asinh chlo.atan chlo.atanh
chlo.bessel_i1e chlo.cosh chlo.erf chlo.erf_inv chlo.erfc chlo.polygamma chlo.sinh chlo.tan
chlo.zeta stablehlo.atan2 stablehlo.cbrt stablehlo.cosine stablehlo.exponential
stablehlo.exponential_minus_one stablehlo.log stablehlo.log_plus_one stablehlo.logistic
stablehlo.power stablehlo.remainder stablehlo.rsqrt stablehlo.sine stablehlo.sqrt stablehlo.tan
stablehlo.tanh
"""
_BROADCASTING = """
chlo.broadcast_add chlo.broadcast_and chlo.broadcast_atan2 chlo.broadcast_compare
chlo.broadcast_complex chlo.broadcast_divide chlo.broadcast_maximum chlo.broadcast_minimum
chlo.broadcast_multiply chlo.broadcast_next_after chlo.broadcast_or chlo.broadcast_polygamma
chlo.broadcast_power chlo.broadcast_remainder chlo.broadcast_select chlo.broadcast_shift_left
chlo.broadcast_shift_right_arithmetic chlo.broadcast_shift_right_logical chlo.broadcast_subtract
chlo.broadcast_xor chlo.broadcast_zeta
"""
_COLLECTIVES = """
stablehlo.all_gather stablehlo.all_reduce stablehlo.all_to_all stablehlo.collective_broadcast
stablehlo.collective_permute stablehlo.reduce_scatter
"""

# What stands here has a rule, which may still say None about some ops of its name, as about most
# custom calls, or is written anew as ops that have one. Loops, branches, calls and barriers are
# followed by the graph.
OPS: Final[dict[str, str]] = {
    **dict.fromkeys(_ELEMENTWISE.split(), "elementwise.ELEMENTWISE"),
    **dict.fromkeys(_COSTLY.split(), "elementwise.COSTLY"),
    **dict.fromkeys(_BROADCASTING.split(), "rewritten.BROADCASTING"),
    **dict.fromkeys(_COLLECTIVES.split(), "manual.COLLECTIVE"),
    "chlo.digamma": "elementwise.GAMMA",
    "chlo.lgamma": "elementwise.GAMMA",
    "chlo.mulhi": "rewritten.HIGH_HALF",
    "chlo.ragged_dot": "ragged.RAGGED_DOT",
    "chlo.top_k": "top_k.TOP_K",
    "dtensor.alike": "elementwise.ALIKE",
    "dtensor.fft": "fourier.PADDED_FFT",
    "dtensor.gather_dot": "gather_dot.GATHER_DOT",
    "dtensor.plus_zero": "elementwise.PLUS_ZERO",
    "dtensor.propagation_barrier": "elementwise.ALIKE",
    "dtensor.qr": "tall_qr.TALL_QR",
    "dtensor.ranked": "ranks.RANKED",
    "dtensor.scan": "associative.SCAN",
    "dtensor.search": "searching.SEARCH",
    "dtensor.splice": "splice.SPLICE",
    "stablehlo.batch_norm_grad": "normalisation.GRADIENT",
    "stablehlo.batch_norm_inference": "normalisation.INFERENCE",
    "stablehlo.batch_norm_training": "normalisation.TRAINING",
    "stablehlo.bitcast_convert": "elementwise.BITCAST_CONVERT",
    "stablehlo.broadcast_in_dim": "shape.BROADCAST_IN_DIM",
    "stablehlo.cholesky": "linalg.CHOLESKY",
    "stablehlo.concatenate": "cutting.CONCATENATE",
    "stablehlo.constant": "nullary.CONSTANT",
    "stablehlo.convert": "elementwise.CONVERT",
    "stablehlo.convolution": "convolution.CONVOLUTION",
    "stablehlo.custom_call": "custom_calls.CUSTOM_CALL",
    "stablehlo.divide": "elementwise.DIVIDE",
    "stablehlo.dot": "contraction.DOT",
    "stablehlo.dot_general": "contraction.DOT_GENERAL",
    "stablehlo.dynamic_slice": "dynamic.DYNAMIC_SLICE",
    "stablehlo.dynamic_update_slice": "dynamic.DYNAMIC_UPDATE_SLICE",
    "stablehlo.einsum": "rewritten.EINSUM",
    "stablehlo.fft": "fourier.FFT",
    "stablehlo.gather": "gather.GATHER",
    "stablehlo.infeed": "manual.HOST",
    "stablehlo.iota": "nullary.IOTA",
    "stablehlo.multiply": "elementwise.MULTIPLY",
    "stablehlo.optimization_barrier": "elementwise.OPTIMIZATION_BARRIER",
    "stablehlo.outfeed": "manual.HOST",
    "stablehlo.pad": "cutting.PAD",
    "stablehlo.partition_id": "manual.OWN_NUMBER",
    "stablehlo.recv": "manual.HOST",
    "stablehlo.reduce": "reductions.REDUCE",
    "stablehlo.reduce_window": "windows.REDUCE_WINDOW",
    "stablehlo.replica_id": "manual.OWN_NUMBER",
    "stablehlo.reshape": "shape.RESHAPE",
    "stablehlo.reverse": "cutting.REVERSE",
    "stablehlo.rng": "nullary.RNG",
    "stablehlo.rng_bit_generator": "nullary.RNG_BIT_GENERATOR",
    "stablehlo.scatter": "scatter.SCATTER",
    "stablehlo.select_and_scatter": "select_and_scatter.SELECT_AND_SCATTER",
    "stablehlo.send": "manual.HOST",
    "stablehlo.slice": "cutting.SLICE",
    "stablehlo.sort": "sorting.SORT",
    "stablehlo.torch_index_select": "rewritten.TORCH_INDEX_SELECT",
    "stablehlo.transpose": "shape.TRANSPOSE",
    "stablehlo.triangular_solve": "linalg.TRIANGULAR_SOLVE",
    "stablehlo.unary_einsum": "rewritten.EINSUM",
}


DEFINITIONS: Final[dict[str, OpDef]] = {}
"""Of the operations that were asked for, what is known of each."""


def opdef(name: str) -> OpDef:
    """What is known of an op; of one without a line above, that it is right on whole values."""
    found = DEFINITIONS.get(name)
    if found is None:
        found = DEFINITIONS[name] = _read(OPS[name]) if name in OPS else UNKNOWN
    return found


def _read(line: str) -> OpDef:
    file, _, what = line.partition(".")
    found = getattr(importlib.import_module(f"dtensor.passes.ops.{file}"), what)
    assert isinstance(found, OpDef), line
    return found


def rule_of(op: OpInfo) -> OpRule | None:
    """The rule of one op; None if it has none, and its operands must be whole."""
    definition = opdef(op.name)
    rule = definition.rule(op)
    if rule is None:
        return None
    is_free = definition.rematerialisable and not op.operand_shapes
    return replace(rule, flops=definition.count_flops(op), is_free=is_free)
