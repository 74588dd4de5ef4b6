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
from dtensor.dialect.errors import CompileError, DTensorError, NotFoundError

_STATUS = re.compile(r"^[A-Z_]+: ")


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
