"""The machines that plans can be made for by name, with where their numbers come from.

Peaks are those of data sheets: dense, without sparsity. Start-up times are of one collective of a
few bytes: not on data sheets, so of the order that published measurements have (NCCL's own tests
for GPUs; one microsecond and less per hop on TPUs). Numbers of one device, as jax counts devices.
"""

from __future__ import annotations

from typing import Final

from dtensor.passes.cost.machine import Level, Machine
from dtensor.passes.cost.model import Link

_GIB: Final = 2**30


def _tpu(
    name: str,
    slice_devices: int,
    ici_bytes: float,
    dcn_bytes: float,
    peaks: tuple[tuple[str, float], ...],
    vector_flops: float,
    memory: tuple[float, float],
) -> Machine:
    """A TPU slice: a torus inside, the data-centre network between slices.

    A mesh axis is a ring along one dimension of the torus: two links, one each way. Products of the
    highest precision take six of bf16. `memory` is its bytes per second, and the GiB that programs
    may use, as libtpu has them.
    """
    peaks = (("f32_highest", dict(peaks)["bf16"] / 6), *peaks)
    levels = (
        Level("ICI", slice_devices, Link(2e-6, 2 * ici_bytes)),
        Level("data-centre network", None, Link(3e-5, dcn_bytes)),
    )
    bandwidth, gib = memory
    return Machine(name, levels, peaks, vector_flops, bandwidth, int(gib * _GIB), "tpu")


def _hopper(name: str, memory_bytes_per_second: float, memory_bytes: int) -> Machine:
    """An H100 or H200 by NVIDIA's data sheets, SXM, and that of DGX H100.

    NVLink 900 GB/s both ways together, 8 devices per host, one 400 Gb/s NDR port each; Tflop/s:
    989.4 bf16, 494.7 TF32, 1,978.9 fp8, 66.9 fp32 and fp64 tensor.
    """
    levels = (
        Level("NVLink", 8, Link(1.2e-5, 450e9)),
        Level("InfiniBand", None, Link(2.5e-5, 50e9)),
    )
    halves = (("bf16", 989.4e12), ("f16", 989.4e12))
    bytes_ = (("f8", 1978.9e12), ("i8", 1978.9e12))
    singles = (("f32_highest", 66.9e12), ("f32", 494.7e12))
    peaks = (("f64", 66.9e12), *singles, *halves, *bytes_)
    return Machine(name, levels, peaks, 66.9e12, memory_bytes_per_second, memory_bytes)


MACHINES: Final[dict[str, Machine]] = {
    "h100": _hopper("h100", 3.35e12, 80_000_000_000),
    "h200": _hopper("h200", 4.8e12, 141_000_000_000),
    # NVIDIA A100 80GB data sheet, SXM: NVLink 600 GB/s both ways together, 312 Tflop/s bf16, 156
    # TF32, 624 int8, 19.5 fp32 and fp64 tensor, 2.039 TB/s; DGX A100: 200 Gb/s HDR per GPU.
    "a100": Machine(
        "a100",
        (
            Level("NVLink", 8, Link(1.5e-5, 300e9)),
            Level("InfiniBand", None, Link(3e-5, 25e9)),
        ),
        (
            ("f64", 19.5e12),
            ("f32_highest", 19.5e12),
            ("f32", 156e12),
            ("bf16", 312e12),
            ("f16", 312e12),
            ("i8", 624e12),
        ),
        19.5e12,
        2.039e12,
        80_000_000_000,
    ),
    # cloud.google.com/tpu/docs, system architecture of each generation: peak compute, HBM, ICI per
    # chip (2,400, 1,600, 4,800 and 3,200 Gbit/s over 6, 4, 6 and 4 links); network per host as in
    # "How to Scale Your Model" (Google DeepMind, 2025), which has the vector units as well.
    "v4": _tpu(
        "v4", 4096, 45e9, 6.25e9, (("bf16", 275e12), ("i8", 275e12)), 4.3e12, (1.228e12, 30.75)
    ),
    "v5e": _tpu(
        "v5e", 256, 45e9, 3.125e9, (("bf16", 197e12), ("i8", 394e12)), 6.1e12, (819e9, 15.75)
    ),
    "v5p": _tpu(
        "v5p", 8960, 90e9, 6.25e9, (("bf16", 459e12), ("i8", 918e12)), 14e12, (2.765e12, 95.73)
    ),
    "v6e": _tpu(
        "v6e", 256, 90e9, 12.5e9, (("bf16", 918e12), ("i8", 1836e12)), 7.2e12, (1.64e12, 31.24)
    ),
    # One host of 16 cores whose devices are threads: collectives copy through memory. Estimates.
    "cpu": Machine(
        "cpu",
        (Level("shared memory", None, Link(2e-5, 5e9)),),
        (("f64", 5e10), ("f32", 1e11), ("bf16", 5e10)),
        2e10,
        2e10,
        8 * _GIB,
        "cpu",
    ),
}

# What jax calls the devices, where it can tell; longer texts first.
DEVICE_KINDS: Final[tuple[tuple[str, str], ...]] = (
    ("h100", "h100"),
    ("h200", "h200"),
    ("a100", "a100"),
    ("tpu v4", "v4"),
    ("tpu v5 lite", "v5e"),
    ("tpu v5e", "v5e"),
    ("tpu v5p", "v5p"),
    ("tpu v5", "v5p"),
    ("tpu v6", "v6e"),
)


def machine_of_kind(kind: str) -> Machine | None:
    """The machine whose devices jax, or a target, calls so; None if none is known."""
    if kind in MACHINES and kind != "cpu":
        return MACHINES[kind]
    return next((MACHINES[name] for text, name in DEVICE_KINDS if text in kind.lower()), None)
