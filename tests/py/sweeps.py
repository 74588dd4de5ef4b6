"""Which cases of a sweep run where not all are to: few in which most parameters have most values.

A sweep is a test of one property over many layouts, sizes or types. `make test` takes a sixteenth
of its cases, the same ones each time, and no test marked `long`; `make test-all` takes all.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any
from zlib import crc32

import pytest

EVERY = 16


def left_out(items: Sequence[pytest.Item]) -> set[str]:
    """The names of the cases that do not run."""
    sweeps: dict[str, dict[str, set[tuple[str, str]]]] = defaultdict(dict)
    for item in items:
        if isinstance(item, pytest.Function) and item.get_closest_marker("sweep"):
            values = {(name, _text(value)) for name, value in item.callspec.params.items()}
            sweeps[item.nodeid.partition("[")[0]][item.nodeid] = values
    long = {item.nodeid for item in items if item.get_closest_marker("long")}
    return long.union(*(cases.keys() - set(chosen(cases)) for cases in sweeps.values()))


def chosen(cases: Mapping[str, set[tuple[str, str]]]) -> list[str]:
    """One after another the case that has the most values which no earlier one has.

    Args:
        cases: by the names of the cases the values of their parameters.
    """
    waiting = sorted(cases, key=lambda name: crc32(name.encode()))
    found: list[str] = []
    met: set[tuple[str, str]] = set()
    for _ in range(-(-len(cases) // EVERY)):
        case = max(waiting, key=lambda name: len(cases[name] - met))
        waiting.remove(case)
        found.append(case)
        met |= cases[case]
    return found


def _text(value: Any) -> str:
    """Tells values apart. Programs of one name are one value; no two arrays or the like are."""
    plain = isinstance(value, (bool, int, float, str, tuple, list))
    return repr(value) if plain else str(getattr(value, "__name__", id(value)))
