"""Fourier transforms of several dimensions, one dimension after another.

Of one that is transformed no axis may split; of several at once, none at all. One after another
each has its axis elsewhere while it is transformed, which moves a share of the array, not all.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from dtensor.dialect.mlir import ir, replace_op
from dtensor.passes.base import Pass, PassState
from dtensor.passes.forms.transforms import SplitTransform
from dtensor.passes.functions import main_function
from dtensor.passes.ops.attributes import integers
from dtensor.passes.ops.four_steps import LENGTH

_FFT = "stablehlo.fft"


@dataclass(frozen=True)
class SplitTransformsPass(Pass):
    """Writes a Fourier transform of several dimensions as transforms of one dimension each.

    Only where fewer arrays are transformed than there are devices: more of them are divided among
    the devices as they stand. Where no dimension divides to which the axes of another could go,
    the last one is longer by a few zeros meanwhile.
    """

    name: ClassVar[str] = "dtensor-split-transforms"

    def run(self, module: ir.Module, state: PassState) -> None:
        """Rewrite `@main` in place."""
        devices = state.mesh.size if state.mesh is not None else 1
        for op, name, _ in state.operations(main_function(module)):
            if name != _FFT:
                continue
            lengths = integers(op.attributes[LENGTH])
            batch = ir.RankedTensorType(op.operands[0].type).shape[: -len(lengths)]
            if len(lengths) < 2 or math.prod(batch) >= devices or 0 in lengths:
                continue
            split = SplitTransform(op, devices)
            replace_op(op, [split.transformed(lengths)])
            for made in split.made:
                state.ledger.add_op(made)
            state.forget_ir()
