"""How a row of numbers is cut in two dimensions for its Fourier transform.

The N numbers that go in stand in rows of `width`, those that come out in rows of `height`, where
N = height * width. Real numbers have a transform of which one half is the other's conjugate: only
that half is kept, and of a row of it a number goes with the one as far from the row's end.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from functools import lru_cache


class Kind(Enum):
    """The transforms of StableHLO."""

    FFT = "FFT"
    IFFT = "IFFT"
    RFFT = "RFFT"
    IRFFT = "IRFFT"

    @property
    def between_complex(self) -> Kind:
        """The transform between complex numbers that goes the same way."""
        return Kind.IFFT if self in (Kind.IFFT, Kind.IRFFT) else Kind.FFT

    def sizes(self, length: int) -> tuple[int, int]:
        """How many numbers go in and come out."""
        kept = half(length)
        return (kept if self is Kind.IRFFT else length), (kept if self is Kind.RFFT else length)


def half(length: int) -> int:
    """How many numbers of a transform of real numbers are not conjugates of others."""
    return length // 2 + 1


@dataclass(frozen=True)
class RowsOfShards:
    """Rows of `width` numbers, in which shards of a row of numbers stand.

    Attributes:
        width: numbers of a row.
        shard: numbers of a shard, which may begin and end inside of rows.
        shards: how many shards there are.
    """

    width: int
    shard: int
    shards: int

    @property
    def is_aligned(self) -> bool:
        """Whether every shard is whole rows."""
        return self.shard % self.width == 0

    def first(self, k: int) -> int:
        """The row in which shard `k` begins."""
        return k * self.shard // self.width

    @property
    def count(self) -> int:
        """How many rows have a number of one shard, at most."""
        return max(
            ((k + 1) * self.shard - 1) // self.width - self.first(k) + 1 for k in range(self.shards)
        )

    def sources(self, rows: int) -> list[list[int]]:
        """For each of the first rows where its parts stand, if the rows of all shards are joined.

        Returns:
            Lists of equal length; what is missing is one row behind all others.
        """
        count, width, shard = self.count, self.width, self.shard
        found: list[list[int]] = []
        for row in range(rows):
            owners = range(row * width // shard, ((row + 1) * width - 1) // shard + 1)
            owned = [k for k in owners if k < self.shards]
            found.append([k * count + row - self.first(k) for k in owned])
        most = max(map(len, found))
        return [[*each, *[self.shards * count] * (most - len(each))] for each in found]

    def wanted(self, rows: int) -> list[int]:
        """The rows of each shard, one shard after the other; where there is none, the last."""
        return [
            min(self.first(k) + r, rows - 1) for k in range(self.shards) for r in range(self.count)
        ]


@dataclass(frozen=True)
class FourSteps:
    """A transform of a split row in four steps.

    Attributes:
        kind: which transform.
        height: numbers of the first, short transforms.
        width: numbers of the second ones; N is the product.
        shards: among how many shards the row is split.
        given: elements of a shard of the operand.
        made: elements of a shard of the result.
    """

    kind: Kind
    height: int
    width: int
    shards: int
    given: int
    made: int

    @property
    def rows_in(self) -> RowsOfShards:
        """The rows of the operand."""
        return RowsOfShards(self.width, self.given, self.shards)

    @property
    def rows_out(self) -> RowsOfShards:
        """The rows of the result."""
        return RowsOfShards(self.height, self.made, self.shards)

    @property
    def columns(self) -> int:
        """How many columns are transformed first."""
        return half(self.width) if self.kind is Kind.IRFFT else self.width

    @property
    def kept(self) -> int:
        """How many numbers of each of them are kept."""
        return half(self.height) if self.kind is Kind.RFFT else self.height

    @property
    def local_columns(self) -> int:
        """Columns that a shard transforms."""
        return -(-self.columns // self.shards)

    @property
    def local_kept(self) -> int:
        """Rows that a shard transforms."""
        return -(-self.kept // self.shards)

    @property
    def elements(self) -> tuple[int, int, int]:
        """What a shard has to exchange: of the operand, between the transforms, of the result."""
        p, mirrored = self.shards, 2
        first = p * self.rows_in.count * self.local_columns
        last = p * self.rows_out.count * self.local_kept
        return (
            first * mirrored if self.kind is Kind.IRFFT else first,
            p * self.local_columns * self.local_kept,
            last * mirrored if self.kind is Kind.RFFT else last,
        )

    @property
    def complex_elements(self) -> float:
        """The same in all, real numbers by halves."""
        first, middle, last = self.elements
        first_share = 0.5 if self.kind is Kind.RFFT else 1
        return first * first_share + middle + last * (0.5 if self.kind is Kind.IRFFT else 1)


@lru_cache(maxsize=1024)
def best_steps(kind: Kind, length: int, shards: int, given: int, made: int) -> FourSteps | None:
    """The factors of a length with which least is sent; None if it is prime.

    Args:
        kind: which transform.
        length: N.
        shards: among how many shards the row is split.
        given: elements of a shard of the operand.
        made: elements of a shard of the result.
    """
    divisors = factors(length)
    if not divisors:
        return None
    found = [FourSteps(kind, d, length // d, shards, given, made) for d in divisors]
    return min(found, key=lambda steps: (steps.complex_elements, steps.height))


@lru_cache(maxsize=1024)
def factors(length: int) -> tuple[int, ...]:
    """What divides a length, except 1 and itself, ascending."""
    small = [d for d in range(2, int(length**0.5) + 1) if length % d == 0]
    return tuple(sorted({*small, *(length // d for d in small)}))
