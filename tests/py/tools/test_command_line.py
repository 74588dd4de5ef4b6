"""What the command lines of all tools have in common."""

import re
import subprocess
import sys

import pytest


@pytest.mark.parametrize("tool", ["dtensor_opt", "dtensor_run", "dtensor_launch"])
def test_a_tool_tells_its_version(tool: str) -> None:
    words = [sys.executable, "-m", f"dtensor.tools.{tool}", "--version"]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    name = tool.replace("_", "-")
    assert re.fullmatch(rf"{name} \S+ \(jaxlib \S+, Python \S+\)\n", done.stdout)
    assert not done.stderr


@pytest.mark.parametrize("tool", ["dtensor_opt", "dtensor_run", "dtensor_launch"])
def test_closed_streams_are_empty_ones(tool: str) -> None:
    words = f"exec {sys.executable} -m dtensor.tools.{tool} "
    for given, closed in (("--help", "<&- >&-"), ("-", "<&- >&-"), ("--version", ">&-")):
        command = ["sh", "-c", f"{words} {given} {closed}"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert "Traceback" not in done.stderr
        assert "internal error" not in done.stderr
