"""Explanations: each argument, result and collective with its chain of reasons, as text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from numbers import Integral
from typing import TYPE_CHECKING

from dtensor.compiler.held import memory_lines
from dtensor.compiler.summary import groups_of, plan_lines, short_table, table
from dtensor.dialect.axes import AxisRef
from dtensor.dialect.diagnostics import did_you_mean
from dtensor.dialect.errors import CompileError
from dtensor.passes.graph import ARGUMENT, BORDERS, CONSTRAINT, RESULT
from dtensor.passes.ledger import Ledger, NodeFacts
from dtensor.passes.locations import location_text
from dtensor.passes.relayout.sub_axes import merge_axes
from dtensor.passes.reports.grouping import common, grouped, without_numbers

if TYPE_CHECKING:
    from dtensor.compiler.driver import DriverResult
    from dtensor.compiler.program import ArrayInfo
    from dtensor.passes.planning.provenance import Provenance
    from dtensor.passes.reports.cost import Collective

_MAX_STEPS = 12
_MAX_MOVES = 4


def explain(
    args: Sequence[ArrayInfo],
    results: Sequence[ArrayInfo],
    result: DriverResult,
    what: str | None = None,
    top: int | None = None,
) -> str:
    """Why things are laid out as they are.

    Args:
        args: names and layouts of the arguments.
        results: the same of the results.
        result: what the passes did.
        what: name of an argument or result, its last key (`w1`; of equal layers one is told), a
            part of the name that no other has, `collective 3`, or `memory` if no array is called
            so; None explains everything.
        top: instead of everything, this many groups of collectives, those with the most bytes, each
            on a line.

    Raises:
        CompileError: nothing has this name, several things do, or `top` is given beside `what`.
    """
    if top is not None:
        _check_top(top, what)
        return "\n".join(_largest(result, top))
    if not (what is None or isinstance(what, str)):
        raise CompileError(f"what is {what!r}; give the name of an argument or a result, as a text")
    entries = _entries(args, results, result)
    if what is None:
        return "\n".join(_everything(entries, result))
    alike = [what] if what in entries else [name for name in entries if _last_key(name) == what]
    if alike:
        return "\n".join(_told(alike, entries) + _moves_of(alike, result))
    if what == "memory" and result.memory is not None:
        return "\n".join(memory_lines(result.memory, args))
    matches = [name for name in entries if what in name]
    if len(matches) == 1:
        return "\n".join(entries[matches[0]])
    if not matches:
        raise CompileError(_unknown(what, list(entries), result))
    raise CompileError(f"'{what}' is part of several names: {_some(matches)}; give one whole")


def _check_top(top: object, what: str | None) -> None:
    if not isinstance(top, Integral) or top < 1:
        raise CompileError(f"top is {top!r}; give the number of groups to show, at least 1")
    if what is not None:
        raise CompileError(
            f"top={top} counts collectives of the whole program, and what is {what!r}; give one"
        )


def _entries(
    args: Sequence[ArrayInfo], results: Sequence[ArrayInfo], result: DriverResult
) -> dict[str, list[str]]:
    """What is said of each argument, result and collective, by name."""
    entries: dict[str, list[str]] = {}
    for kind, infos in ((ARGUMENT, args), (RESULT, results)):
        for slot, info in enumerate(infos):
            entries[_unique(entries, info.name or f"{kind} {slot}")] = _array(
                kind, slot, info, result.ledger
            )
    for number, collective in enumerate(result.collectives):
        entries[f"collective {number}"] = collective_lines(number, collective, result.ledger)
    return entries


def _everything(entries: dict[str, list[str]], result: DriverResult) -> list[str]:
    lines = [line for entry in entries.values() for line in entry]
    lost = _notes(result.ledger, "over_memory", "not_parallel")
    rest = _notes(result.ledger, "fallback", "refusal", "warning", "moved argument")
    plan = [line.strip() for line in plan_lines(result.ledger)]
    return [*lost, *plan, *lines, *rest]


def _last_key(name: str) -> str:
    """`w1` of `params['layers'][0]['w1']` and of `params.w1`."""
    return re.split(r"[\[.]", name.rstrip("]"))[-1].strip("'\"")


def _told(names: Sequence[str], entries: dict[str, list[str]]) -> list[str]:
    """One of each layer's arrays of a name, and how many others there are.

    Arrays of other trees that have the same layout for the same reasons are told with it.
    """
    if len(names) == 1:
        return entries[names[0]]
    groups = grouped(names, without_numbers)
    alike = grouped(groups, lambda group: _reasons(entries[group[0]]))
    lines = []
    for kin in alike:
        every = [name for group in kin for name in group]
        lines += _chains_in_one_line(entries[every[0]])
        if len(every) > 1:
            told = {_reasons(entries[name]) for name in every}
            same = "alike" if len(told) == 1 else "not all laid out for the same reasons"
            lines.append(f"  and {len(every) - 1} more, {', '.join(map(common, kin))}, {same}")
    return lines


def _reasons(entry: Sequence[str]) -> str:
    """What is said of an array, but for its name and for numbers."""
    kind, _, said = entry[0].partition(" ")
    return without_numbers("\n".join([kind, said.rpartition(": ")[2], *entry[1:]]))


def _chains_in_one_line(entry: Sequence[str]) -> list[str]:
    """The reasons of an array, those of one axis in one line."""
    lines: list[str] = []
    for line in entry:
        axis, found, step = line.partition('": ')
        if found and lines and lines[-1].startswith(axis + found):
            lines[-1] += f", {step}"
        else:
            lines.append(line)
    return lines


def _moves_of(names: Sequence[str], result: DriverResult) -> list[str]:
    """The collectives that move the arrays of these names."""
    named = re.compile(rf"(?<![\w.\]])(?:{'|'.join(map(re.escape, names))})(?![\w\[])")
    moves = [c for c in result.collectives if named.search(c.reason)]
    if not moves:
        return []
    if len(names) == 1:
        return ["moved by", *table(moves, _MAX_MOVES, result.collectives)]
    return ["moved by", *short_table(moves, _MAX_MOVES - 1, result.collectives)]


def _largest(result: DriverResult, top: int) -> list[str]:
    groups = groups_of(result.collectives)
    count, kinds = len(result.collectives), len(groups)
    lines = [
        f"{count} collective{'s' * (count != 1)} in {kinds} group{'s' * (kinds != 1)}, "
        "most bytes first"
    ]
    lines += plan_lines(result.ledger)
    return lines + short_table(result.collectives, top)


def _unique(taken: dict[str, list[str]], name: str) -> str:
    return name if name not in taken else f"{name} ({len(taken)})"


def _unknown(what: str, names: list[str], result: DriverResult) -> str:
    """That nothing is called so, and what there is."""
    if re.fullmatch(r"collective -?\d+", what):
        last = len(result.collectives) - 1
        has = f"{last + 1}, the last of them collective {last}" if last >= 0 else "none"
        return f"there is no {what}: of collectives the program has {has}"
    hint = did_you_mean(what, names)
    if not names:
        hint = ": the program takes and gives nothing"
    elif not hint.startswith("; did"):
        hint = f"; names are {_some(names)}"
    return f"nothing is called '{what}'{hint}"


def _some(names: list[str]) -> str:
    return ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")


def _array(kind: str, slot: int, info: ArrayInfo, ledger: Ledger) -> list[str]:
    seen = info.type
    assert seen.layout is not None
    shape = "x".join(map(str, seen.shape)) or "scalar"
    lines = [f"{kind} {info.name or slot}: {seen.dtype} {shape}, {seen.layout.short()}"]
    facts = ledger.facts
    if facts is None:
        return lines
    node = next(
        i
        for i, (k, s) in enumerate(zip(facts.kinds, facts.slots, strict=True))
        if k == kind and s == slot
    )
    alike: dict[tuple[str, tuple[str, ...]], list[AxisRef]] = {}  # parts of an axis, in order
    sizes = {trail.sub_axis.name: trail.size for trail in ledger.trails}
    for trail in ledger.trails:
        if node in trail.labels:
            key = trail.sub_axis.name, tuple(_chain(node, trail, ledger, facts))
            alike.setdefault(key, []).append(trail.sub_axis)
    for (name, steps), parts in alike.items():
        for axis in merge_axes(parts):
            lines += [f"  axis {axis.text(sizes[name])}: {step}" for step in steps]
    if not alike:
        given = "given so; " if node in facts.given else ""
        lines.append(f"  whole on every device: {given}{_why_whole(node, ledger)}")
    return lines


def _chain(node: int, trail: Provenance, ledger: Ledger, facts: NodeFacts) -> Iterator[str]:
    """From a node back to what the user fixed, along the values through which it was reached."""
    seen = {node}
    for _ in range(_MAX_STEPS):
        value = trail.parents[node]
        if value < 0:
            given = "given" if facts.kinds[node] in (ARGUMENT, RESULT, CONSTRAINT) else "chosen"
            if facts.kinds[node] == RESULT and facts.slots[node] in ledger.padded_results:
                given = "split as what it is made of, which is padded,"
            yield f"{given} at {_node_name(node, facts)}"
            return
        near = [facts.producer[value]]
        near += [i for i in trail.parents if value in facts.operands[i]]
        steps = [i for i in near if i in trail.parents and i not in seen]
        if not steps:
            yield f"from a value of {_node_name(node, facts)}"
            return
        steps.sort(key=lambda i: trail.parents[i] == value)
        node = steps[0]
        moved = f", moved: {trail.refused[node]}" if node in trail.detours else ""
        yield f"from {_node_name(node, facts)}{moved}"
        seen.add(node)
    yield "..."


def _node_name(node: int, facts: NodeFacts) -> str:
    kind = facts.kinds[node]
    if kind in BORDERS:
        return f"{kind} {facts.slots[node]}"
    location = facts.locations[node]
    where = location_text(location)
    name = "constraint" if kind == CONSTRAINT else facts.names[node].split(".")[-1]
    return f"{name} at {where}" if where else name


def _why_whole(node: int, ledger: Ledger) -> str:
    facts = ledger.facts
    assert facts is not None
    if facts.kinds[node] == RESULT:
        return _why_result_whole(facts.operands[node][0], ledger, facts)
    value = facts.results[node][0]
    users = [i for i, operands in enumerate(facts.operands) if value in operands]
    for trail in ledger.trails:
        for i in users:
            if i in trail.labels:
                return f"{_node_name(i, facts)} takes the part that axis {trail.axis} needs of it"
            if i in trail.refused:
                return f"axis {trail.axis}: {_node_name(i, facts)}: {trail.refused[i]}"
    return "no annotation reaches it"


def _why_result_whole(value: int, ledger: Ledger, facts: NodeFacts) -> str:
    """Walk back to where the axes stop."""
    queue, seen = [facts.producer[value]], set()
    while queue:
        node = queue.pop(0)
        if node in seen:
            continue
        seen.add(node)
        for trail in ledger.trails:
            if node in trail.refused:
                return (
                    f"axis {trail.axis} stops at {_node_name(node, facts)}: {trail.refused[node]}"
                )
            if node in trail.labels:
                return f"{_node_name(node, facts)} is split, and its result collected"
        queue += [facts.producer[v] for v in facts.operands[node] if facts.producer[v] < node]
    return "no annotation reaches it"


def collective_lines(number: int, collective: Collective, ledger: Ledger) -> list[str]:
    """What a collective is, where and why, and what could be done instead, a line each."""
    lines = [f"collective {number}: {collective.text()}"]
    if collective.location:
        lines.append(f"  at {collective.location}")
    if collective.reason:
        lines.append(f"  because {collective.reason}")
    for number_ in collective.records:
        record = ledger.record(number_)
        if record is not None and record.runner_up:
            lines.append(f"  instead {record.runner_up}")
    return lines


def _notes(ledger: Ledger, *kinds: str) -> list[str]:
    return [
        f"{record.kind}: {record.text}" + (f" at {record.location}" if record.location else "")
        for record in ledger.of_kind(*kinds)
    ]
