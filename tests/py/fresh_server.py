"""The server of fresh.py: imports jax and dtensor once, then runs each program in a fork of itself.

A request is a line of JSON on stdin, its answer one on stdout: to `start`, with what `become`
takes, the process; to `wait` and `poll`, of a process, its exit status, or null while it runs.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import runpy
import signal
import sys
import threading
from collections.abc import Sequence
from types import ModuleType
from typing import Any


def load(more: Sequence[str]) -> None:
    """Import jax, dtensor as far as compiling needs it, and `more`."""
    import jax.numpy  # noqa: F401

    import dtensor

    # What a first use of dtensor loads, and a first operation.
    _ = dtensor.create_mesh, dtensor.jit, dtensor.DVariable, dtensor.numpy
    for module in more:
        importlib.import_module(module)

    gc.collect()
    gc.freeze()  # the memory stays shared


def check_forkable() -> None:
    """Raise unless a fork of this process can do all that a new one can."""
    from jax._src import xla_bridge

    assert not xla_bridge.backends_are_initialized(), "jax has started, and cannot be forked"
    tasks = len(os.listdir("/proc/self/task")) if os.path.isdir("/proc/self/task") else 1
    assert max(tasks, threading.active_count()) == 1, "there are threads, which no fork would have"


def serve() -> dict[str, Any] | None:
    """Answer requests until there are no more; in a fork, what the fork is to carry out."""
    running: set[int] = set()
    for line in sys.stdin:
        ((what, of),) = json.loads(line).items()
        answer: int | None
        if what == "start":
            check_forkable()
            answer = os.fork()
            if answer == 0:
                request: dict[str, Any] = of
                return request
            running.add(answer)
        else:
            pid, status = os.waitpid(of, os.WNOHANG if what == "poll" else 0)
            answer = os.waitstatus_to_exitcode(status) if pid else None
            running.discard(pid)
        print(json.dumps(answer), flush=True)
    for pid in running:
        os.kill(pid, signal.SIGKILL)
    return None


def become(request: dict[str, Any]) -> None:
    """Take the place of `python WORDS`: its folder, environment, files and arguments."""
    os.setsid()
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    sys.stdin.close()
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    sys.stdin = open(0, closefd=False)
    for number, file in enumerate(request["files"], 1):
        os.dup2(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), number)
    first, *rest = request["words"]
    places = {"-c": "", "-m": request["cwd"]}
    sys.path[0] = places.get(first, os.path.dirname(os.path.abspath(first)))
    if first == "-m":
        name, *rest = rest
        sys.argv = [name, *rest]
        runpy.run_module(name, run_name="__main__", alter_sys=True)
    elif first == "-c":
        text, *rest = rest
        sys.argv = ["-c", *rest]
        sys.modules["__main__"] = module = ModuleType("__main__")
        exec(compile(text, "<string>", "exec"), module.__dict__)
    else:
        sys.argv = [first, *rest]
        runpy.run_path(first, run_name="__main__")


if __name__ == "__main__":
    load(sys.argv[1:])
    to_do = serve()
    if to_do is not None:
        become(to_do)
