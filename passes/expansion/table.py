"""Which ops need more than local types: one line per op.

An op that is not here is right on each shard with local operand and result types alone.
"""

from __future__ import annotations

from dtensor.passes.expansion import (
    convolution,
    custom_calls,
    cutting,
    dynamic,
    indexing,
    nullary,
    random,
    reduction,
)
from dtensor.passes.expansion.context import Expander

EXPANDERS: dict[str, Expander] = {
    "stablehlo.constant": nullary.expand_constant,
    "stablehlo.convolution": convolution.expand_convolution,
    "stablehlo.custom_call": custom_calls.expand_custom_call,
    "stablehlo.dynamic_slice": dynamic.expand_dynamic_slice,
    "stablehlo.gather": indexing.expand_gather,
    "stablehlo.iota": nullary.expand_iota,
    "stablehlo.pad": cutting.expand_pad,
    "stablehlo.reduce": reduction.expand_reduce,
    "stablehlo.rng": random.expand_rng,
    "stablehlo.rng_bit_generator": random.expand_rng_bit_generator,
    "stablehlo.scatter": indexing.expand_scatter,
    "stablehlo.slice": cutting.expand_slice,
}
