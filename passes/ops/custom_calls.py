"""Custom calls: what is behind them is unknown, except where JAX says how they may be split."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from dtensor.dialect.callbacks import target_of
from dtensor.dialect.mlir import Value, forget, ir, sdy
from dtensor.dialect.names import DEFINED
from dtensor.passes.expansion.context import LocalOp
from dtensor.passes.functions import tensor_shape
from dtensor.passes.ops import padding
from dtensor.passes.ops.accuracy import factorised
from dtensor.passes.ops.bodies import inline_body
from dtensor.passes.ops.callbacks import calls_once, expand_once
from dtensor.passes.ops.definition import Definition, definition_of
from dtensor.passes.ops.named_calls import NAMED_CALLS
from dtensor.passes.ops.opdef import OpDef, local, says
from dtensor.passes.ops.rule import OpInfo, OpRule, RuleBuilder

SHARDING_RULE = "sdy.sharding_rule"

# Targets that are called on a shard as they are called on the whole: each matrix by itself.
_BATCHED = ("lapack_", "cusolver_", "hipsolver_", "cu_", "hip_")
# Solves, of one matrix and any number of right sides: triangular ones, and tridiagonal ones.
_SOLVES, _BANDS = (
    frozenset(f"lapack_{element}{kind}_ffi" for element in "sdcz") for kind in ("trsm", "gtsv")
)


def custom_call_rule(op: OpInfo) -> OpRule | None:
    """As a user defined it; XLA's own by name; for LAPACK's the batch that JAX names; else None.

    A batch dimension is a factor of which every result has its part, and that is neither reduced
    nor said to be replicated; it stands alone in its dimension wherever it stands. Other targets
    may carry a rule as well, but need their own partitioner to be called on a shard.
    """
    defined = definition_of(op)
    if defined is not None:
        return defined.rule(op)
    target = target_of(op.operation)
    return NAMED_CALLS[target].rule(op) if target in NAMED_CALLS else _batch_rule(op, target)


def _batch_rule(op: OpInfo, target: str) -> OpRule | None:
    """What JAX says of a call of LAPACK or its kin."""
    if not target.startswith(_BATCHED) or not op.has(SHARDING_RULE):
        return None
    if op.has("has_side_effect") and ir.BoolAttr(op.attribute("has_side_effect")).value:
        return None
    rule = sdy.OpShardingRuleAttr(op.attribute(SHARDING_RULE))
    operands, results = _factors(rule.operand_mappings), _factors(rule.result_mappings)
    special = {*rule.reduction_factors, *rule.need_replication_factors, *rule.permutation_factors}
    sizes = list(rule.factor_sizes)
    builder = RuleBuilder(op)
    for number, size in enumerate(sizes):
        places = [_place(dims, number) for dims in (*operands, *results)]
        in_operands, in_results = places[: len(operands)], places[len(operands) :]
        if number in special or None in places or -1 in in_results or set(in_operands) == {-1}:
            continue  # what no operand has is made by the call: matrix dimensions of results
        read = [(k, d) for k, d in enumerate(in_operands) if d is not None and d >= 0]
        made = [(~k, d) for k, d in enumerate(in_results) if d is not None]
        builder.share(*read, *made, size=size)
    if target in _SOLVES:
        _split_right_sides(op, builder)
    elif target in _BANDS:
        dim = len(op.operand_shapes[3]) - 1
        builder.share((3, dim), (~3, dim))
    return builder.build()


def _split_right_sides(op: OpInfo, builder: RuleBuilder) -> None:
    """`a x = b` solves each column of b by itself, `x a = b` each row; JAX's rule does not say."""
    if not op.has("mhlo.backend_config"):
        return
    config = ir.DictAttr(op.attribute("mhlo.backend_config"))
    if "side" not in config:
        return
    side = ir.IntegerAttr(config["side"]).value
    dim = len(op.operand_shapes[1]) - (1 if side == ord("L") else 2)
    builder.share((1, dim), (~0, dim))


def _factors(mappings: list[ir.Attribute]) -> list[list[list[int]]]:
    """Per tensor and dimension the factors, major first."""
    return [
        [
            list(sdy.DimMappingAttr(dim).factor_indices)
            for dim in sdy.TensorMappingAttr(tensor).dim_mappings
        ]
        for tensor in mappings
    ]


def _place(dims: list[list[int]], factor: int) -> int | None:
    """The dimension that is this factor; -1 if no dimension has it, None if one has more."""
    found = [d for d, factors in enumerate(dims) if factor in factors]
    if not found:
        return -1
    return found[0] if len(found) == 1 and dims[found[0]] == [factor] else None


def expand_custom_call(op: LocalOp) -> Sequence[Value] | None:
    """Shardy's rule speaks of global sizes, and has served; a body is made for local ones."""
    if calls_once(op):
        return expand_once(op)
    forget(op.operation, SHARDING_RULE)
    if DEFINED not in op.operation.attributes or op.ctx.state is None:
        return None
    make = op.ctx.state.bodies.get(target_of(op.operation))
    if make is None:
        return None
    types = [op.ctx.read_type(value.type) for value in op.operands]
    count = _kernel_counter(op, types)
    return inline_body(op, make(types), count)


def _kernel_counter(
    op: LocalOp, types: Sequence[tuple[tuple[int, ...], str]]
) -> Callable[[ir.Operation], bool]:
    """Says of the first kernel in a body what the definition of `op` counts for its shard.

    The other operations of a body are counted by their own rules, but nobody knows a kernel's.
    """
    shapes = tuple([shape for shape, _ in types])
    outs = tuple([op.local_result_shape(i) for i in range(len(op.result_layouts))])
    elements = tuple([element for _, element in types])
    results = tuple([op.result_element(i) for i in range(len(outs))])
    shard = OpInfo(op.operation, "stablehlo.custom_call", shapes, outs, elements, results)
    flops = round(custom_call_flops(shard))

    def count(inner: ir.Operation) -> bool:
        if inner.name != "stablehlo.custom_call" or not flops:
            return False
        name = target_of(inner)
        if name in NAMED_CALLS or DEFINED in inner.attributes:
            return False
        sides = [", ".join(_unnamed(v.type) for v in vs) for vs in (inner.operands, inner.results)]
        with inner.context:
            made = Definition(name, " -> ".join(sides), flops=str(flops))
            inner.attributes[DEFINED] = made.attribute()
        return True

    return count


def _unnamed(type_: ir.Type) -> str:
    """What a signature says of a tensor that is whole."""
    return " ".join("_" * len(tensor_shape(type_) or ()))


def custom_call_flops(op: OpInfo) -> float:
    """Known of calls that are defined or have a name here; 0 of others."""
    defined = definition_of(op)
    if defined is not None:
        return defined.count_flops(op)
    known = NAMED_CALLS.get(target_of(op.operation))
    return 0.0 if known is None or known.rule(op) is None else known.flops(op)


def custom_call_fill(rule: OpRule, factor: int) -> padding.Fill | None:
    """Each matrix of a batch by itself; what a user defined says nothing of padding."""
    return None if rule.info.has(DEFINED) else padding.passing(rule, factor)


def lengthen_custom_call(op: padding.Grown) -> None:
    """Shardy's rule speaks of sizes."""
    if SHARDING_RULE not in op.operation.attributes:
        return
    rule = sdy.OpShardingRuleAttr(op.operation.attributes[SHARDING_RULE])
    mappings = [*rule.operand_mappings, *rule.result_mappings]
    sizes = list(rule.factor_sizes)
    for dims, shape in zip(_factors(mappings), (*op.operands, *op.results), strict=True):
        for numbers, size in zip(dims, shape, strict=True):
            if len(numbers) == 1:
                sizes[numbers[0]] = size
    op.operation.attributes[SHARDING_RULE] = sdy.OpShardingRuleAttr.get(
        sizes,
        list(rule.operand_mappings),
        list(rule.result_mappings),
        list(rule.reduction_factors),
        list(rule.need_replication_factors),
        list(rule.permutation_factors),
        list(rule.blocked_propagation_factors),
        rule.is_custom,
    )


CUSTOM_CALL = OpDef(
    custom_call_rule,
    (local(expand_custom_call),),
    flops=custom_call_flops,
    accuracy=factorised,
    known=says(DEFINED),
    padding=padding.Padding(custom_call_fill, lengthen_custom_call),
)
