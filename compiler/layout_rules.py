"""Layouts of a tree's leaves as rules of `layouts_by_name`: as few as there are layouts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from dtensor.dialect.layout import UNSHARDED, Layout

_KEY = "(^|/)"  # where a key of a path starts

Rule = tuple[str, list[Any]]
"""A regular expression, and what `Layout` takes: one entry per dimension."""


def shortest_rules(names: Sequence[str], layouts: Sequence[Layout]) -> list[Rule]:
    """One rule for each layout but the replicated ones, whose pattern finds its leaves alone.

    Args:
        names: paths of the leaves, as `layouts_by_name` writes them.
        layouts: their layouts.
    """
    groups: dict[Layout, list[str]] = {}
    for name, layout in zip(names, layouts, strict=True):
        if layout != Layout.replicated(layout.mesh, layout.rank):
            groups.setdefault(layout, []).append(name)
    rules = []
    for layout, group in groups.items():
        mine = set(group)
        patterns = _patterns(group, [name for name in names if name not in mine])
        rules.append((_joined(patterns), _specs(layout)))
    return rules


def _patterns(group: Sequence[str], others: Sequence[str]) -> list[str]:
    """Patterns that together find a group of names and none of the others.

    Each time the pattern that finds the most names that none found yet; of these the first, which
    looks at the fewest keys.
    """
    left = list(group)
    candidates = list(dict.fromkeys(p for name in group for p in _candidates(name)))
    usable = [p for p in candidates if not any(re.search(p, name) for name in others)]
    found = []
    while left:
        best = max(usable, key=lambda p: sum(bool(re.search(p, x)) for x in left))
        found.append(best)
        left = [name for name in left if not re.search(best, name)]
    return found


def _joined(patterns: Sequence[str]) -> str:
    """One pattern for several; endings of paths share what is around them."""
    endings = [p[len(_KEY) : -1] for p in patterns if p.startswith(_KEY)]
    others = [p for p in patterns if not p.startswith(_KEY)]
    if len(endings) > 1:
        return "|".join([f"{_KEY}({'|'.join(endings)})$", *others])
    return "|".join(patterns)


def _candidates(name: str) -> Iterator[str]:
    """Endings of a path, the shortest first, with any number in place of each, and as they are."""
    keys = name.split("/")
    for count in range(1, len(keys) + 1):
        ending = [re.escape(key) for key in keys[-count:]]
        start = "^" if count == len(keys) else _KEY
        general = [r"\d+" if key.isdigit() else key for key in ending]
        yield f"{start}{'/'.join(general)}$"
        yield f"{start}{'/'.join(ending)}$"


def _specs(layout: Layout) -> list[Any]:
    """What `Layout` takes for the layout."""
    entries: list[Any] = []
    for dim in layout.dims:
        digits = [d if isinstance(d, int) else _axis(d, layout) for d in dim.digits]
        entries.append(UNSHARDED if not digits else digits[0] if len(digits) == 1 else (*digits,))
    return entries


def _axis(axis: Any, layout: Layout) -> Any:
    """The name of an axis, or a part of one."""
    return axis.name if axis.size == layout.mesh.axis_size(axis.name) else axis
