"""What communication and local work cost: wire bytes and seconds.

Wire bytes are counted per device on a ring of n devices, so that plans can be compared with what
a profiler or the benchmark suite reads in the compiled program.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from numbers import Real

from dtensor.dialect.axes import AxisRef
from dtensor.dialect.errors import CompileError


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


# The types of elements by which devices multiply matrices at different speeds, wider ones first;
# `f32_highest` are products of f32 of the highest precision.
DTYPES = ("f64", "f32_highest", "f32", "bf16", "f16", "f8", "i8")


@dataclass(frozen=True)
class Link:
    """The network along one mesh axis.

    Attributes:
        alpha: seconds one collective takes however little it moves.
        bytes_per_second: what one device sends, and at the same time receives, on this axis.

    Example:
        >>> dtensor.Link(alpha=1e-6, bytes_per_second=1e9)
        Link(alpha=1e-06, bytes_per_second=1000000000.0)
    """

    alpha: float
    bytes_per_second: float

    def is_possible(self) -> bool:
        """Whether both are numbers that a network can have.

        Example:
            >>> dtensor.Link(alpha=1e-6, bytes_per_second=0.0).is_possible()
            False
        """
        return is_positive(self.bytes_per_second) and (self.alpha == 0 or is_positive(self.alpha))


def is_positive(value: object) -> bool:
    """Whether a value is a number above 0, which NaN is not."""
    return isinstance(value, Real) and not value <= 0 and value == value


# Bytes decide, and the number of collectives between nearly equal bytes: a start is what 170 bytes
# take, far below the microseconds of a real network, so that a plan found for a small test program
# is the plan of the large one; a dearer one gathers small arrays where many small reductions send
# less. Memory is 120 times as fast as the network: one collective more must save 20 kB of traffic.
DEFAULT_LINK = Link(alpha=1.7e-9, bytes_per_second=1e11)


@dataclass(frozen=True)
class CostModel:
    """The machine that plans are made for.

    Attributes:
        link: the network along every axis that `axis_links` does not name.
        axis_links: axis name to Link, for axes with another network.
        peak_flops: floating-point operations per second of one device.
        hbm_bytes_per_second: memory bandwidth of one device.
        matmul_flops: element type, such as `bf16`, to those of matrix products, where they differ.
        vector_flops: those of everything else; None is `peak_flops`.
        reads_shards: whether a device takes time for its shards of what an operation reads and
            writes, whole ones whole. Otherwise memory traffic counts as arithmetic does, divided as
            the operation is: plans go by bytes that are sent, and divide work.

    Example:
        >>> slow = dtensor.Link(alpha=1e-6, bytes_per_second=1e9)
        >>> dtensor.CostModel(axis_links={"x": slow}).seconds(1e6, ["x"])
        0.001001
    """

    link: Link = DEFAULT_LINK
    axis_links: Mapping[str, Link] | tuple[tuple[str, Link], ...] = ()
    peak_flops: float = 2e14
    hbm_bytes_per_second: float = 1.2e13
    matmul_flops: Mapping[str, float] | tuple[tuple[str, float], ...] = ()
    vector_flops: float | None = None
    reads_shards: bool = False

    def __post_init__(self) -> None:
        links = self.axis_links
        pairs = tuple(links.items() if isinstance(links, Mapping) else links)
        object.__setattr__(self, "axis_links", pairs)
        for name, link in (("link", self.link), *pairs):
            if not (isinstance(link, Link) and link.is_possible()):
                raise CompileError(
                    f"the cost of {name} is {link!r}; give a dtensor.Link of seconds, at least 0, "
                    "and of bytes per second, above 0"
                )
        peaks = self.matmul_flops
        peaks = tuple(peaks.items() if isinstance(peaks, Mapping) else peaks)
        object.__setattr__(self, "matmul_flops", peaks)
        numbers = {
            "peak_flops": self.peak_flops,
            "hbm_bytes_per_second": self.hbm_bytes_per_second,
            **{f"matmul_flops of {element}": flops for element, flops in peaks},
        }
        if self.vector_flops is not None:
            numbers["vector_flops"] = self.vector_flops
        for name, number in numbers.items():
            if not is_positive(number):
                raise CompileError(
                    f"{name} of a CostModel is {number!r}; it must be a number above 0"
                )

    def axis_link(self, axis: str) -> Link:
        """The network along the mesh axis `axis`.

        Example:
            >>> dtensor.CostModel().axis_link("x")
            Link(alpha=1.7e-09, bytes_per_second=100000000000.0)
        """
        return dict(self.axis_links).get(axis, self.link)

    def axes_link(self, axes: Iterable[AxisRef | str]) -> Link:
        """The network of one collective over several axes: it runs at the slowest one's pace.

        Example:
            >>> slow = dtensor.Link(alpha=1e-6, bytes_per_second=1e9)
            >>> dtensor.CostModel(axis_links={"x": slow}).axes_link(["x", "y"])
            Link(alpha=1e-06, bytes_per_second=1000000000.0)
        """
        if not self.axis_links:
            return self.link
        names = [axis if isinstance(axis, str) else axis.name for axis in axes]
        links = [self.axis_link(name) for name in names] or [self.link]
        return Link(max(k.alpha for k in links), min(k.bytes_per_second for k in links))

    def seconds(self, wire_bytes: float, axes: Iterable[AxisRef | str]) -> float:
        """Seconds of one collective over `axes` that moves `wire_bytes` per device.

        Example:
            >>> link = dtensor.Link(alpha=1e-6, bytes_per_second=1e9)
            >>> dtensor.CostModel(link).seconds(1e6, ["x"])
            0.001001
        """
        link = self.axes_link(axes)
        return link.alpha + wire_bytes / link.bytes_per_second

    def seconds_of(
        self, wire_bytes: float, collectives: int, axes: Iterable[AxisRef | str]
    ) -> float:
        """Seconds of several collectives over `axes` that together move `wire_bytes` per device.

        Example:
            >>> link = dtensor.Link(alpha=0.5, bytes_per_second=1e6)
            >>> dtensor.CostModel(link).seconds_of(1e6, collectives=4, axes=["x"])
            3.0
        """
        link = self.axes_link(axes)
        return collectives * link.alpha + wire_bytes / link.bytes_per_second

    def compute_seconds(self, flops: float, element: str | None = None) -> float:
        """Seconds of arithmetic on one device: of a product of elements of a type, or of others.

        Example:
            >>> dtensor.CostModel(peak_flops=1e12).compute_seconds(2e12)
            2.0
        """
        if element is None:
            return flops / (self.vector_flops or self.peak_flops)
        return flops / dict(self.matmul_flops).get(element, self.peak_flops)

    def memory_seconds(self, bytes_: float) -> float:
        """Seconds in which the memory of one device gives or takes so many bytes.

        Example:
            >>> dtensor.CostModel(hbm_bytes_per_second=1e12).memory_seconds(2e12)
            2.0
        """
        return bytes_ / self.hbm_bytes_per_second
