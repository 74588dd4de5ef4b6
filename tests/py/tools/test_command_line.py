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
