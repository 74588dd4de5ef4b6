"""Numbers of one program, or of two beside each other: as tiles, and as bars."""

from __future__ import annotations

from collections.abc import Sequence

from dtensor.compiler.report.facts import Facts, Total
from dtensor.compiler.report.markup import Html, tag
from dtensor.passes.cost.units import quantity, seconds_text


def totals(programs: Sequence[Facts]) -> Html:
    """A tile for each total."""
    others = [{total.name: total for total in facts.totals} for facts in programs[1:]]
    tiles = []
    for total in programs[0].totals:
        values = [tag("dd", amount(total), data_total=total.name, data_value=total.value)]
        for other in (found[total.name] for found in others if total.name in found):
            values.append(tag("dd", _beside(total, other), class_="other", data_value=other.value))
        tiles.append(tag("div", tag("dt", total.name), *values))
    return tag("dl", *tiles, class_="totals")


def amount(total: Total) -> str:
    """`14.7 kB`, `12`, `3.2 us`."""
    if total.unit == "s":
        return seconds_text(total.value)
    return quantity(total.value, total.unit) if total.unit else f"{total.value:,}"


def _beside(total: Total, other: Total) -> str:
    if total.value == other.value:
        return f"{amount(other)}, the same"
    times = f", {other.value / total.value:.3g} times" if total.value else ""
    return f"{amount(other)}{times}"


def bars(values: Sequence[float], most: float, kind: str) -> Html:
    """A cell with a number and a bar for each of `values`, which are bytes.

    Args:
        values: one of each program.
        most: the value of a bar of full length.
        kind: what is counted, `sent` or `held`, for the colour.
    """
    if not any(values):
        return tag("td", class_="number", data_value=0)
    shown = []
    for i, value in enumerate(values):
        width = 100 * value / most if most else 0
        bar = tag("span", class_=f"bar {kind}", style=f"width:{width:.1f}%") if value else ""
        side = "bars second" if i else "bars"
        number = tag("span", quantity(value, "B"), title=f"{value:.0f} bytes")
        shown.append(tag("span", tag("span", bar, class_="track"), number, class_=side))
    return tag("td", *shown, class_="number", data_value=f"{values[0]:.0f}")
