"""Padding of a value with its own elements: which of the modes of `jnp.pad` some pieces are.

`jnp.pad(x, 1, mode="wrap")` is all of `x` between its last element and its first. Its gradient adds
up the same pieces, transposed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from dtensor.dialect.ends import EDGE, MODES, SYMMETRIC, WRAP
from dtensor.passes.cuts.pieces import Piece


@dataclass(frozen=True, slots=True)
class ModePadding:
    """Elements of a value that stand around all of it.

    Attributes:
        mode: which, as `jnp.pad` names it.
        low: how many in front.
        size: how many elements the value has.
        high: how many behind.
    """

    mode: str
    low: int
    size: int
    high: int

    @property
    def pairs(self) -> Iterator[tuple[int, int]]:
        """Each place around the value, counted from the first, and the element that is there."""
        for i in (*range(-self.low, 0), *range(self.size, self.size + self.high)):
            yield self.low + i, self._element(i)

    def _element(self, i: int) -> int:
        if self.mode == WRAP:
            return i + self.size if i < 0 else i - self.size
        if self.mode == EDGE:
            return 0 if i < 0 else self.size - 1
        is_twice = self.mode == SYMMETRIC  # the edge
        return -i - is_twice if i < 0 else 2 * (self.size - 1) - i + is_twice


def padding_of(pieces: Sequence[Piece], size: int, length: int, most: int) -> ModePadding | None:
    """How `size` elements were padded to `length` places; None if no mode does so.

    Args:
        pieces: which elements stand where.
        size: of what was padded.
        length: of what it became.
        most: how many elements may stand at one end.
    """
    for main in pieces:
        low, high = main.place, length - size - main.place
        is_all = main == Piece(main.source, 0, size, low)
        if not is_all or not 0 < low + high <= 2 * size or not 0 <= low <= most >= high >= 0:
            continue
        others = sorted((p, e) for piece in pieces if piece is not main for e, p in piece.pairs)
        for mode in MODES:
            found = ModePadding(mode, low, size, high)
            if others == list(found.pairs):
                return found
    return None
