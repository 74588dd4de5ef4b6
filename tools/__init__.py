"""dtensor tools, and what the command lines of all have."""

from __future__ import annotations

import argparse
import sys
from typing import NoReturn


class ShowVersion(argparse.Action):
    """`--version`: prints the versions of dtensor, jaxlib and Python, and exits."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        """Print them; MLIR is loaded for this alone."""
        from dtensor import __version__
        from dtensor.dialect.mlir import JAXLIB_VERSION

        python = ".".join(map(str, sys.version_info[:3]))
        print(f"{parser.prog} {__version__} (jaxlib {JAXLIB_VERSION}, Python {python})")
        parser.exit()


def add_version(parser: argparse.ArgumentParser) -> None:
    """Give a command line its `--version`."""
    parser.add_argument("--version", action=ShowVersion, nargs=0, help="print versions and exit")
