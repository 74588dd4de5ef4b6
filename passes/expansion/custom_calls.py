"""Custom calls on a shard."""

from __future__ import annotations

from dtensor.passes.expansion.context import LocalOp
from dtensor.passes.rules.custom_calls import SHARDING_RULE


def expand_custom_call(op: LocalOp) -> None:
    """Shardy's rule speaks of global sizes, and has served."""
    if SHARDING_RULE in op.operation.attributes:
        del op.operation.attributes[SHARDING_RULE]
