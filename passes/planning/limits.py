"""How long to search for a plan."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Effort:
    """How much work elimination may do, in counts.

    Attributes:
        table: entries of the table that eliminating a variable may visit.
        passes: rounds of messages, there and back.
        more: further rounds among the few promising states, where a gap is left.
        windows: how many parts of the variables are solved anew where states were dropped.
        window: variables of each.
        rounds: how often all variables are solved anew among a few states around the plan.
    """

    table: int = 60_000
    passes: int = 24
    more: int = 20
    windows: int = 10
    window: int = 40
    rounds: int = 3


@dataclass(frozen=True)
class Limits:
    """How long to search, in counts: a plan never depends on how fast the machine is.

    Attributes:
        turns: how often each of many mesh axes is laid out anew, the others held.
        specs: about, of one tensor, where all of many mesh axes may change at once; 0 is never.
        most: choices of two neighbours, summed over all, where one or two axes change together.
        choices: the same, where more axes may with no strategy left out.
        small: nodes of the problems where they may, and that are searched from a second start.
        pairs: whether two of many are laid out anew together in larger ones too.
        cut: nodes of the programs that are planned with one axis cut as well, if it is alone.
        joined: how often the last of four or more mesh axes is, together with each other one.
        effort: of the elimination.
        sweeps: rounds of single changes after that.
        polish: rounds of messages after that, which may find a better plan; they need the bound.
        bound: whether to find what no plan costs less than.
        proof: choices of two neighbours, summed over all, up to which that is found over all
            strategies where the search left some out.
        below: seconds; where messages prove that no plan costs less, none is looked for.
    """

    turns: int = 4
    specs: int = 300
    most: int = 4_000_000
    choices: int = 2_000_000
    small: int = 200
    pairs: bool = False
    cut: float = 100
    joined: int = 1
    effort: Effort = Effort()
    sweeps: int = 4
    polish: int = 0
    bound: bool = False
    proof: int = 20_000_000
    below: float = math.inf


EFFORTS: Final[Mapping[str, Limits]] = {
    "fast": Limits(
        turns=2,
        specs=0,
        cut=0,
        joined=0,
        effort=Effort(table=10_000, passes=4, more=0, windows=0, rounds=0),
        sweeps=2,
    ),
    "normal": Limits(),
    "best": Limits(
        specs=2000,
        most=40_000_000,
        choices=20_000_000,
        pairs=True,
        cut=math.inf,
        polish=8,
        bound=True,
        proof=2_000_000,
    ),
}
"""How hard to search, by name; docs/propagation.md has the table."""
