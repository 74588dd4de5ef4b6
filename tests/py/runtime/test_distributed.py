"""Two processes of four devices each, one program."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from dtensor.runtime.distributed import compare

CHILD = Path(__file__).with_name("two_processes.py")
ROOT = Path(__file__).parents[3]


def run_pair(mode: str) -> list[tuple[int, str]]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    environment = {
        **os.environ,
        "XLA_FLAGS": "--xla_force_host_platform_device_count=4",
        "PYTHONPATH": str(ROOT),
    }
    children = [
        subprocess.Popen(
            [sys.executable, str(CHILD), address, str(process), mode],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for process in range(2)
    ]
    outputs = [child.communicate(timeout=120)[0] for child in children]
    return [(child.returncode, output) for child, output in zip(children, outputs, strict=True)]


@pytest.mark.slow
def test_two_processes_run_one_program() -> None:
    for code, output in run_pair("same"):
        assert code == 0, output
        assert "right" in output


@pytest.mark.slow
def test_different_programs_are_an_error_on_every_process() -> None:
    for _, output in run_pair("different"):
        assert "program 0 differs between processes: process" in output


def test_the_error_names_the_processes_that_differ() -> None:
    compare({0: "a", 1: "a"}, 0, 5)
    with pytest.raises(
        RuntimeError, match="program 5 differs between processes: process 0 has a, "
    ):
        compare({0: "a", 1: "a", 2: "b"}, 0, 5)
    with pytest.raises(RuntimeError, match="but process 0 has a, process 1 has a; all processes"):
        compare({0: "a", 1: "a", 2: "b"}, 2, 5)
