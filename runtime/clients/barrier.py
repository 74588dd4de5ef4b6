"""A point that no client passes before all have reached it."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

from dtensor.dialect.errors import ConfigError, MeshError
from dtensor.dialect.mesh import Mesh
from dtensor.runtime.clients import agreement, environment
from dtensor.runtime.placement import jax_mesh
from dtensor.runtime.tracing import is_eager

_DAY_IN_MILLISECONDS = 24 * 60 * 60 * 1000


def barrier(mesh: Mesh, barrier_name: str | None = None, timeout_in_ms: int | None = None) -> None:
    """Wait until every client with devices in `mesh` is here, and its devices have finished.

    Args:
        mesh: whose clients and devices to wait for.
        barrier_name: what messages call this barrier; the same on every client.
        timeout_in_ms: how long to wait for the other clients, in milliseconds; None is 24 hours,
            since the others may have much to do first.

    Raises:
        ClientError: a client did not come in time, has ended, or is at another barrier.
        MeshError: this client has no device in the mesh.
        ConfigError: the name is no text, or the time no number above 0.
        TypeError: `mesh` is not a mesh.
        RuntimeError: called while tracing.
    """
    if not isinstance(mesh, Mesh):
        raise TypeError(f"barrier needs a Mesh, got {type(mesh).__name__}")
    if not is_eager():
        raise RuntimeError("barrier must be called outside of traced functions")
    if not isinstance(barrier_name, str | None):
        raise ConfigError(f"barrier_name is {barrier_name!r}; it must be a string, or None")
    if timeout_in_ms is None:
        timeout_in_ms = _DAY_IN_MILLISECONDS
    if isinstance(timeout_in_ms, bool) or not isinstance(timeout_in_ms, int) or timeout_in_ms < 1:
        raise ConfigError(f"timeout_in_ms is {timeout_in_ms!r}; it must be a positive integer")
    clients = agreement.clients_of(mesh)
    if jax.process_index() not in clients:
        raise MeshError(
            f"this is {environment.client_name(jax.process_index())}, which has no device in "
            f"{mesh.short()}; its clients are {', '.join(map(str, clients))}"
        )
    if len(clients) > 1:
        _wait_for_clients(clients, barrier_name or "", timeout_in_ms / 1000)
    _wait_for_devices(mesh)


def _wait_for_clients(clients: tuple[int, ...], name: str, seconds: float) -> None:
    point = f"barrier '{name}'" if name else "the barrier"
    _, names = agreement.exchange("barrier", clients, f"'{name}'", point, seconds)
    agreement.same(names, "where they wait, at the barrier", agreement.SAME_CALLS)


def _wait_for_devices(mesh: Mesh) -> None:
    # A device runs one program after the other, so when this sum is there, all before it are done.
    sharding = NamedSharding(jax_mesh(mesh), PartitionSpec(mesh.axis_names or None))
    ones = jax.make_array_from_callback(
        (mesh.size,), sharding, lambda index: np.ones(mesh.size, np.int32)[index]
    )
    whole = NamedSharding(jax_mesh(mesh), PartitionSpec())
    total = int(jax.jit(jnp.sum, out_shardings=whole)(ones))
    if total != mesh.size:
        raise MeshError(f"the barrier counted {total} devices, but {mesh.short()} has {mesh.size}")
