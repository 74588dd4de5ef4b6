"""The pass that fuses chains of slices, pads and concatenations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from dtensor.dialect.mlir import ir
from dtensor.passes.base import Pass, PassState
from dtensor.passes.cuts.names import CUTS, DOT, INDEXED
from dtensor.passes.cuts.steps import run_steps
from dtensor.passes.functions import main_function

_CUTTING = CUTS | INDEXED | {DOT}


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

    A cumulative sum, product or maximum of a value padded along a split dimension becomes that of
    the value, between what the padding gives; a slice of one becomes that of a slice. A sum of
    frames that overlap (`jax.scipy.signal.istft`) becomes a sum of rows, each moved to its place.

    A gather of rows at positions that the program computes of constants (`jax.image.resize`, a
    table at `jnp.arange`) becomes slices, reversals and repetitions first, and its gradient sums;
    so does one of frames, which overlap (a spectrogram). A product with a matrix of few diagonals,
    known likewise (a bilinear resize), becomes products of frames. Of `x.at[::2, 1::2].set(y)`, `y`
    is spread out to the size of `x`, and chosen at these places. A dynamic slice at known places is
    a slice, and what is put into most of an array of one number is padded with it.
    """

    name: ClassVar[str] = "dtensor-fuse-cuts"

    def run(self, module: ir.Module, state: PassState) -> None:
        """Rewrite `@main` in place."""
        ops = state.operations(main_function(module))
        if not any(name in _CUTTING for _, name, _ in ops):
            return
        run_steps(module, ops, state)
