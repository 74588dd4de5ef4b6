"""The table of operations: one line per op. Everything about an op is in the file it names."""

from __future__ import annotations

from dataclasses import replace

from dtensor.passes.ops import (
    contraction,
    custom_calls,
    cutting,
    dynamic,
    elementwise,
    gather,
    linalg,
    normalisation,
    nullary,
    random,
    reductions,
    scatter,
    select_and_scatter,
    shape,
    sorting,
    splice,
    windows,
    written,
)
from dtensor.passes.ops.opdef import OpDef, unknown_flops
from dtensor.passes.ops.rule import OpInfo, OpRule

# What stands here has a rule, which may still say None about some ops of its name, as about most
# custom calls. Loops, branches, calls and barriers are followed by the graph.
OPS: dict[str, OpDef] = {
    "chlo._asin_acos_kernel": elementwise.ELEMENTWISE,
    "chlo.acos": elementwise.ELEMENTWISE,
    "chlo.acosh": elementwise.ELEMENTWISE,
    "chlo.asin": elementwise.ELEMENTWISE,
    "chlo.asinh": elementwise.ELEMENTWISE,
    "chlo.atan": elementwise.ELEMENTWISE,
    "chlo.atanh": elementwise.ELEMENTWISE,
    "chlo.bessel_i1e": elementwise.ELEMENTWISE,
    "chlo.conj": elementwise.ELEMENTWISE,
    "chlo.constant_like": elementwise.ELEMENTWISE,
    "chlo.cosh": elementwise.ELEMENTWISE,
    "chlo.digamma": elementwise.ELEMENTWISE,
    "chlo.erf": elementwise.ELEMENTWISE,
    "chlo.erf_inv": elementwise.ELEMENTWISE,
    "chlo.erfc": elementwise.ELEMENTWISE,
    "chlo.is_inf": elementwise.ELEMENTWISE,
    "chlo.is_neg_inf": elementwise.ELEMENTWISE,
    "chlo.is_pos_inf": elementwise.ELEMENTWISE,
    "chlo.lgamma": elementwise.ELEMENTWISE,
    "chlo.mulhi": elementwise.ELEMENTWISE,
    "chlo.next_after": elementwise.ELEMENTWISE,
    "chlo.polygamma": elementwise.ELEMENTWISE,
    "chlo.sinh": elementwise.ELEMENTWISE,
    "chlo.square": elementwise.ELEMENTWISE,
    "chlo.tan": elementwise.ELEMENTWISE,
    "chlo.top_k": sorting.TOP_K,
    "chlo.zeta": elementwise.ELEMENTWISE,
    "dtensor.alike": elementwise.ALIKE,
    "dtensor.splice": splice.SPLICE,
    "stablehlo.abs": elementwise.ELEMENTWISE,
    "stablehlo.add": elementwise.ELEMENTWISE,
    "stablehlo.all_gather": written.COLLECTIVE,
    "stablehlo.all_reduce": written.COLLECTIVE,
    "stablehlo.all_to_all": written.COLLECTIVE,
    "stablehlo.and": elementwise.ELEMENTWISE,
    "stablehlo.atan2": elementwise.ELEMENTWISE,
    "stablehlo.batch_norm_grad": normalisation.BATCH_NORM_GRAD,
    "stablehlo.batch_norm_inference": normalisation.BATCH_NORM_INFERENCE,
    "stablehlo.batch_norm_training": normalisation.BATCH_NORM_TRAINING,
    "stablehlo.bitcast_convert": elementwise.BITCAST_CONVERT,
    "stablehlo.broadcast_in_dim": shape.BROADCAST_IN_DIM,
    "stablehlo.cbrt": elementwise.ELEMENTWISE,
    "stablehlo.ceil": elementwise.ELEMENTWISE,
    "stablehlo.cholesky": linalg.CHOLESKY,
    "stablehlo.clamp": elementwise.ELEMENTWISE,
    "stablehlo.collective_broadcast": written.COLLECTIVE,
    "stablehlo.collective_permute": written.COLLECTIVE,
    "stablehlo.compare": elementwise.ELEMENTWISE,
    "stablehlo.complex": elementwise.ELEMENTWISE,
    "stablehlo.concatenate": cutting.CONCATENATE,
    "stablehlo.constant": nullary.CONSTANT,
    "stablehlo.convert": elementwise.CONVERT,
    "stablehlo.convolution": contraction.CONVOLUTION,
    "stablehlo.cosine": elementwise.ELEMENTWISE,
    "stablehlo.count_leading_zeros": elementwise.ELEMENTWISE,
    "stablehlo.custom_call": custom_calls.CUSTOM_CALL,
    "stablehlo.divide": elementwise.ELEMENTWISE,
    "stablehlo.dot": contraction.DOT,
    "stablehlo.dot_general": contraction.DOT_GENERAL,
    "stablehlo.dynamic_slice": dynamic.DYNAMIC_SLICE,
    "stablehlo.dynamic_update_slice": dynamic.DYNAMIC_UPDATE_SLICE,
    "stablehlo.exponential": elementwise.ELEMENTWISE,
    "stablehlo.exponential_minus_one": elementwise.ELEMENTWISE,
    "stablehlo.fft": linalg.FFT,
    "stablehlo.floor": elementwise.ELEMENTWISE,
    "stablehlo.gather": gather.GATHER,
    "stablehlo.imag": elementwise.ELEMENTWISE,
    "stablehlo.iota": nullary.IOTA,
    "stablehlo.is_finite": elementwise.ELEMENTWISE,
    "stablehlo.log": elementwise.ELEMENTWISE,
    "stablehlo.log_plus_one": elementwise.ELEMENTWISE,
    "stablehlo.logistic": elementwise.ELEMENTWISE,
    "stablehlo.map": elementwise.ELEMENTWISE,
    "stablehlo.maximum": elementwise.ELEMENTWISE,
    "stablehlo.minimum": elementwise.ELEMENTWISE,
    "stablehlo.multiply": elementwise.ELEMENTWISE,
    "stablehlo.negate": elementwise.ELEMENTWISE,
    "stablehlo.not": elementwise.ELEMENTWISE,
    "stablehlo.optimization_barrier": elementwise.OPTIMIZATION_BARRIER,
    "stablehlo.or": elementwise.ELEMENTWISE,
    "stablehlo.pad": cutting.PAD,
    "stablehlo.popcnt": elementwise.ELEMENTWISE,
    "stablehlo.power": elementwise.ELEMENTWISE,
    "stablehlo.real": elementwise.ELEMENTWISE,
    "stablehlo.reduce": reductions.REDUCE,
    "stablehlo.reduce_precision": elementwise.ELEMENTWISE,
    "stablehlo.reduce_scatter": written.COLLECTIVE,
    "stablehlo.reduce_window": windows.REDUCE_WINDOW,
    "stablehlo.remainder": elementwise.ELEMENTWISE,
    "stablehlo.reshape": shape.RESHAPE,
    "stablehlo.reverse": cutting.REVERSE,
    "stablehlo.rng": random.RNG,
    "stablehlo.rng_bit_generator": random.RNG_BIT_GENERATOR,
    "stablehlo.round_nearest_afz": elementwise.ELEMENTWISE,
    "stablehlo.round_nearest_even": elementwise.ELEMENTWISE,
    "stablehlo.rsqrt": elementwise.ELEMENTWISE,
    "stablehlo.scatter": scatter.SCATTER,
    "stablehlo.select": elementwise.ELEMENTWISE,
    "stablehlo.select_and_scatter": select_and_scatter.SELECT_AND_SCATTER,
    "stablehlo.shift_left": elementwise.ELEMENTWISE,
    "stablehlo.shift_right_arithmetic": elementwise.ELEMENTWISE,
    "stablehlo.shift_right_logical": elementwise.ELEMENTWISE,
    "stablehlo.sign": elementwise.ELEMENTWISE,
    "stablehlo.sine": elementwise.ELEMENTWISE,
    "stablehlo.slice": cutting.SLICE,
    "stablehlo.sort": sorting.SORT,
    "stablehlo.sqrt": elementwise.ELEMENTWISE,
    "stablehlo.subtract": elementwise.ELEMENTWISE,
    "stablehlo.tan": elementwise.ELEMENTWISE,
    "stablehlo.tanh": elementwise.ELEMENTWISE,
    "stablehlo.transpose": shape.TRANSPOSE,
    "stablehlo.triangular_solve": linalg.TRIANGULAR_SOLVE,
    "stablehlo.xor": elementwise.ELEMENTWISE,
}


UNKNOWN = OpDef(lambda op: None, flops=unknown_flops)


def opdef(name: str) -> OpDef:
    """What is known of an op; of one without a line above, that it is right on whole values."""
    return OPS.get(name, UNKNOWN)


def rule_of(op: OpInfo) -> OpRule | None:
    """The rule of one op; None if it has none, and its operands must be whole."""
    definition = opdef(op.name)
    rule = definition.rule(op)
    if rule is None:
        return None
    is_free = definition.rematerialisable and not op.operand_shapes
    return replace(rule, flops=definition.count_flops(op), is_free=is_free)
