"""Starting and stopping what meshes are made of: the devices, and the other clients of the run."""

from __future__ import annotations

import importlib
import math
import os
from numbers import Integral

import jax

from dtensor.dialect.errors import ConfigError, NotFoundError
from dtensor.runtime import naming
from dtensor.runtime.clients import agreement, config, coordination, environment
from dtensor.runtime.clients.losses import HEARTBEAT_SECONDS, Watch
from dtensor.runtime.clients.meeting import meeting
from dtensor.runtime.clients.reaching import listen_where_others_reach

_SETTINGS = {
    environment.JOBS: environment.jobs,
    environment.JOB_NAME: environment.job_name,
    environment.ENABLE_HEARTBEAT: environment.heartbeat_enabled,
    "XLA_FLAGS": environment.xla_flags,
}
"""What all clients must have alike, and the questions that refuse a malformed value."""

_watches: list[Watch] = []


def initialize_accelerator_system(
    device_type: str | None = None,
    enable_coordination_service: bool = True,
    num_logical_cpu_devices: int | None = None,
    experimental_reset_context: bool = False,
) -> str:
    """Choose the devices that meshes are made of, and connect the clients of the run.

    Call it before jax first uses a device. Another call that asks for what there is by then, as of
    the cell of a notebook, does nothing. Where DTENSOR_JOBS lists several clients, it returns
    when all of them have come; see docs/multi-client.md for the environment variables.

    Args:
        device_type: "CPU", "GPU" or "TPU"; None is the best there is, in the order TPU, GPU, CPU.
        enable_coordination_service: True where there are several clients: jax's coordination
            service is how they find one another. Means nothing for one client.
        num_logical_cpu_devices: into how many devices to divide the host's CPU. None leaves the
            number as it is.
        experimental_reset_context: start jax anew if it already runs. Arrays made before are
            deleted, and programs compiled before must not be used afterwards; functions of
            `dtensor.jit` compile again.

    Returns:
        The device type in use.

    Raises:
        ConfigError: it has been called before for other devices, jax is already running in a way
            that does not fit, or an argument or an environment variable is malformed.
        NotFoundError: there is no device of this type.
        ClientError: a client did not come in time, or the clients do not agree.

    Example:
        >>> dtensor.initialize_accelerator_system("CPU")
        'CPU'
    """
    kind = None if device_type is None else config.checked_device_type(device_type)
    count = _checked_count(num_logical_cpu_devices)
    if config.chosen is not None:
        return _chosen_before(kind, count, experimental_reset_context)
    several = environment.num_clients() > 1
    environment.refuse_executor()
    environment.refuse_misspelt()
    for question in (environment.client_id, environment.client_timeout, *_SETTINGS.values()):
        question()  # a malformed variable is an error also where it is not needed
    if several and not enable_coordination_service:
        raise ConfigError(
            f"enable_coordination_service=False, but there are {environment.num_clients()} clients "
            "and jax's coordination service is how they find one another; leave it True, or unset "
            "DTENSOR_JOBS, or set DTENSOR_NUM_CLIENTS=1, to run this client alone"
        )
    if experimental_reset_context and coordination.jax_is_running():
        coordination.forget_jax()
    fresh = not coordination.jax_is_running()
    before = jax.config.jax_num_cpu_devices  # type: ignore[attr-defined]
    if count is not None and fresh:
        jax.config.update("jax_num_cpu_devices", count)
    if several:
        _connect(environment.seat())
    try:
        chosen = _choose(kind, count)
    except NotFoundError:
        if fresh and not several:  # another type can still be asked for, with any number of CPUs
            coordination.forget_cpu()
            jax.config.update("jax_num_cpu_devices", before)
        raise
    if several:
        everyone = range(environment.num_clients())
        agreement.agree("device type", everyone, {"the device type": chosen}, "give all the same")
    config.chosen = chosen
    return chosen


initialize_multi_client = initialize_accelerator_system
initialize_tpu_system = initialize_accelerator_system


def shutdown_accelerator_system() -> None:
    """Undo `initialize_accelerator_system`, so that it can be called again.

    With several clients all must call it: they wait for one another. Arrays made before are
    deleted, and programs compiled before must not be used afterwards; `dtensor.jit` compiles again.

    Raises:
        ConfigError: the accelerator system is not initialized.
    """
    if config.chosen is None:
        raise ConfigError(
            "accelerator system is not initialized; call dtensor.initialize_accelerator_system() "
            "first"
        )
    if _watches:
        _watches.pop().leave()
    coordination.forget_jax()
    config.chosen = None


shutdown_tpu_system = shutdown_accelerator_system


def _checked_count(count: int | None) -> int | None:
    if count is None:
        return None
    if isinstance(count, bool) or not isinstance(count, Integral) or count < 1:
        raise ConfigError(f"num_logical_cpu_devices is {count!r}; it must be a positive integer")
    if count > _MOST_CPU_DEVICES:
        raise ConfigError(
            f"{count:,} logical CPU devices were asked for, and jax has at most "
            f"{_MOST_CPU_DEVICES:,} in a process; plan for more on a Mesh.abstract, or with "
            "dtensor-opt"
        )
    return int(count)


_MOST_CPU_DEVICES = 2048  # the ids that jax gives those of one process


def _choose(kind: str | None, count: int | None) -> str:
    chosen = kind or config.preferred_device_type()
    if not config.local_jax_devices(chosen):
        platform = naming.first_device().platform
        raise NotFoundError(
            f"jax has no {chosen} device; it has {len(jax.devices())} {platform.upper()}. "
            f"Install jax for {chosen}, or let JAX_PLATFORMS name it"
        )
    if count is None:
        return chosen
    cpus = len(config.local_jax_devices("CPU"))
    if count > cpus or (chosen == "CPU" and count < cpus):
        raise ConfigError(
            f"{count} logical CPU devices were asked for, but jax already runs with {cpus}; call "
            "initialize_accelerator_system before anything uses a jax device, or with "
            "experimental_reset_context=True"
        )
    return chosen


def _chosen_before(kind: str | None, count: int | None, reset: bool) -> str:
    """What an earlier call chose, if this one would choose the same."""
    assert config.chosen is not None
    is_kind = (kind or config.preferred_device_type()) == config.chosen
    if is_kind and not reset and count in (None, len(config.local_jax_devices("CPU"))):
        return config.chosen
    raise ConfigError(
        f"accelerator system has already been initialized, for {config.chosen} with "
        f"{len(config.local_jax_devices(config.chosen))} devices here; to have others, call "
        "dtensor.shutdown_accelerator_system() first, which deletes all arrays"
    )


def _connect(seat: environment.Seat | None) -> None:
    process = coordination.jax_process()
    if process is not None:  # by the program itself, which then answers for it
        if seat is not None and process != (seat.index, seat.count):
            raise ConfigError(
                f"jax.distributed was initialized as process {process[0]} of {process[1]}, but "
                f"{seat.source} say client {seat.index} of {seat.count}; leave one of the two out"
            )
        return
    assert seat is not None  # without jax.distributed, it is what several clients come from
    if coordination.jax_is_running():
        raise ConfigError(
            f"jax already runs without the other clients of {seat.source}; call "
            "initialize_accelerator_system before anything uses a jax device, or with "
            "experimental_reset_context=True"
        )
    seconds = environment.client_timeout()
    heartbeat = environment.heartbeat_enabled()
    options = {"heartbeat_timeout_seconds": HEARTBEAT_SECONDS} if heartbeat else {}
    with meeting(seat, seconds) as (address, hosts):
        listen_where_others_reach(hosts)
        jax.distributed.initialize(
            address,
            seat.count,
            seat.index,
            None if "JAX_LOCAL_DEVICE_IDS" in os.environ else seat.devices,
            cluster_detection_method="deactivate",
            initialization_timeout=math.ceil(seconds),
            shutdown_timeout_seconds=math.ceil(seconds),
            **options,  # type: ignore[arg-type]
        )
        packages = {name: importlib.import_module(name) for name in ("dtensor", "jax", "jaxlib")}
        own = {f"the version of {name}": each.__version__ for name, each in packages.items()}
        own |= {name: str(question()) for name, question in _SETTINGS.items()}
        agreement.agree("settings", range(seat.count), own, "all clients must have the same")
    _watches.append(Watch(seat, heartbeat))
