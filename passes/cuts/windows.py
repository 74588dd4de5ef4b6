"""The windows of a convolution or a reduce_window, as one list that can be changed and written."""

from __future__ import annotations

from dataclasses import dataclass, replace

from dtensor.dialect.ends import walked, write_ends, write_folds
from dtensor.dialect.mlir import ir
from dtensor.passes.creation import integers_attr, matrix_attr
from dtensor.passes.ops.rule import OpInfo, Window
from dtensor.passes.ops.scans import scans
from dtensor.passes.ops.windows import windows_of
from dtensor.passes.rewriting.names import REDUCE_WINDOW


@dataclass
class Windows:
    """What a window op says of the dimensions that its windows walk over.

    Attributes:
        op: the op.
        ins: those dimensions of the operand.
        outs: the same of the result.
        each: how windows walk along each.
        gaps_name: the attribute that says what is between elements of the operand.
    """

    op: ir.Operation
    ins: list[int]
    outs: list[int]
    each: list[Window]
    gaps_name: str

    @classmethod
    def of(cls, op: ir.Operation) -> Windows:
        """Those of a convolution or a reduce_window."""
        ins, outs, gaps_name, _ = walked(op)
        info = OpInfo.of(op)
        assert info is not None, "a window op of no tensors"
        return cls(op, ins, outs, list(windows_of(info)), gaps_name)

    @property
    def walks_over_one(self) -> bool:
        """Whether windows walk over operand 0 alone, and give one result."""
        return self.op.name != REDUCE_WINDOW or len(self.op.operands) == 2

    def scan(self, sizes: list[int]) -> bool:
        """Whether windows over one of the dimensions hold all elements up to one, or from one on.

        Of such windows shards pass on totals; of windows with more padding or ends they would not.
        """
        return any(scans(w, sizes[d]) for d, w in zip(self.ins, self.each, strict=True))

    def pad(self, dims: list[int], lows: list[int], highs: list[int], by: list[int]) -> bool:
        """Pad by more, or less; whether nothing is said of dimensions that they do not walk over.

        Args:
            dims: the dimensions that they walk over, of the operand or of the result.
            lows: elements of each dimension that stand in front.
            highs: and behind.
            by: places from one element to the next, in each of `dims`.
        """
        for d, (low, high) in enumerate(zip(lows, highs, strict=True)):
            if d in dims:
                row = dims.index(d)
                was, step = self.each[row], by[row]
                self.each[row] = replace(was, low=was.low + low * step, high=was.high + high * step)
            elif low or high:
                return False
        return True

    def write(self, op: ir.Operation) -> None:
        """Write padding, gaps, ends and folds to an op of such windows."""
        op.attributes["padding"] = matrix_attr([(w.low, w.high) for w in self.each])
        gaps = [w.base_dilation for w in self.each]
        if max(gaps, default=1) > 1:
            op.attributes[self.gaps_name] = integers_attr(gaps)
        write_ends(op, [w.ends for w in self.each])
        write_folds(op, [w.folds for w in self.each])
