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
from functools import lru_cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_SERVER = Path(__file__).with_name("fresh_server.py")


def run(
    words: Sequence[str], *, cwd: Path = ROOT, env: Mapping[str, str], timeout: float = 300.0
) -> subprocess.CompletedProcess[str]:
    """What `python WORDS` does: its status and what it prints.

    Args:
        words: a file, `-m` and a module, or `-c` and a program; and its arguments.
        cwd: where it runs.
        env: its environment. Those who differ in a variable of jax's get servers of their own,
            because jax reads these when it is imported.
        timeout: seconds after which it is killed, and subprocess.TimeoutExpired raised.
    """
    of_jax = tuple(sorted((k, v) for k, v in env.items() if k.startswith("JAX_")))
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder, name) for name in ("out", "err")]
        request = {"words": list(words), "cwd": str(cwd), "env": dict(env)}
        request["files"] = [str(file) for file in files]
        status = _server(os.getpid(), of_jax).ask(request, timeout)
        out, err = [file.read_text(encoding="utf-8") for file in files]
    return subprocess.CompletedProcess([sys.executable, *words], status, out, err)


class _Server:
    def __init__(self, of_jax: Mapping[str, str]) -> None:
        environment = {k: v for k, v in os.environ.items() if not k.startswith("JAX_")}
        self._process = subprocess.Popen(
            [sys.executable, str(_SERVER)],
            # numpy then starts no threads
            env={**environment, **of_jax, "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        atexit.register(self._kill)

    def ask(self, request: Mapping[str, object], timeout: float) -> int:
        """Have a program run; its exit status, negative where a signal ended it."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request).encode() + b"\n")
        self._process.stdin.flush()
        if not select.select([self._process.stdout], [], [], timeout)[0]:
            self._kill()
            _server.cache_clear()
            raise subprocess.TimeoutExpired(str(request["words"]), timeout)
        answer = self._process.stdout.readline()
        assert answer, "the server of fresh interpreters has ended; its stderr says why"
        return int(answer)

    def _kill(self) -> None:
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)  # its programs too
            self._process.communicate()


@lru_cache
def _server(process: int, of_jax: tuple[tuple[str, str], ...]) -> _Server:
    """The server of this process: one that was forked has none yet."""
    return _Server(dict(of_jax))
