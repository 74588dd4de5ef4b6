"""What a notebook shows of a program: small, and in the colours of the page around it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dtensor.compiler.report.facts import facts_of
from dtensor.compiler.report.markup import Html, join, tag
from dtensor.compiler.report.numbers import amount
from dtensor.compiler.summary import GROUPS, table

if TYPE_CHECKING:
    from dtensor.compiler.planned import Planned


def notebook_html(planned: Planned) -> str:
    """Name, warnings, totals, and the largest groups of collectives folded."""
    facts = facts_of(planned)
    parts = [tag("p", tag("code", facts.head))]
    if facts.warnings:
        parts.append(tag("ul", *(tag("li", text) for text in facts.warnings)))
    rows = [
        tag(
            "tr",
            tag("th", total.name, scope="row", style="text-align:left"),
            _number(amount(total)),
        )
        for total in facts.totals
    ]
    parts.append(tag("table", tag("tbody", *rows)))
    if facts.collectives:
        lines = "\n".join(table(facts.collectives, GROUPS))
        parts.append(
            tag(
                "details",
                tag("summary", f"collectives: {len(facts.collectives)}, most bytes first"),
                tag("pre", lines, style="overflow-x:auto"),
            )
        )
    return tag("div", join(parts))


def _number(text: str) -> Html:
    return tag("td", text, style="text-align:right")
