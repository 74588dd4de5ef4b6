"""What stands in the padding of windows in place of zeros, and where the gradient of that goes.

The attributes `dtensor.ends` and `dtensor.folds`, which have a string for each window.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from dtensor.dialect.mlir import ir, stablehlo
from dtensor.dialect.names import ENDS, FOLDS

WRAP: Final = "wrap"
REFLECT: Final = "reflect"
SYMMETRIC: Final = "symmetric"
EDGE: Final = "edge"
MODES: Final = (WRAP, REFLECT, SYMMETRIC, EDGE)
CONVOLUTION: Final = "stablehlo.convolution"
WINDOWED: Final = (CONVOLUTION, "stablehlo.reduce_window")
_ANY = "|".join(MODES)
_WRITTEN = re.compile(rf"({_ANY})(?: of (\d+) for (\d+))?")
_FOLDED = re.compile(rf"({_ANY}) by (\d+) and (\d+)(?: of (\d+))?")


@dataclass(frozen=True, slots=True)
class Ends:
    """The padding of a dimension holds elements of it; the written form is `wrap`.

    That of a dimension that was made longer, so that mesh axes divide it, is `wrap of 63 for 61`.

    Attributes:
        mode: which elements, as `numpy.pad` names it.
        size: elements of the dimension, where what is behind them may be anything; None for all.
        steps: how many windows read those and what is around them, if there is a size; what the
            windows behind give may be anything. In the gradient of a kernel, where windows of the
            results walk over the input, how many elements of operand 1 do.
    """

    mode: str
    size: int | None = None
    steps: int | None = None

    @classmethod
    def parse(cls, text: str) -> Ends | None:
        """Ends from their written form; None for anything else."""
        found = _WRITTEN.fullmatch(text)
        if found is None:
            return None
        mode, size, steps = found.groups()
        return cls(mode) if size is None else cls(mode, int(size), int(steps))

    def __str__(self) -> str:
        return self.mode if self.size is None else f"{self.mode} of {self.size} for {self.steps}"

    def most(self, size: int) -> int | None:
        """How many elements `size` of them can give at one end; None for any number."""
        if self.mode == EDGE:
            return None if size else 0
        return size - (self.mode == REFLECT) if size else 0


@dataclass(frozen=True, slots=True)
class Folds:
    """Windows give more results at both ends, which are added to those that padding was made of.

    The written form is `wrap by 1 and 2`; of results that became more, so that mesh axes divide
    them, `wrap by 1 and 2 of 63`. The padding is that of the windows whose results are kept.

    Attributes:
        mode: of the padding, as `numpy.pad` names it.
        front: how many windows more there are in front.
        behind: how many behind.
        size: how many results there are, where those behind them may be anything; None for all.
    """

    mode: str
    front: int
    behind: int
    size: int | None = None

    @classmethod
    def parse(cls, text: str) -> Folds | None:
        """Folds from their written form; None for anything else."""
        found = _FOLDED.fullmatch(text)
        if found is None:
            return None
        mode, front, behind, size = found.groups()
        return cls(mode, int(front), int(behind), None if size is None else int(size))

    def __str__(self) -> str:
        text = f"{self.mode} by {self.front} and {self.behind}"
        return text if self.size is None else f"{text} of {self.size}"


def read_folds(op: ir.Operation, count: int) -> list[Folds | None]:
    """The folds of each of `count` windows; None of those that give no more results."""
    if FOLDS not in op.attributes:
        return [None] * count
    return [Folds.parse(ir.StringAttr(entry).value) for entry in ir.ArrayAttr(op.attributes[FOLDS])]


def write_folds(op: ir.Operation, folds: Sequence[Folds | None]) -> None:
    """Write the folds of all windows; no attribute where there are none."""
    _write(op, FOLDS, folds)


def read_ends(op: ir.Operation, count: int) -> list[Ends | None]:
    """The ends of each of `count` windows; None where zeros or init values are the padding."""
    if ENDS not in op.attributes:
        return [None] * count
    return [Ends.parse(ir.StringAttr(entry).value) for entry in ir.ArrayAttr(op.attributes[ENDS])]


def write_ends(op: ir.Operation, ends: Sequence[Ends | None]) -> None:
    """Write the ends of all windows; no attribute where there are none."""
    _write(op, ENDS, ends)


def _write(op: ir.Operation, name: str, entries: Sequence[Ends | Folds | None]) -> None:
    if any(entries):
        texts = [ir.StringAttr.get("" if each is None else str(each)) for each in entries]
        op.attributes[name] = ir.ArrayAttr.get(texts)


def read_padding(op: ir.Operation, count: int) -> list[tuple[int, int]]:
    """What each of `count` windows is padded with, in front and behind."""
    if "padding" not in op.attributes or not count:
        return [(0, 0)] * count
    numbers = ir.DenseIntElementsAttr(op.attributes["padding"])
    return [(numbers[2 * i], numbers[2 * i + 1]) for i in range(count)]


def read_steps(op: ir.Operation, name: str, count: int) -> list[int]:
    """The strides or dilations of `count` windows; 1 where nothing is said."""
    if name not in op.attributes:
        return [1] * count
    numbers = ir.DenseI64ArrayAttr(op.attributes[name])
    return [numbers[i] for i in range(count)]


def ends_problems(op: ir.Operation, name: str) -> Iterator[str]:
    """What is wrong with the ends that a window operation has, or with its folds."""
    dims, outs, gaps_name, _ = walked(op)
    gaps = read_steps(op, gaps_name, len(dims))
    texts = _texts(op.attributes[name])
    if texts is None or len(texts) != len(dims):
        yield f"'{name}' is {op.attributes[name]}; give a string for each of {len(dims)} windows"
        return
    pairs = read_padding(op, len(dims))
    ends, strides = read_ends(op, len(dims)), read_steps(op, "window_strides", len(dims))
    given, made = (
        ir.RankedTensorType(value.type).shape for value in (op.operands[0], op.results[0])
    )
    kernel = _kernel_sizes(op)
    for row, (text, d, out) in enumerate(zip(texts, dims, outs, strict=True)):
        padding = pairs[row]
        if text and name == FOLDS:
            is_plain = strides[row] == 1 and ends[row] is None and min(padding) >= 0
            yield from _fold_problems(text, out, made[out], is_plain)
        elif text:
            steps = max([made[out], *kernel[row : row + 1]])
            yield from _end_problems(text, d, given[d], steps, gaps[row], padding)


def _fold_problems(text: str, dim: int, size: int, is_plain: bool) -> Iterator[str]:
    folds = Folds.parse(text)
    if folds is None:
        yield f'\'{FOLDS}\' has "{text}"; it knows "{MODES[0]} by 1 and 2" and the like, or nothing'
    elif not is_plain:
        yield f"'{FOLDS}' of dimension {dim} needs windows at each place, and zeros for padding"
    elif folds.size is not None and not 0 < folds.size <= size:
        yield f"{folds.size} of {size} results along dimension {dim}; name some of them"
    else:
        most = Ends(folds.mode).most(size if folds.size is None else folds.size)
        if most is not None and max(folds.front, folds.behind) > most:
            yield (
                f"dimension {dim} of {size} results gets {folds.front} and {folds.behind}; "
                f"'{folds.mode}' takes up to {most}"
            )


def _end_problems(
    text: str, dim: int, size: int, steps: int, gap: int, padding: Sequence[int]
) -> Iterator[str]:
    ends = Ends.parse(text)
    if ends is None:
        yield f"'{ENDS}' has \"{text}\"; it knows {', '.join(MODES)}, or nothing"
        return
    if gap > 1 and ends.mode != WRAP:
        yield f"dimension {dim} has gaps between its elements; only '{WRAP}' pads such a one"
    if ends.size is not None and ends.steps is not None:
        for count, all_, what in ((ends.size, size, "elements"), (ends.steps, steps, "windows")):
            if not 0 < count <= all_:
                yield f"{count} of {all_} {what} of dimension {dim}; name some of them"
        return
    most = ends.most(size)
    if min(padding) < 0 or (most is not None and max(padding) // gap > most):
        yield (
            f"dimension {dim} of {size} elements is padded by {padding[0]} and {padding[1]}; "
            f"'{text}' gives between 0 and {'any number' if most is None else most}"
        )


def walked(op: ir.Operation) -> tuple[list[int], list[int], str, str]:
    """The dimensions of operand 0 and of the results that windows walk over, one for each window.

    And the attributes that say how far elements and windows are spread.
    """
    if op.name == CONVOLUTION:
        numbers = stablehlo.ConvDimensionNumbers(op.attributes["dimension_numbers"])
        ins, outs = numbers.input_spatial_dimensions, numbers.output_spatial_dimensions
        return list(ins), list(outs), "lhs_dilation", "rhs_dilation"
    dims = list(range(ir.RankedTensorType(op.operands[0].type).rank))
    return dims, dims, "base_dilations", "window_dilations"


def _kernel_sizes(op: ir.Operation) -> list[int]:
    """The spatial dimensions of a convolution's kernel; none of another operation."""
    if op.name != CONVOLUTION:
        return []
    numbers = stablehlo.ConvDimensionNumbers(op.attributes["dimension_numbers"])
    shape = ir.RankedTensorType(op.operands[1].type).shape
    return [shape[d] for d in numbers.kernel_spatial_dimensions]


def _texts(attribute: ir.Attribute) -> list[str] | None:
    if not isinstance(attribute, ir.ArrayAttr):
        return None
    entries = list(attribute)
    if not all(isinstance(entry, ir.StringAttr) for entry in entries):
        return None
    return [str(ir.StringAttr(entry).value) for entry in entries]
