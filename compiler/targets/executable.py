"""A program compiled for a machine that is not here: all of an executable but running it."""

from __future__ import annotations

import dataclasses
import warnings
from functools import cache, cached_property
from typing import Any, NoReturn

import jax

from dtensor.compiler.program import ArrayInfo, CompiledProgram
from dtensor.compiler.progress import progress
from dtensor.compiler.targets.compilers import explained, first_line
from dtensor.compiler.targets.gpu import gpu_devices
from dtensor.compiler.targets.target import Target, check_mesh, not_callable
from dtensor.compiler.targets.tpu import tpu_devices
from dtensor.dialect.errors import CompileError
from dtensor.dialect.layout import Layout
from dtensor.dialect.mesh import Mesh
from dtensor.runtime.client import bind_devices
from dtensor.runtime.executable import Executable, jit_program

_DEVICES = {"tpu": tpu_devices, "gpu": gpu_devices}


class TargetExecutable(Executable):
    """A program compiled for the devices of a target.

    Args:
        program: what to compile.
        name: name of the program in the compiled HLO.
        target: what for.

    Raises:
        CompileError: the mesh does not fit the target, or the program calls Python functions.
        NotFoundError: what compiles for the target is not installed.
    """

    def __init__(self, program: CompiledProgram, name: str, target: Target) -> None:
        self._name = name
        self._target = target
        if program.host_callbacks:
            raise CompileError(
                f"{name} calls Python functions (jax.debug.print, pure_callback or io_callback), "
                f"which a program compiled ahead of time for {target} cannot hold; leave them out"
            )
        _refuse_types(program, target)
        self.program = _placed(program, target)
        self._jitted = jit_program(self.program, name)
        self.run = self._refuse

    @cached_property
    def compiled(self) -> jax.stages.Compiled:
        """XLA's executable for the target."""
        try:
            with warnings.catch_warnings():
                # A GPU's program can be kept in jax's cache, but not read back without a GPU.
                warnings.filterwarnings("ignore", "Error reading persistent compilation cache")
                with progress(f"compiling {self._name} for {self._target}"):
                    return self.lowered.compile()
        except RuntimeError as error:
            size = self.program.mesh.size
            raise explained(error, self._name, self._target, size) from None

    def as_text(self) -> str:
        """The HLO optimised for the target.

        Raises:
            CompileError: the compiler of the target writes it in a form that this jaxlib lacks.
        """
        try:
            return super().as_text()
        except RuntimeError as error:
            raise CompileError(
                f"{self._name} is compiled for {self._target}, but jaxlib cannot read its HLO "
                f"({first_line(error)}); install the compiler of the same age as jaxlib, for a TPU "
                'with pip install "jax[tpu]"'
            ) from None

    def _refuse(self, *arrays: Any) -> NoReturn:
        raise not_callable(self._name, self._target)


def _refuse_types(program: CompiledProgram, target: Target) -> None:
    """Raise CompileError where XLA's answer would be to end the process."""
    for info in (*program.args, *program.results):
        if target.platform == "tpu" and info.dtype == "complex128":
            raise CompileError(
                f"{info.name} is of type complex128, which a TPU can neither take nor return; "
                "use complex64"
            )


@cache
def target_mesh(mesh: Mesh, target: Target) -> Mesh:
    """The mesh over a target's devices, the first ones in their order where there are more.

    Raises:
        CompileError: it does not fit, or there is no such machine.
        NotFoundError: what describes the target is not installed.
    """
    check_mesh(mesh, target)
    devices = _devices(target)[: mesh.size]
    words = "_".join([mesh.name or "mesh", target.platform, target.kind, *map(str, target.shape)])
    return bind_devices(Mesh(mesh.axes, [d.id for d in devices], name=words), devices)


@cache
def _devices(target: Target) -> list[jax.Device]:
    return _DEVICES[target.platform](target)


def _placed(program: CompiledProgram, target: Target) -> CompiledProgram:
    """The program over the target's devices instead of its own mesh's."""
    mesh = target_mesh(program.mesh, target)

    def placed(info: ArrayInfo) -> ArrayInfo:
        return dataclasses.replace(info, layout=Layout.of(info.layout.dims, mesh))

    return dataclasses.replace(
        program,
        mesh=mesh,
        args=tuple(map(placed, program.args)),
        results=tuple(map(placed, program.results)),
    )
