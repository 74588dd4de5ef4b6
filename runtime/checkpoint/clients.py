"""The processes that save or restore together: all go on, or all get the error of the one."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from itertools import zip_longest
from typing import Any, TypeVar

import jax

from dtensor.dialect.errors import CheckpointError
from dtensor.dialect.mesh import Mesh
from dtensor.runtime.clients import agreement

_Json = TypeVar("_Json")


def clients_of(mesh: Mesh) -> tuple[int, ...]:
    """The processes that drive the devices of `mesh`.

    Raises:
        CheckpointError: this process is none of them.
    """
    clients = agreement.clients_of(mesh)
    if jax.process_index() not in clients:
        raise CheckpointError(
            f"this is client {jax.process_index()}, which drives no device of {mesh.short()}; "
            f"only its clients {list(clients)} save and restore"
        )
    return clients


def together(clients: tuple[int, ...], step: Callable[[], _Json]) -> list[_Json]:
    """The JSON value that `step` returns on each client; none goes on before all are done.

    Raises:
        CheckpointError: the step failed here, or on another client.
        ClientError: a client did not come.
    """
    if len(clients) == 1:
        return [step()]
    try:
        message: dict[str, Any] = {"result": step()}
    except BaseException as caught:
        kind = "" if isinstance(caught, CheckpointError) else f"{type(caught).__name__}: "
        _exchange(clients, {"error": f"{kind}{caught}"})
        raise
    found = _exchange(clients, message)
    for client, answer in found.items():
        if "error" in answer:
            raise CheckpointError(f"client {client}: {answer['error']}")
    return [answer["result"] for answer in found.values()]


def same_everywhere(clients: tuple[int, ...], what: str, entries: list[str]) -> None:
    """Check that all clients have the same entries, which they want to `what`: save, restore.

    Raises:
        CheckpointError: two clients differ; the message names a client and an entry.
    """
    digest = hashlib.sha256(repr(entries).encode()).hexdigest()  # short, where all is well
    if len(set(together(clients, lambda: digest))) == 1:
        return
    first, *others = together(clients, lambda: entries)
    for client, other in zip(clients[1:], others, strict=True):
        for here, there in zip_longest(first, other, fillvalue="nothing more"):
            if here != there:
                raise CheckpointError(
                    f"clients {what} different things: client {client} has {there} where client "
                    f"{clients[0]} has {here}; call it with the same ones on every client"
                )


def _exchange(clients: tuple[int, ...], message: dict[str, Any]) -> dict[int, dict[str, Any]]:
    _, found = agreement.exchange("save or restore step", clients, json.dumps(message))
    return {client: json.loads(text) for client, text in found.items()}
