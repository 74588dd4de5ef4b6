"""References to mesh axes and to parts of them."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass

AXIS_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.\-]*\Z")


@dataclass(frozen=True, slots=True, order=True)
class AxisRef:
    """A mesh axis, or the part of it that varies between `pre` and `pre * size`.

    A device's coordinate on an axis of 8 devices, read as the mixed-radix number (2, 4), has a
    major digit, `"x":(1)2`, and a minor one, `"x":(2)4`.

    Attributes:
        name: name of the mesh axis.
        pre: product of the sizes of the parts that are more major; 1 for a whole axis.
        size: number of devices this reference tells apart.

    Example:
        >>> major = dtensor.AxisRef("y", pre=1, size=2)  # of an axis of 4 devices
        >>> dtensor.Layout([major], mesh)
        Layout(["y":(1)2], Mesh(x=2, y=4))
    """

    name: str
    pre: int
    size: int

    def text(self, axis_size: int) -> str:
        """Written form; `axis_size` is the size of the whole axis, in devices.

        Example:
            >>> dtensor.AxisRef("y", pre=1, size=2).text(axis_size=4)
            '"y":(1)2'
        """
        if self.pre == 1 and self.size == axis_size:
            return f'"{self.name}"'
        return f'"{self.name}":({self.pre}){self.size}'

    def overlaps(self, other: AxisRef) -> bool:
        """Whether both tell some of the same devices apart.

        Example:
            >>> minor = dtensor.AxisRef("y", pre=2, size=2)
            >>> dtensor.AxisRef("y", pre=1, size=2).overlaps(minor)
            False
        """
        if self.name != other.name:
            return False
        return self.pre < other.pre * other.size and other.pre < self.pre * self.size


def devices_along(axes: Iterable[AxisRef]) -> int:
    """How many devices axes tell apart together; 1 of none."""
    return math.prod([axis.size for axis in axes])
