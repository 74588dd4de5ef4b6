"""How hard to search for a plan, by name; docs/propagation.md has the table."""

from __future__ import annotations

from typing import Final

from dtensor.passes.planning.plan import Limits

EFFORTS: Final[dict[str, Limits]] = {
    "fast": Limits(rounds=0),  # single changes alone
    "normal": Limits(),
    "best": Limits(polish=8, bound=True),
}
