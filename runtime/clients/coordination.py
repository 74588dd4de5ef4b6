"""Jax's coordination service: whether this process is connected, and its key-value store.

jax has no public way to the store, nor to whether it has started its backends; the places that
reach into jax for these are here.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from dtensor.dialect.errors import ClientError

_SETTLED_MILLISECONDS = 60_000  # for what is there already
NO_ANSWER, CANCELLED = "no answer", "cancelled"  # why `ask` came back without a value

resets: list[Callable[[], object]] = []
"""What forgets jax's devices and clients, called when jax is to start anew."""


def jax_process() -> tuple[int, int] | None:
    """Which process this is and of how many; None where `jax.distributed` is not initialized."""
    module = sys.modules.get("jax._src.distributed")
    state = getattr(module, "global_state", None)
    if state is None or state.client is None:
        return None
    return int(state.process_id), int(state.num_processes)


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

    if jax_is_running() and all(device.platform == "cpu" for device in jax.devices()):
        forget_jax()


def forget_jax() -> None:
    """Let jax start anew. Its arrays are deleted: programs of new devices would end the process."""
    from jax.extend import backend

    for client in backend.backends().values() if jax_is_running() else ():
        for array in client.live_arrays():
            array.delete()
    backend.clear_backends()
    for reset in resets:
        reset()


def abandon() -> None:
    """Let a forked process end by itself: the connection, and the devices, are its parent's.

    jax would disconnect the parent at exit, and wait for threads that were not forked.
    """
    import atexit

    from jax._src import api, distributed

    atexit.unregister(api.clean_up)
    state = distributed.global_state
    for name in ("preemption_sync_manager", "client", "service"):
        held = getattr(state, name)
        setattr(state, name, None)
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(held))  # what it does at its end, nobody wants


def listen_at(address: str) -> None:
    """Have gloo listen at an address of this machine, once jax starts its CPUs."""
    import jax
    from jax._src import distributed, xla_bridge
    from jax.extend import backend
    from jaxlib import _jax

    def cpus() -> Any:
        client = distributed.global_state.client
        is_gloo = jax.config.jax_cpu_collectives_implementation == "gloo"  # type: ignore[attr-defined]
        if client is None or not is_gloo:
            return xla_bridge.make_cpu_client()
        return xla_bridge.make_cpu_client(_jax.make_gloo_tcp_collectives(client, hostname=address))

    backend.register_backend_factory("cpu", cpus, priority=0, fail_quietly=False)


@contextmanager
def store() -> Iterator[Any]:
    """The client of jax's key-value store, which all clients read and write.

    Raises:
        ClientError: the clients are not connected, or the store answers with an error.
    """
    import jax
    from jax._src.distributed import global_state

    if global_state.client is None:
        raise ClientError(
            "the clients are not connected; call dtensor.initialize_accelerator_system() first"
        )
    try:
        yield global_state.client
    except jax.errors.JaxRuntimeError as error:
        raise ClientError(f"jax's coordination service: {str(error).splitlines()[0]}") from None


def ask(key: str, seconds: float) -> tuple[str | None, str]:
    """The value of `key`, waited for; or None, and `NO_ANSWER`, `CANCELLED` or jax's own words."""
    try:
        with store() as client:
            return client.blocking_key_value_get(key, max(1, round(seconds * 1000))), ""
    except ClientError as error:
        said = str(error)
    if "service: DEADLINE_EXCEEDED" in said:
        return None, NO_ANSWER
    is_over = "service: CANCELLED" in said or "not connected" in said
    return None, CANCELLED if is_over else said


def settled(key: str, value: str) -> str:
    """What the first client to settle `key` has said it is: of one that comes first, `value`.

    Raises:
        ClientError: the clients are not connected, or the store answers with an error.
    """
    try:
        with store() as client:
            client.key_value_set(key, value)
            return value
    except ClientError as error:
        if "ALREADY_EXISTS" not in str(error):
            raise
    with store() as client:
        return str(client.blocking_key_value_get(key, _SETTLED_MILLISECONDS))
