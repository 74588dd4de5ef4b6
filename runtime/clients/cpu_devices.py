"""Into how many devices the host's CPU is divided, which is settled when jax starts."""

from __future__ import annotations

import importlib.util
import os
import re
from numbers import Integral
from pathlib import Path
from typing import Any

import jax

from dtensor.dialect.errors import ConfigError
from dtensor.runtime import naming
from dtensor.runtime.clients import coordination

_FLAG = re.compile(r"--xla_force_host_platform_device_count=(\d+)")
_PLUGINS = {
    "GPU": ("jax_cuda12_plugin", "jax_cuda13_plugin", "jax_rocm60_plugin", "jax_rocm7_plugin"),
    "TPU": ("libtpu",),
}
_DEVICE_FILES = {"GPU": ("nvidia[0-9]*", "dri/renderD*"), "TPU": ("accel[0-9]*", "vfio/[0-9]*")}
_values: Any = jax.config  # its values are attributes that carry no types


def count_at_start() -> int:
    """How many CPU devices jax will have when it starts, as it is set up now."""
    if _values.jax_num_cpu_devices >= 0:
        return int(_values.jax_num_cpu_devices)
    found = _FLAG.findall(os.environ.get("XLA_FLAGS", ""))
    return int(found[-1]) if found else 1


def check_count(count: int | None) -> None:
    """Raise ConfigError unless `count` is a number of devices, or None."""
    if count is None:
        return
    if isinstance(count, bool) or not isinstance(count, Integral) or count < 1:
        raise ConfigError(f"num_logical_cpu_devices is {count!r}; it must be a positive integer")


def set_count(device_type: str | None, count: int | None) -> None:
    """Have at least `count` CPU devices, or with None as many as there may be accelerators.

    Args:
        device_type: the type of accelerator that will be used; None if that is open.
        count: number of devices.

    Raises:
        ConfigError: jax already runs with fewer.
    """
    if coordination.jax_is_running():
        have = len(jax.local_devices(backend="cpu"))
        if count is not None and have < count:
            raise ConfigError(
                f"{count} logical CPU devices were asked for, but jax already runs with {have}; "
                "call initialize_accelerator_system before anything uses a jax device, or with "
                "experimental_reset_context=True"
            )
        return
    if count is None:
        accelerators = _accelerators(device_type)
        count = accelerators if accelerators > count_at_start() else None
    if count is not None:
        jax.config.update("jax_num_cpu_devices", int(count))


def platforms() -> list[str]:
    """The platforms that JAX_PLATFORMS names; empty if it leaves the choice to jax."""
    return _values.jax_platforms.split(",") if _values.jax_platforms else []


def _accelerators(device_type: str | None) -> int:
    # How many there may be, without starting them. One too many does no harm.
    for kind, plugins in _PLUGINS.items():
        named = any(platform in platforms() for platform in naming.PLATFORMS[kind])
        usable = named or (not platforms() and any(map(importlib.util.find_spec, plugins)))
        if device_type in (kind, None) and usable:
            counts = [len(list(Path("/dev").glob(pattern))) for pattern in _DEVICE_FILES[kind]]
            if max(counts):
                return max(counts)
    return 0
