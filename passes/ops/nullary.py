"""Values that come from nowhere, whose layout is free, and random bits, the same everywhere."""

from __future__ import annotations

import math
from collections.abc import Sequence

from dtensor.dialect.diagnostics import error
from dtensor.dialect.mlir import Value, ir
from dtensor.passes.builder import Builder
from dtensor.passes.expansion.context import LocalOp
from dtensor.passes.ops import padding
from dtensor.passes.ops.attributes import constant_attribute, identity_of, integer, is_splat
from dtensor.passes.ops.elements import element_kind
from dtensor.passes.ops.opdef import BY_RUN, OpDef, local
from dtensor.passes.ops.rule import OpInfo, OpRule, RuleBuilder


def constant_rule(op: OpInfo) -> OpRule:
    """`->ij`. A constant that is the identity of a reduction is a part of it as it stands."""
    builder = free_dims(op)
    for reduction in identity_of(op.operation):
        builder.passes([], [reduction])
    return builder.build()


def iota_rule(op: OpInfo) -> OpRule:
    """`->ij`: a shard of the counted dimension counts from its own offset."""
    return free_dims(op).build()


def free_dims(op: OpInfo) -> RuleBuilder:
    """Any dimension of the result may be split, for nothing is read."""
    builder = RuleBuilder(op)
    for d in range(len(op.result_shapes[0])):
        builder.share((~0, d))
    return builder


def expand_constant(op: LocalOp) -> Sequence[Value] | None:
    """A splat gets its local type; of any other constant each device cuts its shard."""
    layout, shape = op.result_layouts[0], op.result_shapes[0]
    local_shape = layout.local_shape(shape)
    if local_shape == shape:
        return None
    ctx, operation = op.ctx, op.operation
    value = constant_attribute(operation)
    if value is not None and value.is_splat:
        splat = ir.DenseElementsAttr.get_splat(op.local_result_type(), value.get_splat_value())
        operation.attributes["value"] = splat
        return None
    whole = ctx.clone(operation).results[0]
    if not is_splat(operation):
        return [ctx.shard_of(whole, layout, shape)]
    # The bindings cannot write complex constants; any piece of a splat will do.
    return [ctx.slice(whole, [0] * len(shape), local_shape)]


def expand_iota(op: LocalOp) -> Sequence[Value] | None:
    """Along a split dimension the elements are global indices."""
    layout = op.result_layouts[0]
    dim = integer(op.operation.attributes["iota_dimension"])
    if layout.dims[dim].split == 1:
        return None
    size = op.result_shapes[0][dim]
    index = op.ctx.global_index(layout, dim, size, op.result_element())
    return [op.ctx.broadcast(index, op.local_result_shape(), [dim])]


def constant_fill(rule: OpRule, factor: int) -> padding.Fill | None:
    """A splat can be longer; where the bindings cannot read one, nobody can write it."""
    value = constant_attribute(rule.info.operation)
    return padding.Fill.ANY if value is not None and value.is_splat else None


def lengthen_constant(op: padding.Grown) -> None:
    """A splat of the longer type."""
    value = constant_attribute(op.operation)
    assert value is not None
    splat = ir.DenseElementsAttr.get_splat(op.operation.results[0].type, value.get_splat_value())
    op.operation.attributes["value"] = splat


CONSTANT = OpDef(
    constant_rule,
    (local(expand_constant),),
    fuses=True,
    rematerialisable=True,
    moves_only=True,
    resizes=True,
    padding=padding.Padding(constant_fill, lengthen_constant),
)
IOTA = OpDef(
    iota_rule,
    (local(expand_iota),),
    fuses=True,
    rematerialisable=True,
    moves_only=True,
    padding=padding.ANY,
)


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


def _of_unsigned(op: ir.Operation, made: list[ir.Operation]) -> list[Value]:
    """Bits as numbers without a sign, read as what they are to be: XLA refuses others on a mesh."""
    make = Builder(op, made)
    state, bits = (result.type for result in op.results)
    shape, element = make.read_type(bits)
    kind, width = element_kind(element)
    if kind not in ("signed", "float"):
        return []
    types = [state, make.tensor_type(shape, f"ui{width}")]
    algorithm = {"rng_algorithm": op.attributes["rng_algorithm"]}
    created = make.create(op.name, list(op.operands), types, algorithm)
    return [created.results[0], make.bitcast(created.results[1], element)]


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
    rng_bit_generator_rule,
    (local(expand_rng_bit_generator),),
    flops=rng_bit_generator_flops,
    anew=_of_unsigned,
)
RNG = OpDef(rng_rule, (local(expand_rng),), varies=BY_RUN)
