"""Starts clients of a run as processes of this machine, and never lets them outlive the test."""

from __future__ import annotations

import os
import socket
import tempfile
import time
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from tests.py import fresh
from tests.py.xla_flags import QUICK

PROGRAMS = Path(__file__).with_name("programs")
ROOT = Path(__file__).parents[4]
HARD_TIMEOUT_SECONDS = 300.0  # for a machine much slower than ours; whoever gets there hangs
_FAILURE_GRACE_SECONDS = 30.0

# What a program that writes checkpoints imports: as long as jax takes.
ORBAX = ("orbax.checkpoint", "orbax.checkpoint.args", "orbax.checkpoint.experimental.v1")

Key = TypeVar("Key", bound=Hashable)  # what tells clients apart: a number, or a run and a number

_reserved: list[socket.socket] = []


@dataclass(frozen=True)
class Ended:
    """How a client ended.

    Attributes:
        status: its exit status, negative if a signal killed it.
        out: what it printed.
        err: what it wrote to stderr.
        at: `time.monotonic()` when it was seen to have ended.
    """

    status: int
    out: str
    err: str
    at: float


def addresses(count: int, host: str = "localhost") -> list[str]:
    """Addresses for clients, on this machine; nobody else gets their ports meanwhile."""
    found = []
    for _ in range(count):
        reserved = socket.socket()
        # Bound and not listening: Linux gives it only to those who ask for it by number.
        reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        reserved.bind(("127.0.0.1", 0))
        _reserved.append(reserved)  # until this process ends
        found.append(f"{host}:{reserved.getsockname()[1]}")
    return found


def variables(devices: int) -> dict[str, str]:
    """The environment of a client with this many CPU devices, as far as all have the same."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("DTENSOR_", "XLA_"))}
    return {
        **kept,
        "JAX_PLATFORMS": "cpu",
        "XLA_FLAGS": f"--xla_force_host_platform_device_count={devices} {QUICK}",
        "PYTHONPATH": str(ROOT),
        "DTENSOR_CLIENT_TIMEOUT_SECONDS": "100",
    }


def run_clients(
    program: str,
    *arguments: str,
    jobs: Sequence[str],
    devices: int = 1,
    only: Sequence[int] | None = None,
    more: Mapping[str, str] | None = None,
    own: Mapping[int, Mapping[str, str]] | None = None,
    imports: Sequence[str] = (),
) -> dict[int, Ended]:
    """Run a program of programs/ as the clients of one run until all have ended.

    A client that stops itself is continued no more: it is killed when all others have ended.

    Args:
        program: name of the file.
        arguments: what comes after it.
        jobs: addresses of all clients.
        devices: CPU devices of each client.
        only: which clients to start; None is all.
        more: further environment variables.
        own: and those of one client alone.
        imports: modules that the program imports, beside jax and dtensor.
    """
    environment = {**variables(devices), "DTENSOR_JOBS": ",".join(jobs), **(more or {})}
    command = [str(PROGRAMS / program), *arguments]
    return _run(
        {
            number: (
                command,
                {**environment, "DTENSOR_CLIENT_ID": str(number), **(own or {}).get(number, {})},
            )
            for number in (range(len(jobs)) if only is None else only)
        },
        imports=imports,
    )


def run_at_once(
    program: str, runs: Mapping[str, tuple[Sequence[str], Sequence[str]]]
) -> dict[str, dict[int, Ended]]:
    """Several runs of a program of programs/, beside one another, until all have ended.

    Args:
        program: name of the file.
        runs: by name the arguments, and the addresses of all clients.
    """
    clients = {}
    for name, (arguments, jobs) in runs.items():
        for number in range(len(jobs)):
            mine = {"DTENSOR_JOBS": ",".join(jobs), "DTENSOR_CLIENT_ID": str(number)}
            command = [str(PROGRAMS / program), *arguments]
            clients[name, number] = command, {**variables(1), **mine}
    ended = _run(clients)
    return {
        name: {number: ended[name, number] for number in range(len(jobs))}
        for name, (_, jobs) in runs.items()
    }


def run_jax_processes(
    program: Path, *arguments: str, count: int = 2, devices: int = 4
) -> dict[int, Ended]:
    """Run a program that connects its processes with jax alone: ADDRESS PROCESS ARGUMENTS.

    When one fails, the others, which jax lets wait for it, are killed: their status is -9.

    Args:
        program: the file.
        arguments: what comes after address and process.
        count: how many processes.
        devices: CPU devices of each.
    """
    (address,) = addresses(1, "127.0.0.1")
    return _run(
        {
            number: (
                [str(program), address, str(number), *arguments],
                variables(devices),
            )
            for number in range(count)
        },
        grace=_FAILURE_GRACE_SECONDS,
    )


def _run(
    clients: Mapping[Key, tuple[Sequence[str], Mapping[str, str]]],
    grace: float | None = None,
    imports: Sequence[str] = (),
) -> dict[Key, Ended]:
    """Run commands in their environments; with `grace`, for so many seconds after a failure."""
    running: dict[Key, fresh.Program] = {}
    ends: dict[Key, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        said = {
            key: [Path(folder, f"{i}.{kind}") for kind in ("out", "err")]
            for i, key in enumerate(clients)
        }
        try:
            for number, (command, environment) in clients.items():
                running[number] = fresh.start(
                    command, *said[number], env=environment, imports=imports
                )
            _wait(running, ends, grace)
        finally:
            for process in running.values():
                process.kill()
                process.wait()
        ended = {
            number: Ended(process.wait(), out, err, ends.get(number, float("inf")))
            for number, process in running.items()
            for out, err in [[file.read_text(errors="replace") for file in said[number]]]
        }
    hung = [key for key in running if key not in ends]
    assert not hung or grace, f"clients {hung} still ran after {HARD_TIMEOUT_SECONDS} s: {ended}"
    return ended


def _wait(
    running: Mapping[Key, fresh.Program], ends: dict[Key, float], grace: float | None
) -> None:
    deadline = time.monotonic() + HARD_TIMEOUT_SECONDS
    while len(ends) < len(running) and time.monotonic() < deadline:
        if all(number in ends or _is_stopped(process) for number, process in running.items()):
            for process in running.values():
                process.kill()
        for number, process in running.items():
            if number not in ends and process.poll() is not None:
                ends[number] = time.monotonic()
                if process.poll() and grace is not None:
                    deadline = min(deadline, time.monotonic() + grace)
        time.sleep(0.1)


def _is_stopped(process: fresh.Program) -> bool:
    state = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0]
    return state == "T"
