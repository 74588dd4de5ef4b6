"""Random bits: every device must see the same, or its own piece of the same."""

from __future__ import annotations

import math
from collections.abc import Sequence

from dtensor.dialect.diagnostics import error
from dtensor.dialect.mlir import Value
from dtensor.passes.expansion.context import LocalOp
from dtensor.passes.ops.opdef import BY_RUN, OpDef, local
from dtensor.passes.ops.rule import OpInfo, OpRule, RuleBuilder


def rng_bit_generator_rule(op: OpInfo) -> OpRule:
    """`s->s,ij`: the bits can be split, but each depends on its global place.

    So every shard makes them all, from the same state, and keeps its own.
    """
    builder = RuleBuilder(op)
    for d in range(len(op.operand_shapes[0])):
        builder.whole(0, d, "is the state of the generator")
    for d in range(len(op.result_shapes[1])):
        builder.share((~1, d))
    return builder.build()


def rng_bit_generator_flops(op: OpInfo) -> float:
    """One per element of the bits."""
    return float(math.prod(op.result_shapes[1]))


def rng_rule(op: OpInfo) -> OpRule:
    """Nothing can be split: each device has a hidden state of its own."""
    builder = RuleBuilder(op)
    for d in range(len(op.result_shapes[0])):
        builder.whole(~0, d, "is drawn from a state that each device has for itself")
    return builder.build()


def expand_rng_bit_generator(op: LocalOp) -> Sequence[Value] | None:
    """All bits, of which the shard is cut out: the algorithm numbers them globally."""
    layout, shape = op.result_layouts[1], op.result_shapes[1]
    if layout.is_fully_replicated():
        return None
    state, bits = op.ctx.clone(op.operation).results
    return [state, op.ctx.shard_of(bits, layout, shape)]


def expand_rng(op: LocalOp) -> None:
    """Refused on more than one device: they would draw different numbers.

    Raises:
        LocatedError: the mesh has more than one device.
    """
    if op.ctx.mesh.size > 1:
        error(
            op.operation,
            f"stablehlo.rng draws from a state that each device has for itself, so the "
            f"{op.ctx.mesh.size} devices of mesh @{op.ctx.mesh.symbol} would disagree; draw with "
            "stablehlo.rng_bit_generator (jax.random) from a key",
        )


RNG_BIT_GENERATOR = OpDef(
    rng_bit_generator_rule, (local(expand_rng_bit_generator),), flops=rng_bit_generator_flops
)
RNG = OpDef(rng_rule, (local(expand_rng),), varies=BY_RUN)
