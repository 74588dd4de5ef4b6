"""The command lines of benchmarks that run programs by name, and how they end."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

# Sums of float32 over 8 shards in another order, relative to the largest element of a result.
TOLERANCE = 1e-5


def options(
    arguments: list[str] | None,
    module: str,
    description: str | None,
    names: Sequence[str],
    calls: int | None,
    out: Path | None,
) -> argparse.Namespace:
    """What the command line says: `names`, all of them if none are given; `calls`; `out`.

    Args:
        arguments: the command line; None is that of the process.
        module: what runs, as `python -m` names it.
        description: what it does.
        names: the programs that there are.
        calls: of each program, unless the command line says otherwise; None if none is called.
        out: where figures go, unless the command line says otherwise.
    """
    parser = argparse.ArgumentParser(prog=f"python -m {module}", description=description)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("names", nargs="*", metavar="NAMES", help=f"of {', '.join(names)}")
    if calls is not None:
        parser.add_argument("--calls", type=int, default=calls, help="of each program, in turns")
    parser.add_argument("--out", type=Path, default=out, help="where figures go")
    found = parser.parse_args(arguments)
    if calls is not None and found.calls < 1:
        parser.error(f"--calls {found.calls}: give 1 or more; their median is printed")
    unknown = [name for name in found.names if name not in names]
    if unknown:
        parser.error(f"there is no {unknown[0]!r}; there are {', '.join(names)}")
    found.names = found.names or list(names)
    return found


def wide_console() -> Console:
    """A console; of a file or a pipe no width is known."""
    console = Console()
    if not console.is_terminal:
        console.width = 120
    return console


def exit_status(console: Console, wrong: Sequence[str]) -> int:
    """1, and which, if results differ from those of one device."""
    if wrong:
        console.print(f"[red]differs from one device: {', '.join(wrong)}")
    return 1 if wrong else 0
