"""The TPU system: start it, and learn its topology."""

from __future__ import annotations

import jax

from dtensor.dialect.errors import NotFoundError
from dtensor.runtime.clients import coordination
from dtensor.runtime.naming import devices_of_type, type_of_device
from dtensor.runtime.tpu.topology import Topology, topology_of
from dtensor.runtime.tracing import is_eager


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
    if not is_eager():
        raise RuntimeError(
            "initialize_tpu_system was called inside a function that jax is tracing; call it "
            "before, outside of jit, grad and the like"
        )
    if cluster_resolver not in (None, "", "local"):
        raise TypeError(
            f"cluster_resolver is {cluster_resolver!r}; give None or 'local', for the TPUs that "
            "jax drives. Clients on several hosts find each other by DTENSOR_JOBS"
        )
    with coordination.only_asking():
        devices = devices_of_type("TPU")
        if not devices:
            raise NotFoundError(no_tpus("initialize_tpu_system"))
    return topology_of(devices)


def no_tpus(caller: str) -> str:
    """The sentence that says that there are no TPUs, and what there is."""
    try:
        devices = jax.devices()
        have = f"jax has {len(devices)} {type_of_device(devices[0])} devices"
    except RuntimeError as error:  # JAX_PLATFORMS names what cannot be started
        have = f"jax cannot start any device ({str(error).splitlines()[0]})"
    return (
        f"{caller} found no TPUs: {have}. Run on a host with TPUs and with jax[tpu] installed, and "
        "let JAX_PLATFORMS, if it is set, name tpu"
    )
