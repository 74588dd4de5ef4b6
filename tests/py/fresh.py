"""Programs in interpreters of their own that need not import jax again: forks of one that has.

Importing jax and dtensor takes 2.4 s of CPU, more than most programs of the tests take for all they
do. So a server imports them once, and each program runs in a fork of it: an interpreter in which
nothing but imports has happened. jax has no devices yet, and reads XLA_FLAGS when it makes some.

    run(["example.py", "--steps", "2"], cwd=folder, env={**os.environ, "XLA_FLAGS": ""})

Before each fork the server looks that it has one thread and that jax has not started: a fork of
several threads may wait for ever for a lock.
"""

from __future__ import annotations

import atexit
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_SERVER = Path(__file__).with_name("fresh_server.py")


@dataclass
class Program:
    """A program that has been started, as a subprocess.Popen is one.

    Attributes:
        pid: of its process, which leads a session.
        returncode: its exit status, negative where a signal ended it; None while it runs.
    """

    pid: int
    server: _Server
    returncode: int | None = None

    def poll(self) -> int | None:
        """Its exit status, or None."""
        return self._ended("poll")

    def wait(self, timeout: float = 300.0) -> int:
        """Its exit status, when it has ended.

        Raises:
            subprocess.TimeoutExpired: after `timeout` seconds, when it has been killed.
        """
        try:
            status = self._ended("wait", timeout)
        except subprocess.TimeoutExpired:
            self.kill()
            self.server.answer()
            raise
        assert status is not None
        return status

    def kill(self) -> None:
        """Kill it, and what it has started."""
        if self.returncode is None:
            for kill in (os.killpg, os.kill):  # it may not lead its session yet
                with suppress(ProcessLookupError):
                    kill(self.pid, signal.SIGKILL)

    def _ended(self, ask: str, timeout: float = 60.0) -> int | None:
        if self.returncode is None:
            self.returncode = self.server.ask({ask: self.pid}, timeout)
        return self.returncode


def start(
    words: Sequence[str],
    out: Path,
    err: Path,
    *,
    cwd: Path = ROOT,
    env: Mapping[str, str],
    imports: Sequence[str] = (),
) -> Program:
    """Start `python WORDS`.

    Args:
        words: a file, `-m` and a module, or `-c` and a program; and its arguments.
        out: the file into which it prints.
        err: the file for its stderr.
        cwd: where it runs.
        env: its environment. Those who differ in a variable of jax's get servers of their own,
            because jax reads these when it is imported; but where clients meet, when they do.
        imports: further modules that are imported before the fork; they may start no threads.
    """
    of_jax = tuple(sorted((k, v) for k, v in env.items() if _is_read_by_import(k)))
    server = _server(os.getpid(), of_jax, tuple(imports))
    request = {"words": list(words), "cwd": str(cwd), "env": dict(env)}
    pid = server.ask({"start": request | {"files": [str(out), str(err)]}}, 60.0)
    assert pid is not None
    return Program(pid, server)


def run(
    words: Sequence[str], *, cwd: Path = ROOT, env: Mapping[str, str], timeout: float = 300.0
) -> subprocess.CompletedProcess[str]:
    """What `python WORDS` does: its status and what it prints; arguments as of `start`.

    Raises:
        subprocess.TimeoutExpired: after `timeout` seconds, when it has been killed.
    """
    with tempfile.TemporaryDirectory() as folder:
        out, err = Path(folder, "out"), Path(folder, "err")
        status = start(words, out, err, cwd=cwd, env=env).wait(timeout)
        printed = [file.read_text(encoding="utf-8") for file in (out, err)]
    return subprocess.CompletedProcess([sys.executable, *words], status, *printed)


def _is_read_by_import(variable: str) -> bool:
    return variable.startswith("JAX_") and not variable.startswith("JAX_COORDINATOR_")


class _Server:
    def __init__(self, of_jax: Mapping[str, str], imports: Sequence[str]) -> None:
        environment = {k: v for k, v in os.environ.items() if not k.startswith("JAX_")}
        self._process = subprocess.Popen(
            [sys.executable, str(_SERVER), *imports],
            # numpy then starts no threads
            env={**environment, **of_jax, "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        atexit.register(self._process.communicate)  # it ends at the end of its stdin

    def ask(self, request: Mapping[str, object], timeout: float) -> int | None:
        """Its answer; raises subprocess.TimeoutExpired where it takes too long."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request).encode() + b"\n")
        self._process.stdin.flush()
        if not select.select([self._process.stdout], [], [], timeout)[0]:
            raise subprocess.TimeoutExpired(str(request), timeout)
        return self.answer()

    def answer(self) -> int | None:
        """What it says next."""
        assert self._process.stdout is not None
        answer = self._process.stdout.readline()
        assert answer, "the server of fresh interpreters has ended; its stderr says why"
        number: int | None = json.loads(answer)
        return number


@cache
def _server(process: int, of_jax: tuple[tuple[str, str], ...], imports: tuple[str, ...]) -> _Server:
    """The server of this process: one that was forked has none yet."""
    return _Server(dict(of_jax), imports)


def under_hash_seeds(program: str) -> list[str]:
    """What a program prints in new interpreters whose sets and dicts are in other orders."""
    outputs = []
    for seed in ("0", "1"):
        run = subprocess.run(
            [sys.executable, "-c", program],
            cwd=ROOT,
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
        )
        assert run.returncode == 0, run.stderr
        outputs.append(run.stdout)
    return outputs
