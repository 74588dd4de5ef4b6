"""What a run of the benchmark says: tables, a summary and a chart.

    python -m benchmarks.against_jax.report build/bench/results.json

puts that run into the README and the documentation: it is copied to `results.json` beside this
file, and from there come the tables and the chart. Without a file, the tables are written anew.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import statistics
import sys
from argparse import RawDescriptionHelpFormatter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.box import SIMPLE
from rich.table import Table

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
RESULTS = HERE / "results.json"
CHART = ROOT / "docs" / "_static" / "bench.svg"
COMPILERS = ("dtensor", "jax")
PAGES = {"README.md": ("wire_bytes", "memory_bytes", "step_seconds"), "docs/comparison.md": None}

_SAME = 1.02  # ratios up to this are called the same

Row = dict[str, Any]
_FIELDS: dict[str, tuple[str, Callable[[float], str]]] = {
    "wire_bytes": ("kB sent", lambda value: f"{value / 1e3:,.1f}"),
    "local_flops": ("Mflop", lambda value: f"{value / 1e6:,.2f}"),
    "memory_bytes": ("kB held", lambda value: f"{value / 1e3:,.0f}"),
    "seconds_to_executable": ("s to compile", lambda value: f"{value:.2f}"),
    "step_seconds": ("ms per call", lambda value: f"{value * 1e3:.1f}"),
}


def ordered(results: Row) -> list[Row]:
    """The workloads, the one where dtensor gains most bytes first."""
    return sorted(results["workloads"].values(), key=lambda row: ratio(row, "wire_bytes"))


def ratio(row: Row, field: str) -> float:
    """The number under dtensor over that under jax.jit."""
    mine, other = (row[compiler][field] for compiler in COMPILERS)
    return 1.0 if mine == other else mine / max(other, 1e-30)


def rows_of(results: Row, fields: tuple[str, ...] | None = None) -> list[list[str]]:
    """The header and a line per workload: its title, then each field under both compilers."""
    chosen = fields or tuple(_FIELDS)
    lines = [["dtensor / jax.jit", *(_FIELDS[field][0] for field in chosen)]]
    for row in ordered(results):
        cells = [
            " / ".join(_FIELDS[field][1](row[compiler][field]) for compiler in COMPILERS)
            for field in chosen
        ]
        lines.append([row["title"], *cells])
    return lines


def rich_table(results: Row) -> Table:
    """The table for a terminal, with names for titles."""
    names = {row["title"]: name for name, row in results["workloads"].items()}
    (corner, *titles), *lines = rows_of(results)
    table = Table(box=SIMPLE)
    table.add_column(corner, no_wrap=True)
    for title in titles:
        table.add_column(title, no_wrap=True, justify="right")
    for title, *cells in lines:
        table.add_row(names[title], *cells)
    return table


def markdown(results: Row, fields: tuple[str, ...] | None = None) -> str:
    """The table for a page, and what it says."""
    header, *lines = rows_of(results, fields)
    marks = ["---", *["---:"] * (len(header) - 1)]
    rows = ["| " + " | ".join(line) + " |" for line in (header, marks, *lines)]
    return "\n".join(rows) + "\n\n" + _wrapped(summary(results))


def summary(results: Row) -> str:
    """Where dtensor gains and where it loses, in sentences; up to 2 % is the same."""
    rows = ordered(results)
    ratios = [ratio(row, "wire_bytes") for row in rows]
    less = sum(r < 1 / _SAME for r in ratios)
    more = [(row, r) for row, r in zip(rows, ratios, strict=True) if r > _SAME]
    losing = "; ".join(f"{row['title']} ({r:.3g} times)" for row, r in more)
    held = [ratio(row, "memory_bytes") for row in rows]
    holds_less, holds_more = (sum(r < 1 / _SAME for r in held), sum(r > _SAME for r in held))
    compile_time, step = (
        statistics.median(ratio(row, field) for row in rows)
        for field in ("seconds_to_executable", "step_seconds")
    )
    made_with = results["made_with"]
    return (
        f"Of {len(rows)} programs dtensor sends less than jax.jit on {less}, "
        f"the same on {len(rows) - less - len(more)} and more on {len(more)}"
        f"{': ' + losing if more else ''}. A device holds less on {holds_less} and more on "
        f"{holds_more}. In the median it takes {compile_time:.1f} times as long to compile, "
        f"and a call takes {step:.2f} times as long. "
        f"(jax {made_with['jax']}, 8 virtual CPU devices on one machine.)"
    )


def _wrapped(text: str) -> str:
    lines = [""]
    for word in text.split(" "):
        if len(lines[-1]) + len(word) >= 100:
            lines.append("")
        lines[-1] += f" {word}" if lines[-1] else word
    return "\n".join(lines)


def write_chart(results: Row, file: Path) -> str:
    """Draw bytes under dtensor over bytes under jax.jit; what was done, for a message."""
    try:
        import matplotlib
    except ImportError:
        return ", and no chart, because matplotlib is not installed"
    matplotlib.use("Agg")
    matplotlib.rcParams.update({"svg.hashsalt": "dtensor", "font.size": 9})
    from matplotlib import pyplot

    rows = ordered(results)[::-1]
    ratios = [ratio(row, "wire_bytes") for row in rows]
    figure, axes = pyplot.subplots(figsize=(9, 0.32 * len(rows) + 0.9), layout="constrained")
    colors = ["#2a7f62" if r <= _SAME else "#b3413b" for r in ratios]
    axes.barh(
        [row["title"].replace("`", "") for row in rows],
        [r - 1 for r in ratios],
        left=1,
        color=colors,
    )
    for place, r in enumerate(ratios):
        side = "left" if r >= 1 else "right"
        axes.annotate(
            f"{r:.2g}", (r, place), (4 if r >= 1 else -4, 0), ha=side, va="center",
            textcoords="offset points",
        )  # fmt: skip
    axes.set_xscale("log")
    axes.set_xlim(min(*ratios, 0.1) / 3, max(*ratios, 10) * 3)
    axes.xaxis.set_major_formatter("{x:g}")
    axes.axvline(1, color="black", linewidth=0.8)
    axes.set_xlabel("bytes that a device sends, dtensor / jax.jit (left of 1: fewer)")
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(file, metadata={"Date": None})
    pyplot.close(figure)
    return f" and {file}"


def with_table(text: str, table: str) -> str:
    """The page with this table between its two comments."""
    return re.sub(
        r"(<!-- bench: .*?-->\n).*?(<!-- end -->)", rf"\1\n{table}\n\n\2", text, flags=re.S
    )


def page(name: str) -> tuple[str, str]:
    """A page as it is, and as the results say it must be."""
    results = json.loads(RESULTS.read_text(encoding="utf-8"))
    text = (ROOT / name).read_text(encoding="utf-8")
    return text, with_table(text, markdown(results, PAGES[name]))


def main(arguments: list[str] | None = None) -> int:
    """Put a run into the pages."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=RawDescriptionHelpFormatter
    )
    parser.add_argument("results", nargs="?", type=Path, help="of the run; default: the last one")
    given = parser.parse_args(arguments).results
    if given is not None:
        shutil.copyfile(given, RESULTS)
    for name in PAGES:
        (ROOT / name).write_text(page(name)[1], encoding="utf-8")
    print(f"written: {', '.join(PAGES)}{write_chart(json.loads(RESULTS.read_text()), CHART)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
