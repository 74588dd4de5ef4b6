"""TPU slices without hardware: devices that only know their place, as jax numbers them."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class FakeTpu:
    """What jax's TpuDevice says about itself."""

    id: int
    process_index: int
    coords: tuple[int, int, int]
    core_on_chip: int = 0
    slice_index: int = 0
    platform: str = "tpu"
    device_kind: str = "fake TPU"


def tpu_slice(
    sizes: Sequence[int],
    host: Sequence[int] = (2, 2, 1),
    origin: Sequence[int] = (0, 0, 0),
    slice_index: int = 0,
    device_kind: str = "fake TPU",
) -> list[FakeTpu]:
    """The devices of a slice, process by process.

    Args:
        sizes: cores along x, y, z and core; ids go up along core first, then x, y and z.
        host: chips of one process along x, y and z.
        origin: coordinates of the first chip.
        slice_index: number of the slice.
        device_kind: what jax calls the devices.
    """
    x_size, y_size, z_size, cores = sizes
    hosts_x, hosts_y = -(-x_size // host[0]), -(-y_size // host[1])
    devices = []
    for number, (z, y, x, core) in enumerate(
        itertools.product(range(z_size), range(y_size), range(x_size), range(cores))
    ):
        process = (z // host[2] * hosts_y + y // host[1]) * hosts_x + x // host[0]
        at = (x + origin[0], y + origin[1], z + origin[2])
        devices.append(FakeTpu(number, process, at, core, slice_index, device_kind=device_kind))
    return sorted(devices, key=lambda device: (device.process_index, device.id))
