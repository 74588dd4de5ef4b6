"""This client's connection to the coordinator: how clients start together and end together.

While it is watched, a client that hears that another one was lost writes one line that names it to
stderr and ends the process with status `PEER_LOST`: the program may be inside a collective that
never returns, so there is no exception to raise.
"""

from __future__ import annotations

import atexit
import json
import os
import socket
import subprocess
import sys
import threading
import time
from dataclasses import asdict
from types import TracebackType
from typing import Any

from dtensor.dialect.errors import ClientError
from dtensor.runtime.clients import coordination
from dtensor.runtime.clients.links import PEER_LOST, Hello, Run, keep_alive

_RETRY_SECONDS = 0.1
_GRACE_SECONDS = 15.0  # beyond the timeout, for the coordinator's own answer to arrive
_VERDICT_SECONDS = 5.0  # how long a failed client waits to hear whether another failed first


def start_coordinator(run: Run) -> subprocess.Popen[str]:
    """Start the coordinator of `run` on this machine.

    Raises:
        ClientError: it cannot listen at the port of client 0.
    """
    paths = os.pathsep.join(path for path in sys.path if path)
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "dtensor.runtime.clients.coordinator", run.to_json()],
        env={**os.environ, "PYTHONPATH": paths, "TF_CPP_MIN_LOG_LEVEL": "3"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,  # Ctrl-C is for the clients; it ends when the last of them has
    )
    assert process.stdout is not None
    try:
        with process.stdout as said:
            answer = said.readline().strip()
    except BaseException:  # an interrupt must not leave it behind
        process.kill()
        process.wait()
        raise
    if answer != "listening":
        process.wait()
        raise ClientError(
            f"{run.name(0)} cannot listen at its port: {answer or 'its coordinator did not start'}"
            "; choose other ports in DTENSOR_JOBS"
        )
    return process


def join(run: Run, client: int, started: float) -> Connection:
    """Introduce this client to the coordinator and wait until all are there.

    Args:
        run: what this client knows of the run.
        client: its number.
        started: `time.monotonic()` when this client began to wait.

    Raises:
        ClientError: a client did not come in time, or they do not fit together.
    """
    deadline = started + run.timeout
    host, _, port = run.addresses[0].rpartition(":")
    host = "localhost" if client == 0 else host.strip("[]")
    problem = "it did not answer"
    while time.monotonic() < deadline:
        try:
            left = max(0.1, deadline - time.monotonic())
            with_it = socket.create_connection((host, int(port)), timeout=left)
        except OSError as error:
            problem = error.strerror or str(error)
        else:
            keep_alive(with_it)
            connection = Connection(with_it, run, client)
            waited = time.monotonic() - started
            answer = connection.introduce(Hello(client, run.addresses, run.settings, waited))
            if answer is not None:
                return connection
            problem = "another program, or a run that has already started, answers there"
        time.sleep(_RETRY_SECONDS)
    raise ClientError(
        f"{run.name(client)} did not find {run.name(0)} within {run.timeout:g} s: {problem}; start "
        "all clients, or set DTENSOR_CLIENT_TIMEOUT_SECONDS to wait longer"
    )


class Connection:
    """This client's connection to the coordinator."""

    def __init__(self, connection: socket.socket, run: Run, client: int) -> None:
        self._socket = connection
        self._run = run
        self._client = client
        self._lines = connection.makefile("r", encoding="utf-8")
        self._verdict = threading.Event()
        self._failure: tuple[str, int] | None = None
        self._open = True
        self._left = False
        # A forked child would hold the connection open after this process has ended.
        os.register_at_fork(after_in_child=self._close_copy)

    def introduce(self, hello: Hello) -> bool | None:
        """Say hello; true when all clients are there, None if no coordinator answers.

        Raises:
            ClientError: the coordinator says that the clients cannot start.
        """
        self._socket.settimeout(self._run.timeout + _GRACE_SECONDS)
        try:
            self._send(asdict(hello))
            answer = json.loads(self._lines.readline() or "{}")
        except (OSError, ValueError):
            answer = {}
        if "go" in answer:
            self._socket.settimeout(None)
            return True
        self._close()
        self._lines.close()
        if "error" in answer:
            raise ClientError(answer["error"])
        return None

    def watch(self, heartbeat: bool) -> None:
        """From now on say how this client ends; with `heartbeat`, end it when another is lost."""
        atexit.register(self.leave)  # runs before jax's own, which waits for the others
        if not heartbeat:
            return
        threading.Thread(target=self._listen, name="dtensor-heartbeat", daemon=True).start()
        previous = sys.excepthook

        def note_failure(
            kind: type[BaseException], value: BaseException, trace: TracebackType | None
        ) -> None:
            text = f"{kind.__name__}: {value}".strip().splitlines()[0].removesuffix(":")
            self._failure = (text, 130 if issubclass(kind, KeyboardInterrupt) else 1)
            previous(kind, value, trace)

        sys.excepthook = note_failure

    def leave(self) -> None:
        """Say that this client ends as it should, or that it failed; then its end is no loss."""
        if not self._open or self._left:
            return
        self._left = True
        self._say_ended()
        if self._failure is None or hasattr(sys, "ps1"):
            self._send({"bye": True})
            return
        why, status = self._failure
        self._send({"failed": why})
        # The failure may come from the loss of another client, which is then what to say. Either
        # way the others do not come to jax's barrier at exit, so this process must not go there.
        self._verdict.wait(_VERDICT_SECONDS)
        _flush()
        os._exit(status)

    def _say_ended(self) -> None:
        try:
            coordination.say_ended(self._client)
        except ClientError:  # not connected, or no longer; the coordinator will notice
            pass

    def close(self) -> None:
        """Say goodbye and end the connection."""
        self.leave()
        self._close()

    def _listen(self) -> None:
        try:
            for line in self._lines:
                message = json.loads(line)
                self._hear(message["lost"], message["why"], message["failed"])
            if self._open:
                self._lose_coordinator()
        except (OSError, ValueError):
            if self._open:
                self._lose_coordinator()

    def _hear(self, lost: int, why: str, failed: bool) -> None:
        if lost == self._client and not failed:
            self._say(f"the others did not end within {self._run.timeout:g} s after it")
            _end(PEER_LOST)
        # What goes wrong with all of them, each has said itself. A loss explains what it causes.
        if lost != self._client and not (failed and self._failure and self._failure[0] in why):
            self._say(f"{self._run.name(lost)} is lost: {why}")
            _end(PEER_LOST)
        self._verdict.set()

    def _lose_coordinator(self) -> None:
        self._say(f"the coordinator, on the machine of {self._run.name(0)}, is lost")
        _end(PEER_LOST)

    def _say(self, text: str) -> None:
        line = f"dtensor: {self._run.name(self._client)} ends, because {text}\n"
        os.write(2, line.encode())

    def _send(self, message: dict[str, Any]) -> None:
        try:
            self._socket.sendall(json.dumps(message).encode() + b"\n")
        except OSError:  # the coordinator has gone, which the listening thread reports
            pass

    def _close_copy(self) -> None:
        if self._open:
            self._open = False
            os.close(self._socket.fileno())

    def _close(self) -> None:
        self._open = False
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self._socket.close()


def _end(status: int) -> None:
    # Not sys.exit: the main thread may never return from where it is.
    flush = threading.Thread(target=_flush, daemon=True)
    flush.start()
    flush.join(1.0)
    os._exit(status)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            pass
