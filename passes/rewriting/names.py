"""The operations that patterns of slices, pads and concatenations are made of."""

from __future__ import annotations

from typing import Final

SLICE: Final = "stablehlo.slice"
PAD: Final = "stablehlo.pad"
CONCATENATE: Final = "stablehlo.concatenate"
CUTS: Final = frozenset((SLICE, PAD, CONCATENATE))

BROADCAST: Final = "stablehlo.broadcast_in_dim"
RESHAPE: Final = "stablehlo.reshape"
REVERSE: Final = "stablehlo.reverse"
TRANSPOSE: Final = "stablehlo.transpose"

GATHER: Final = "stablehlo.gather"
SCATTER: Final = "stablehlo.scatter"
DYNAMIC_SLICE: Final = "stablehlo.dynamic_slice"
DYNAMIC_UPDATE_SLICE: Final = "stablehlo.dynamic_update_slice"
INDEXED: Final = frozenset((GATHER, SCATTER, DYNAMIC_SLICE, DYNAMIC_UPDATE_SLICE))

ADD: Final = "stablehlo.add"
CONVERT: Final = "stablehlo.convert"
DOT: Final = "stablehlo.dot_general"
REDUCE: Final = "stablehlo.reduce"
SORT: Final = "stablehlo.sort"
TOP_K: Final = "chlo.top_k"
TRANSFORM: Final = "stablehlo.fft"

CONVOLUTION: Final = "stablehlo.convolution"
REDUCE_WINDOW: Final = "stablehlo.reduce_window"
SELECT_AND_SCATTER: Final = "stablehlo.select_and_scatter"
WINDOWED: Final = frozenset((CONVOLUTION, REDUCE_WINDOW))
