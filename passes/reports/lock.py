"""Lock files: the communication of a plan as text, and whether another plan communicates so.

A line stands for collectives of one kind, over the same axes, of one element type and local shape;
a combined collective counts as its parts, so that it does not matter what was combined with what.
Lines name functions and no line numbers, and functions are for the reader alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from dtensor.dialect.errors import BudgetError
from dtensor.dialect.mesh import Mesh
from dtensor.passes.reports.cost import Collective

_HEAD = """\
# What one device sends per call, as dtensor plans it; see docs/budgets.md.
# bytes: wire bytes of one execution; count x turns: how many of them, and how often each runs.
"""
_COLUMNS = ("kind", "axes", "type", "shape", "bytes", "count", "turns", "in")
_SHOWN = 3

Key = tuple[str, str, str, str, str, str]  # the columns but for the count and the function


def lock_text(collectives: Sequence[Collective], mesh: Mesh) -> str:
    """The communication of a plan, the most bytes first: equal plans give equal text."""
    counts, functions = _counted(collectives)
    rows = [_COLUMNS]
    for key in _largest(counts):
        kind, axes, element, shape, size, turns = key
        where = ", ".join(sorted(functions[key])) or "-"
        rows.append((kind, axes, element, shape, size, str(counts[key]), turns, where))
    widths = [max(len(row[i]) for row in rows) for i in range(len(_COLUMNS) - 1)]
    lines = [
        "  ".join([*(cell.ljust(w) for cell, w in zip(row, widths, strict=False)), row[-1]])
        for row in rows
    ]
    total = sum(_bytes(key) * count for key, count in counts.items())
    return f"{_HEAD}mesh {_mesh_text(mesh)}\ntotal {total:.0f}\n" + "\n".join(lines) + "\n"


def check_lock(text: str, collectives: Sequence[Collective], mesh: Mesh, file: str) -> None:
    """Compare a plan with what `lock_text` wrote to a file, which messages name.

    Raises:
        BudgetError: they differ, or the text is of another form.
    """
    locked_mesh, locked = _read(text, file)
    if locked_mesh != _mesh_text(mesh):
        raise BudgetError(
            f"{file} is of a plan for the mesh {locked_mesh}, and this is one for "
            f"{_mesh_text(mesh)}; lock a plan for each mesh in a file of its own"
        )
    counts, functions = _counted(collectives)
    more, less = counts - locked, locked - counts
    if not more and not less:
        return
    new, gone = _lines(more, functions), _lines(less, {})
    new = [f"the plan has {_shown(new)}, which {file} has not"] if new else []
    gone = [f"{file} has {_shown(gone)}, which the plan has not"] if gone else []
    sides = " and ".join([*new, *gone])
    raise BudgetError(f"{sides}; lock the plan again if that is right")


def difference(
    before: Sequence[Collective], after: Sequence[Collective]
) -> tuple[list[str], list[str]]:
    """What only one of two plans sends, in words, the most bytes first."""
    (old, old_functions), (new, new_functions) = _counted(before), _counted(after)
    return _lines(old - new, old_functions), _lines(new - old, new_functions)


def _lines(counts: Counter[Key], functions: Mapping[Key, set[str]]) -> list[str]:
    """Lines in words, the most bytes first."""
    keys = _largest(counts)
    return [_words(key, counts[key], functions.get(key, set())) for key in keys]


def _shown(lines: Sequence[str]) -> str:
    more = [f"{len(lines) - _SHOWN} more"] if len(lines) > _SHOWN else []
    return "; ".join([*lines[:_SHOWN], *more])


def _counted(collectives: Sequence[Collective]) -> tuple[Counter[Key], dict[Key, set[str]]]:
    """How many there are of each line, and the functions that they are in."""
    counts: Counter[Key] = Counter()
    functions: dict[Key, set[str]] = {}
    for c in collectives:
        turns = "?" if c.trip_count is None else str(c.trip_count)
        for shape, size in c.parts:
            written = "x".join(map(str, shape)) or "scalar"
            key = (c.kind, ",".join(c.mesh_axes), c.dtype, written, f"{size:.0f}", turns)
            counts[key] += 1
            functions.setdefault(key, set()).update({c.function} - {""})
    return counts, functions


def _read(text: str, file: str) -> tuple[str, Counter[Key]]:
    """Mesh and lines of a lock file."""
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    counts: Counter[Key] = Counter()
    if len(lines) < 3 or not lines[0].startswith("mesh ") or not lines[1].startswith("total "):
        raise BudgetError(
            f"{file} is no lock file; make one with compiled.lock or dtensor-opt --lock"
        )
    for line in lines[3:]:
        cells = line.split(None, len(_COLUMNS) - 1)
        if len(cells) < len(_COLUMNS) - 1 or not cells[5].isdigit():
            raise BudgetError(f"{file} has the line '{line}', which is of no collective; remake it")
        kind, axes, element, shape, size, count, turns = cells[:7]
        counts[kind, axes, element, shape, size, turns] += int(count)
    return lines[0].removeprefix("mesh ").strip(), counts


def _bytes(key: Key) -> float:
    """Wire bytes per call of one collective; a loop of unknown length counts as one turn."""
    return float(key[4]) * (1 if key[5] == "?" else int(key[5]))


def _largest(counts: Counter[Key]) -> list[Key]:
    return sorted(counts, key=lambda key: (-_bytes(key) * counts[key], key))


def _words(key: Key, count: int, functions: set[str]) -> str:
    kind, axes, element, shape, size, turns = key
    where = f" in {', '.join(sorted(functions))}" if functions else ""
    times = {"1": "", "?": ", in a loop of unknown length"}.get(turns, f", {turns} times each")
    many = f"{count}x " if count > 1 else ""
    return f"{many}{kind} over {axes} of {element} {shape}, {size} bytes{times}{where}"


def _mesh_text(mesh: Mesh) -> str:
    return " ".join(f"{name}={size}" for name, size in mesh.axes)
