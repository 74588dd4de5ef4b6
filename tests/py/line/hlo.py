"""The collectives of optimised HLO text: kind and wire bytes per device and call."""

from __future__ import annotations

import math
import re
from collections import Counter

KINDS = {
    "all-gather": "all_gather",
    "all-reduce": "all_reduce",
    "reduce-scatter": "reduce_scatter",
    "all-to-all": "all_to_all",
    "collective-permute": "collective_permute",
}
BITS = {
    "pred": 8,
    "s8": 8,
    "u8": 8,
    "bf16": 16,
    "f16": 16,
    "s16": 16,
    "s32": 32,
    "u32": 32,
    "f32": 32,
}
INSTRUCTION = re.compile(r"^\s*(?:ROOT )?%?[\w.\-]+ = (.*?) ([a-z][a-z\-]*)\((.*)$")
HEADER = re.compile(r"^(ENTRY )?%?([\w.\-]+) .*\{\s*$")


def _bytes(shape: str) -> float:
    total = 0.0
    for element, sizes in re.findall(r"\b(pred|bf16|[suf]\d+)\[([\d,]*)\]", shape):
        total += BITS[element] / 8 * math.prod(int(n) for n in sizes.split(",") if n)
    return total


def _group(rest: str) -> int:
    listed = re.search(r"replica_groups=\{\{([\d,]*)\}", rest)
    if listed:
        return len(listed.group(1).split(","))
    iota = re.search(r"replica_groups=\[\d+,(\d+)\]", rest)
    assert iota, rest
    return int(iota.group(1))


def _wire(kind: str, shape: str, rest: str) -> float:
    size = _bytes(shape)
    if kind == "collective_permute":
        return size
    n = _group(rest)
    share = size * (n - 1) / n
    if kind == "reduce_scatter":
        return share * n  # the text gives the result; the operand counts
    return 2 * share if kind == "all_reduce" else share


def wire_bytes(text: str) -> Counter[str]:
    """Wire bytes by kind; a loop's body counts as often as it runs."""
    bodies: dict[str, list[tuple[str, str, str]]] = {}
    entry = current = ""
    for line in text.splitlines():
        header = HEADER.match(line)
        if header and not line.startswith((" ", "HloModule")):
            current = header.group(2)
            bodies[current] = []
            entry = current if header.group(1) else entry
            continue
        instruction = INSTRUCTION.match(line)
        if instruction and current:
            bodies[current].append((instruction[1], instruction[2], instruction[3]))
    found: Counter[str] = Counter()

    def walk(name: str, times: int) -> None:
        for shape, op, rest in bodies.get(name, []):
            if op in KINDS:
                found[KINDS[op]] += round(_wire(KINDS[op], shape, rest) * times)
            trips = 1
            if op == "while":
                known = re.search(r'"known_trip_count":\{"n":"(\d+)"', rest)
                assert known, "a loop of unknown length"
                trips = int(known.group(1))
            for called in re.findall(r"(?:to_apply|calls|body|condition)=%?([\w.\-]+)", rest):
                walk(called, times * trips)

    walk(entry, 1)
    return found
