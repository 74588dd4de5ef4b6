"""What to run where a compiler for a target is missing.

The packages are those of the extras in pyproject.toml. jax pins the compilers that it was made
with, so the release of jax is named: another one would be exchanged for it.
"""

from __future__ import annotations

from importlib import metadata


def tpu_compiler() -> str:
    """The command that installs libtpu, of the release that the installed jax was made with."""
    return f'pip install "jax[tpu]=={metadata.version("jax")}"'


def gpu_compiler() -> str:
    """The command that installs the CUDA plugin of the installed jax, ptxas and libdevice."""
    return (
        f'pip install "jax[cuda12-local]=={metadata.version("jax")}" '
        "nvidia-cuda-nvcc-cu12 nvidia-cuda-runtime-cu12"
    )
