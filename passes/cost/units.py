"""Numbers as people read them: three digits, and the unit that fits."""

from __future__ import annotations

_PREFIXES = ("", "k", "M", "G", "T", "P")


def seconds_text(seconds: float) -> str:
    """A time: `14.7 us`."""
    for unit, size in (("ns", 1e-9), ("us", 1e-6), ("ms", 1e-3)):
        if seconds < 999.5 * size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds:.3g} s"


def quantity(number: float, unit: str) -> str:
    """A number with a decimal prefix: `14.7 MB`."""
    power = 0
    while number >= 999.5 and power < len(_PREFIXES) - 1:
        number /= 1000
        power += 1
    return f"{number:.3g} {_PREFIXES[power]}{unit}"
