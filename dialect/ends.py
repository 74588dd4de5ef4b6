"""What stands in the padding of windows in place of zeros: the attribute `dtensor.ends`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from dtensor.dialect.mlir import ir, stablehlo
from dtensor.dialect.names import ENDS

WRAP: Final = "wrap"
REFLECT: Final = "reflect"
SYMMETRIC: Final = "symmetric"
EDGE: Final = "edge"
MODES: Final = (WRAP, REFLECT, SYMMETRIC, EDGE)
CONVOLUTION: Final = "stablehlo.convolution"
WINDOWED: Final = (CONVOLUTION, "stablehlo.reduce_window")
_WRITTEN = re.compile(rf"({'|'.join(MODES)})(?: of (\d+) and (\d+))?")


@dataclass(frozen=True, slots=True)
class Ends:
    """The padding of a dimension holds elements of it; the written form is `wrap`.

    That of a dimension that was made longer, so that mesh axes divide it, is `wrap of 63 and 1`.

    Attributes:
        mode: which elements, as `numpy.pad` names it.
        size: elements of the dimension, where what is behind them may be anything; None for all.
        behind: how many elements windows read behind those, if there is a size.
    """

    mode: str
    size: int | None = None
    behind: int = 0

    @classmethod
    def parse(cls, text: str) -> Ends | None:
        """Ends from their written form; None for anything else."""
        found = _WRITTEN.fullmatch(text)
        if found is None:
            return None
        mode, size, behind = found.groups()
        return cls(mode) if size is None else cls(mode, int(size), int(behind))

    def __str__(self) -> str:
        return self.mode if self.size is None else f"{self.mode} of {self.size} and {self.behind}"

    def most(self, size: int) -> int | None:
        """How many elements `size` of them can give at one end; None for any number."""
        if self.mode == EDGE:
            return None if size else 0
        return size - (self.mode == REFLECT) if size else 0


def read_ends(op: ir.Operation, count: int) -> list[Ends | None]:
    """The ends of each of `count` windows; None where zeros or init values are the padding."""
    if ENDS not in op.attributes:
        return [None] * count
    return [Ends.parse(ir.StringAttr(entry).value) for entry in ir.ArrayAttr(op.attributes[ENDS])]


def write_ends(op: ir.Operation, ends: Sequence[Ends | None]) -> None:
    """Write the ends of all windows; no attribute where there are none."""
    if any(ends):
        texts = [ir.StringAttr.get("" if each is None else str(each)) for each in ends]
        op.attributes[ENDS] = ir.ArrayAttr.get(texts)


def ends_problems(op: ir.Operation) -> Iterator[str]:
    """What is wrong with the ends that a window operation has."""
    dims, gaps = _walked(op)
    texts = _texts(op.attributes[ENDS])
    if texts is None or len(texts) != len(dims):
        yield f"'{ENDS}' is {op.attributes[ENDS]}; give a string for each of {len(dims)} windows"
        return
    pairs = [0] * (2 * len(dims))
    if "padding" in op.attributes and dims:
        padding = ir.DenseIntElementsAttr(op.attributes["padding"])
        pairs = [padding[i] for i in range(len(padding))]
    shape = ir.RankedTensorType(op.operands[0].type).shape
    for row, (text, d) in enumerate(zip(texts, dims, strict=True)):
        if text:
            given = pairs[2 * row : 2 * row + 2]
            yield from _row_problems(text, d, shape[d], gaps[row], given)


def _row_problems(
    text: str, dim: int, size: int, gap: int, padding: Sequence[int]
) -> Iterator[str]:
    ends = Ends.parse(text)
    if ends is None:
        yield f"'{ENDS}' has \"{text}\"; it knows {', '.join(MODES)}, or nothing"
        return
    if gap > 1 and ends.mode != WRAP:
        yield f"dimension {dim} has gaps between its elements; only '{WRAP}' pads such a one"
    if ends.size is not None:
        if not 0 < ends.size <= size or ends.behind < 0:
            yield f"{ends.size} of {size} elements of dimension {dim}; name some of them"
        return
    most = ends.most(size)
    if min(padding) < 0 or (most is not None and max(padding) // gap > most):
        yield (
            f"dimension {dim} of {size} elements is padded by {padding[0]} and {padding[1]}; "
            f"'{text}' gives between 0 and {'any number' if most is None else most}"
        )


def _walked(op: ir.Operation) -> tuple[list[int], list[int]]:
    """The dimensions that windows walk over, and the places from one element to the next."""
    if op.name == CONVOLUTION:
        numbers = stablehlo.ConvDimensionNumbers(op.attributes["dimension_numbers"])
        dims, name = list(numbers.input_spatial_dimensions), "lhs_dilation"
    else:
        dims = list(range(ir.RankedTensorType(op.operands[0].type).rank))
        name = "base_dilations"
    gaps = list(ir.DenseI64ArrayAttr(op.attributes[name])) if name in op.attributes else None
    return dims, gaps or [1] * len(dims)


def _texts(attribute: ir.Attribute) -> list[str] | None:
    if not isinstance(attribute, ir.ArrayAttr):
        return None
    entries = list(attribute)
    if not all(isinstance(entry, ir.StringAttr) for entry in entries):
        return None
    return [str(ir.StringAttr(entry).value) for entry in entries]
