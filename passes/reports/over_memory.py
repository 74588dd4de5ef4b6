"""A plan that needs more than a device has: what is large, and which layouts would make it less."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dtensor.dialect.layout import Layout

if TYPE_CHECKING:
    from dtensor.passes.base import PassState
    from dtensor.passes.reports.memory import MemoryReport

OVER_MEMORY = "over_memory"
_NAMED = 3


def note_over_memory(
    state: PassState, report: MemoryReport, shapes: Sequence[Sequence[int]]
) -> None:
    """Record that the plan needs more than the machine's devices have; nothing where it fits.

    The arguments have these local shapes, in elements.
    """
    machine = state.machine
    if machine is None or report.peak_bytes <= machine.memory_bytes:
        return
    splits = sorted(_splits(state, report, shapes), key=lambda found: -found[0])[:_NAMED]
    largest = ", ".join(
        f"{name} ({_gigabytes(sum(tensor.bytes for tensor in group))})"
        for name, group in report.groups()[:_NAMED]
    )
    remedy = (
        "split " + ", ".join(text for _, text in splits)
        if splits
        else "no argument can be split further: donate what results replace, compute layers again "
        "with jax.checkpoint, or use more devices"
    )
    state.ledger.add(
        OVER_MEMORY,
        f"the plan needs about {_gigabytes(report.peak_bytes)} per device, and one of "
        f"{machine.name} has {_gigabytes(machine.memory_bytes)}; the largest are {largest}; "
        f"{remedy}",
        asked_for=False,
    )


def _splits(
    state: PassState, report: MemoryReport, shapes: Sequence[Sequence[int]]
) -> list[tuple[float, str]]:
    """Bytes that splitting an argument over one more mesh axis saves, and how to, in words."""
    found = []
    for name, group in report.groups():
        number = group[0].argument
        if number is None or number >= len(state.arg_layouts):
            continue
        layout = state.arg_layouts[number]
        best = None if layout is None else _split(layout, shapes[number])
        if best is None:
            continue
        dim, axis, size = best
        saved = sum(tensor.bytes for tensor in group) * (1.0 - 1.0 / size)
        text = f'dimension {dim} of {name} over "{axis}" (saves {_gigabytes(saved)})'
        found.append((saved, text))
    return found


def _split(layout: Layout, shape: Sequence[int]) -> tuple[int, str, int] | None:
    """The dimension and the largest free mesh axis that it divides into; the longest dimension."""
    used = {axis.name for axis in layout.axes}
    free = [(size, name) for name, size in layout.mesh.axes if name not in used and size > 1]
    for size, name in sorted(free, reverse=True):
        dims = [d for d in range(len(shape)) if shape[d] and shape[d] % size == 0]
        if dims:
            return max(dims, key=lambda d: (shape[d], -d)), name, size
    return None


def _gigabytes(size: float) -> str:
    return f"{size / 1e9:.3g} GB"
