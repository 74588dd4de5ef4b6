"""All clients meet before jax connects them: one that never comes is an error, and is named.

Own code because jax.distributed aborts the process then, 5 s after the timeout, and names nobody
(benchmarks/faults.py). What they meet at is jax's coordination service all the same, told to end
the wait by itself and to raise; it ends when all are there.
"""

from __future__ import annotations

import math
import os
import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from jaxlib import _jax

from dtensor.dialect.errors import ClientError
from dtensor.runtime.clients.environment import Seat, client_name, jobs

_PORT, _HOSTS = "dtensor/port", "dtensor/host"
_SILENT_SECONDS = 3600  # nobody is given up while the clients meet, before the time is up


@contextmanager
def meeting(seat: Seat, seconds: float) -> Iterator[tuple[str, list[str]]]:
    """Wait until all clients are here; gives the address at which jax shall connect this one.

    And by what host each client has reached client 0.

    Inside, all must connect: client 0 closes the meeting afterwards, when everybody has left it.

    Args:
        seat: this client's place in the run.
        seconds: how long to wait for the others.

    Raises:
        ClientError: a client did not come in time, or two have the same number.
    """
    wait = math.ceil(seconds)
    bind = os.environ.get("JAX_COORDINATOR_BIND_ADDRESS", "")
    service = _service(seat, bind, wait) if seat.index == 0 else None
    client = _jax.get_distributed_runtime_client(
        seat.address,
        seat.index,
        init_timeout=wait,
        shutdown_timeout=wait,
        heartbeat_timeout=_SILENT_SECONDS,
        # With a callback, which jaxlib 0.10 cannot call, `connect` raises; without, it aborts.
        missed_heartbeat_callback=lambda status: None,
        shutdown_on_destruction=False,
        use_compression=True,
    )
    try:
        yield _address(client, seat, seconds)
    finally:
        if service is not None:
            service.shutdown()


def _address(client: Any, seat: Seat, seconds: float) -> tuple[str, list[str]]:
    try:
        client.connect()
        if seat.index == 0:
            client.key_value_set(_PORT, str(_port_for_jax(seat)))
        # Each has its own name for the machine of client 0, which calls itself localhost perhaps.
        host = seat.address.rpartition(":")[0]
        client.key_value_set(f"{_HOSTS}/{seat.index}", host)
        port = client.blocking_key_value_get(_PORT, math.ceil(seconds) * 1000)
        hosts = [
            client.blocking_key_value_get(f"{_HOSTS}/{index}", math.ceil(seconds) * 1000)
            for index in range(seat.count)
        ]
        client.shutdown()
    except RuntimeError as error:
        said = str(error)
        try:
            client.shutdown()
        except RuntimeError as last:  # it says here why it could not connect
            said += f" {last}"
        raise ClientError(_why(seat, seconds, said)) from None
    return f"{host}:{port}", hosts


def _service(seat: Seat, bind: str, wait: int) -> Any:
    port = int(seat.address.rpartition(":")[2])
    try:
        with socket.socket() as free:  # the service itself would share the port with another one
            free.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            free.bind(("", port))
    except OSError as error:
        raise ClientError(
            f"{client_name(0)} cannot listen at its port: {error.strerror}; choose another port "
            f"for it in {seat.source}"
        ) from None
    return _jax.get_distributed_runtime_service(
        f"{bind.rpartition(':')[0] or '[::]'}:{port}",
        seat.count,
        heartbeat_timeout=_SILENT_SECONDS,
        cluster_register_timeout=wait,
        shutdown_timeout=wait,
    )


def _port_for_jax(seat: Seat) -> int:
    """Another port of client 0: the first one still belongs to the service that all leave."""
    port = int(os.environ.get("JAX_COORDINATOR_BIND_ADDRESS", ":0").rpartition(":")[2])
    if port in (0, int(seat.address.rpartition(":")[2])):
        with socket.socket() as free:
            free.bind(("", 0))
            port = free.getsockname()[1]
    return port


def _why(seat: Seat, seconds: float, said: str) -> str:
    if "ALREADY_EXISTS" in said:
        return (
            f"two processes say they are {client_name(seat.index)}; give each its own number in "
            f"{seat.source}"
        )
    if seat.index == 0 and "timed out task names:" not in said:
        return (
            f"{client_name(0)} is this process, and did not reach itself at that address within "
            f"{seconds:g} s; have {seat.source} name this machine first, and a port that is open"
        )
    late = re.search(r"timed out task names:\s*((?:\d+\s+)+)", said)
    at = "" if jobs() else f" at {seat.address}"  # which is in the name of a client of DTENSOR_JOBS
    what = f"{client_name(seat.index)} did not find {client_name(0)}{at}"
    if late:
        missing = sorted(map(int, late.group(1).split()))
        what = f"{', '.join(map(client_name, missing))} did not come"
    return (
        f"{what} within {seconds:g} s; start all {seat.count} clients, or set "
        "DTENSOR_CLIENT_TIMEOUT_SECONDS to wait longer"
    )
