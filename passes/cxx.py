"""The C++ passes that jaxlib carries and that make sense on StableHLO, and what each runs on.

MLIR aborts the process when a pass is added to the wrong kind of operation, so the pipeline asks
this table first. Measured on jaxlib 0.10.2 and 0.12.0, one process for each entry and operation.
"""

from __future__ import annotations

from typing import Final

from dtensor.dialect.mlir import JAXLIB_VERSION

ANY: Final = "any"
MODULE: Final = "builtin.module"
FUNC: Final = "func.func"

_ANY_PASSES = """
canonicalize composite-fixed-point-pass control-flow-sink cse loop-invariant-code-motion
print-op-stats remove-dead-values sccp snapshot-op-locations strip-debuginfo symbol-privatize
topological-sort trivial-dce
"""

_MODULE_PASSES = """
inline sdy-add-data-flow-edges sdy-add-func-data-flow-edges sdy-aggressive-propagate
sdy-apply-sharding-constraints sdy-basic-propagate sdy-close-shardings
sdy-constant-or-scalar-splitter sdy-convert-global-to-local sdy-drop-sharding-and-mesh
sdy-export-named-computations sdy-export-pipeline sdy-flatten-call-graph sdy-import-func-calls
sdy-import-pipeline sdy-inline-meshes sdy-insert-func-call-reshards sdy-lift-inlined-meshes
sdy-manual-axes-cleanup sdy-op-priority-propagate sdy-pre-order-funcs
sdy-propagate-sharding-from-func-to-call sdy-propagate-to-func-results sdy-propagation-pipeline
sdy-remove-propagation-debug-info sdy-remove-sharding-groups sdy-remove-size-one-axes
sdy-remove-sub-axes-in-input-output-shardings sdy-resolve-permutation-factors
sdy-sharding-group-import sdy-unflatten-call-graph
sdy-update-non-divisible-input-output-shardings sdy-user-priority-propagate
stablehlo-compatibility-expander stablehlo-convert-to-signless stablehlo-legalize-to-vhlo
stablehlo-refine-arguments stablehlo-refine-shapes stablehlo-wrap-in-composite symbol-dce
vhlo-legalize-to-stablehlo vhlo-to-version
"""

_FUNC_PASSES = """
chlo-legalize-to-stablehlo sdy-constant-or-scalar-merger sdy-drop-sharding-rules
sdy-explicit-gather-scatter-batching sdy-insert-explicit-reshards
sdy-populate-op-sharding-rules sdy-remove-all-gather-reduce-scatter-for-cmv1
sdy-reshard-to-collectives sdy-sharding-constraint-to-reshard sdy-sink-data-flow-edges
sdy-sink-func-data-flow-edges shape-legalize-to-stablehlo stablehlo-canonicalize-dynamism
stablehlo-check-shape-assertions stablehlo-complex-math-expander
stablehlo-legalize-composite-to-call stablehlo-legalize-deprecated-ops
stablehlo-legalize-qdq-to-quantized-op stablehlo-legalize-quant-to-math
stablehlo-legalize-quantized-op-to-qdq
"""

CXX_PASSES: Final[dict[str, str]] = {
    **dict.fromkeys(_ANY_PASSES.split(), ANY),
    **dict.fromkeys(_MODULE_PASSES.split(), MODULE),
    **dict.fromkeys(_FUNC_PASSES.split(), FUNC),
    # A pass on functions until jaxlib 0.10, on the module since (0.12.0; 0.11 was not tried).
    "sdy-pad-for-divisibility": FUNC if JAXLIB_VERSION.startswith("0.10.") else MODULE,
}
