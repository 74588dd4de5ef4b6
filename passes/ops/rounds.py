"""Rounds of permutes in which the parts of a join, or what a cut keeps, come to their shards.

Each shard of each part is a stretch of the result, and falls into pieces on few shards of it. What
the shards send one another is a matrix of elements, no row or column of which is longer than some
`n`; filled up to `n`, it is a sum of permutations (Birkhoff 1946). A round is one of them, times as
many elements as all its pieces have, so that the rounds are `n` elements together: no device sends
or receives less in all. The permutation with the longest pieces is taken first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

MOST_SHARDS = 32  # with more, finding the rounds takes longer than planning may

Pair = tuple[int, int]  # the shards that send and receive


@dataclass(slots=True)
class SentPiece:
    """Elements of a shard: where they begin in it, and in the shard that they go to."""

    start: int
    place: int
    count: int

    def take(self, count: int) -> Pair:
        """Where the first elements begin on either side; they are no longer part of it."""
        ends = self.start, self.place
        self.start, self.place, self.count = ends[0] + count, ends[1] + count, self.count - count
        return ends


@dataclass(frozen=True, slots=True)
class PermuteRound:
    """Some elements that each shard gets of one other, or of itself.

    Attributes:
        count: how many elements.
        sources: per shard, of which one it gets them; -1 for none.
        starts: per shard, where those that it sends begin; 0 if it sends none.
        places: per shard, where those that it gets begin; 0 if it gets none.
    """

    count: int
    sources: tuple[int, ...]
    starts: tuple[int, ...]
    places: tuple[int, ...]

    @property
    def is_sent(self) -> bool:
        """Whether another shard has them."""
        return any(source not in (-1, shard) for shard, source in enumerate(self.sources))


@lru_cache(maxsize=1024)
def rounds_of_join(sizes: tuple[int, ...], shards: int) -> tuple[PermuteRound, ...]:
    """How parts, split into `shards`, become their join, split likewise.

    What is where it belongs is in no round. Places in a shard are those of the join of its parts.

    Args:
        sizes: elements of each part, a multiple of `shards`.
        shards: how many hold each part and the result.
    """
    return _rounds(_pieces(sizes, shards), shards)


@lru_cache(maxsize=1024)
def rounds_of_cut(size: int, first: int, kept: int, shards: int) -> tuple[PermuteRound, ...]:
    """How elements of a dimension, split into `shards`, become a dimension that is split likewise.

    What is in its place in its shard is in no round, nor is what the dimension does not have.

    Args:
        size: elements of the dimension, a multiple of `shards`.
        first: the first element that is kept; below 0 where something is put in front.
        kept: how many elements there are afterwards, a multiple of `shards`.
        shards: how many hold the dimension and what becomes of it.
    """
    given, local = size // shards, kept // shards
    pieces: dict[Pair, list[SentPiece]] = {}
    for target in range(shards):
        begin = first + target * local
        for source, at, count in _in_blocks(max(begin, 0), min(begin + local, size), given):
            piece = SentPiece(at - source * given, at - begin, count)
            pieces.setdefault((source, target), []).append(piece)
    return _rounds(pieces, shards)


def _rounds(pieces: Mapping[Pair, list[SentPiece]], shards: int) -> tuple[PermuteRound, ...]:
    moved = {pair: found for pair, found in pieces.items() if pair[0] != pair[1]}
    kept = [pieces.get((shard, shard), []) for shard in range(shards)]
    kept = [[piece for piece in found if piece.start != piece.place] for found in kept]
    return (*_sent(moved, shards), *moved_inside(kept))


def elements_sent(rounds: Sequence[PermuteRound]) -> tuple[int, int]:
    """How many elements each shard sends, in how many rounds."""
    counts = [each.count for each in rounds if each.is_sent]
    return sum(counts), len(counts)


def _pieces(sizes: Sequence[int], shards: int) -> dict[Pair, list[SentPiece]]:
    local = sum(sizes) // shards
    found: dict[Pair, list[SentPiece]] = {}
    before = 0
    for size in sizes:
        part = size // shards
        for shard in range(shards):
            first = before + shard * part
            for target, at, count in _in_blocks(first, first + part, local):
                piece = SentPiece(before // shards + at - first, at - target * local, count)
                found.setdefault((shard, target), []).append(piece)
        before += size
    return found


def _in_blocks(start: int, end: int, block: int) -> Iterator[tuple[int, int, int]]:
    """A range cut where blocks end: the number of the block, where it begins there, its length."""
    while start < end:
        number = start // block
        count = min(end, (number + 1) * block) - start
        yield number, start, count
        start += count


def _sent(pieces: Mapping[Pair, list[SentPiece]], shards: int) -> list[PermuteRound]:
    """The pieces in rounds, until none is left."""
    sums = [[0] * shards, [0] * shards]
    for pair, found in pieces.items():
        for side in (0, 1):
            sums[side][pair[side]] += sum(piece.count for piece in found)
    idle = _filled(sums, shards)
    rounds = []
    while any(found for found in pieces.values()):
        longest = {pair: _longest(pieces, idle, pair) for pair in (*pieces, *idle)}
        chosen = _permutation({pair: n for pair, n in longest.items() if n}, shards)
        count = min(longest[pair] for pair in chosen)
        sources, starts, places = [-1] * shards, [0] * shards, [0] * shards
        for source, target in chosen:
            found = [p for p in pieces.get((source, target), ()) if p.count >= count]
            if not found:
                idle[source, target] -= count
                continue
            piece = max(found, key=lambda piece: piece.count)
            sources[target] = source
            starts[source], places[target] = piece.take(count)
            if not piece.count:
                pieces[source, target].remove(piece)
        if any(source != -1 for source in sources):
            rounds.append(PermuteRound(count, tuple(sources), tuple(starts), tuple(places)))
    return rounds


def _longest(pieces: Mapping[Pair, list[SentPiece]], idle: Mapping[Pair, int], pair: Pair) -> int:
    return max([idle.get(pair, 0), *(piece.count for piece in pieces.get(pair, ()))])


def _filled(sums: Sequence[list[int]], shards: int) -> dict[Pair, int]:
    """What shards must be said to send so that each sends and receives as much as the busiest.

    To themselves as far as that goes.
    """
    most = max(max(side) for side in sums)
    lacks = [[most - given for given in side] for side in sums]
    pairs = [(shard, shard) for shard in range(shards)]
    pairs += [(source, target) for source in range(shards) for target in range(shards)]
    found: dict[Pair, int] = {}
    for source, target in pairs:
        count = min(lacks[0][source], lacks[1][target])
        if count:
            found[source, target] = found.get((source, target), 0) + count
            lacks[0][source] -= count
            lacks[1][target] -= count
    return found


def _permutation(weights: Mapping[Pair, int], shards: int) -> list[Pair]:
    """Pairs in which every shard sends once and receives once, the lightest as heavy as can be."""
    steps = sorted(set(weights.values()))
    low, high = 0, len(steps)
    best: list[Pair] = []
    while low < high:
        middle = (low + high) // 2
        found = _matching([pair for pair, n in weights.items() if n >= steps[middle]], shards)
        if found is None:
            high = middle
        else:
            best, low = found, middle + 1
    assert best, "what each sends and receives is as much, so that there is a permutation"
    return best


def _matching(pairs: Sequence[Pair], shards: int) -> list[Pair] | None:
    """As many of the pairs as there are shards, each shard once on each side; None if none are."""
    targets: list[list[int]] = [[] for _ in range(shards)]
    for source, target in pairs:
        targets[source].append(target)
    source_of = [-1] * shards

    def finds(source: int, seen: set[int]) -> bool:
        for target in targets[source]:
            if target not in seen:
                seen.add(target)
                if source_of[target] < 0 or finds(source_of[target], seen):
                    source_of[target] = source
                    return True
        return False

    if not all(finds(source, set()) for source in range(shards)):
        return None
    return [(source, target) for target, source in enumerate(source_of)]


def moved_inside(kept: Sequence[list[SentPiece]]) -> list[PermuteRound]:
    """The pieces that stay on their shard and change their place in it."""
    rounds = []
    while any(kept):
        heads = [max(found, key=lambda piece: piece.count, default=None) for found in kept]
        count = min(piece.count for piece in heads if piece is not None)
        sources, starts, places = [-1] * len(kept), [0] * len(kept), [0] * len(kept)
        for shard, piece in enumerate(heads):
            if piece is not None:
                sources[shard] = shard
                starts[shard], places[shard] = piece.take(count)
                kept[shard][:] = [left for left in kept[shard] if left.count]
        rounds.append(PermuteRound(count, tuple(sources), tuple(starts), tuple(places)))
    return rounds
