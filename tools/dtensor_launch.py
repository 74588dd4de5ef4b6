"""dtensor-launch: starts the clients of a run on this machine, and stops all when one fails."""

from __future__ import annotations

import argparse
import errno
import math
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import IO, Any, TextIO

from dtensor.dialect.errors import DTensorError
from dtensor.runtime.clients.environment import PEER_LOST
from dtensor.tools import launch_arguments
from dtensor.tools.command_line import INTERRUPTED, discard_output, open_streams

_COLOURS = ("cyan", "magenta", "green", "yellow", "blue", "red")
_OF_LAUNCHERS = (  # what would say something else to the clients than this one does
    *("DTENSOR_JOBS", "DTENSOR_NUM_CLIENTS", "LOCAL_RANK", "LOCAL_WORLD_SIZE"),
    "TORCHELASTIC_USE_AGENT_STORE",
)
_OWN_END_SECONDS = 1.0  # clients of dtensor notice by themselves, and say so
_TERMINATE_SECONDS = 2.0  # jax takes SIGTERM for a warning, so clients may stay
_KILL_SECONDS = 5.0
_READ_SECONDS = 1.0  # for what a client's own children still print when it has ended
_TIMED_OUT = 124
_USAGE = 2


# The clients that ended, with their status, and None when the user has had enough.
_Ends = SimpleQueue[tuple["Client | None", int]]


@dataclass(frozen=True, eq=False)
class Client:
    """A client that was started.

    Attributes:
        number: its id.
        process: its process, the first of a session of its own.
        readers: the threads that pass its output on.
    """

    number: int
    process: subprocess.Popen[bytes]
    readers: tuple[threading.Thread, ...]


class Printer:
    """Writes lines of several clients, whole, each with its client before it.

    Attributes:
        has_lost: whether some could not be written, other than because their reader has gone.
    """

    def __init__(self) -> None:
        self.has_lost = False
        self._lock = threading.Lock()
        self._console: Any = None
        if sys.stdout.isatty():
            try:
                from rich.console import Console

                self._console = Console(soft_wrap=True, highlight=False, markup=False)
            except ImportError:
                pass

    def line(self, number: int, text: str, stream: TextIO) -> None:
        """Write one line of a client."""
        with self._lock:
            try:
                if self._console is not None and stream.isatty():
                    colour = _COLOURS[number % len(_COLOURS)]
                    self._console.file = stream
                    self._console.print(f"[{number}] ", style=colour, end="")
                    stream.write(f"{text}\n")
                else:
                    stream.write(f"[{number}] {text}\n")
                stream.flush()
            except BrokenPipeError:  # whoever read this has gone; the clients still count
                pass
            except (OSError, ValueError) as error:
                self._lose(error)

    def _lose(self, error: OSError | ValueError) -> None:
        if not self.has_lost:
            self.has_lost = True
            why = f"{getattr(error, 'strerror', None) or error}; write it where there is room"
            with suppress(OSError, ValueError):
                print(f"dtensor-launch: error: output of clients is lost: {why}", file=sys.stderr)

    def pass_on(self, number: int, source: IO[bytes], stream: TextIO) -> None:
        """Write every line of `source`, until it ends."""
        with source:
            for line in source:
                text = line.decode("utf-8", "replace").rstrip("\r\n")
                # Of a line that is written over and over, as progress bars are, the last state.
                self.line(number, text.rpartition("\r")[2], stream)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; returns the exit status."""
    open_streams()
    options = launch_arguments.parser().parse_args(argv)
    try:
        launch_arguments.find_place(options)
        problem = launch_arguments.problem(options)
    except DTensorError as error:
        problem = str(error)
    if problem is not None:
        print(f"dtensor-launch: error: {problem}", file=sys.stderr)
        return _USAGE
    deadline = math.inf if options.timeout is None else time.monotonic() + options.timeout
    signals: _Ends = SimpleQueue()
    _hear_signals(signals)
    printer = Printer()
    for restart in range(options.max_restarts + 1):
        status = _run(options, printer, signals, deadline)
        if status in (0, _USAGE, _TIMED_OUT, INTERRUPTED) or restart == options.max_restarts:
            break
        of = f"{restart + 1} of {options.max_restarts}"
        print(f"dtensor-launch: starting all clients again, restart {of}", file=sys.stderr)
    discard_output()
    return status or int(printer.has_lost)


def _run(options: argparse.Namespace, printer: Printer, ended: _Ends, deadline: float) -> int:
    """Start all clients and wait until they have ended; returns the exit status."""
    clients: list[Client] = []
    status = _USAGE
    with ExitStack() as reserved:
        try:
            _start(options, printer, _addresses(options, reserved), clients, ended)
            status = _wait(options, clients, ended, deadline)
        except OSError as error:
            print(f"dtensor-launch: error: {_cannot_start(options, error)}", file=sys.stderr)
        finally:
            _stop(clients, gently=status == INTERRUPTED)
    return status


def _hear_signals(ended: _Ends) -> None:
    # They are noticed between two clients, never inside of starting or stopping one.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # nohup ignores SIGHUP
            signal.signal(number, lambda *_: ended.put((None, INTERRUPTED)))


def _cannot_start(options: argparse.Namespace, error: OSError) -> str:
    why = f"cannot start {options.clients} clients: {error.strerror}"
    if options.port is not None and error.errno in (errno.EADDRINUSE, errno.EACCES):
        return f"{why}, for a port from {options.port} on; choose others, or leave --port out"
    return f"{why}; start fewer"


def _addresses(options: argparse.Namespace, reserved: ExitStack) -> str:
    """DTENSOR_JOBS; on Linux nobody else gets the ports until `reserved` is closed.

    Raises:
        OSError: a port is in use, or there are too many clients.
    """
    ports = []
    with ExitStack() as stack:
        for number in range(options.clients if options.nnodes == 1 else 0):
            free = stack.enter_context(socket.socket())
            # Bound and not listening: Linux gives it only to those who ask for it by number.
            free.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            free.bind(("127.0.0.1", 0 if options.port is None else options.port + number))
            ports.append(free.getsockname()[1])
        if sys.platform == "linux":
            reserved.push(stack.pop_all())
    return ",".join(f"localhost:{port}" for port in ports)


def _environment(options: argparse.Namespace, number: int, jobs: str) -> dict[str, str]:
    rank = options.node_rank * options.clients + number
    variables = {k: v for k, v in os.environ.items() if k not in _OF_LAUNCHERS}
    variables |= {"DTENSOR_CLIENT_ID": str(rank), "PYTHONUNBUFFERED": "1"}
    if options.nnodes == 1:
        variables["DTENSOR_JOBS"] = jobs
    else:
        host, _, port = options.address.rpartition(":")
        variables |= {"MASTER_ADDR": host, "MASTER_PORT": port, "RANK": str(rank)}
        variables["WORLD_SIZE"] = str(options.nnodes * options.clients)
    if options.devices_per_client is not None:
        variables["JAX_NUM_CPU_DEVICES"] = str(options.devices_per_client)
    if options.gpus_per_client is not None:
        first = number * options.gpus_per_client
        gpus = range(first, first + options.gpus_per_client)
        variables["CUDA_VISIBLE_DEVICES"] = ",".join(map(str, gpus))
    if options.clients_per_gpu is not None:
        variables["CUDA_VISIBLE_DEVICES"] = str(number // options.clients_per_gpu)
        # NCCL refuses two ranks of one host on one GPU, so each client says it is another host.
        variables |= {"NCCL_HOSTID": f"client{rank}", "NCCL_NET": "Socket"}
        variables.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    return variables


def _start(
    options: argparse.Namespace,
    printer: Printer,
    jobs: str,
    clients: list[Client],
    ended: _Ends,
) -> None:
    command = [sys.executable, *["-m"][: options.module], options.program, *options.arguments]
    for number in range(options.clients):
        rank = options.node_rank * options.clients + number
        process = subprocess.Popen(
            command,
            env=_environment(options, number, jobs),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        readers = tuple(
            threading.Thread(target=printer.pass_on, args=(rank, source, stream), daemon=True)
            for source, stream in ((process.stdout, sys.stdout), (process.stderr, sys.stderr))
        )
        client = Client(rank, process, readers)
        clients.append(client)
        waiter = threading.Thread(target=_await_end, args=(client, ended), daemon=True)
        for thread in (*readers, waiter):
            thread.start()


def _await_end(client: Client, ended: _Ends) -> None:
    ended.put((client, client.process.wait()))


def _wait(
    options: argparse.Namespace, clients: Sequence[Client], ended: _Ends, deadline: float
) -> int:
    running = len(clients)
    while running:
        left = max(0.0, deadline - time.monotonic())
        try:
            client, status = ended.get(timeout=None if math.isinf(left) else left)
        except Empty:
            still = [f"client {c.number}" for c in clients if c.process.poll() is None]
            print(
                f"dtensor-launch: after {options.timeout:g} s still running: "
                f"{', '.join(still)}; stopping all",
                file=sys.stderr,
            )
            return _TIMED_OUT
        if client is None:
            print("dtensor-launch: interrupted; stopping all clients", file=sys.stderr)
            return INTERRUPTED
        if client not in clients:  # of a run before a restart
            continue
        running -= 1
        if status:
            _await_all(clients, _OWN_END_SECONDS)
            client, status = _first_cause(client, status, clients, ended)
            _read_to_end([client])
            print(f"dtensor-launch: client {client.number} {_how(status)}", file=sys.stderr)
            return status if status > 0 else 128 - status
    _read_to_end(clients)
    return 0


def _first_cause(
    client: Client, status: int, clients: Sequence[Client], ended: _Ends
) -> tuple[Client, int]:
    # Those that ended because of another one may be seen before it.
    try:
        while status == PEER_LOST:
            other, its = ended.get(timeout=0.1)
            if other in clients and other is not None and its not in (0, PEER_LOST):
                return other, its
    except Empty:
        pass
    return client, status


def _how(status: int) -> str:
    if status > 0:
        return f"failed with exit status {status}; stopping the others"
    try:
        name = signal.Signals(-status).name
    except ValueError:
        name = f"signal {-status}"
    return f"was killed by {name}; stopping the others"


def _read_to_end(clients: Sequence[Client]) -> None:
    deadline = time.monotonic() + _READ_SECONDS
    for client in clients:
        for reader in client.readers:
            reader.join(max(0.0, deadline - time.monotonic()))


def _stop(clients: Sequence[Client], gently: bool) -> None:
    steps = [(signal.SIGINT, _TERMINATE_SECONDS)] if gently else []
    steps += [(signal.SIGTERM, _TERMINATE_SECONDS), (signal.SIGKILL, _KILL_SECONDS)]
    for number, seconds in steps:
        for client in clients:
            if client.process.poll() is None:
                _signal(client, number)
        if _await_all(clients, seconds):
            break
    _read_to_end(clients)


def _signal(client: Client, number: signal.Signals) -> None:
    try:
        os.killpg(client.process.pid, number)
    except ProcessLookupError:  # it has just ended
        pass


def _await_all(clients: Sequence[Client], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while any(client.process.poll() is None for client in clients):
        if time.monotonic() >= deadline:
            return False
        time.sleep(0.02)
    return True


if __name__ == "__main__":
    sys.exit(main())
