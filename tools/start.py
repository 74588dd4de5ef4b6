"""Where the commands begin: they import what they do first, and Ctrl-C is quiet even then."""

from __future__ import annotations

import importlib
import os
import sys
from typing import NoReturn


def launch() -> NoReturn:
    """`dtensor-launch`."""
    _start("dtensor.tools.dtensor_launch")


def opt() -> NoReturn:
    """`dtensor-opt`."""
    _start("dtensor.tools.dtensor_opt")


def run() -> NoReturn:
    """`dtensor-run`."""
    _start("dtensor.tools.dtensor_run")


def _start(tool: str) -> NoReturn:
    try:
        sys.exit(importlib.import_module(tool).main())
    except KeyboardInterrupt:
        os._exit(130)  # command_line.INTERRUPTED, which importing may not have reached
