"""What the windows of each shard read of a split dimension.

Shard r makes the results from `r * kept` on, so it reads from the place `r * kept * stride - low`
on; elements are `base_dilation` places apart. Where a shard's results begin between two elements,
it computes some more in front of them, from the place of an element on, and leaves those out.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from dtensor.passes.ops.rule import Window


@dataclass(frozen=True, slots=True)
class WindowReach:
    """What the windows of each shard read of one dimension, in elements.

    Attributes:
        low: fetched from the shards below, the nearest first.
        high: fetched from the shards above.
        margins: beyond what is fetched on either side, where only what is in the padding, or of
            no use, is read.
        first: where shard 0 begins to read, counted from the first element in the margins.
        local: how many a shard has.
        length: how many are read.
        origin: index of shard 0's first element in the tensor; negative in the padding.
        places: from one shard's first window to the next one's.
        apart: places from one element to the next.
        spare: results that a shard computes besides its own.
        pads: places without an element before the first and behind the last.
    """

    low: int
    high: int
    margins: tuple[int, int]
    first: int
    local: int
    length: int
    origin: int
    places: int
    apart: int
    spare: int
    pads: tuple[int, int]

    @property
    def step(self) -> int:
        """By how much the next shard begins later in its elements, where all do by one number."""
        return self.places // self.apart - self.local

    @property
    def framed(self) -> int:
        """What a shard has with what it fetches and the margins."""
        return self.local + self.low + self.high + sum(self.margins)

    def begin(self, shard: int) -> int:
        """Index in the tensor of the first element that a shard reads."""
        return self.origin + shard * self.places // self.apart

    def is_padded(self, size: int, shards: int) -> bool:
        """Whether some window reads beyond the `size` elements of the tensor."""
        return self.origin < 0 or self.begin(shards - 1) + self.length > size


@lru_cache(4096)
def reach(
    size: int, steps: int, window: Window, shards: int, hops: int = 1, may_spare: bool = False
) -> WindowReach | None:
    """What shards of a dimension read; None if the shards nearest on each side do not have it.

    Args:
        size: elements of the dimension.
        steps: number of windows.
        window: how the window walks.
        shards: into how many the dimension and the windows are cut.
        hops: how many shards on each side may be asked.
        may_spare: whether shards may compute more results than their own; these are one place
            apart then.
    """
    apart = window.base_dilation
    places = steps // shards * window.stride
    if size % shards or steps % shards or not steps or (places % apart and not may_spare):
        return None
    local, spare = size // shards, apart - math.gcd(places, apart)
    end = places - window.stride + window.reach - window.low  # behind the last place that is read
    origin, last = -(window.low // apart), (end + spare - 1) // apart
    length = last - origin + 1
    starts = (origin, (shards - 1) * places // apart - (shards - 1) * local + origin)
    frame = max(0, -min(starts)), max(0, max(starts) + length - local)
    fetched = frame
    if window.ends is None:  # beyond the tensor is nothing to fetch
        needs = [
            (shard, -((window.low - shard * places) // apart), (shard * places + end - 1) // apart)
            for shard in range(shards)
        ]
        fetched = _fetched(size, local, needs)
    if length <= 0 or max(fetched) > hops * local:
        return None
    pads = origin * apart + window.low, end + spare - 1 - last * apart
    margins = frame[0] - fetched[0], frame[1] - fetched[1]
    sizes = local, length, origin, places, apart, spare
    return WindowReach(*fetched, margins, frame[0] + origin, *sizes, pads)


def _fetched(size: int, local: int, needs: Iterable[tuple[int, int, int]]) -> tuple[int, int]:
    """The most elements that a shard reads of those below it and above it.

    `needs` are shards of `local` elements, with the first and the last index that each reads.
    """
    low = high = 0
    for shard, start, last in needs:
        first, end = max(0, start), min(size, last + 1)
        if first < end:
            low, high = max(low, shard * local - first), max(high, end - (shard + 1) * local)
    return low, high
