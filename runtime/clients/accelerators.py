"""Starting and stopping what meshes are made of: the devices, and the other clients of the run."""

from __future__ import annotations

import importlib
import importlib.util
import math
import os
import subprocess
import time
from dataclasses import dataclass

import jax

from dtensor.dialect.errors import ClientError, ConfigError, NotFoundError
from dtensor.runtime import naming
from dtensor.runtime.clients import agreement as distributed
from dtensor.runtime.clients import config, coordination, cpu_devices, environment
from dtensor.runtime.clients.heartbeat import Connection, join, start_coordinator
from dtensor.runtime.clients.links import SHUTDOWN_GRACE_SECONDS, Run

_TELL_SECONDS = 10.0


@dataclass(frozen=True)
class _Clients:
    connection: Connection
    coordinator: subprocess.Popen[str] | None  # on client 0


_clients: list[_Clients] = []


def initialize_accelerator_system(
    device_type: str | None = None,
    enable_coordination_service: bool = True,
    num_logical_cpu_devices: int | None = None,
    experimental_reset_context: bool = False,
) -> str:
    """Choose the devices that meshes are made of, and connect the clients of the run.

    Call it before jax first uses a device. Where DTENSOR_JOBS lists several clients, it returns
    when all of them have come; see docs/multi-client.md for the environment variables.

    Args:
        device_type: "CPU", "GPU" or "TPU"; None is the best there is, in the order TPU, GPU, CPU.
        enable_coordination_service: True where there are several clients: jax's coordination
            service is how they find one another. Means nothing for one client.
        num_logical_cpu_devices: into how many devices to divide the host's CPU. None leaves the
            number as it is; with accelerators it then becomes theirs, where it can be known.
        experimental_reset_context: start jax anew if it already runs. Arrays, meshes and compiled
            programs made before must not be used afterwards; functions of `dtensor.jit` compile
            again.

    Returns:
        The device type in use.

    Raises:
        ConfigError: it has been called before, jax is already running in a way that does not fit,
            or an argument or an environment variable is malformed.
        NotFoundError: there is no device of this type, or no Pathways.
        ClientError: a client did not come in time, or the clients do not agree.
    """
    if is_initialized():
        raise ConfigError(
            f"accelerator system has already been initialized, for {config.default_device_type()}; "
            "call dtensor.shutdown_accelerator_system() first"
        )
    kind = None if device_type is None else config.checked_device_type(device_type)
    cpu_devices.check_count(num_logical_cpu_devices)
    pathways = environment.uses_pathways()
    several = environment.num_clients() > 1
    client = environment.client_id()
    environment.check_rest()
    if several and not enable_coordination_service:
        raise ConfigError(
            f"enable_coordination_service=False, but there are {environment.num_clients()} clients "
            "and jax's coordination service is how they find one another; leave it True, or unset "
            "DTENSOR_JOBS to run this client alone"
        )
    if experimental_reset_context and coordination.jax_is_running():
        _forget_jax()
    fresh = not several and not coordination.jax_is_running()
    count = jax.config.jax_num_cpu_devices  # type: ignore[attr-defined]
    cpu_devices.set_count(kind, num_logical_cpu_devices)
    if pathways:
        _start_pathways(several)
    if several:
        _connect(client)
    try:
        chosen = _choose(kind, num_logical_cpu_devices)
    except NotFoundError:
        if fresh:  # another type can still be asked for, with any number of CPU devices
            coordination.forget_cpu()
            jax.config.update("jax_num_cpu_devices", count)
        raise
    if several:
        _agree_on_type(chosen)
    config.choose(chosen)
    return chosen


initialize_multi_client = initialize_accelerator_system
initialize_tpu_system = initialize_accelerator_system


def shutdown_accelerator_system() -> None:
    """Undo `initialize_accelerator_system`, so that it can be called again.

    With several clients all must call it: they wait for one another. Arrays, meshes and compiled
    programs made before must not be used afterwards; functions of `dtensor.jit` compile again.

    Raises:
        ConfigError: the accelerator system is not initialized.
    """
    if not is_initialized():
        raise ConfigError(
            "accelerator system is not initialized; call dtensor.initialize_accelerator_system() "
            "first"
        )
    _disconnect()
    _forget_jax()
    config.choose(None)


shutdown_tpu_system = shutdown_accelerator_system


def is_initialized() -> bool:
    """Whether `initialize_accelerator_system` has been called, and not been undone."""
    return config.chosen_device_type() is not None


def _choose(kind: str | None, count: int | None) -> str:
    chosen = kind or config.preferred_device_type()
    have = len(config.local_jax_devices(chosen))
    if not have:
        raise NotFoundError(
            f"jax has no {chosen} device; it has {_available()}. Install jax for {chosen}, or let "
            "JAX_PLATFORMS name it"
        )
    if count is not None and count < have and chosen == "CPU":
        raise ConfigError(
            f"{count} logical CPU devices were asked for, but jax already runs with {have}; call "
            "initialize_accelerator_system before anything uses a jax device, or with "
            "experimental_reset_context=True"
        )
    if count is not None and count < have:
        raise ConfigError(
            f"num_logical_cpu_devices is {count}, but there are {have} {chosen} devices, each of "
            f"which needs a CPU device beside it; give at least {have}, or leave it out"
        )
    return chosen


def _available() -> str:
    devices = jax.devices()
    return f"{len(devices)} {devices[0].platform.upper()}"


def _start_pathways(several: bool) -> None:
    asked = f"environment variable {environment.PARALLEL_EXECUTOR} is 'pw'"
    if several:
        raise ConfigError(
            f"{asked}, and {environment.JOBS} lists several clients; Pathways drives all devices "
            "from one client, so unset one of the two"
        )
    if importlib.util.find_spec("pathwaysutils") is None:
        raise NotFoundError(
            f"{asked}, but Pathways is not available: there is no package pathwaysutils; install "
            "it where a Pathways cluster runs, or unset the variable to use jax's own runtime"
        )
    if "proxy" not in cpu_devices.platforms():
        raise NotFoundError(
            f"{asked}, but Pathways is not available: JAX_PLATFORMS does not name 'proxy', the "
            "Pathways server; set JAX_PLATFORMS=proxy and JAX_BACKEND_TARGET, or unset the variable"
        )
    importlib.import_module("pathwaysutils").initialize()


def _connect(client: int) -> None:
    addresses = tuple(environment.jobs())
    process = coordination.jax_process()
    if process is not None:  # by the program itself, which then answers for it
        if addresses and (process.index, process.count) != (client, len(addresses)):
            raise ConfigError(
                f"jax.distributed was initialized as process {process.index} of {process.count}, "
                f"but DTENSOR_JOBS and DTENSOR_CLIENT_ID say client {client} of {len(addresses)}; "
                "leave one of the two out"
            )
        return
    if coordination.jax_is_running():
        raise ConfigError(
            "jax already runs without the other clients of DTENSOR_JOBS; call "
            "initialize_accelerator_system before anything uses a jax device, or with "
            "experimental_reset_context=True"
        )
    bns = [address for address in addresses if ":" not in address]
    if bns:
        raise ConfigError(
            f"jax cannot reach the BNS name '{bns[0]}' of DTENSOR_JOBS; use host:port"
        )
    timeout = environment.client_timeout()
    heartbeat = environment.heartbeat_enabled()
    bind = os.environ.get("JAX_COORDINATOR_BIND_ADDRESS", "")
    run = Run(addresses, _settings(heartbeat), timeout, heartbeat, bind=bind)
    started = time.monotonic()
    coordinator = start_coordinator(run) if client == 0 else None
    try:
        connection = join(run, client, started)
    except BaseException as error:
        if coordinator is not None:
            # With an error of its own it ends by itself, when it has told the others too.
            _end(coordinator, _TELL_SECONDS if isinstance(error, ClientError) else 0.0)
        raise
    connection.watch(heartbeat)
    _clients.append(_Clients(connection, coordinator))
    jax.distributed.initialize(
        addresses[0],
        num_processes=len(addresses),
        process_id=client,
        cluster_detection_method="deactivate",
        initialization_timeout=math.ceil(timeout),
        shutdown_timeout_seconds=math.ceil(timeout) + SHUTDOWN_GRACE_SECONDS,
        heartbeat_timeout_seconds=run.heartbeat_timeout,
        # jax insists on a service in process 0. The clients use the coordinator's; nobody this one.
        coordinator_bind_address="localhost:0" if client == 0 else None,
    )


def _end(coordinator: subprocess.Popen[str], seconds: float) -> None:
    try:
        coordinator.wait(seconds)
    except subprocess.TimeoutExpired:
        coordinator.kill()
        coordinator.wait()


def _settings(heartbeat: bool) -> dict[str, str]:
    modules = {name: importlib.import_module(name) for name in ("dtensor", "jax", "jaxlib")}
    versions = {f"the version of {name}": m.__version__ for name, m in modules.items()}
    return {
        **versions,
        environment.JOB_NAME: environment.job_name(),
        environment.ENABLE_HEARTBEAT: str(heartbeat).lower(),
    }


def _disconnect() -> None:
    if not _clients:
        return
    clients = _clients.pop()
    clients.connection.leave()
    jax.distributed.shutdown()
    clients.connection.close()
    if clients.coordinator is not None:
        try:
            clients.coordinator.wait(environment.client_timeout())
        except subprocess.TimeoutExpired:
            raise ClientError("another client did not shut its accelerator system down") from None


def _agree_on_type(chosen: str) -> None:
    _, types = distributed.exchange("device type", range(environment.num_clients()), chosen)
    if distributed.odd_ones(types) is not None:
        raise ClientError(
            f"the clients chose different device types: {distributed.by_value(types)}; give all "
            "the same device_type"
        )


def _forget_jax() -> None:
    from jax.extend import backend

    from dtensor.runtime import client, eager, placement

    backend.clear_backends()
    jax.clear_caches()
    naming.forget_devices()
    distributed.forget()
    client.forget_devices()
    placement.forget_devices()
    eager.Slot.engine.forget()
