"""What TensorFlow DTensor's meshes can be asked, under its names; global ids are positions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from dtensor.dialect.device_spec import DeviceSpec
from dtensor.dialect.errors import MeshError
from dtensor.dialect.mesh_devices import MeshDevices

if TYPE_CHECKING:
    import numpy as np


class MeshDimension(NamedTuple):
    """One axis of a mesh.

    Attributes:
        name: name of the axis.
        size: number of devices along it.

    Example:
        >>> mesh["y"]
        MeshDimension(name='y', size=4)
    """

    name: str
    size: int


_OF_JAX = ("abstract_mesh", "axis_types", "device_ids_array", "is_multi_process")


class MeshMembers:
    """The part of `Mesh` that names devices and translates to TensorFlow's names."""

    if TYPE_CHECKING:
        axes: tuple[tuple[str, int], ...]
        written: MeshDevices | None
        type_asked: str

        @property
        def axis_names(self) -> tuple[str, ...]: ...

        @property
        def sizes(self) -> tuple[int, ...]: ...

        @property
        def size(self) -> int: ...

        def axis_size(self, name: str) -> int: ...

        def axis_stride(self, name: str) -> int: ...

        def short(self) -> str: ...

        def devices(self) -> MeshDevices: ...

    if not TYPE_CHECKING:  # which then find misspelt names

        def __getattr__(self, name: str) -> Any:
            # Only names that a mesh lacks come here; jax asks its own meshes for some.
            hint = ""
            if name.startswith("_internal") or name in _OF_JAX:
                hint = "; jax has meshes of its own: jax.make_mesh makes one, and dtensor takes it"
            raise AttributeError(
                f"'Mesh' object has no attribute '{name}'{hint}", name=name, obj=self
            )

    def __enter__(self) -> NoReturn:
        raise TypeError("a Mesh is not entered; write `with dtensor.default_mesh(mesh):`")

    def __exit__(self, *error: object) -> None:
        """Do nothing: no mesh is entered."""

    @property
    def dim_names(self) -> list[str]:
        """Names of the axes, major first."""
        return list(self.axis_names)

    def shape(self) -> list[int]:
        """Sizes of the axes in devices, major first.

        Example:
            >>> mesh.shape()
            [2, 4]
        """
        return list(self.sizes)

    @property
    def strides(self) -> list[int]:
        """Per axis, how far apart in mesh positions neighbours along it are."""
        return [self.axis_stride(name) for name in self.axis_names]

    def dim_size(self, name: str) -> int:
        """Number of devices along the axis `name`; MeshError if there is no such axis.

        Example:
            >>> mesh.dim_size("y")
            4
        """
        return self.axis_size(name)

    def __getitem__(self, name: str) -> MeshDimension:
        return MeshDimension(name, self.axis_size(name))

    def coords(self, device_id: int) -> np.ndarray[Any, Any]:
        """Coordinates, one per axis, of the device of this global id.

        Raises:
            MeshError: the mesh has no device of this id.

        Example:
            >>> mesh.coords(6)
            array([1, 2])
        """
        import numpy as np

        position = device_id - self.min_global_device_id()
        if not 0 <= position < self.size:
            raise MeshError(f"{self.short()} has no device {device_id}; it has {self._id_range()}")
        return np.array([position // s % n for s, n in zip(self.strides, self.sizes, strict=True)])

    def device_location(self, device_id: int) -> list[int]:
        """Coordinates, one per axis, of the device of this global id, as a list.

        Raises:
            MeshError: the mesh has no device of this id.

        Example:
            >>> mesh.device_location(6)
            [1, 2]
        """
        location: list[int] = self.coords(device_id).tolist()
        return location

    def _location(self, device_id: int) -> dict[str, int]:
        """Coordinate on each axis, by its name, of the device of this global id."""
        return dict(zip(self.axis_names, self.device_location(device_id), strict=True))

    def unravel_index(self) -> dict[int, dict[str, int]]:
        """Coordinate on each axis, for each position in row-major order.

        Example:
            >>> mesh.unravel_index()[6]
            {'x': 1, 'y': 2}
        """
        first = self.min_global_device_id()
        return {i: self._location(first + i) for i in range(self.size)}

    def min_global_device_id(self) -> int:
        """The global id of the first device.

        Example:
            >>> mesh.min_global_device_id()
            0
        """
        return 0 if self.written is None else self.written.first_id

    def global_device_ids(self) -> np.ndarray[Any, Any]:
        """Global ids of the devices, in the shape of the mesh.

        Example:
            >>> mesh.global_device_ids()
            array([[0, 1, 2, 3],
                   [4, 5, 6, 7]])
        """
        import numpy as np

        first = self.min_global_device_id()
        ids = np.arange(first, first + self.size, dtype=np.int64)
        return ids.reshape(self.sizes) if self.size else ids

    def global_devices(self) -> list[str]:
        """Names of all devices, row-major; empty where only the local ones are known.

        Example:
            >>> mesh.global_devices()[6]
            '/job:localhost/replica:0/task:0/device:CPU:6'
        """
        return list(self.devices().all_names(self.size))

    def local_device_ids(self) -> list[int]:
        """Global ids of the devices that this client drives.

        Example:
            >>> mesh.local_device_ids()
            [0, 1, 2, 3, 4, 5, 6, 7]
        """
        first = self.min_global_device_id()
        return [first + position for position in self.devices().local_positions]

    def local_devices(self) -> list[str]:
        """Names of the devices that this client drives, in the order of `local_device_ids()`.

        Example:
            >>> mesh.local_devices()[6]
            '/job:localhost/replica:0/task:0/device:CPU:6'
        """
        return list(self.devices().local_names)

    def local_device_locations(self) -> list[dict[str, int]]:
        """Coordinates of the devices that this client drives.

        Example:
            >>> mesh.local_device_locations()[6]
            {'x': 1, 'y': 2}
        """
        return [self._location(i) for i in self.local_device_ids()]

    def num_local_devices(self) -> int:
        """How many of the devices this client drives.

        Example:
            >>> mesh.num_local_devices()
            8
        """
        return len(self.devices().local_positions)

    def is_remote(self) -> bool:
        """Whether other clients drive all of the devices.

        Example:
            >>> mesh.is_remote()
            False
        """
        return self.num_local_devices() == 0

    def device_type(self) -> str:
        """The type of the devices: "CPU", "GPU" or "TPU".

        Example:
            >>> mesh.device_type()
            'CPU'
        """
        devices = self.devices()
        names = devices.local_names or devices.names
        return DeviceSpec.from_string(names[0]).device_type if names else self.type_asked

    def is_single_device(self) -> bool:
        """Whether this is one device by itself, without axes.

        Example:
            >>> dtensor.Mesh.from_device("CPU:3").is_single_device()
            True
        """
        return not self.axes and self.written is not None and len(self.written.local_names) == 1

    @property
    def single_device(self) -> str:
        """Name of the one device of a mesh without axes; "" for other meshes."""
        return self.devices().local_names[0] if self.is_single_device() else ""

    def use_xla_spmd(self) -> bool:
        """False: programs are expanded here, never by XLA's own partitioner."""
        return False

    def _id_range(self) -> str:
        first = self.min_global_device_id()
        return f"{first} to {first + self.size - 1}"
