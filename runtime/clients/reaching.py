"""At which address the CPUs of this client's machine are reached from the others.

gloo, which carries data between CPUs, listens at the address that the machine's own name has. On
Debian, and in many containers, that is 127.0.1.1 or 127.0.0.1, and clients of other machines wait
for it in vain. There it is told the address from which this machine reaches client 0.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator, Sequence
from ipaddress import ip_address

from dtensor.runtime.clients import coordination

_ELSEWHERE = "192.0.2.1"  # reserved for documentation (RFC 5737): the way there leaves the machine


def listen_where_others_reach(hosts: Sequence[str]) -> None:
    """Have gloo listen where the clients of other machines find it, before jax starts its CPUs.

    Args:
        hosts: by what host each client reaches client 0.
    """
    own = address_for_others(hosts, socket.gethostname())
    if own is not None:
        coordination.listen_at(own)


def address_for_others(hosts: Sequence[str], name: str) -> str | None:
    """The address of this machine, which calls itself `name`; None where that name will do.

    It will do where its address is not the machine's loopback, and where all clients reach client 0
    at the loopback: then they are on one machine.
    """
    named = list(_addresses(name))
    if named and not any(map(_is_loopback, named)):
        return None
    hosts = [host.strip("[]") for host in dict.fromkeys(hosts)]
    apart = [host for host in hosts if host != "localhost" and not _is_loopback(host)]
    # To client 0 itself its name may be that of the loopback.
    ways = [address for host in apart for address in _addresses(host)]
    found = map(_from, (*ways, _ELSEWHERE) if apart else ())
    return next((own for own in found if own is not None and not _is_loopback(own)), None)


def _addresses(host: str) -> Iterator[str]:
    """The addresses of a host; none where it is not known."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_DGRAM)
    except OSError:
        return
    yield from dict.fromkeys(str(each[4][0]) for each in found)


def _from(to: str) -> str | None:
    """The address from which this machine would send to `to`; None where there is no way."""
    family = socket.AF_INET6 if ":" in to else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((to, 9))  # sends nothing
            return str(probe.getsockname()[0])
    except OSError:
        return None


def _is_loopback(address: str) -> bool:
    try:
        return ip_address(address.partition("%")[0]).is_loopback
    except ValueError:  # a name
        return False
