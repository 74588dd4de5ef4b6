"""Which local operations XLA fuses into their neighbours, and which only move elements."""

from __future__ import annotations

from typing import Final

# Fused into what reads them: no memory of their own, one flop per element.
FUSED: Final = frozenset(
    f"stablehlo.{name}"
    for name in (
        "add subtract multiply divide maximum minimum negate abs exponential log tanh rsqrt sqrt "
        "power compare select convert and or not xor clamp logistic is_finite shift_left "
        "shift_right_logical sign floor ceil"
    ).split()
)
# Without flops; the first line is fused as well.
FUSED_MOVES: Final = frozenset(
    f"stablehlo.{name}" for name in "broadcast_in_dim reshape iota constant slice".split()
)
NO_FLOPS: Final = (
    FUSED_MOVES
    | frozenset(
        f"stablehlo.{name}"
        for name in (
            "transpose concatenate pad gather scatter dynamic_slice dynamic_update_slice return "
            "optimization_barrier bitcast_convert custom_call rng_bit_generator sort"
        ).split()
    )
    | {"func.return"}
)
# Computed again for each reader, because it is cheap and reads one tensor only.
REPEATED: Final = frozenset(f"stablehlo.{name}" for name in "convert compare negate not".split())
# What reads fused values without their being written.
ABSORBS: Final = frozenset(("stablehlo.reduce", "stablehlo.reduce_window"))
# The same elements in the same place.
ALIASES: Final = frozenset(("stablehlo.reshape", "stablehlo.optimization_barrier"))
# Several become one, whose results are there before its operands go; up to so many bytes.
ALL_REDUCE: Final = "stablehlo.all_reduce"
COMBINED_BYTES: Final = 30 << 20
