"""The collectives of a program, in groups of equal ones."""

from __future__ import annotations

from dtensor.compiler.explain import collective_lines
from dtensor.compiler.report.facts import Facts
from dtensor.compiler.report.markup import Html, join, table, tag
from dtensor.compiler.report.numbers import bars
from dtensor.compiler.summary import Group, count_text
from dtensor.passes.cost.units import quantity

_SHOWN = 200  # groups; a page of more is slow to read and to draw


def collectives_section(facts: Facts) -> tuple[str, Html]:
    """How many bytes in how many; and the groups, each with its line and its reason."""
    count = len(facts.collectives)
    size = quantity(sum(group.bytes for group in facts.groups), "B")
    together = f"{size} in {count} collective{'' if count == 1 else 's'}"
    if not facts.groups:
        return together, Html()
    most = facts.groups[0].bytes
    rows = [_row(group, most, facts) for group in facts.groups[:_SHOWN]]
    heads = ["bytes#", "how many#", "collective", "line"]
    shown = tag("div", table(heads, rows, class_="sortable collectives"), class_="scroll")
    rest = facts.groups[_SHOWN:]
    if not rest:
        return together, shown
    size = quantity(sum(group.bytes for group in rest), "B")
    note = tag("p", f"{len(rest)} smaller groups send {size}; explain() has them.")
    return together, join([shown, note])


def _row(group: Group, most: float, facts: Facts) -> Html:
    c = group.members[0]
    shape = "x".join(map(str, c.shape)) or "scalar"
    choices = collective_lines(group.first, c, facts.ledger)
    choices = choices[2 if c.location else 1 :][1 if c.reason else 0 :]
    what = [tag("code", f"{c.kind} over {', '.join(c.mesh_axes)} of {c.dtype} {shape}")]
    reason = group.reason or "no record of why"
    if choices:
        text = "\n".join(line.strip() for line in choices)
        what.append(tag("details", tag("summary", reason), tag("pre", text), class_="why"))
    else:
        what.append(tag("div", reason, class_="why"))
    turns = count_text(group).strip() or "once"
    turns = f"1x {turns}" if turns.startswith(("of ", "in ")) else turns
    return tag(
        "tr",
        bars((group.bytes,), most, "sent"),
        tag("td", turns, class_="number", data_value=len(group.members)),
        tag("td", *what, data_value=c.kind),
        tag("td", c.location, class_="place"),
        data_first=group.first,
    )
