"""What XLA's errors say, in one line and with what to do."""

from __future__ import annotations

import re

from dtensor.compiler.targets.install import gpu_compiler
from dtensor.compiler.targets.target import Target
from dtensor.dialect.errors import CompileError, DTensorError, NotFoundError

_STATUS = re.compile(r"^[A-Z_]+: ")


def first_line(error: BaseException) -> str:
    """The first line of an error, without its status code."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return _STATUS.sub("", lines[0].strip())


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
