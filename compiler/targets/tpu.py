"""TPU slices that are not here, as libtpu describes them."""

from __future__ import annotations

import os
from typing import Any

import jax
from jax.experimental import topologies

from dtensor.compiler.targets.compilers import defaults, first_line
from dtensor.compiler.targets.kinds import TpuKind
from dtensor.compiler.targets.libtpu import check_libtpu
from dtensor.compiler.targets.target import Target
from dtensor.dialect.errors import CompileError

# Where there is no TPU, several processes may compile for one; and libtpu asks for the other two,
# at length, though a topology needs neither.
_NO_TPU = {
    "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
    "TPU_WORKER_HOSTNAMES": "localhost",
    "TPU_ACCELERATOR_TYPE": "v5litepod-8",
}


def tpu_devices(target: Target) -> list[jax.Device]:
    """The devices of a TPU slice, in libtpu's order; programs can be compiled for them, not run.

    Raises:
        NotFoundError: libtpu is not installed, or another release than jax was made with.
        CompileError: libtpu knows no such slice.
    """
    check_libtpu(target)
    info = target.info
    assert isinstance(info, TpuKind)
    options: dict[str, Any] = {"chip_config_name": info.chip_config} if info.chip_config else {}
    name = f"{info.name}:{'x'.join(map(str, target.shape))}"
    try:
        # jax has this variable set where it finds no chips.
        with defaults(_NO_TPU if os.environ.get("TPU_SKIP_MDS_QUERY") == "1" else {}):
            topology = topologies.get_topology_desc(name, "tpu", **options)
    except RuntimeError as error:
        raise CompileError(f"target {target}: libtpu answers: {first_line(error)}") from None
    return list(topology.devices)
