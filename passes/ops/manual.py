"""The border of `dtensor.manual`: between a value and the shards of it that the region works on."""

from __future__ import annotations

from collections.abc import Sequence

from dtensor.passes.ops.rule import DimMap, Factor, OpRule


def border_rule(whole: Sequence[int], shard: Sequence[int], goes_in: bool) -> OpRule:
    """What is free splits a shard and the value alike: each dimension behind what cuts shards.

    Args:
        whole: shape of the value, in elements.
        shard: shape of the shards.
        goes_in: whether the value is an operand; otherwise it is a result.
    """
    inside = tuple([DimMap(d, 1, size) for d, size in enumerate(shard)])
    outside = tuple(
        [
            DimMap(d, 1, size, all_ // size if size else 1)
            for d, (all_, size) in enumerate(zip(whole, shard, strict=True))
        ]
    )
    operands, results = ((outside,), (inside,)) if goes_in else ((inside,), (outside,))
    return OpRule(tuple([Factor(size) for size in shard]), operands, results)
