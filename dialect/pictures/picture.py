"""A picture of two dimensions: a grid of parts, and in each the devices that hold it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from dtensor.dialect.errors import LayoutError

MOST_CELLS = 16
_MOST_RUNS = 4


@dataclass(frozen=True)
class Cut:
    """How one dimension is cut.

    Attributes:
        shards: the shard that each part belongs to, by part; one that is cut into blocks has
            several.
        ranges: the elements of each part, `0:4`; its number where no shape is known.
        text: what the dimension is and what cuts it.
    """

    shards: tuple[int, ...]
    ranges: tuple[str, ...]
    text: str

    @property
    def count(self) -> int:
        """Number of different shards."""
        return len(set(self.shards))


@dataclass(frozen=True)
class Cell:
    """One part of an array: its devices in words, and its shard's number for the colour."""

    text: str
    shard: int


@dataclass(frozen=True)
class Side:
    """A drawn dimension: what it is, and what each of its parts is; `...` for parts left out."""

    text: str
    ticks: tuple[str, ...]


@dataclass(frozen=True)
class Picture:
    """Which devices hold which part.

    Attributes:
        rows: the dimension drawn downwards; None where the array has fewer than two.
        columns: the dimension drawn to the right; None of a scalar.
        cells: rows of parts; None for those left out.
        notes: what the drawing does not say, a sentence each.
    """

    rows: Side | None
    columns: Side | None
    cells: tuple[tuple[Cell | None, ...], ...]
    notes: tuple[str, ...]


Holders = Mapping[tuple[int, ...], Sequence[int]]
"""The ids of the devices that hold a shard, by its number along each dimension."""


def draw(
    cuts: Sequence[Cut],
    holders: Holders,
    dims: Sequence[int] | None = None,
    notes: Sequence[str] = (),
    most: int = MOST_CELLS,
) -> Picture:
    """A picture of an array.

    Args:
        cuts: how each dimension is cut.
        holders: which devices hold each shard.
        dims: the dimensions to draw, at most two, the first downwards; None chooses those that are
            cut into the most shards.
        notes: more to say.
        most: how many parts are drawn along a dimension; of more, the first ones and the last.

    Raises:
        LayoutError: `dims` are not one or two different dimensions of the array.
    """
    drawn = _most_cut(cuts) if dims is None else _checked(dims, len(cuts))
    row, column = drawn if len(drawn) == 2 else (None, drawn[0] if drawn else None)
    cells = []
    for i in _shown(cuts, row, most):
        line: list[Cell | None] = []
        for j in _shown(cuts, column, most):
            if i is None or j is None:
                line.append(None)
                continue
            at = {row: i, column: j}
            shard = [cuts[d].shards[at[d]] if d in at else 0 for d in range(len(cuts))]
            number = _number(shard, cuts, drawn)
            line.append(Cell(devices_text(holders.get(tuple(shard), ())), number))
        cells.append(tuple(line))
    said = (*_of_the_rest(cuts, drawn), *notes)
    sides = _side(cuts, row, most), _side(cuts, column, most)
    return Picture(*sides, tuple(cells), said)


def devices_text(ids: Sequence[int]) -> str:
    """Device ids in few words: `0-3, 8`, `0-56 by 8`, and how many where there are more."""
    if not ids:
        return "none"
    ids = sorted(ids)
    runs: list[list[int]] = []
    for number in ids:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    texts = [text for run in runs for text in _run_text(run)]
    if len(texts) <= _MOST_RUNS:
        return ", ".join(texts)
    if len({b - a for a, b in pairwise(ids)}) == 1:
        return f"{ids[0]}-{ids[-1]} by {ids[1] - ids[0]}"
    return f"{', '.join(texts[: _MOST_RUNS - 1])}, ... ({len(ids)} devices)"


def _run_text(run: Sequence[int]) -> list[str]:
    return [f"{run[0]}-{run[-1]}"] if len(run) > 2 else [str(number) for number in run]


def _shown(cuts: Sequence[Cut], dim: int | None, most: int) -> list[int | None]:
    """The parts that are drawn; None stands for those left out."""
    count = 1 if dim is None else len(cuts[dim].shards)
    if count <= most:
        return list(range(count))
    return [*range(most - 2), None, count - 1]


def _side(cuts: Sequence[Cut], dim: int | None, most: int) -> Side | None:
    if dim is None:
        return None
    cut = cuts[dim]
    shown = _shown(cuts, dim, most)
    return Side(cut.text, tuple("..." if i is None else cut.ranges[i] for i in shown))


def _number(shard: Sequence[int], cuts: Sequence[Cut], drawn: Sequence[int]) -> int:
    number = 0
    for dim in drawn:
        number = number * cuts[dim].count + shard[dim]
    return number


def _most_cut(cuts: Sequence[Cut]) -> list[int]:
    """The two dimensions with the most shards; of those that are whole, the last ones."""
    order = sorted(range(len(cuts)), key=lambda dim: (-cuts[dim].count, -dim))
    return sorted(order[:2])


def _checked(dims: Sequence[int], rank: int) -> list[int]:
    found = [dim + rank if dim < 0 else dim for dim in dims]
    if not 0 < len(found) <= 2 or len(set(found)) != len(found):
        raise LayoutError(f"dims are {list(dims)}; give one or two different dimensions to draw")
    for dim, given in zip(found, dims, strict=True):
        if not 0 <= dim < rank:
            raise LayoutError(f"dims names dimension {given}, but the array has rank {rank}")
    return found


def _of_the_rest(cuts: Sequence[Cut], drawn: Sequence[int]) -> list[str]:
    """What the dimensions that are not drawn are."""
    rest = [dim for dim in range(len(cuts)) if dim not in drawn]
    if not rest:
        return []
    names = " and ".join(map(str, drawn))
    said = [f"drawn: dimension{'s' if len(drawn) > 1 else ''} {names} of {len(cuts)}"]
    for dim in rest:
        cut = cuts[dim]
        first = f"; its shard 0 of {cut.count} is drawn" if cut.count > 1 else ""
        said.append(f"not drawn: {cut.text}{first}")
    return said


def ranges_of_parts(size: int | None, parts: int) -> tuple[str, ...]:
    """The elements of each of `parts` parts; their numbers where the size is not known.

    All are as long as the first, but those at the end where the size does not divide.
    """
    if size is None:
        return tuple(map(str, range(parts)))
    bounds = [min(-(-size // parts) * i, size) for i in range(parts + 1)]
    return tuple(f"{start}:{stop}" for start, stop in pairwise(bounds))
