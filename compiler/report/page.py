"""`compiled.report`: one HTML file that says what a program sends, computes and holds, and why."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING

from dtensor.compiler.compare import check_plans, compare
from dtensor.compiler.report.arrays import arrays_section
from dtensor.compiler.report.collectives import collectives_section
from dtensor.compiler.report.facts import Facts, facts_of
from dtensor.compiler.report.lines import source_files
from dtensor.compiler.report.markup import Html, join, table, tag
from dtensor.compiler.report.numbers import bars, totals
from dtensor.passes.cost.units import quantity

if TYPE_CHECKING:
    from dtensor.compiler.planned import Planned
    from dtensor.compiler.report.lines import SourceFile

_PAGE = Path(__file__).with_name("page.html")
_TENSORS = 60


def report_html(planned: Planned, other: Planned | None = None) -> str:
    """The report of a program, or of two side by side, as a whole page.

    Args:
        planned: a Lowered or a Compiled.
        other: another one, to compare it with.

    Raises:
        TypeError: `other` is neither.
    """
    both = [planned] if other is None else [planned, other]
    check_plans("report", *both)
    programs = [facts_of(each) for each in both]
    parts = [tag("h1", join([facts.head for facts in programs], " beside "))]
    if len(programs) == 2:
        parts.append(tag("p", "Where two numbers stand together, the first program's is above."))
    parts += map(_warnings, programs, _names(programs))
    parts.append(totals(programs))
    if other is not None:
        note = "What only the first sends has a -, what only the second sends a +."
        parts += [_head("What differs", note), tag("pre", compare(planned, other))]
    parts += [
        _lines(source_files(programs)),
        _head(
            "Collectives",
            "Wire bytes per device and call, loops counted in full; equal ones are one row.",
        ),
        _side_by_side(programs, collectives_section),
        _head("Arguments and results", "Which devices hold which part; colours tell shards apart."),
        arrays_section(programs),
        _head(
            "Memory at the peak", "By the plan, on one device: what is alive when it holds most."
        ),
        _side_by_side(programs, _memory),
    ]
    title = " beside ".join(facts.head for facts in programs)
    page = Template(_PAGE.read_text(encoding="utf-8"))
    return page.substitute(title=join([title]), body=join(parts, "\n"))


def _head(title: str, note: str) -> Html:
    return join([tag("h2", title), tag("p", note)])


def _names(programs: Sequence[Facts]) -> list[str]:
    """What programs are called where there are two; nothing where there is one."""
    return ["The first: ", "The second: "] if len(programs) > 1 else [""]


def _side_by_side(programs: Sequence[Facts], section: Callable[[Facts], tuple[str, Html]]) -> Html:
    """A section's sum and content of each program."""
    parts = []
    for facts, name in zip(programs, _names(programs), strict=True):
        together, content = section(facts)
        parts.append(tag("section", tag("h3", f"{name}{together}"), content))
    return tag("div", *parts, class_="plans two" if len(parts) > 1 else "plans")


def _warnings(facts: Facts, name: str) -> Html:
    if not facts.warnings:
        nothing = "No warnings: nothing was done that nobody asked for."
        return tag("p", f"{name}{nothing[:1].lower()}{nothing[1:]}" if name else nothing)
    lines = [tag("li", f"{name}{text}") for text in facts.warnings]
    return tag("ul", *lines, class_="warnings")


def _lines(files: Sequence[SourceFile]) -> Html:
    head = _head(
        "Your lines",
        "Wire bytes that a line sends per device and call, and bytes that it holds at the peak.",
    )
    every = [line for file in files for line in file.lines]
    most_sent = max((n for line in every for n in line.sent), default=0.0)
    most_held = max((n for line in every for n in line.held), default=0.0)
    parts = [head]
    for file in files:
        rows = []
        for line in file.lines:
            if not line.number:
                rows.append(tag("tr", tag("td", "..."), tag("td"), tag("td"), tag("td")))
                continue
            hit = any(line.sent) or any(line.held)
            rows.append(
                tag(
                    "tr",
                    tag("td", str(line.number) if line.number > 0 else "", class_="line code"),
                    tag("td", line.text, class_="text code", title=line.text or None),
                    bars(line.sent, most_sent, "sent"),
                    bars(line.held, most_held, "held"),
                    class_="hit" if hit else None,
                )
            )
        lines = table(["", "", "sent#", "held at the peak#"], rows, class_="source")
        name = file.name or "where no line is known"
        parts.append(join([tag("h3", tag("code", name)), tag("div", lines, class_="scroll")]))
    if not files:
        parts.append(tag("p", "No line sends anything, and nothing but arguments is held."))
    return join(parts)


def _memory(facts: Facts) -> tuple[str, Html]:
    """The tensors alive at the peak, the most bytes first."""
    if facts.peak_bytes is None:
        return "not reported by this pipeline", Html()
    shown, rest = facts.held[:_TENSORS], facts.held[_TENSORS:]
    rows = [
        (f"{one.count}x {one.name}" if one.count > 1 else one.name, one.bytes, one.location)
        for one in shown
    ]
    if rest:
        rows.append((f"{len(rest)} smaller ones", sum(one.bytes for one in rest), ""))
    beside = facts.peak_bytes - sum(one.bytes for one in facts.held)
    if beside > 0:
        rows.append(("inside of loops, and results that are arguments", beside, ""))
    most = max((size for _, size, _ in rows), default=0.0)
    cells = [
        tag(
            "tr",
            bars((size,), most, "held"),
            tag("td", tag("code", name)),
            tag("td", place, class_="place"),
        )
        for name, size, place in rows
    ]
    tensors = table(["bytes#", "tensor", "line"], cells, class_="sortable memory")
    return f"{quantity(facts.peak_bytes, 'B')} together", tag("div", tensors, class_="scroll")
