"""The TPU system: start it, and learn its topology."""

from __future__ import annotations

from typing import Any

import jax

from dtensor.dialect.errors import NotFoundError
from dtensor.runtime.clients import coordination
from dtensor.runtime.naming import devices_of_type, job_name, type_of_device
from dtensor.runtime.tpu.topology import Topology, topology_of
from dtensor.runtime.tracing import is_eager

_initialized: list[Topology] = []


def initialize_tpu_system(cluster_resolver: str | None = None) -> Topology:
    """Start the TPUs, of all clients, and say where each of their cores is.

    jax keeps the TPUs it has started, so a second call changes nothing and says the same.

    Args:
        cluster_resolver: None, "" or "local": the TPUs that jax drives. Clients on several hosts
            find each other by environment variables; see docs/multi-client.md.

    Raises:
        NotFoundError: jax has no TPU.
        RuntimeError: called inside a traced function.
        TypeError: `cluster_resolver` is something else.
        MeshError: the TPUs are of several slices, or some processes drive more than others.
    """
    _check_not_traced("initialize_tpu_system")
    if not (cluster_resolver is None or cluster_resolver in ("", "local")):
        raise TypeError(
            f"cluster_resolver is {cluster_resolver!r}; give None or 'local', for the TPUs that "
            "jax drives. Clients on several hosts find each other by the environment variables "
            "DTENSOR_JOBS and DTENSOR_CLIENT_ID; see docs/multi-client.md"
        )
    with coordination.only_asking():
        devices = devices_of_type("TPU")
        if not devices:
            raise NotFoundError(no_tpus("initialize_tpu_system"))
    topology = topology_of(devices)
    _initialized[:] = [topology]
    return topology


def initialize_system(
    embedding_config: None = None,
    job: str | None = None,
    compilation_failure_closes_chips: bool = True,
    tpu_cancellation_closes_chips: None = None,
) -> bytes:
    """Start the TPUs as `initialize_tpu_system` does, and give their topology in bytes.

    Args:
        embedding_config: None; there are no embedding tables in hardware.
        job: name of the job all clients belong to; None takes it for granted.
        compilation_failure_closes_chips: True; what a failed compilation does to the chips is up
            to jax's TPU runtime and cannot be chosen.
        tpu_cancellation_closes_chips: None, for the same reason.

    Returns:
        A TopologyProto in protobuf's wire format, which `Topology(serialized=...)` reads.

    Raises:
        ValueError: an argument asks for something that cannot be had.
        TypeError: `job` is not a string.
        NotFoundError: jax has no TPU.
        RuntimeError: called inside a traced function.
    """
    _check_not_traced("initialize_system")
    if embedding_config is not None:
        raise ValueError(
            "embedding_config cannot be honoured: jax has no embedding tables in TPU hardware; "
            "leave it out, and lay the table out over a mesh as any other array"
        )
    _check_closing("compilation_failure_closes_chips", compilation_failure_closes_chips, True)
    _check_closing("tpu_cancellation_closes_chips", tpu_cancellation_closes_chips, None)
    _check_job(job)
    return initialize_tpu_system().serialized()


def shutdown_system(job: str | None = None) -> None:
    """Undo `initialize_tpu_system`; jax keeps the chips until the process ends.

    Args:
        job: name of the job all clients belong to; None takes it for granted.

    Raises:
        ValueError: the TPU system is not initialised, or `job` is another one.
        TypeError: `job` is not a string.
        RuntimeError: called inside a traced function.
    """
    _check_not_traced("shutdown_system")
    _check_job(job)
    if not _initialized:
        raise ValueError(
            "the TPU system is not initialised; call dtensor.tpu.initialize_tpu_system first"
        )
    _initialized.clear()


def no_tpus(caller: str) -> str:
    """The sentence that says that there are no TPUs, and what there is."""
    try:
        devices = jax.devices()
    except RuntimeError as error:  # JAX_PLATFORMS names what cannot be started
        have = f"jax cannot start any device ({str(error).splitlines()[0]})"
    else:
        have = (
            f"jax has {len(devices)} {type_of_device(devices[0])} device{'s'[: len(devices) != 1]}"
        )
    return (
        f"{caller} found no TPUs: {have}. Run on a host with TPUs and with jax[tpu] installed, and "
        "let JAX_PLATFORMS, if it is set, name tpu"
    )


def _check_not_traced(caller: str) -> None:
    if not is_eager():
        raise RuntimeError(
            f"{caller} was called inside a function that jax is tracing; call it before, outside "
            "of jit, grad and the like"
        )


def _check_closing(name: str, value: Any, only: bool | None) -> None:
    if value is not only:
        raise ValueError(
            f"{name} is {value!r}, which cannot be honoured: what happens to the chips then is up "
            "to jax's TPU runtime; leave it out"
        )


def _check_job(job: str | None) -> None:
    if job is None:
        return
    if not isinstance(job, str):
        raise TypeError(f"job is of type {type(job).__name__}; give a job's name, or leave it out")
    if job != job_name():
        raise ValueError(
            f"there is no job '{job}'; all clients belong to '{job_name()}', which the environment "
            "variable DTENSOR_JOB_NAME can name"
        )
