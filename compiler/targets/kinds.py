"""The kinds of TPU and GPU that programs can be compiled for, as tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

_GIB = 2**30


@dataclass(frozen=True)
class TpuKind:
    """One generation of TPU.

    Attributes:
        name: what libtpu calls it.
        largest: chips per dimension of the largest slice; its length is the number of dimensions.
        devices_per_chip: how many devices jax shows for a chip.
        memory_bytes: HBM of one device that programs may use, in bytes, as libtpu has it.
        chip_config: libtpu's name of the way the cores of a chip work together; "" is its default.
    """

    name: str
    largest: tuple[int, ...]
    devices_per_chip: int
    memory_bytes: int
    chip_config: str = ""


@dataclass(frozen=True)
class GpuKind:
    """One model of NVIDIA GPU: what XLA asks a driver for when one is there.

    Attributes:
        name: what the driver calls it.
        capability: compute capability, as (major, minor).
        accelerated: whether code may use what only this capability has, such as wgmma (`sm_90a`).
        cores: number of streaming multiprocessors.
        units_per_core: float32 units of one multiprocessor.
        clock_ghz: clock rate, in GHz.
        memory_bytes: memory of the device, in bytes.
        memory_bytes_per_second: memory bandwidth.
        l2_bytes: second-level cache, in bytes.
        shared_bytes_per_core: shared memory of one multiprocessor, in bytes.
        largest: hosts, and devices per host, that a target may have at most.
    """

    name: str
    capability: tuple[int, int]
    accelerated: bool
    cores: int
    units_per_core: int
    clock_ghz: float
    memory_bytes: int
    memory_bytes_per_second: int
    l2_bytes: int
    shared_bytes_per_core: int
    largest: tuple[int, int] = (1024, 16)


# jax shows a chip of v4 and v5p as one device ("megacore"), one of v2, v3 and v7x as two.
TPU_KINDS: Mapping[str, TpuKind] = {
    "v2": TpuKind("v2", (16, 16), 2, int(7.48 * _GIB)),
    "v3": TpuKind("v3", (32, 32), 2, int(15.48 * _GIB)),
    "v4": TpuKind("v4", (16, 16, 16), 1, int(30.75 * _GIB), "megacore"),
    "v5e": TpuKind("v5e", (16, 16), 1, int(15.75 * _GIB)),
    "v5p": TpuKind("v5p", (16, 20, 28), 1, int(95.73 * _GIB)),
    "v6e": TpuKind("v6e", (16, 16), 1, int(31.24 * _GIB)),
    "v7x": TpuKind("tpu7x", (16, 24, 24), 2, int(94.74 * _GIB)),
}

# The numbers are those of the drivers, as XLA's own descriptions of these devices have them.
GPU_KINDS: Mapping[str, GpuKind] = {
    "a100": GpuKind(
        name="NVIDIA A100-SXM4-80GB",
        capability=(8, 0),
        accelerated=False,
        cores=108,
        units_per_core=64,
        clock_ghz=1.41,
        memory_bytes=85_100_068_864,
        memory_bytes_per_second=2_039_040_000_000,
        l2_bytes=41_943_040,
        shared_bytes_per_core=167_936,
    ),
    "h100": GpuKind(
        name="NVIDIA H100 80GB HBM3",
        capability=(9, 0),
        accelerated=True,
        cores=132,
        units_per_core=128,
        clock_ghz=1.98,
        memory_bytes=84_942_979_072,
        memory_bytes_per_second=3_352_320_000_000,
        l2_bytes=52_428_800,
        shared_bytes_per_core=233_472,
    ),
    "h200": GpuKind(
        name="NVIDIA H200",
        capability=(9, 0),
        accelerated=True,
        cores=132,
        units_per_core=128,
        clock_ghz=1.98,
        memory_bytes=150_108_897_280,
        memory_bytes_per_second=4_800_000_000_000,
        l2_bytes=62_914_560,
        shared_bytes_per_core=233_472,
    ),
}
