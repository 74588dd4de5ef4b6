"""One value on all devices against what one device computes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from dtensor.compiler.verification.accuracy import epsilons
from dtensor.compiler.verification.blocks import Operation, Value
from dtensor.compiler.verification.report import Difference
from dtensor.compiler.verification.shards import Array, Shards, combined, shard_indices, wide
from dtensor.passes.ops.accuracy import Accuracy

Scale = Callable[[], Array]  # the magnitudes of what was added up, of the whole value


def difference(
    operation: Operation,
    value: Value,
    shards: Shards,
    expected: Array,
    parts: int,
    terms: Scale | None,
    where: Sequence[str],
    least: float = 0.0,
    noise: float = 0.0,
) -> Difference | None:
    """The worst element of a value that differs by more than its bound; None if none does.

    Args:
        operation: what gives the value.
        value: the value.
        shards: what each device holds of it.
        expected: what one device computes.
        parts: over how many devices parts of it, or of what it is made of, are added up.
        terms: the scale of what was added up, where the result may be much smaller.
        where: the iterations of the loops around it.
        least: the least bound, relative to the scale; values that must be equal have none.
        noise: the least bound, of values that must be equal too.
    """
    accuracy = operation.accuracy
    apart = epsilons(accuracy, np.dtype(value.dtype), parts)
    apart = max(apart, least) if apart else apart
    scale = _scale(accuracy, expected)
    worst = _worst(value, shards, expected, np.maximum(apart * scale, noise))
    if worst is not None and terms is not None and apart:
        parts_scale = part_magnitudes(value, shards)
        scale = np.maximum(scale, np.maximum(terms(), parts_scale))
        worst = _worst(value, shards, expected, apart * scale)
    if worst is None:
        return None
    device, index, found, bound, wrong, total = worst
    return Difference(
        operation.title,
        operation.location,
        value.shape,
        value.dtype,
        value.layout,
        device,
        index,
        found,
        wide(expected)[index].item(),
        bound,
        (wrong, total),
        accuracy.length,
        tuple(where),
    )


def magnitudes(value: Array) -> Array:
    """The magnitudes of the elements; 0 for those that are not finite."""
    found = np.abs(wide(value)).astype(np.float64)
    return np.where(np.isfinite(found), found, 0.0)


def _scale(accuracy: Accuracy, expected: Array) -> Array:
    found = magnitudes(expected)
    if accuracy.of_tensor and found.size:
        found = np.full_like(found, found.max())
    return np.maximum(found, accuracy.least)


def part_magnitudes(value: Value, shards: Shards) -> Array:
    """The sums of the magnitudes of parts; zeros where the layout is complete."""
    scale = np.zeros(value.shape)
    if value.layout.partial:
        for devices in value.layout.mesh.groups(value.layout.partial_axes):
            at = np.ix_(*shard_indices(value.layout, value.shape, devices[0]))
            scale[at] = sum(magnitudes(shards[device]) for device in devices)
    return scale


def _worst(
    value: Value, shards: Shards, expected: Array, bounds: Array
) -> tuple[int, tuple[int, ...], Any, float, int, int] | None:
    """Device, index, value and bound of the worst element; how many are wrong, and of how many."""
    layout = value.layout
    whole = wide(expected)
    wrong = total = 0
    worst: tuple[int, tuple[int, ...], Any, float] | None = None
    most = -1.0
    for devices in layout.mesh.groups(layout.partial_axes):
        at = shard_indices(layout, value.shape, devices[0])
        found, want, bound = (
            combined(shards, layout, devices),
            whole[np.ix_(*at)],
            bounds[np.ix_(*at)],
        )
        total += found.size
        excess = _excess(found, want, bound)
        count = int(np.count_nonzero(excess > 0))
        if not count:
            continue
        wrong += count
        place = np.unravel_index(int(np.argmax(excess)), excess.shape)
        if excess[place] > most:
            most = float(excess[place])
            index = tuple(int(numbers[i]) for numbers, i in zip(at, place, strict=True))
            worst = devices[0], index, found[place].item(), float(bound[place])
    return None if worst is None else (*worst, wrong, total)


def _excess(found: Array, want: Array, bound: Array) -> Array:
    """By how much each element is beyond its bound; 0 where it is not, infinity for one NaN."""
    if found.dtype.kind in "biu":
        apart = np.abs(found.astype(np.float64) - want.astype(np.float64))
        return np.where((found == want) | (apart <= bound), 0.0, np.maximum(apart, 1.0))
    with np.errstate(all="ignore"):
        apart = np.abs(found - want)
        same = (found == want) | (np.isnan(found) & np.isnan(want))
        excess = np.where(apart > bound, apart, 0.0)
    excess = np.where(np.isnan(apart), np.inf, excess)
    return np.asarray(np.where(same, 0.0, excess))


def narrowed(values: Mapping[int, Sequence[Array]]) -> dict[int, Sequence[Array]]:
    """The magnitudes of values, in their own types."""
    return {number: [_narrowed(value) for value in parts] for number, parts in values.items()}


def _narrowed(value: Array) -> Array:
    return value if value.dtype.kind in "biu" else np.abs(value).astype(value.dtype)
