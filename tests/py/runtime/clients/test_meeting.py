"""Clients meet before jax connects them; here they are threads of this process."""

import re
import socket
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from dtensor.dialect.errors import ClientError
from dtensor.runtime.clients.environment import Seat
from dtensor.runtime.clients.meeting import meeting
from tests.py.runtime.clients.launching import addresses

WAIT = 30


def seat(count: int) -> Seat:
    return Seat(addresses(1)[0], count, 0, "DTENSOR_JOBS")


def met(place: Seat, numbers: Sequence[int], seconds: float) -> list[str]:
    """What each client gets: the address, or the message of its error."""

    def one(number: int) -> str:
        try:
            with meeting(replace(place, index=number), seconds) as (address, hosts):
                assert hosts == ["localhost"] * place.count
                together.wait(WAIT)
                return address
        except ClientError as error:
            return str(error)

    together = threading.Barrier(len(numbers))  # what jax.distributed is for real clients
    with ThreadPoolExecutor(len(numbers)) as pool:
        return list(pool.map(one, numbers))


def test_all_hear_at_which_address_jax_shall_connect_them() -> None:
    place = seat(3)
    found = met(place, [2, 0, 1], WAIT)
    assert len(set(found)) == 1
    assert re.fullmatch(r"localhost:\d+", found[0])
    assert found[0] != place.address


def test_the_address_that_jax_shall_listen_at_can_be_given(monkeypatch: pytest.MonkeyPatch) -> None:
    port = addresses(1)[0].rpartition(":")[2]
    monkeypatch.setenv("JAX_COORDINATOR_BIND_ADDRESS", f"127.0.0.1:{port}")
    assert met(seat(2), [0, 1], WAIT) == [f"localhost:{port}"] * 2


def test_those_that_do_not_come_are_named_to_all() -> None:
    said = (
        "client 1, client 3 did not come within 2 s; start all 4 clients, or set "
        "DTENSOR_CLIENT_TIMEOUT_SECONDS to wait longer"
    )
    assert met(seat(4), [0, 2], 2) == [said, said]


def test_two_clients_of_the_same_number_are_an_error() -> None:
    found = met(seat(3), [0, 1, 1], 3)
    assert (
        "two processes say they are client 1; give each its own number in DTENSOR_JOBS"
    ) in found


def test_a_port_in_use_is_an_error_that_says_so() -> None:
    with socket.socket() as taken:
        taken.bind(("", 0))
        taken.listen()
        place = replace(seat(2), address=f"localhost:{taken.getsockname()[1]}")
        assert met(place, [0], 1) == [
            "client 0 cannot listen at its port: Address already in use; choose another port for "
            "it in DTENSOR_JOBS"
        ]


def test_an_address_where_nobody_answers_is_an_error() -> None:
    place = replace(seat(2), address="no-such-host.invalid:1")
    assert met(place, [1], 1) == [
        "client 1 did not find client 0 at no-such-host.invalid:1 within 1 s; start all 2 clients, "
        "or set DTENSOR_CLIENT_TIMEOUT_SECONDS to wait longer"
    ]


def test_an_address_at_which_client_0_does_not_reach_itself_is_an_error() -> None:
    with socket.socket() as free:
        free.bind(("", 0))
        place = replace(seat(2), address=f"no-such-host.invalid:{free.getsockname()[1]}")
    assert met(place, [0], 1) == [
        "client 0 is this process, and did not reach itself at that address within 1 s; have "
        "DTENSOR_JOBS name this machine first, and a port that is open"
    ]
