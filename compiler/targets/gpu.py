"""NVIDIA GPUs that are not here, as XLA's CUDA plugin compiles for them."""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

import jax
from jax.experimental import topologies

from dtensor.compiler.targets.compilers import defaults, first_line, gpu_compiler
from dtensor.compiler.targets.kinds import GpuKind
from dtensor.compiler.targets.target import Target
from dtensor.dialect.errors import CompileError, NotFoundError

_PLUGINS = ("jax_plugins.xla_cuda12", "jax_plugins.xla_cuda13")
_NO_CHECKS = {"JAX_SKIP_CUDA_CONSTRAINTS_CHECK": "1"}


def gpu_devices(target: Target) -> list[jax.Device]:
    """The devices of some hosts with GPUs; programs can be compiled for them, not run.

    Raises:
        NotFoundError: jax's CUDA plugin is not installed.
        CompileError: the plugin does not start, or refuses the description.
    """
    plugin = next((name for name in _PLUGINS if _is_installed(name)), None)
    if plugin is None:
        raise NotFoundError(
            f"compiling for {target} needs jax's CUDA plugin, which is not installed; run "
            f"{gpu_compiler()}"
        )
    info = target.info
    assert isinstance(info, GpuKind)
    hosts, devices = target.shape
    options: dict[str, Any] = {
        "target_config": target_config(info),
        "topology": f"1x{hosts}x{devices}",  # slices, hosts of each, devices of each
    }
    try:
        return list(_describe(target, options, plugin).devices)
    except (RuntimeError, ValueError) as error:
        raise CompileError(
            f"target {target}: jax's CUDA plugin answers: {first_line(error)}"
        ) from None


def target_config(info: GpuKind) -> str:
    """The device as a GpuTargetConfigProto of XLA, in protobuf's text form."""
    extension = "ACCELERATED_FEATURES" if info.accelerated else "NONE"
    major, minor = info.capability
    return f"""
      gpu_device_info {{
        threads_per_block_limit: 1024
        threads_per_warp: 32
        threads_per_core_limit: 2048
        shared_memory_per_block: 49152
        shared_memory_per_block_optin: {info.shared_bytes_per_core - 1024}
        shared_memory_per_core: {info.shared_bytes_per_core}
        registers_per_block_limit: 65536
        registers_per_core_limit: 65536
        block_dim_limit_x: 2147483647
        block_dim_limit_y: 65535
        block_dim_limit_z: 65535
        core_count: {info.cores}
        fpus_per_core: {info.units_per_core}
        clock_rate_ghz: {info.clock_ghz}
        device_memory_size: {info.memory_bytes}
        memory_bandwidth: {info.memory_bytes_per_second}
        l2_cache_size: {info.l2_bytes}
        cuda_compute_capability {{ major: {major} minor: {minor} feature_extension: {extension} }}
      }}
      platform_name: "CUDA"
      dnn_version_info {{ major: 9 minor: 10 patch: 0 }}
      runtime_version {{ major: 12 minor: 9 patch: 0 }}
      device_description_str: "{info.name}"
    """


def _describe(target: Target, options: dict[str, Any], plugin: str) -> Any:
    try:
        return topologies.get_topology_desc(target.kind, "cuda", **options)
    except NotImplementedError:
        # jax starts its plugins once, and this one starts only where all of CUDA is installed; to
        # compile, it need not be.
        with defaults(_NO_CHECKS):
            importlib.import_module(plugin).initialize()
        return topologies.get_topology_desc(target.kind, "cuda", **options)


def _is_installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # the package around it
        return False
