"""Running the programs of a block: on all devices with shards from the host, and on one device."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

from dtensor.compiler.program import ArrayInfo, CompiledProgram
from dtensor.compiler.verification.blocks import ALONE, Program, Value
from dtensor.compiler.verification.parts import Parted, Parts
from dtensor.compiler.verification.shards import Shards
from dtensor.dialect.mesh import Mesh
from dtensor.runtime.executable import filled, prepare_lapack, without_empty
from dtensor.runtime.placement import jax_mesh
from dtensor.runtime.splicing import local_program

# A narrow intermediate value is rounded wherever it is looked at; it must be so everywhere else.
# Without optimisation LLVM keeps the halves in a fusion as floats. The barriers that hold what is
# looked at (`extract.hold_results`) stand until XLA has fused. XLA makes one kernel of a small
# loop, and cannot emit that with a barrier in it.
_ROUND_AS_WRITTEN: dict[str, Any] = {
    "xla_allow_excess_precision": False,
    "xla_backend_optimization_level": 1,
    "xla_disable_hlo_passes": "cse_barrier_expander,small-while-loop-hoisting",
}
Found = dict[int, Shards]


class Runner:
    """Runs programs on the devices of a mesh.

    Args:
        mesh: the mesh.
        callbacks: Python functions that programs call, by callback index.
        keepalives: what must live as long as they do.
    """

    def __init__(
        self,
        mesh: Mesh,
        callbacks: Sequence[Callable[..., Any]] = (),
        keepalives: Sequence[object] = (),
    ) -> None:
        self.mesh = mesh
        self._jax_mesh = jax_mesh(mesh)
        self._callbacks = tuple(callbacks)
        self._keepalives = tuple(keepalives)
        self._loaded: dict[int, Callable[..., Any]] = {}

    def on_all(
        self,
        program: Program,
        values: Mapping[int, Parted],
        parts: Parts,
        as_written: bool = True,
    ) -> Found:
        """The shards of each result, by number.

        Args:
            program: a program of all devices.
            values: its arguments by number, each by the parts of the mesh.
            parts: the parts.
            as_written: whether each value is rounded where the program says so; otherwise where
                XLA does when nobody looks.
        """
        run = self._load(program, as_written)
        sharding = NamedSharding(self._jax_mesh, PartitionSpec(self._jax_mesh.axis_names))
        arguments = [
            jax.device_put(parts.cut(v, values[v.number]), sharding)
            for v in program.arguments
            if 0 not in v.shape
        ]
        results = iter(run(*arguments))
        devices = self.mesh.size
        return {
            v.number: np.zeros((devices, *v.layout.local_shape(v.shape)), np.dtype(v.dtype))
            if 0 in v.shape
            else np.asarray(next(results))
            for v in program.results
        }

    def undivided(
        self,
        program: Program,
        values: Mapping[int, Parted],
        parts: Parts,
        as_written: bool = True,
    ) -> dict[int, Parted]:
        """The results, by number, of a program in which a device has all of what its part has.

        Args:
            program: a program of one device; or of all, of which those of a part do the same.
            values: as for `on_all`.
            parts: likewise.
            as_written: likewise.
        """
        if program.mesh is not ALONE:
            shards = self.on_all(program, values, parts, as_written)
            firsts = [devices[0] for devices in parts.devices]
            return {n: [of_all[first] for first in firsts] for n, of_all in shards.items()}
        run = self._load(program, as_written)
        device = self._jax_mesh.devices.flat[0]
        arguments = [
            jax.device_put(values[v.number][0], device)
            for v in program.arguments
            if 0 not in v.shape
        ]
        results = iter(run(*arguments))
        return {
            v.number: [np.zeros(v.shape, np.dtype(v.dtype))]
            if 0 in v.shape
            else [np.asarray(next(results))]
            for v in program.results
        }

    def _load(self, program: Program, as_written: bool) -> Callable[..., Any]:
        if id(program) not in self._loaded:
            self._loaded[id(program)] = self._loader(program, as_written)
        return self._loaded[id(program)]

    def _loader(self, program: Program, as_written: bool) -> Callable[..., Any]:
        if b"lapack_" in program.bytecode:
            prepare_lapack()
        compiled = CompiledProgram(
            program.bytecode,
            program.mesh,
            tuple([_info(value) for value in program.arguments]),
            tuple([_info(value) for value in program.results]),
            host_callbacks=self._callbacks,
            keepalives=self._keepalives,
        )
        body = without_empty(compiled, local_program(compiled, "verified"))
        if not filled(compiled.results):
            return lambda *arguments: ()
        if program.mesh is ALONE:
            return _jitted(body, as_written)

        def stacked(*shards: Any) -> tuple[Any, ...]:
            return tuple([result[None] for result in body(*[shard[0] for shard in shards])])

        if self.mesh.size == 1:
            return _jitted(stacked, as_written)
        spec = PartitionSpec(self._jax_mesh.axis_names)
        mapped = jax.shard_map(
            stacked, mesh=self._jax_mesh, in_specs=spec, out_specs=spec, check_vma=False
        )
        return _jitted(mapped, as_written)


def _info(value: Value) -> ArrayInfo:
    return ArrayInfo(value.shape, value.dtype, value.layout)


def _jitted(body: Callable[..., Any], as_written: bool) -> Callable[..., Any]:
    options = dict(_ROUND_AS_WRITTEN) if as_written else None
    run: Callable[..., Any] = jax.jit(body, compiler_options=options, keep_unused=True)
    return run
