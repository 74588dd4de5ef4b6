"""What several clients do at one point: compare what they run, and wait for one another."""

from __future__ import annotations

import json
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from numbers import Integral
from typing import Any
from zlib import crc32

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

from dtensor.dialect.errors import ClientError, ConfigError, MeshError
from dtensor.dialect.mesh import Mesh
from dtensor.runtime.clients import coordination, environment
from dtensor.runtime.placement import jax_mesh
from dtensor.runtime.shardings import AnyMesh, as_mesh
from dtensor.runtime.tracing import is_eager

# Settings of jax that change what a function is traced to.
_SETTINGS = (
    "jax_enable_x64",
    "jax_default_dtype_bits",
    "jax_default_matmul_precision",
    "jax_default_prng_impl",
    "jax_threefry_partitionable",
    "jax_numpy_dtype_promotion",
    "jax_enable_custom_prng",
    "jax_random_seed_offset",
    "jax_softmax_custom_jvp",
    "jax_debug_nans",
)
ENDED = "dtensor/ended"  # where clients write that their programs have ended

_SAME_CALLS = "all clients must call the same functions in the same order"
_SLICE_SECONDS = 2.0  # how long one look at the store waits; between two, ended clients show
_DAY_IN_MILLISECONDS = 24 * 60 * 60 * 1000

_counts: Counter[tuple[str, tuple[int, ...]]] = Counter()
_failed: set[tuple[str, tuple[int, ...]]] = set()  # whose last exchange not all came to
coordination.resets += [_counts.clear, _failed.clear]


def barrier(
    mesh: AnyMesh, barrier_name: str | None = None, timeout_in_ms: int | None = None
) -> None:
    """Wait until every client with devices in `mesh` is here, and its devices have finished.

    Args:
        mesh: whose clients and devices to wait for; dtensor's or jax's.
        barrier_name: what messages call this barrier; the same on every client.
        timeout_in_ms: how long to wait for the other clients, in milliseconds; None is 24 hours,
            since the others may have much to do first.

    Raises:
        ClientError: a client did not come in time, has ended, or is at another barrier.
        MeshError: this client has no device in the mesh.
        ConfigError: the name is no text, or the time no number above 0.
        TypeError: `mesh` is not a mesh.
        RuntimeError: called while tracing.

    Example:
        >>> dtensor.barrier(mesh, "start")  # with one client, waits for its devices
    """
    if not isinstance(mesh, AnyMesh):
        raise TypeError(f"barrier needs a Mesh, got {type(mesh).__name__}")
    mesh = as_mesh(mesh)
    if not is_eager():
        raise RuntimeError("barrier must be called outside of traced functions")
    if not isinstance(barrier_name, str | None):
        raise ConfigError(f"barrier_name is {barrier_name!r}; it must be a string, or None")
    wait = _DAY_IN_MILLISECONDS if timeout_in_ms is None else timeout_in_ms
    if isinstance(wait, bool) or not isinstance(wait, Integral) or wait < 1:
        raise ConfigError(f"timeout_in_ms is {wait!r}; it must be a positive integer")
    clients = clients_of(mesh)
    if jax.process_index() not in clients:
        raise MeshError(
            f"this is {environment.client_name(jax.process_index())}, which has no device in "
            f"{mesh.short()}; its clients are {', '.join(map(str, clients))}"
        )
    if len(clients) > 1:
        name = f"'{barrier_name or ''}'"
        point = f"barrier {name}" if barrier_name else "the barrier"
        _, names = exchange("barrier", clients, name, point, wait / 1000)
        _same(names, "where they wait, at the barrier", _SAME_CALLS)
    # A device runs one program after the other, so when this sum is there, all before it are done.
    _on_all(mesh, jnp.sum, np.float32(1)).block_until_ready()


def agree_on_program(fingerprint: str, mesh: Mesh) -> None:
    """Check that all clients with devices in `mesh` are loading the program of this digest.

    XLA does not: clients that run different modules exchange bytes and get wrong numbers.

    Raises:
        ClientError: another client loads another program, or none in time.
    """
    clients = clients_of(mesh)
    # Who has no device there runs nothing, and may come when the others are programs ahead.
    if len(clients) > 1 and jax.process_index() in clients:
        remedy = _SAME_CALLS.replace(" in the", " with the same shapes and layouts, in the")
        facts = {"program {}": fingerprint[:12]}
        known = [name for name in _SETTINGS if hasattr(jax.config, name)]
        settings = {name: str(getattr(jax.config, name)) for name in known}
        agree("program", clients, facts, remedy, settings)


def agree_on_values(name: str, values: np.ndarray[Any, Any], mesh: Mesh) -> None:
    """Check that all clients with devices in `mesh` have this array, by its checksum.

    Values are compared by their bits: a NaN is as good as any other.

    Args:
        name: what messages call the values.
        values: what this client has.
        mesh: over several clients; who has no device in it has nothing to compare.

    Raises:
        ClientError: another client has other values.
    """
    if jax.process_index() not in clients_of(mesh):
        return
    kind = crc32(f"{values.dtype}{values.shape}".encode())
    own = np.uint32(crc32(np.ascontiguousarray(values).view(np.uint8).data, kind))
    found = np.asarray(_on_all(mesh, jnp.copy, own))
    clients = [device.process_index for device in jax_mesh(mesh).devices.flat]
    sums = {client: f"checksum {found[i]:08x}" for i, client in enumerate(clients)}
    _same(sums, name, "each must pass the whole array; dtensor.pack makes one of what each has")


def _on_all(mesh: Mesh, function: Callable[[Any], Any], own: np.generic) -> jax.Array:
    """What `function` makes of a vector with a number of each device's client."""
    split = NamedSharding(jax_mesh(mesh), PartitionSpec(mesh.axis_names))
    numbers = np.full(mesh.size, own)
    array = jax.make_array_from_callback(numbers.shape, split, numbers.__getitem__)
    with jax.disable_jit(False):  # which is for programs that somebody looks into
        return _whole(mesh, function)(array)


@cache
def _whole(mesh: Mesh, function: Callable[[Any], Any]) -> Callable[[Any], jax.Array]:
    """`function`, whose result all devices have."""
    return jax.jit(function, out_shardings=NamedSharding(jax_mesh(mesh), PartitionSpec()))


coordination.resets.append(_whole.cache_clear)


def clients_of(mesh: Mesh) -> tuple[int, ...]:
    """The clients that drive devices of `mesh`."""
    if jax.process_count() == 1:
        return (0,)
    return tuple(sorted({device.process_index for device in jax_mesh(mesh).devices.flat}))


def agree(
    what: str,
    clients: Sequence[int],
    facts: Mapping[str, str],
    remedy: str,
    causes: Mapping[str, str] | None = None,
) -> None:
    """Check that all `clients` have the same facts.

    Args:
        what: what is agreed on, a word. Each kind is counted by itself.
        clients: which take part, this one among them.
        facts: what this client has, by what messages call it, with `{}` for the count.
        remedy: what to do where they differ, for the message.
        causes: what may differ as long as the facts do not; if both do, this is what is told.

    Raises:
        ClientError: the clients differ, or one did not come to this point in time.
    """
    causes = causes or {}
    number, texts = exchange(what, clients, json.dumps({**facts, **causes}))
    found = {client: json.loads(text) for client, text in texts.items()}

    def values(of: str) -> dict[int, str]:
        return {client: said.get(of, "") for client, said in found.items()}

    for fact in facts:
        if len(set(values(fact).values())) > 1:
            for cause in causes:
                _same(values(cause), cause, f"so {fact.format(number)} differs; give all the same")
        _same(values(fact), fact.format(number), remedy)


def exchange(
    what: str, clients: Sequence[int], value: str, point: str = "", seconds: float | None = None
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
        ClientError: a client did not come to this point in time, or has ended. All raise it, also
            those that come later: either all pass this point or none does.
    """
    group, here = tuple(clients), jax.process_index()
    number = _counts[what, group]
    _counts[what, group] += 1
    everyone = len(group) == jax.process_count()
    prefix = f"dtensor/{what}/{'all' if everyone else '-'.join(map(str, group))}"
    wait = environment.client_timeout() if seconds is None else seconds
    with coordination.store() as store:
        store.key_value_set(f"{prefix}/{number}/{here}", value)
        if number > 1 and (what, group) not in _failed:
            # All came to the last one, so all have read the one before.
            store.key_value_delete(f"{prefix}/{number - 2}/{here}")
            if here == group[0]:
                store.key_value_delete(f"{prefix}/outcome/{number - 2}")
        _failed.discard((what, group))
        missing, did = _missing(store, f"{prefix}/{number}", group, wait)
        problem = ""
        if missing:
            at = point or f"{what} {number}"
            problem = f"{environment.client_names(missing)} {did.format(at)}; {_SAME_CALLS}"
        # One may come when another has given it up: what the first one says holds for all.
        problem = coordination.settled(f"{prefix}/outcome/{number}", problem)
        if problem:
            _failed.add((what, group))
            raise ClientError(problem)
        found = _directory(store, f"{prefix}/{number}")
        return number, {client: found[client] for client in group}


def _missing(
    store: Any, where: str, group: Sequence[int], wait: float
) -> tuple[Sequence[int], str]:
    """Which clients of a group do not come to a key within `wait` seconds, and what they did."""
    deadline = time.monotonic() + wait
    while True:
        found = _directory(store, where)
        rest = [client for client in group if client not in found]
        if not rest:
            return (), ""
        ended = [client for client in ended_clients() if client in rest]
        if ended:
            return ended, "ended before {}"
        left = deadline - time.monotonic()
        if left <= 0:
            return rest, f"did not get to {{}} within {wait:g} s"
        coordination.ask(f"{where}/{rest[0]}", min(left, _SLICE_SECONDS))


def ended_clients() -> tuple[int, ...]:
    """The clients whose programs have ended."""
    with coordination.store() as store:
        return tuple(_directory(store, ENDED))


def _directory(store: Any, prefix: str) -> dict[int, str]:
    found = store.key_value_dir_get(f"{prefix}/")
    return {int(key.rpartition("/")[2]): value for key, value in found}


def _same(values: Mapping[int, str], what: str, remedy: str) -> None:
    """Raise ClientError, saying who has what, most common first, unless all have the same."""
    clients = defaultdict(list)
    for number in sorted(values):
        clients[values[number]].append(number)
    (common, first), *rest = sorted(clients.items(), key=lambda item: (-len(item[1]), item[1]))
    if rest:
        said = f"{common} on client{'s'[: len(first) > 1]} {', '.join(map(str, first))}"
        odd = "; ".join(f"{value} on {environment.client_names(who)}" for value, who in rest)
        raise ClientError(f"the clients differ in {what}: {said}; {odd}; {remedy}")
