"""The compilers of targets: what they read, how a missing one is installed, what their errors say.

The packages are those of the extras in pyproject.toml. jax pins the compilers that it was made
with, so the release of jax is named: another one would be exchanged for it.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator, Mapping
from importlib import metadata

from dtensor.compiler.targets.target import Target
from dtensor.dialect.callbacks import target_of
from dtensor.dialect.context import make_context, parse_module
from dtensor.dialect.diagnostics import LocatedError, Place, place_of
from dtensor.dialect.errors import CompileError, DTensorError, NotFoundError
from dtensor.dialect.mlir import ir
from dtensor.passes.program import CUSTOM_CALL

_STATUS = re.compile(r"^[A-Z_]+: ")
_UNKNOWN_CALL = re.compile(r"(?:custom call to|FFI handler registered for) (\S+) ")


@contextlib.contextmanager
def defaults(variables: Mapping[str, str]) -> Iterator[None]:
    """Within, these variables are set, where they were not: libraries read them once."""
    added = {name: value for name, value in variables.items() if name not in os.environ}
    os.environ.update(added)
    try:
        yield
    finally:
        for name in added:
            os.environ.pop(name, None)


def tpu_compiler() -> str:
    """The command that installs libtpu, of the release that the installed jax was made with."""
    return f'pip install "jax[tpu]=={metadata.version("jax")}"'


def gpu_compiler() -> str:
    """The command that installs the CUDA plugin of the installed jax, ptxas and libdevice."""
    return (
        f'pip install "jax[cuda12-local]=={metadata.version("jax")}" '
        "nvidia-cuda-nvcc-cu12 nvidia-cuda-runtime-cu12"
    )


def first_line(error: BaseException) -> str:
    """The first line of an error, without its status code."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return _STATUS.sub("", lines[0].strip())


def refused_here(error: RuntimeError, name: str, program: bytes, filename: str) -> CompileError:
    """What to raise where XLA refuses the program `name` on this machine.

    Args:
        error: XLA's.
        name: what the program is called.
        program: the module that XLA was given, as bytecode.
        filename: what messages call the source of it.
    """
    unknown = _UNKNOWN_CALL.search(str(error))
    if unknown is None:
        return CompileError(f"{name}: XLA cannot compile it: {error}")
    found: list[Place | None] = []

    def collect(op: ir.Operation) -> ir.WalkResult:
        if op.name == CUSTOM_CALL:
            is_unknown = target_of(op.operation) == unknown[1]
            found.extend([place_of(op.operation)] if is_unknown else [])
        return ir.WalkResult.ADVANCE

    with make_context():
        parse_module(program, filename).operation.walk(collect)
    return LocatedError(
        found[0] if found else None,
        f"nothing that runs custom call @{unknown[1]} is registered on this machine; register it "
        "with jax.ffi.register_ffi_target, or compile for the machine that has it",
    )


def explained(error: RuntimeError, name: str, target: Target, devices: int) -> DTensorError:
    """What to raise where XLA cannot compile the program `name` for `devices` of a target."""
    text = first_line(error)
    if "libdevice" in text or "ptxas" in text:
        return NotFoundError(
            f"compiling {name} for {target} needs CUDA's compiler ({text}); run {gpu_compiler()}, "
            "or set XLA_FLAGS=--xla_gpu_cuda_data_dir to a folder with CUDA"
        )
    have = target.device_count
    if "device assignment" in text and devices < have:
        return CompileError(
            f"{name}: {target} runs programs on all of its {have} devices only, and the mesh has "
            f"{devices}; make a mesh of {have}, or name a smaller target"
        )
    return CompileError(f"{name}: XLA cannot compile it for {target}: {text}")
