"""Every name of the dialect that stands in the IR: operations, attributes, functions."""

from __future__ import annotations

from typing import Final

NAMESPACE: Final = "dtensor"

# Operations.
MESH_OP: Final = "dtensor.mesh"
RELAYOUT: Final = "dtensor.relayout"
ALIKE: Final = "dtensor.alike"
PROPAGATION_BARRIER: Final = "dtensor.propagation_barrier"
PLUS_ZERO: Final = "dtensor.plus_zero"
MANUAL: Final = "dtensor.manual"
SPLICE: Final = "dtensor.splice"
SEARCH: Final = "dtensor.search"
RANKED: Final = "dtensor.ranked"
QR: Final = "dtensor.qr"
GATHER_DOT: Final = "dtensor.gather_dot"
FFT: Final = "dtensor.fft"
SCAN: Final = "dtensor.scan"
ALL_GATHER: Final = "dtensor.all_gather"
ALL_SLICE: Final = "dtensor.all_slice"
ALL_REDUCE: Final = "dtensor.all_reduce"
REDUCE_SCATTER: Final = "dtensor.reduce_scatter"
ALL_TO_ALL: Final = "dtensor.all_to_all"
COLLECTIVE_PERMUTE: Final = "dtensor.collective_permute"
HALO_EXCHANGE: Final = "dtensor.halo_exchange"
SHARD_PERMUTE: Final = "dtensor.shard_permute"
AXIS_INDEX: Final = "dtensor.axis_index"

# Attributes of operations outside the dialect, and of function arguments and results.
LAYOUT: Final = "dtensor.layout"
OPERANDS: Final = "dtensor.operands"
RESULTS: Final = "dtensor.results"
ALGORITHM: Final = "dtensor.algorithm"
DEFINED: Final = "dtensor.op"
FILL: Final = "dtensor.fill"
ENDS: Final = "dtensor.ends"
FITS: Final = "dtensor.fits"
FOLDS: Final = "dtensor.folds"
PLACES: Final = "dtensor.places"
SIZE: Final = "dtensor.size"
STEPS: Final = "dtensor.steps"
TRIPS: Final = "dtensor.trips"
LOCAL_ATTR: Final = "dtensor.local"
"""Unit attribute of a module whose types are per-device: dtensor-expand sets it."""

DISCARDABLE: Final[dict[str, str]] = {
    LAYOUT: "layout of a function's argument or result",
    OPERANDS: "layouts that an operation wants its operands in",
    RESULTS: "layouts that an operation gives its results in",
    ALGORITHM: "how an operation computes its results in these layouts: see docs/operations.md",
    DEFINED: "what a user's definition says of a custom call: see docs/define-op.md",
    FILL: "what the padding of a select_and_scatter holds, if it may be selected",
    ENDS: "with which of its own elements windows pad a dimension, as `jnp.pad` does",
    FITS: "that a pad makes a padded value longer still: shards fetch what they lack",
    FOLDS: "how many more results windows give, and to which of theirs these are added",
    PLACES: "which operand of a sort counts the places along the dimension that is sorted",
    SIZE: "how many elements of a row a top_k, a sort or a ranked reads; those behind may be any",
    STEPS: "per window of a longer kernel, its true elements and how many results read more",
    TRIPS: "for how many trips a loop is planned that runs as often as the program finds then",
    LOCAL_ATTR: "the module's types are per-device",
}

# Attributes of the dialect's own operations.
SYM_NAME: Final = "sym_name"
SYM_VISIBILITY: Final = "sym_visibility"
MESH_ATTR: Final = "mesh"
LAYOUT_ATTR: Final = "layout"
AXES: Final = "axes"
DIM: Final = "dim"
REDUCTION: Final = "reduction"
SPLIT_DIM: Final = "split_dim"
CONCAT_DIM: Final = "concat_dim"
FROM: Final = "from"
TO: Final = "to"
LOW: Final = "low"
HIGH: Final = "high"
READERS: Final = "readers"
SOURCES: Final = "sources"
STARTS: Final = "starts"
COUNTS: Final = "counts"
COUNT: Final = "count"
FFT_TYPE: Final = "fft_type"
FFT_LENGTH: Final = "fft_length"
GATHER_NUMBERS: Final = "dimension_numbers"
SLICE_SIZES: Final = "slice_sizes"
DOT_NUMBERS: Final = "dot_dimension_numbers"
PRECISION: Final = "precision_config"
FACTOR: Final = "factor"
PRODUCT: Final = "product"
REVERSE: Final = "reverse"
IN_LAYOUTS: Final = "in_layouts"
OUT_LAYOUTS: Final = "out_layouts"
FREE: Final = "free"
ALLOWED_DIRECTION: Final = "allowed_direction"

# Other dialects.
MAIN: Final = "main"
MODULE: Final = "builtin.module"
FUNC: Final = "func.func"
CALLED_COMPUTATIONS: Final = "called_computations"
ARG_ATTRS: Final = "arg_attrs"
RES_ATTRS: Final = "res_attrs"
COMPOSITE_NAME: Final = "dtensor.relayout"
"""Name of the `stablehlo.composite` that `dtensor.relayout` traces to."""
