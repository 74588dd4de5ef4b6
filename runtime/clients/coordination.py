"""What clients tell one another, through the key-value store of jax's coordination service.

jax has no public way to its service's client, nor to whether it has started its backends; the only
places that reach into jax for these are here.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from dtensor.dialect.errors import ClientError

NO_ANSWER, CANCELLED = "no answer", "cancelled"  # why `ask` came back without a value

_ENDED = "dtensor/ended"
_SLICE_SECONDS = 2.0  # how long one look at the store waits; between two, ended clients show


@dataclass(frozen=True)
class Process:
    """A process as `jax.distributed` counts them.

    Attributes:
        index: which one it is.
        count: how many there are.
    """

    index: int
    count: int


def jax_process() -> Process | None:
    """Which process this is; None where `jax.distributed` has not been initialized."""
    module = sys.modules.get("jax._src.distributed")
    state = getattr(module, "global_state", None)
    if state is None or state.client is None:
        return None
    return Process(int(state.process_id), int(state.num_processes))


def detected_cluster(seconds: int) -> tuple[str, int, int, tuple[int, ...] | None] | None:
    """What jax finds in the environment: SLURM, Open MPI, GKE, Cloud TPU, Kubernetes.

    The address, the number of processes, which one this is, and the devices it shall see (None is
    all); None where there is no cluster. jax.distributed.initialize() does the same, but a process
    learns its place there only when all others have come.

    Raises:
        RuntimeError: there is one, and it cannot be asked.
    """
    from jax._src.clusters import ClusterEnv

    unknown = (None, None, None, None, None)
    address, count, index, devices = ClusterEnv.auto_detect_unset_distributed_params(
        *unknown, seconds
    )
    if address is None or count is None or index is None:
        return None
    return address, int(count), int(index), None if devices is None else tuple(devices)


def jax_is_running() -> bool:
    """Whether jax has started its backends, after which the number of devices is fixed."""
    from jax._src.xla_bridge import backends_are_initialized

    return bool(backends_are_initialized())


@contextmanager
def only_asking() -> Iterator[None]:
    """Ask jax for its devices inside, without settling anything: a jax started for it is forgotten.

    Not where it found accelerators: they are not started twice.
    """
    before = jax_is_running() or jax_process() is not None
    try:
        yield
    finally:
        if not before and jax_is_running():
            forget_cpu()


def forget_cpu() -> None:
    """Let jax start anew, if it has started nothing but the CPU and nobody has used it."""
    import jax
    from jax.extend import backend

    from dtensor.runtime import naming

    if all(device.platform == "cpu" for device in jax.devices()):
        backend.clear_backends()
        naming.forget_devices()


def publish(key: str, value: str) -> None:
    """Let every client read `value` under `key`; a key is written once.

    Raises:
        ClientError: the service cannot be reached, or the key is taken.
    """
    _call(f"publish {key}", lambda client: client.key_value_set(key, value))


def remove(key: str) -> None:
    """Take back what was published under `key`, which everybody has read.

    Raises:
        ClientError: the service cannot be reached.
    """
    _call(f"remove {key}", lambda client: client.key_value_delete(key))


def collect(
    prefix: str, clients: Sequence[int], seconds: float, missing: Callable[[list[int], str], str]
) -> dict[int, str]:
    """The values under `prefix/<client>` of all `clients`, waiting until all are there.

    Args:
        prefix: what comes before the client's number.
        clients: the clients to wait for.
        seconds: how long to wait for all of them together.
        missing: makes the message from the clients that did not write, and what they did instead,
            with a place `{}` for the name of this point.

    Raises:
        ClientError: a client did not write in time, or has ended.
    """
    deadline = time.monotonic() + seconds
    while True:
        found = _directory(prefix)
        rest = [number for number in clients if number not in found]
        if not rest:
            return {number: found[number] for number in clients}
        ended = [number for number in _directory(_ENDED) if number in rest]
        if ended:
            raise ClientError(missing(ended, "ended before {}"))
        left = deadline - time.monotonic()
        if left <= 0:
            raise ClientError(missing(rest, f"did not get to {{}} within {seconds:g} s"))
        _wait_for(f"{prefix}/{rest[0]}", min(left, _SLICE_SECONDS))


def say_ended(number: int) -> None:
    """Let the others know that the program of this client, `number`, has ended."""
    publish(f"{_ENDED}/{number}", "")


def ask(key: str, seconds: float) -> tuple[str | None, str]:
    """The value of `key`, waited for; or None, and `NO_ANSWER`, `CANCELLED` or jax's own words."""
    import jax

    try:
        return _client().blocking_key_value_get(key, round(seconds * 1000)), ""
    except ClientError:  # disconnected
        return None, CANCELLED
    except jax.errors.JaxRuntimeError as error:
        kinds = {"DEADLINE_EXCEEDED": NO_ANSWER, "CANCELLED": CANCELLED}
        return None, kinds.get(str(error).partition(":")[0], _first_line(error))


def disconnect() -> None:
    """Leave jax's service, waiting for the other clients.

    Raises:
        ClientError: another client did not come.
    """
    import jax

    try:
        jax.distributed.shutdown()
    except jax.errors.JaxRuntimeError as error:
        raise ClientError(
            f"another client did not shut its accelerator system down: {_first_line(error)}"
        ) from None


def _directory(prefix: str) -> dict[int, str]:
    found = _call(f"read {prefix}", lambda client: client.key_value_dir_get(f"{prefix}/"))
    return {int(key.rpartition("/")[2]): value for key, value in found}


def _wait_for(key: str, seconds: float) -> None:
    import jax

    try:
        _client().blocking_key_value_get(key, max(1, round(seconds * 1000)))
    except jax.errors.JaxRuntimeError as error:
        if "DEADLINE_EXCEEDED" not in str(error):
            raise ClientError(f"cannot read {key}: {_first_line(error)}") from None


def _call(what: str, call: Callable[[Any], Any]) -> Any:
    import jax

    try:
        return call(_client())
    except jax.errors.JaxRuntimeError as error:
        raise ClientError(f"cannot {what}: {_first_line(error)}") from None


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0]


def _client() -> Any:
    from jax._src.distributed import global_state

    if global_state.client is None:
        raise ClientError(
            "the clients are not connected; call dtensor.initialize_accelerator_system() first"
        )
    return global_state.client
