"""Shardy's `sdy.sharding_rule` of a call, as a definition."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Final

from dtensor.dialect.callbacks import has_effects, target_of
from dtensor.dialect.mlir import ir, sdy
from dtensor.dialect.names import DEFINED
from dtensor.passes.ops.attributes import integer
from dtensor.passes.ops.definition import Definition
from dtensor.passes.ops.named_calls import NAMED_CALLS

SHARDING_RULE: Final = "sdy.sharding_rule"
# XLA's typed FFI, which gives a call the sizes of its buffers; or what jax writes for it.
_API, _TYPED, _TYPED_CONFIG = "api_version", 4, "mhlo.backend_config"


def is_defined_by_rule(op: ir.Operation) -> bool:
    """Whether a custom call may be made for shards as its rule says.

    It must take sizes from its buffers, as a typed call does: the configuration of others may hold
    those of the whole arrays, as that of a Pallas kernel does.
    """
    return (
        SHARDING_RULE in op.attributes
        and DEFINED not in op.attributes
        and target_of(op) not in NAMED_CALLS
        and _is_typed(op)
        and not has_effects(op)
    )


def _is_typed(op: ir.Operation) -> bool:
    if _TYPED_CONFIG in op.attributes:
        return True
    return _API in op.attributes and integer(op.attributes[_API]) == _TYPED


def definition_by_rule(op: ir.Operation) -> Definition:
    """The definition that says what `sdy.sharding_rule` says.

    Factors to be replicated, permuted or propagated in blocks are whole; reductions are sums, as in
    Shardy. A dimension of several factors is one, if they stand together wherever they stand.
    """
    rule = sdy.OpShardingRuleAttr(op.attributes[SHARDING_RULE])
    sides = [_tensors(rule.operand_mappings), _tensors(rule.result_mappings)]
    tensors = [tensor for side in sides for tensor in side]
    shared = Counter(factor for dim in {d for t in tensors for d in t} for factor in dim)
    whole = {
        *rule.need_replication_factors,
        *rule.permutation_factors,
        *rule.blocked_propagation_factors,
    }
    given = {dim for tensor in sides[0] for dim in tensor}

    def name(dim: tuple[int, ...]) -> str:
        apart = dim and all(shared[factor] == 1 for factor in dim)
        return "_".join(f"f{factor}" for factor in dim) if apart else "_"

    def named(test: Callable[[tuple[int, ...]], bool]) -> list[str]:
        return sorted({name(dim) for dim in given if name(dim) != "_" and test(dim)})

    signature = " -> ".join(
        ", ".join(" ".join(map(name, tensor)) for tensor in side) for side in sides
    )
    summed = named(lambda dim: set(dim) <= set(rule.reduction_factors) - whole)
    summed = [each for each in summed if not all(each in map(name, t) for t in sides[1])]
    return Definition(
        target_of(op),
        signature,
        tuple(named(lambda dim: not whole.isdisjoint(dim))),
        tuple((each, "sum") for each in summed),
    )


def _tensors(mappings: Iterable[ir.Attribute]) -> list[list[tuple[int, ...]]]:
    return [
        [
            tuple(sdy.DimMappingAttr(dim).factor_indices)
            for dim in sdy.TensorMappingAttr(t).dim_mappings
        ]
        for t in mappings
    ]
