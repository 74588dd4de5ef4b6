"""What `dtensor.verify` found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dtensor.dialect.layout import Layout
from dtensor.dialect.mesh import Mesh

_SHOWN = 8


@dataclass(frozen=True)
class Difference:
    """A value that differs from what one device computes.

    Attributes:
        operation: name of the operation that gives it; of a custom call, with the target.
        location: the user's line, and the library's below it.
        shape: global shape of the value in elements.
        dtype: its element type.
        layout: its planned layout.
        device: position in the mesh of the device whose element is named here, the one that
            differs most; the first of a group whose parts make up the value.
        index: of that element, in the whole value.
        found: what the devices hold there.
        expected: what one device computes there from what the devices read.
        bound: how far they may lie apart.
        elements: how many elements of how many differ by more than their bounds, over all devices.
        length: how many terms are added up in one element, 1 for none.
        where: the iterations of the loops around it: `iteration 2 of the loop at train.py:7:3`.
    """

    operation: str
    location: str
    shape: tuple[int, ...]
    dtype: str
    layout: Layout
    device: int
    index: tuple[int, ...]
    found: Any
    expected: Any
    bound: float
    elements: tuple[int, int]
    length: int = 1
    where: tuple[str, ...] = ()

    @property
    def error(self) -> float:
        """How far the element is from what was expected; NaN where one of them is."""
        return float(abs(complex(self.found) - complex(self.expected)))

    def __str__(self) -> str:
        shape = "x".join(map(str, self.shape)) or "scalar"
        at = f" at {self.location}" if self.location else ""
        wrong, total = self.elements
        lines = [
            f"{self.operation}{at}: {self.dtype} {shape}, {self.layout.short()}",
            *[f"  in {where}" for where in self.where],
            f"  device {self.device}, element {list(self.index)}: found {_number(self.found)}, "
            f"expected {_number(self.expected)}",
            f"  apart by {_number(self.error)}; {self._bound()}",
            f"  {wrong:,} of {total:,} elements differ",
        ]
        return "\n".join(lines)

    def _bound(self) -> str:
        if not self.bound:
            return "they must be equal"
        why = f"sums of {self.length:,}" if self.length > 1 else "one operation"
        return f"at most {self.bound:.2g} for {why} in {self.dtype}"


def _number(value: Any) -> str:
    if isinstance(value, complex):
        return f"{value:.8g}"
    return f"{float(value):.8g}" if isinstance(value, float) else str(value)


@dataclass(frozen=True)
class Verification:
    """What `dtensor.verify` compared; print it.

    Attributes:
        name: the program.
        mesh: the mesh.
        differences: operations that differ from one device, in program order, each by its worst
            element; those inside of loops come before the loop.
        values: how many values were compared, each iteration of a loop counted.
        operations: how many operations gave them.
        not_compared: operations whose results were not, and why.

    Example:
        >>> rows = dtensor.Layout.batch_sharded(mesh, "x", rank=2)
        >>> found = dtensor.verify(jnp.tanh, np.ones((4, 8)), in_layouts=rows)
        >>> (found.ok, found.values, found.first)
        (True, 1, None)
    """

    name: str
    mesh: Mesh
    differences: tuple[Difference, ...]
    values: int
    operations: int
    not_compared: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether everything that was compared agrees."""
        return not self.differences

    @property
    def first(self) -> Difference | None:
        """The first operation that differs; None if none does."""
        return self.differences[0] if self.differences else None

    def __str__(self) -> str:
        what = f"{self.name} on {self.mesh.short()}"
        counts = f"{self.values:,} values of {self.operations:,} operations"
        if self.ok:
            lines = [f"{what}: {counts} are those of one device"]
        else:
            wrong = len(self.differences)
            verb = "differs" if wrong == 1 else "differ"
            lines = [f"{what}: {wrong} of {self.operations:,} operations {verb} from one device"]
            lines.append(str(self.differences[0]))
            lines += _limited([_line(d) for d in self.differences[1:]], "differ too")
        lines += _limited([f"not compared: {text}" for text in self.not_compared], "are not")
        return "\n".join(lines)


def _line(difference: Difference) -> str:
    at = f" at {difference.location}" if difference.location else ""
    return f"then {difference.operation}{at}, apart by {_number(difference.error)}"


def _limited(lines: Sequence[str], rest: str) -> list[str]:
    if len(lines) <= _SHOWN:
        return list(lines)
    return [*lines[:_SHOWN], f"and {len(lines) - _SHOWN} more {rest}"]
