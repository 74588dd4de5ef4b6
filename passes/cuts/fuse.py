"""The pass that fuses chains of slices, pads and concatenations: a table of patterns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from dtensor.dialect.mlir import ir
from dtensor.passes.base import Pass, PassState
from dtensor.passes.cuts.banded_products import write_in_blocks
from dtensor.passes.cuts.block_rows import cut_rows
from dtensor.passes.cuts.chains import fuse_chains
from dtensor.passes.cuts.joined_pads import join_pads
from dtensor.passes.cuts.known_positions import write_as_cuts
from dtensor.passes.cuts.merges import keep_apart
from dtensor.passes.cuts.moved_terms import move_terms
from dtensor.passes.cuts.narrow_moves import move_narrow
from dtensor.passes.cuts.overlapped_frames import move_parts
from dtensor.passes.cuts.padded_scans import scan_within
from dtensor.passes.cuts.padding_modes import say_padding
from dtensor.passes.cuts.regrouped_rows import cut_elements
from dtensor.passes.cuts.single_cuts import cut_one_by_one, read_parts
from dtensor.passes.cuts.sliced_scans import scan_what_is_kept
from dtensor.passes.cuts.strides import split_strides
from dtensor.passes.cuts.summed_pads import sum_before_padding
from dtensor.passes.cuts.transforms import transform_less
from dtensor.passes.cuts.unit_reductions import keep_units
from dtensor.passes.cuts.window_padding import cut_beside_windows, drop_idle, fuse_padding
from dtensor.passes.functions import main_function
from dtensor.passes.rewriting.names import CUTS, DOT, INDEXED, RESHAPE, REVERSE, WINDOWED
from dtensor.passes.rewriting.rewriting import Rewriting

# Each rewrites what it finds of one pattern.
CutStep = Callable[[Rewriting], None]

STEPS: tuple[CutStep, ...] = (
    # What nobody reads of joined parts need not be there.
    read_parts,
    # Rows need not be put together where what is computed of them needs no merged dimensions.
    keep_apart,
    # What hides slices and pads is written as those.
    write_as_cuts,
    write_in_blocks,
    move_parts,
    cut_rows,
    cut_elements,
    transform_less,
    drop_idle,
    scan_within,
    scan_what_is_kept,
    # Windows say what they read and write around the values that they walk over.
    cut_beside_windows,
    fuse_padding,
    say_padding,
    # Others are written so that more of them go together.
    keep_units,
    sum_before_padding,
    move_terms,
    join_pads,
    split_strides,
    fuse_chains,
    # What is left is laid out one dimension at a time.
    cut_one_by_one,
    # Shards send what they move in as few bytes as they can.
    move_narrow,
)


_CUTTING = CUTS | INDEXED | WINDOWED | {DOT, RESHAPE, REVERSE}


@dataclass(frozen=True)
class FuseCutsPass(Pass):
    """Writes chains of slices, pads and concatenations as one `dtensor.splice`.

    Along one dimension such a chain puts stretches of some values together. It becomes one
    operation if more than half of the result comes from values that are as long as the result; a
    chain that changes nothing is dropped. What is computed of slices in between, element by
    element, is computed in the size of what was sliced. Where layouts given split the dimension
    into n shards, an n-th that hardly moves is enough, and stays where it is.

    Windows over what was padded with its own elements (`jnp.pad` in the modes wrap, reflect, edge
    and symmetric) read the value, and say so in `dtensor.ends`. What its gradient adds up at the
    ends of what windows give, they give: `dtensor.folds`.

    Terms of a sum that are padded alike along a split dimension, as the gradient of a stencil of
    several columns has them, are added up first. Sums of most rows and of few others that are moved
    elsewhere, the gradients of `jnp.pad(x, 1, mode="reflect")` and of `jnp.gradient`, are read of
    values as long as the sum.

    A slice with a stride (`x[::3]`), or a pad with gaps, of a split dimension that is no number of
    whole blocks is that of a padded one, so that each shard keeps one element of each of its own.

    A slice that reads one of several joined parts reads that. One of several dimensions, of one of
    which it takes few elements, or far ones, becomes slices of one dimension each.

    A cumulative sum, product or maximum of a value padded along a split dimension becomes that of
    the value, between what the padding gives; a slice of one becomes that of a slice. A sum of
    frames that overlap (`jax.scipy.signal.istft`) becomes a sum of rows, each moved to its place.

    A gather of rows at positions that the program computes of constants (`jax.image.resize`, a
    table at `jnp.arange`) becomes slices, reversals and repetitions first, and its gradient sums;
    so does one of frames, which overlap (a spectrogram, the keys of sliding windows), and one that
    exchanges blocks (`x[jnp.arange(n) ^ 4]`). A product with a matrix of few diagonals, known
    likewise (a bilinear resize), becomes products of frames. Of `x.at[::2, 1::2].set(y)`, `y`
    is spread out to the size of `x`, and chosen at these places. A dynamic slice at known places is
    a slice, and what is put into most of an array of one number is padded with it.

    A Fourier transform of several dimensions of which slices are read is cut along each dimension
    before the next is transformed; of what is padded with zeros the padding comes in the reverse
    order. Where half of a dimension, or less, is read or is not zero, that is less to transform.

    What is computed of dimensions that a reshape merged, of which layouts given split an inner one
    unevenly, is computed before they are merged: of `x.reshape(-1)` there would be padding within.
    So is what is computed of values of one size that are joined along an uneven dimension.

    What moves elements between shards moves them in the narrowest type that they have before or
    after it: of `jnp.roll(x.astype(float32), 1)` the elements of `x`.
    """

    name: ClassVar[str] = "dtensor-fuse-cuts"

    def run(self, module: ir.Module, state: PassState) -> None:
        """Rewrite `@main` in place."""
        main = main_function(module)
        if not _CUTTING.isdisjoint(state.operations(main).names):
            _run_steps(main, state)


def _run_steps(main: ir.Operation, state: PassState) -> None:
    """Rewrite `@main` in place."""
    for step in STEPS:
        has_changed = True
        while has_changed:
            ops, shards = state.operations(main), state.shards_of(main)
            function = Rewriting(main, ops, shards, state.ledger.add_op)
            step(function)
            has_changed = function.has_changed
            function.clean(everywhere=has_changed)
            if has_changed:
                state.forget_ir()
            if step is not write_in_blocks:  # one product at a time
                break
