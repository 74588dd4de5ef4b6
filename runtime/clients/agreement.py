"""Several clients that run one program: they must all have the same one."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import jax

from dtensor.dialect.errors import ClientError
from dtensor.dialect.mesh import Mesh
from dtensor.runtime.clients import coordination, environment
from dtensor.runtime.placement import jax_mesh

SAME_CALLS = "all clients must call the same functions in the same order"

_counts: Counter[tuple[str, tuple[int, ...]]] = Counter()


def agree_on_program(fingerprint: str, mesh: Mesh) -> None:
    """Check that all clients with devices in `mesh` are loading the same program.

    XLA does not: clients that run different modules exchange bytes and get wrong numbers.

    Args:
        fingerprint: digest of the program.
        mesh: where it runs. Programs must be loaded in the same order everywhere.

    Raises:
        ClientError: another client loads another program, or none in time.
    """
    clients = clients_of(mesh)
    if len(clients) > 1:
        remedy = SAME_CALLS.replace(" in the", " with the same shapes and layouts, in the")
        agree("program", clients, {"program {}": fingerprint[:12]}, remedy)


def clients_of(mesh: Mesh) -> tuple[int, ...]:
    """The clients that drive devices of `mesh`."""
    if jax.process_count() == 1:
        return (0,)
    return tuple(sorted({device.process_index for device in jax_mesh(mesh).devices.flat}))


def agree(
    what: str, clients: Sequence[int], facts: Mapping[str, str], remedy: str, beside: Any = None
) -> dict[int, Any]:
    """Check that all `clients` have the same facts.

    Args:
        what: what is agreed on, a word. Each kind is counted by itself.
        clients: which take part, this one among them.
        facts: what this client has, by what messages call it, with `{}` for the count.
        remedy: what to do where they differ, for the message.
        beside: what to tell the others too, a JSON value.

    Returns:
        What each client told beside.

    Raises:
        ClientError: the clients differ, or one did not come to this point in time.
    """
    number, texts = exchange(what, clients, json.dumps([facts, beside]))
    found = {client: json.loads(text) for client, text in texts.items()}
    for fact in facts:
        same(
            {client: said[0].get(fact, "") for client, said in found.items()},
            fact.format(number),
            remedy,
        )
    return {client: said[1] for client, said in found.items()}


def exchange(
    what: str,
    clients: Sequence[int],
    value: str,
    point: str = "",
    seconds: float | None = None,
) -> tuple[int, dict[int, str]]:
    """Tell `value` to all `clients`, and hear theirs.

    Args:
        what: what is told, a word. Each kind is counted by itself.
        clients: which take part, this one among them.
        value: what this client has.
        point: what messages call this point of the program; "" is `what` and its count.
        seconds: how long to wait for the others; None is `environment.client_timeout`.

    Returns:
        How many times these clients have exchanged such a thing before, and the values.

    Raises:
        ClientError: a client did not come to this point in time, or has ended.
    """
    group = tuple(clients)
    number = _counts[what, group]
    _counts[what, group] += 1
    everyone = len(group) == jax.process_count()
    prefix = f"dtensor/{what}/{'all' if everyone else '-'.join(map(str, group))}"
    here = jax.process_index()
    coordination.publish(f"{prefix}/{number}/{here}", value)
    if number > 1:  # all came to the last one, so all have read the one before
        coordination.remove(f"{prefix}/{number - 2}/{here}")
    return number, coordination.collect(
        f"{prefix}/{number}",
        clients,
        environment.client_timeout() if seconds is None else seconds,
        lambda missing, why: (
            f"{environment.client_names(missing)} {why.format(point or f'{what} {number}')}; "
            f"{SAME_CALLS}"
        ),
    )


def forget() -> None:
    """Count anew: the clients have been disconnected."""
    _counts.clear()


def same(values: Mapping[int, str], what: str, remedy: str) -> None:
    """Raise ClientError, saying who has what, unless all clients have the same value."""
    if len(set(values.values())) > 1:
        raise ClientError(f"the clients differ in {what}: {by_value(values)}; {remedy}")


def by_value(values: Mapping[int, str]) -> str:
    """Who has what, most common first: `a on clients 0, 2; b on client 1 (host:port)`."""
    clients = defaultdict(list)
    for number in sorted(values):
        clients[values[number]].append(number)
    (common, first), *rest = sorted(clients.items(), key=lambda item: (-len(item[1]), item[1]))
    said = f"{common} on client{'s'[: len(first) > 1]} {', '.join(map(str, first))}"
    return "; ".join([said, *(f"{v} on {environment.client_names(who)}" for v, who in rest)])
