"""Running a program once for all devices, where they share one memory.

The CPU devices of a process are parts of one machine, so a program whose arguments and results are
whole on every device computes the same bits there once for each of them. One device runs it, and
the buffers of all devices are that one piece of memory. (TensorFlow's DTensor does the same.)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from dtensor.runtime import splicing
from dtensor.runtime.donation import guarded
from dtensor.runtime.executable import not_again
from dtensor.runtime.placement import jax_mesh, named_sharding
from dtensor.runtime.splicing import Program, local_program

_config: Any = jax.config


def can_run_once(program: Program) -> bool:
    """Whether one device's run of a program serves all devices of its mesh.

    They must share memory, and the program must be the same for each: whole arrays, no collectives,
    nothing that asks which device it is, and no calls of Python, which are made by each device.
    """
    devices = jax_mesh(program.mesh).devices.flat
    here = jax.process_index()
    return (
        program.mesh.size > 1
        and all(d.platform == "cpu" and d.process_index == here for d in devices)
        and all(info.layout.is_fully_replicated() for info in (*program.args, *program.results))
        and not program.donated
        and not program.host_callbacks
        and not splicing.differs_by_device(program.bytecode)
        and not splicing.has_python_callbacks(program.bytecode)
    )


def run_once(
    program: Program, name: str, names: Sequence[str]
) -> Callable[..., Sequence[jax.Array]]:
    """Runs the program of `can_run_once` on the first device of its mesh, and waits for it.

    Errors call it `name`, and its arguments by their `names`.
    """
    device = jax_mesh(program.mesh).devices.flat[0]
    jitted = jax.jit(
        not_again(local_program(program, name)),
        in_shardings=jax.sharding.SingleDeviceSharding(device),
        out_shardings=jax.sharding.SingleDeviceSharding(device),
        keep_unused=True,
    )
    shardings = [named_sharding(result.layout) for result in program.results]

    def run(*arrays: Any) -> list[jax.Array]:
        results = jitted(*[array.addressable_data(0) for array in arrays])
        return list(map(_on_all_devices, results, shardings))

    return guarded(run, names, ())


def _on_all_devices(result: jax.Array, sharding: jax.sharding.Sharding) -> jax.Array:
    if isinstance(result, jax.core.Tracer):
        return result  # the caller tells what to do
    values = np.asarray(result)  # its memory, which nothing writes to
    if _config.jax_transfer_guard_host_to_device is None:  # the guard takes its time
        return jax.make_array_from_callback(values.shape, sharding, lambda _: values)
    with jax.transfer_guard_host_to_device("allow"):  # it only looks like a transfer
        return jax.make_array_from_callback(values.shape, sharding, lambda _: values)
