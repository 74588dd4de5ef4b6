"""The table of operations: one line per op. Everything about an op is in the file it names.

The lines are strings, so that a file is read when a program has one of its operations.
"""

from __future__ import annotations

import importlib
from dataclasses import replace
from typing import Final

from dtensor.passes.ops.opdef import UNKNOWN, OpDef
from dtensor.passes.ops.rule import OpInfo, OpRule

# What stands here has a rule, which may still say None about some ops of its name, as about most
# custom calls, or is written anew as ops that have one. Loops, branches, calls and barriers are
# followed by the graph.
OPS: Final[dict[str, str]] = {
    "chlo._asin_acos_kernel": "elementwise.COSTLY",
    "chlo.acos": "elementwise.COSTLY",
    "chlo.acosh": "elementwise.COSTLY",
    "chlo.asin": "elementwise.COSTLY",
    "chlo.asinh": "elementwise.COSTLY",
    "chlo.atan": "elementwise.COSTLY",
    "chlo.atanh": "elementwise.COSTLY",
    "chlo.bessel_i1e": "elementwise.COSTLY",
    "chlo.broadcast_add": "rewritten.BROADCASTING",
    "chlo.broadcast_and": "rewritten.BROADCASTING",
    "chlo.broadcast_atan2": "rewritten.BROADCASTING",
    "chlo.broadcast_compare": "rewritten.BROADCASTING",
    "chlo.broadcast_complex": "rewritten.BROADCASTING",
    "chlo.broadcast_divide": "rewritten.BROADCASTING",
    "chlo.broadcast_maximum": "rewritten.BROADCASTING",
    "chlo.broadcast_minimum": "rewritten.BROADCASTING",
    "chlo.broadcast_multiply": "rewritten.BROADCASTING",
    "chlo.broadcast_next_after": "rewritten.BROADCASTING",
    "chlo.broadcast_or": "rewritten.BROADCASTING",
    "chlo.broadcast_polygamma": "rewritten.BROADCASTING",
    "chlo.broadcast_power": "rewritten.BROADCASTING",
    "chlo.broadcast_remainder": "rewritten.BROADCASTING",
    "chlo.broadcast_select": "rewritten.BROADCASTING",
    "chlo.broadcast_shift_left": "rewritten.BROADCASTING",
    "chlo.broadcast_shift_right_arithmetic": "rewritten.BROADCASTING",
    "chlo.broadcast_shift_right_logical": "rewritten.BROADCASTING",
    "chlo.broadcast_subtract": "rewritten.BROADCASTING",
    "chlo.broadcast_xor": "rewritten.BROADCASTING",
    "chlo.broadcast_zeta": "rewritten.BROADCASTING",
    "chlo.conj": "elementwise.ELEMENTWISE",
    "chlo.constant_like": "elementwise.ELEMENTWISE",
    "chlo.cosh": "elementwise.COSTLY",
    "chlo.digamma": "elementwise.GAMMA",
    "chlo.erf": "elementwise.COSTLY",
    "chlo.erf_inv": "elementwise.COSTLY",
    "chlo.erfc": "elementwise.COSTLY",
    "chlo.is_inf": "elementwise.ELEMENTWISE",
    "chlo.is_neg_inf": "elementwise.ELEMENTWISE",
    "chlo.is_pos_inf": "elementwise.ELEMENTWISE",
    "chlo.lgamma": "elementwise.GAMMA",
    "chlo.mulhi": "rewritten.HIGH_HALF",
    "chlo.next_after": "elementwise.ELEMENTWISE",
    "chlo.polygamma": "elementwise.COSTLY",
    "chlo.ragged_dot": "contraction.RAGGED_DOT",
    "chlo.sinh": "elementwise.COSTLY",
    "chlo.square": "elementwise.ELEMENTWISE",
    "chlo.tan": "elementwise.COSTLY",
    "chlo.top_k": "sorting.TOP_K",
    "chlo.zeta": "elementwise.COSTLY",
    "dtensor.alike": "elementwise.ALIKE",
    "dtensor.fft": "fourier.PADDED_FFT",
    "dtensor.propagation_barrier": "elementwise.ALIKE",
    "dtensor.qr": "tall_qr.TALL_QR",
    "dtensor.ranked": "ranks.RANKED",
    "dtensor.scan": "associative.SCAN",
    "dtensor.search": "searching.SEARCH",
    "dtensor.splice": "splice.SPLICE",
    "stablehlo.abs": "elementwise.ELEMENTWISE",
    "stablehlo.add": "elementwise.ELEMENTWISE",
    "stablehlo.all_gather": "manual.COLLECTIVE",
    "stablehlo.all_reduce": "manual.COLLECTIVE",
    "stablehlo.all_to_all": "manual.COLLECTIVE",
    "stablehlo.and": "elementwise.ELEMENTWISE",
    "stablehlo.atan2": "elementwise.COSTLY",
    "stablehlo.batch_norm_grad": "normalisation.GRADIENT",
    "stablehlo.batch_norm_inference": "normalisation.INFERENCE",
    "stablehlo.batch_norm_training": "normalisation.TRAINING",
    "stablehlo.bitcast_convert": "elementwise.BITCAST_CONVERT",
    "stablehlo.broadcast_in_dim": "shape.BROADCAST_IN_DIM",
    "stablehlo.cbrt": "elementwise.COSTLY",
    "stablehlo.ceil": "elementwise.ELEMENTWISE",
    "stablehlo.cholesky": "linalg.CHOLESKY",
    "stablehlo.clamp": "elementwise.ELEMENTWISE",
    "stablehlo.collective_broadcast": "manual.COLLECTIVE",
    "stablehlo.collective_permute": "manual.COLLECTIVE",
    "stablehlo.compare": "elementwise.ELEMENTWISE",
    "stablehlo.complex": "elementwise.ELEMENTWISE",
    "stablehlo.concatenate": "cutting.CONCATENATE",
    "stablehlo.constant": "nullary.CONSTANT",
    "stablehlo.convert": "elementwise.CONVERT",
    "stablehlo.convolution": "convolution.CONVOLUTION",
    "stablehlo.cosine": "elementwise.COSTLY",
    "stablehlo.count_leading_zeros": "elementwise.ELEMENTWISE",
    "stablehlo.custom_call": "custom_calls.CUSTOM_CALL",
    "stablehlo.divide": "elementwise.COSTLY",
    "stablehlo.dot": "contraction.DOT",
    "stablehlo.dot_general": "contraction.DOT_GENERAL",
    "stablehlo.dynamic_slice": "dynamic.DYNAMIC_SLICE",
    "stablehlo.dynamic_update_slice": "dynamic.DYNAMIC_UPDATE_SLICE",
    "stablehlo.einsum": "rewritten.EINSUM",
    "stablehlo.exponential": "elementwise.COSTLY",
    "stablehlo.exponential_minus_one": "elementwise.COSTLY",
    "stablehlo.fft": "fourier.FFT",
    "stablehlo.floor": "elementwise.ELEMENTWISE",
    "stablehlo.gather": "gather.GATHER",
    "stablehlo.imag": "elementwise.ELEMENTWISE",
    "stablehlo.infeed": "manual.HOST",
    "stablehlo.iota": "nullary.IOTA",
    "stablehlo.is_finite": "elementwise.ELEMENTWISE",
    "stablehlo.log": "elementwise.COSTLY",
    "stablehlo.log_plus_one": "elementwise.COSTLY",
    "stablehlo.logistic": "elementwise.COSTLY",
    "stablehlo.map": "elementwise.ELEMENTWISE",
    "stablehlo.maximum": "elementwise.ELEMENTWISE",
    "stablehlo.minimum": "elementwise.ELEMENTWISE",
    "stablehlo.multiply": "elementwise.ELEMENTWISE",
    "stablehlo.negate": "elementwise.ELEMENTWISE",
    "stablehlo.not": "elementwise.ELEMENTWISE",
    "stablehlo.optimization_barrier": "elementwise.OPTIMIZATION_BARRIER",
    "stablehlo.or": "elementwise.ELEMENTWISE",
    "stablehlo.outfeed": "manual.HOST",
    "stablehlo.pad": "cutting.PAD",
    "stablehlo.partition_id": "manual.OWN_NUMBER",
    "stablehlo.popcnt": "elementwise.ELEMENTWISE",
    "stablehlo.power": "elementwise.COSTLY",
    "stablehlo.real": "elementwise.ELEMENTWISE",
    "stablehlo.recv": "manual.HOST",
    "stablehlo.reduce": "reductions.REDUCE",
    "stablehlo.reduce_precision": "elementwise.ELEMENTWISE",
    "stablehlo.reduce_scatter": "manual.COLLECTIVE",
    "stablehlo.reduce_window": "windows.REDUCE_WINDOW",
    "stablehlo.remainder": "elementwise.COSTLY",
    "stablehlo.replica_id": "manual.OWN_NUMBER",
    "stablehlo.reshape": "shape.RESHAPE",
    "stablehlo.reverse": "cutting.REVERSE",
    "stablehlo.rng": "nullary.RNG",
    "stablehlo.rng_bit_generator": "nullary.RNG_BIT_GENERATOR",
    "stablehlo.round_nearest_afz": "elementwise.ELEMENTWISE",
    "stablehlo.round_nearest_even": "elementwise.ELEMENTWISE",
    "stablehlo.rsqrt": "elementwise.COSTLY",
    "stablehlo.scatter": "scatter.SCATTER",
    "stablehlo.select": "elementwise.ELEMENTWISE",
    "stablehlo.select_and_scatter": "select_and_scatter.SELECT_AND_SCATTER",
    "stablehlo.send": "manual.HOST",
    "stablehlo.shift_left": "elementwise.ELEMENTWISE",
    "stablehlo.shift_right_arithmetic": "elementwise.ELEMENTWISE",
    "stablehlo.shift_right_logical": "elementwise.ELEMENTWISE",
    "stablehlo.sign": "elementwise.ELEMENTWISE",
    "stablehlo.sine": "elementwise.COSTLY",
    "stablehlo.slice": "cutting.SLICE",
    "stablehlo.sort": "sorting.SORT",
    "stablehlo.sqrt": "elementwise.COSTLY",
    "stablehlo.subtract": "elementwise.ELEMENTWISE",
    "stablehlo.tan": "elementwise.COSTLY",
    "stablehlo.tanh": "elementwise.COSTLY",
    "stablehlo.torch_index_select": "rewritten.TORCH_INDEX_SELECT",
    "stablehlo.transpose": "shape.TRANSPOSE",
    "stablehlo.triangular_solve": "linalg.TRIANGULAR_SOLVE",
    "stablehlo.unary_einsum": "rewritten.EINSUM",
    "stablehlo.xor": "elementwise.ELEMENTWISE",
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
