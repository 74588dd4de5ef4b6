"""The pass that fuses chains of slices, pads and concatenations: a table of rewrites."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from dtensor.dialect.mlir import ir
from dtensor.passes.base import PassState
from dtensor.passes.functions import main_function
from dtensor.passes.rewriting.names import (
    CONCATENATE,
    CONVERT,
    CUTS,
    DOT,
    DYNAMIC_UPDATE_SLICE,
    INDEXED,
    PAD,
    REDUCE,
    REDUCE_WINDOW,
    RESHAPE,
    SCATTER,
    SELECT_AND_SCATTER,
    SLICE,
    TRANSFORM,
    WINDOWED,
)
from dtensor.passes.rewriting.table import Rewrite, RewritesPass


def _rewrite(file: str, function: str, *names: str, is_repeated: bool = False) -> Rewrite:
    return Rewrite(file, function, frozenset(names), is_repeated=is_repeated)


@dataclass(frozen=True)
class FuseCutsPass(RewritesPass):
    """Writes slices, pads, concatenations and windows so that split dimensions stay where they are.

    What hides slices and pads, as gathers at known positions do, is written as those. Chains of
    them along one dimension become one `dtensor.splice`, for which shards fetch only what they
    lack. It runs these rewrites in this order; each stands in the file of `passes/cuts/` whose
    name it has.
    """

    name: ClassVar[str] = "dtensor-fuse-cuts"
    TABLE: ClassVar = (
        # What nobody reads of joined parts need not be there.
        _rewrite("single_cuts", "read_parts", SLICE),
        # Rows need not be put together where what is computed of them needs no merged dimensions.
        _rewrite("merges", "keep_apart", RESHAPE, CONCATENATE, PAD),
        # What hides slices and pads is written as those.
        _rewrite("known_positions", "write_as_cuts", *INDEXED),
        _rewrite("banded_products", "write_in_blocks", DOT, is_repeated=True),  # one at a time
        _rewrite("overlapped_frames", "move_parts", SLICE),
        _rewrite("block_rows", "cut_rows", RESHAPE),
        _rewrite("regrouped_rows", "cut_elements", SLICE, PAD),
        _rewrite("transforms", "transform_less", TRANSFORM),
        _rewrite("window_padding", "drop_idle", *CUTS),
        _rewrite("padded_scans", "scan_within", REDUCE_WINDOW),
        _rewrite("sliced_scans", "scan_what_is_kept", REDUCE_WINDOW),
        # Windows say what they read and write around the values that they walk over.
        _rewrite("window_padding", "cut_beside_windows", *WINDOWED),
        _rewrite("window_padding", "fuse_padding", SELECT_AND_SCATTER, *WINDOWED),
        _rewrite("padding_modes", "say_padding", SLICE, *WINDOWED),
        # Others are written so that more of them go together.
        _rewrite("unit_reductions", "keep_units", REDUCE),
        _rewrite("summed_pads", "sum_before_padding", PAD),
        _rewrite("moved_terms", "move_terms", PAD),
        _rewrite("joined_pads", "join_pads", PAD),
        _rewrite("strides", "split_strides", SLICE, PAD),
        _rewrite("chains", "fuse_chains", SCATTER, DYNAMIC_UPDATE_SLICE, *CUTS),
        # What is left is laid out one dimension at a time.
        _rewrite("single_cuts", "cut_one_by_one", SLICE),
        # Shards send what they move in as few bytes as they can.
        _rewrite("narrow_moves", "move_narrow", CONVERT),
    )

    def run(self, module: ir.Module, state: PassState) -> None:
        """Rewrite `@main` in place."""
        self.rewrite(main_function(module), state)
