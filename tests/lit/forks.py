"""The server of `ask.py`: imports the tools of RUN lines once, and runs each command in a fork.

Importing takes dtensor-opt 0.4 s of CPU and filecheck 0.15 s, more than most commands take for all
they do. The server listens at the address that is its argument, says so in a line, and ends with
its stdin. A fork takes the place of its client, and is killed where the client is.
"""

from __future__ import annotations

import gc
import marshal
import os
import selectors
import signal
import socket
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import NoReturn

from filecheck.main import main as filecheck

from dtensor.passes.registry import PASSES, pass_class
from dtensor.tools.dtensor_opt import main as dtensor_opt
from tests.lit.ask import LENGTH, STATUS

_TOOLS: dict[str, Callable[[], object]] = {"dtensor-opt": dtensor_opt, "filecheck": filecheck}


def check_forkable() -> None:
    """Raise unless a fork of this process can do all that a new one can."""
    assert "jax" not in sys.modules, "a tool imports jax, which RUN lines hold to be too slow"
    tasks = os.listdir("/proc/self/task") if os.path.isdir("/proc/self/task") else ["one"]
    assert len(tasks) == 1, "there are threads, which no fork would have"


class Server:
    """Answers clients, each by a fork.

    Args:
        address: file name of the socket to listen at.
    """

    def __init__(self, address: str) -> None:
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(address)
        self._listener.listen(64)
        self._ended, written = os.pipe()
        os.set_blocking(self._ended, False)
        os.set_blocking(written, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)  # a signal without a handler wakes nobody
        signal.set_wakeup_fd(written)
        self._forks: dict[int, socket.socket] = {}  # by process, whom to tell how it ended
        self._clients = selectors.DefaultSelector()

    def serve(self) -> Request | None:
        """Answer until stdin ends, which gives None; in a fork, the request that it is for."""
        for at in (0, self._ended, self._listener):
            self._clients.register(at, selectors.EVENT_READ)
        while True:
            for key, _ in self._clients.select():
                if key.fileobj == 0:
                    self._kill(*self._forks)
                    return None
                if key.fileobj == self._ended:
                    self._tell()
                elif key.fileobj is self._listener:
                    request = self._fork()
                    if request is not None:
                        return request
                elif key.data in self._forks:  # its client says nothing more, so it is gone
                    self._clients.unregister(key.fileobj)
                    self._kill(key.data)

    def _fork(self) -> Request | None:
        client, _ = self._listener.accept()
        request = Request.read(client)
        if request is None:
            client.close()
            return None
        pid = os.fork()
        if pid == 0:
            for at in (self._listener, client, *self._forks.values()):
                at.close()
            return request
        for file in request.files:
            os.close(file)
        self._forks[pid] = client
        self._clients.register(client, selectors.EVENT_READ, pid)
        return None

    def _kill(self, *pids: int) -> None:
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def _tell(self) -> None:
        """Tell the clients of the forks that have ended how they ended."""
        with suppress(BlockingIOError):
            os.read(self._ended, 4096)
        while self._forks:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                break
            client = self._forks.pop(pid)
            with suppress(KeyError):
                self._clients.unregister(client)
            with client, suppress(OSError):
                answer = os.waitstatus_to_exitcode(status)
                client.sendall(answer.to_bytes(STATUS, "little", signed=True))


@dataclass(frozen=True)
class Request:
    """What a client asks for.

    Attributes:
        words: the tool's name and its arguments.
        folder: where it shall run.
        environment: its environment variables.
        files: its stdin, stdout and stderr.
    """

    words: list[str]
    folder: str
    environment: dict[str, str]
    files: list[int]

    @classmethod
    def read(cls, client: socket.socket) -> Request | None:
        """The request of a client; None where it ends before it has said all."""
        length, files, _, _ = socket.recv_fds(client, LENGTH, 3)
        left = int.from_bytes(length, "little")
        said = bytearray()
        while left and (part := client.recv(left)):
            said += part
            left -= len(part)
        if left or len(files) < 3:
            for file in files:
                os.close(file)
            return None
        words, folder, environment = marshal.loads(said)
        return cls(words, folder, environment, list(files))

    def become(self) -> NoReturn:
        """Take the place of the client, and exit as the tool does that it asks for."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for number, file in enumerate(self.files):
            os.dup2(file, number)
            os.close(file)
        # Made anew, since a stream remembers what kind of file it was made for.
        sys.stdin = open(0, encoding="utf-8", closefd=False)
        sys.stdout = open(1, "w", encoding="utf-8", closefd=False)
        sys.stderr = open(2, "w", 1, encoding="utf-8", errors="backslashreplace", closefd=False)
        os.chdir(self.folder)
        os.environ.clear()
        os.environ.update(self.environment)
        sys.argv = self.words
        os._exit(_run(_TOOLS[self.words[0]]))


def _run(tool: Callable[[], object]) -> int:
    status: object = 0
    try:
        tool()
    except SystemExit as done:
        status = done.code or 0
        if not isinstance(status, int):
            print(status, file=sys.stderr)
            status = 1
    except BaseException:
        traceback.print_exc()
        status = 1
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            status = status or 120
    assert isinstance(status, int)
    return status


if __name__ == "__main__":
    for name in PASSES:
        pass_class(name)
    check_forkable()
    gc.collect()
    gc.freeze()  # the memory stays shared
    server = Server(sys.argv[1])
    print("ready", flush=True)
    found = server.serve()
    if found is not None:
        found.become()
