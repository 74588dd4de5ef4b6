"""Texts and values that differ in numbers only, such as those of equal layers, told once."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

T = TypeVar("T")
_NUMBERS = re.compile(r"(\d+)")


def without_numbers(text: str) -> str:
    """The text with `*` for each number: equal for what differs in numbers only."""
    return _NUMBERS.sub("*", text)


def common(texts: Iterable[str]) -> str:
    """The texts as one, with `*` for a number in which they differ."""
    split = [_NUMBERS.split(text) for text in texts]
    return "".join(parts[0] if len(set(parts)) == 1 else "*" for parts in zip(*split, strict=True))


def grouped(values: Iterable[T], key: Callable[[T], Any]) -> list[list[T]]:
    """Values of equal keys together, in the order in which they come."""
    groups: dict[Any, list[T]] = {}
    for value in values:
        groups.setdefault(key(value), []).append(value)
    return list(groups.values())


def times_text(count: int) -> str:
    """`2x ` in front of what there are several of; nothing in front of one."""
    return f"{count}x " if count > 1 else ""
