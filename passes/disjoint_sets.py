"""Which of some things belong together, where that is known of pairs (disjoint sets)."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)


class DisjointSets(Generic[Key]):
    """Keys, each in a set of its own until it is joined to another."""

    def __init__(self) -> None:
        self._above: dict[Key, Key] = {}

    def root(self, key: Key) -> Key:
        """The key that stands for all of its set."""
        above = self._above
        while key in above:
            parent = above[key]
            above[key] = above.get(parent, parent)
            key = parent
        return key

    def join(self, one: Key, other: Key) -> None:
        """Unite the sets of two keys."""
        below, root = self.root(one), self.root(other)
        if below != root:
            self._above[below] = root

    def sets(self, keys: Iterable[Key]) -> list[list[Key]]:
        """The keys by their sets, in the order in which each set begins."""
        found: dict[Key, list[Key]] = {}
        for key in keys:
            found.setdefault(self.root(key), []).append(key)
        return list(found.values())
