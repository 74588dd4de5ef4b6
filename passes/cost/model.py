"""What communication and local work cost: wire bytes and seconds.

Wire bytes are counted per device on a ring of n devices, so that plans can be compared with what
a profiler or the benchmark suite reads in the compiled program.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dtensor.dialect.axes import AxisRef

# Places of a tensor on one mesh axis: whole, partial, or, from 0 on, the position it splits.
WHOLE_PLACE = -1
PARTIAL_PLACE = -2


def all_gather_bytes(output_bytes: float, devices: int) -> float:
    """Wire bytes per device of an all_gather whose result has `output_bytes`."""
    return output_bytes * (devices - 1) / devices


def reduce_scatter_bytes(input_bytes: float, devices: int) -> float:
    """Wire bytes per device of a reduce_scatter whose operand has `input_bytes`."""
    return input_bytes * (devices - 1) / devices


def all_reduce_bytes(local_bytes: float, devices: int) -> float:
    """Wire bytes per device of an all_reduce of `local_bytes`."""
    return 2 * local_bytes * (devices - 1) / devices


def all_to_all_bytes(local_bytes: float, devices: int) -> float:
    """Wire bytes per device of an all_to_all of `local_bytes`."""
    return local_bytes * (devices - 1) / devices


def permute_bytes(local_bytes: float) -> float:
    """Wire bytes per device of a collective_permute of `local_bytes`."""
    return float(local_bytes)


def place_change_bytes(kind_from: int, kind_to: int, whole_bytes: float, devices: int) -> float:
    """Wire bytes per device of moving a tensor between two places of one mesh axis.

    Args:
        kind_from: `WHOLE_PLACE`, `PARTIAL_PLACE`, or the position (0 or more) it splits.
        kind_to: likewise, where it is wanted.
        whole_bytes: bytes one device holds where this axis splits nothing.
        devices: size of the axis.
    """
    if kind_from == kind_to or kind_from == WHOLE_PLACE or devices == 1:
        return 0.0
    if kind_from == PARTIAL_PLACE:
        if kind_to == WHOLE_PLACE:
            return all_reduce_bytes(whole_bytes, devices)
        return reduce_scatter_bytes(whole_bytes, devices)
    if kind_to == WHOLE_PLACE:
        return all_gather_bytes(whole_bytes, devices)
    if kind_to == PARTIAL_PLACE:
        return 0.0
    return all_to_all_bytes(whole_bytes / devices, devices)


@dataclass(frozen=True)
class Link:
    """The network along one mesh axis.

    Attributes:
        alpha: seconds one collective takes however little it moves.
        bytes_per_second: what one device sends, and at the same time receives, on this axis.
    """

    alpha: float
    bytes_per_second: float


# Bytes decide, and the number of collectives decides between equal bytes: the start-up time is set
# at what 1 kB takes, below the microseconds of a real network, so that a plan found for a small
# test program is the plan of the large one.
DEFAULT_LINK = Link(alpha=1e-8, bytes_per_second=1e11)


@dataclass(frozen=True)
class CostModel:
    """The machine that plans are made for.

    Attributes:
        link: the network along every axis that `axis_links` does not name.
        axis_links: `(axis name, Link)` pairs for axes with another network.
        peak_flops: floating-point operations per second of one device.
        hbm_bytes_per_second: memory bandwidth of one device.
    """

    link: Link = DEFAULT_LINK
    axis_links: tuple[tuple[str, Link], ...] = ()
    peak_flops: float = 2e14
    hbm_bytes_per_second: float = 1.5e12

    def axis_link(self, axis: str) -> Link:
        """The network along the mesh axis `axis`."""
        for name, link in self.axis_links:
            if name == axis:
                return link
        return self.link

    def axes_link(self, axes: Sequence[AxisRef]) -> Link:
        """The network of one collective over several axes: it runs at the slowest one's pace."""
        if not self.axis_links:
            return self.link
        links = [self.axis_link(axis.name) for axis in axes] or [self.link]
        return Link(max(k.alpha for k in links), min(k.bytes_per_second for k in links))

    def seconds(self, wire_bytes: float, axes: Sequence[AxisRef]) -> float:
        """Seconds of one collective over `axes` that moves `wire_bytes` per device."""
        link = self.axes_link(axes)
        return link.alpha + wire_bytes / link.bytes_per_second

    def place_change(
        self,
        kind_from: int,
        kind_to: int,
        whole_bytes: float,
        devices: int,
        axis: str | None = None,
    ) -> float:
        """Seconds of moving a tensor between two places of one mesh axis.

        The cheap stand-in for a relayout search: one axis at a time, every position divisible.

        Args:
            kind_from: `WHOLE_PLACE`, `PARTIAL_PLACE`, or the position (0 or more) it splits.
            kind_to: likewise, where it is wanted.
            whole_bytes: bytes one device holds where this axis splits nothing.
            devices: size of the axis.
            axis: name of the axis; None takes the default network.
        """
        wire_bytes = place_change_bytes(kind_from, kind_to, whole_bytes, devices)
        if not wire_bytes:
            return 0.0
        link = self.link if axis is None else self.axis_link(axis)
        return link.alpha + wire_bytes / link.bytes_per_second

    def local_seconds(self, flops: float, memory_bytes: float) -> float:
        """Seconds of local work: whichever of arithmetic and memory traffic takes longer."""
        return max(flops / self.peak_flops, memory_bytes / self.hbm_bytes_per_second)
