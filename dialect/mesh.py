"""The mesh: devices arranged along named axes."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dtensor.dialect.axes import AXIS_NAME, AxisRef
from dtensor.dialect.device_spec import DeviceSpec
from dtensor.dialect.errors import MeshError
from dtensor.dialect.mesh_axes import axis_pairs, checked_axis, checked_id
from dtensor.dialect.mesh_devices import MeshDevices, naming
from dtensor.dialect.mesh_members import MeshMembers

XLA_SPMD = (
    "use_xla_spmd asks for XLA's own partitioner, which dtensor takes the place of; leave it out"
)
ABSTRACT = "ABSTRACT"  # the device type of meshes without devices
_AXIS_TEXT = re.compile(r'\s*"([^"]*)"\s*=\s*(-?\d{1,18})\s*')
MOST_DEVICES = 2**24


@dataclass(frozen=True)
class Mesh(MeshMembers):
    """Devices arranged along named axes, the first axis major.

    Besides the form below there is TensorFlow's, `Mesh(dim_names, global_device_ids,
    local_device_ids, local_devices, mesh_name="", global_devices=None)`, which names the devices.

    Args:
        axes: `(name, size)` pairs, or a mapping, major axis first; sizes in devices.
        device_ids: id of the device at each mesh position, row-major; None means 0, 1, 2, ...
        name: name of the mesh, an identifier, or nothing.
        device_type: "CPU", "GPU" or "TPU"; "" is the type that meshes have by default.

    Raises:
        MeshError: a name is malformed or repeated, a size is below 1, or the ids do not fit.

    Example:
        >>> dtensor.Mesh([("data", 2), ("model", 4)])
        Mesh(data=2, model=4)
    """

    axes: tuple[tuple[str, int], ...]
    device_ids: tuple[int, ...] | None
    name: str
    type_asked: str
    written: MeshDevices | None = field(repr=False)
    _sizes: dict[str, int] = field(init=False, repr=False, compare=False)
    _hash: int = field(init=False, repr=False, compare=False)

    def __init__(
        self,
        axes: Mapping[str, int] | Iterable[tuple[str, int]] | Sequence[str] | None = None,
        device_ids: Any = None,
        local_device_ids: Sequence[int] | None = None,
        local_devices: Sequence[str | DeviceSpec] | None = None,
        mesh_name: str = "",
        global_devices: Sequence[str | DeviceSpec] | None = None,
        use_xla_spmd: bool = False,
        *,
        name: str = "",
        device_type: str = "",
        dim_names: Sequence[str] | None = None,
        global_device_ids: Any = None,
    ) -> None:
        if use_xla_spmd:
            raise MeshError(XLA_SPMD)
        given = axes if dim_names is None else dim_names
        if local_device_ids is not None or local_devices is not None or dim_names is not None:
            from dtensor.dialect.mesh_parts import checked_parts

            parts = checked_parts(
                given,
                device_ids if global_device_ids is None else global_device_ids,
                local_device_ids,
                local_devices,
                global_devices,
            )
            self._set(parts.axes, parts.ids, mesh_name or name, parts.device_type, parts.written)
            self.devices()  # from now on it is written with their names
        else:
            if global_devices is not None:
                raise MeshError(
                    "global_devices was given without local_device_ids and local_devices; give "
                    "these too, or leave it out"
                )
            self._set(() if given is None else given, device_ids, mesh_name or name, device_type)

    def _set(
        self,
        axes: Any,
        device_ids: Sequence[int] | None,
        name: str,
        device_type: str,
        written: MeshDevices | None = None,
    ) -> None:
        pairs = axis_pairs(axes)
        checked = tuple(checked_axis(pair) for pair in pairs)
        names = [axis for axis, _ in checked]
        repeated = sorted({axis for axis in names if names.count(axis) > 1})
        if repeated:
            raise MeshError(f"mesh axis '{repeated[0]}' is given twice; axis names must differ")
        size = math.prod(n for _, n in checked)
        if size > MOST_DEVICES:
            raise MeshError(f"mesh of {size:,} devices; at most {MOST_DEVICES:,} are laid out")
        ids = None if device_ids is None else tuple(map(checked_id, device_ids))
        if ids is not None and len(ids) != size:
            raise MeshError(
                f"mesh of {size} devices was given {len(ids)} device ids; give one each"
            )
        if ids is not None and len(set(ids)) != len(ids):
            raise MeshError(f"mesh names a device twice: {list(ids)}; name each once")
        if not isinstance(name, str) or (name and not AXIS_NAME.match(name)):
            hint = (
                "use letters, digits and _" if isinstance(name, str) else "devices go into devices="
            )
            raise MeshError(f"mesh name {name!r} is not an identifier; {hint}")
        if ids is not None and ids == tuple(range(size)):
            ids = None
        object.__setattr__(self, "axes", checked)
        object.__setattr__(self, "device_ids", ids)
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "type_asked", device_type)
        object.__setattr__(self, "written", written)
        object.__setattr__(self, "_sizes", dict(checked))
        object.__setattr__(self, "_hash", hash((checked, ids, name, device_type, written)))

    @classmethod
    def of(
        cls,
        axes: Any,
        device_ids: Sequence[int] | None = None,
        name: str = "",
        device_type: str = "",
        written: MeshDevices | None = None,
    ) -> Mesh:
        """A mesh from its fields; see the class. `written` are the names it was written with."""
        mesh = object.__new__(cls)
        mesh._set(axes, device_ids, name, device_type, written)
        return mesh

    @classmethod
    def abstract(cls, axes: Any, name: str = "") -> Mesh:
        """A mesh without devices, to plan for: `jit(fn).lower(...)` takes it, of any size.

        What is lowered says its collectives, bytes, operations and memory; it cannot be compiled or
        run, but for a target, whose devices it is then laid over.

        Args:
            axes: `(name, size)` pairs, or a mapping, major axis first; sizes in devices.
            name: name of the mesh, an identifier, or nothing.

        Raises:
            MeshError: a name is malformed or repeated, or a size is below 1.

        Example:
            >>> pods = dtensor.Mesh.abstract([("data", 256), ("model", 16)])
            >>> rows = dtensor.Layout.batch_sharded(pods, "data", rank=2)
            >>> step = dtensor.jit(lambda x: x.sum(axis=0), in_layouts=rows)
            >>> step.lower(jax.ShapeDtypeStruct((4096, 8), jnp.float32)).collectives[0].text()
            'all_reduce over data of f32 8, 64 bytes per device, once'
        """
        return cls.of(axes, name=name, device_type=ABSTRACT)

    @property
    def is_abstract(self) -> bool:
        """Whether `abstract` made it: it has no devices."""
        return self.type_asked == ABSTRACT

    def __hash__(self) -> int:
        return self._hash

    # The grid.

    @property
    def symbol(self) -> str:
        """The mesh's symbol in MLIR, without the `@`."""
        return self.name or "mesh"

    @property
    def axis_names(self) -> tuple[str, ...]:
        """Names of the axes, major first."""
        return tuple(name for name, _ in self.axes)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Sizes of the axes in devices, major first."""
        return tuple(size for _, size in self.axes)

    @property
    def size(self) -> int:
        """Number of devices."""
        if self.written is not None and not (self.written.names or self.written.local_names):
            return 0
        return math.prod(self.sizes)

    def axis_size(self, name: str) -> int:
        """Number of devices along the axis `name`.

        Raises:
            MeshError: the mesh has no such axis.

        Example:
            >>> mesh.axis_size("y")
            4
        """
        try:
            return self._sizes[name]
        except KeyError:
            have = ", ".join(f"'{axis}'" for axis in self.axis_names)
            raise MeshError(f"mesh @{self.symbol} has no axis '{name}'; it has {have}") from None

    def contains_dim(self, name: str) -> bool:
        """Whether the mesh has an axis `name`.

        Example:
            >>> mesh.contains_dim("z")
            False
        """
        return name in self._sizes

    def __contains__(self, name: object) -> bool:
        return name in self._sizes

    def __iter__(self) -> Iterator[str]:
        return iter(self.axis_names)

    def axis(self, name: str) -> AxisRef:
        """Reference to the whole axis `name`.

        Example:
            >>> mesh.axis("y")
            AxisRef(name='y', pre=1, size=4)
        """
        return AxisRef(name, 1, self.axis_size(name))

    def axis_stride(self, name: str) -> int:
        """How far apart, in mesh positions, neighbours along the axis `name` are.

        Example:
            >>> mesh.axis_stride("x")
            4
        """
        self.axis_size(name)
        index = self.axis_names.index(name)
        return math.prod(self.sizes[index + 1 :])

    def coordinate(self, position: int, axis: AxisRef) -> int:
        """Coordinate, on an axis or a part of one, of the device at a row-major mesh position.

        Example:
            >>> mesh.coordinate(6, mesh.axis("y"))
            2
        """
        whole = position // self.axis_stride(axis.name) % self.axis_size(axis.name)
        return whole // (self.axis_size(axis.name) // (axis.pre * axis.size)) % axis.size

    def position_stride(self, axis: AxisRef) -> int:
        """How far apart, in mesh positions, neighbours along `axis` are.

        Example:
            >>> mesh.position_stride(mesh.axis("x"))
            4
        """
        minor = self.axis_size(axis.name) // (axis.pre * axis.size)
        return self.axis_stride(axis.name) * minor

    def groups(self, axes: Sequence[AxisRef]) -> tuple[tuple[int, ...], ...]:
        """Mesh positions that differ only on `axes`, one tuple per group, the first axis major.

        Example:
            >>> mesh.groups([mesh.axis("x")])
            ((0, 4), (1, 5), (2, 6), (3, 7))
        """
        members = [0]
        for axis in axes:
            stride = self.position_stride(axis)
            members = [start + stride * i for start in members for i in range(axis.size)]
        inside = set(members)
        if len(inside) != len(members):
            raise MeshError(f"axes {axes} overlap")
        seen: set[int] = set()
        groups = []
        for position in range(self.size):
            if position in seen:
                continue
            group = tuple(position + member for member in members)
            seen.update(group)
            groups.append(group)
        return tuple(groups)

    def ids(self) -> tuple[int, ...]:
        """Device id at each mesh position.

        Example:
            >>> mesh.ids()
            (0, 1, 2, 3, 4, 5, 6, 7)
        """
        return tuple(range(self.size)) if self.device_ids is None else self.device_ids

    # The devices, in TensorFlow DTensor's terms: global ids are mesh positions.

    def devices(self) -> MeshDevices:
        """The devices by name.

        Raises:
            MeshError: no runtime is loaded that could name them, or it lacks one of them.

        Example:
            >>> mesh.devices().local_names[0]
            '/job:localhost/replica:0/task:0/device:CPU:0'
        """
        if self.written is not None:
            return self.written
        source = naming()
        found = None if source is None else source.devices(self, bind=True)
        if found is None:
            raise MeshError(f"{self.short()} has no devices yet; make it with dtensor.create_mesh")
        return found

    def host_mesh(self) -> Mesh:
        """The same grid, without a name, over the CPU devices of the same clients.

        Example:
            >>> mesh.host_mesh()
            Mesh(x=2, y=4)
        """
        from dtensor.dialect.mesh_string import host_mesh

        return host_mesh(self)

    @classmethod
    def from_device(cls, device: str) -> Mesh:
        """The mesh of one device by itself, without axes.

        Raises:
            MeshError: `device` is not the name of a device.

        Example:
            >>> dtensor.Mesh.from_device("CPU:3").single_device
            '/job:localhost/replica:0/task:0/device:CPU:3'
        """
        from dtensor.dialect.mesh_string import single_device_mesh

        return single_device_mesh(device)

    # Written forms.

    def to_string(self) -> str:
        """TensorFlow's form: `name|x=3,y=2|global ids|local ids|local devices`.

        Example:
            >>> mesh.to_string()[:25]
            '|x=2,y=4|0,1,2,3,4,5,6,7|'
        """
        from dtensor.dialect.mesh_string import write_mesh

        return write_mesh(self, self.devices())

    @classmethod
    def from_string(cls, text: str) -> Mesh:
        """The mesh that `text` writes in TensorFlow's form; see docs/layouts.md.

        Raises:
            MeshError: the text is not of that form.

        Example:
            >>> dtensor.Mesh.from_string(mesh.to_string()).axes
            (('x', 2), ('y', 4))
        """
        from dtensor.dialect.mesh_string import read_mesh

        return read_mesh(text)

    def asm(self) -> str:
        """The form in MLIR: `#dtensor.mesh<["x"=2, "y"=4]>`; `parse` reads it.

        Example:
            >>> mesh.asm()
            '#dtensor.mesh<["x"=2, "y"=4]>'
        """
        axes = ", ".join(f'"{name}"={size}' for name, size in self.axes)
        ids = "" if self.device_ids is None else f", device_ids=[{', '.join(map(str, self.ids()))}]"
        return f"#dtensor.mesh<[{axes}]{ids}>"

    def short(self) -> str:
        """Axes, and what else tells meshes apart, for messages: `mesh(x=3, y=2)`.

        Example:
            >>> mesh.short()
            'mesh(x=2, y=4)'
        """
        axes = ", ".join(f"{name}={size}" for name, size in self.axes)
        ids = "" if self.device_ids is None else f", device_ids={list(self.ids())}"
        kind = f", device_type={self.type_asked}" if self.type_asked else ""
        kind = ", abstract" if self.is_abstract else kind
        name = f", name={self.name}" if self.name else ""
        return f"mesh({axes}{ids}{kind}{name})"

    def __repr__(self) -> str:
        return f"M{self.short()[1:]}"

    def _repr_html_(self) -> str:
        """The axes and the devices as a picture, in notebooks."""
        from dtensor.dialect.pictures.html import mesh_html

        return mesh_html(self)

    def __str__(self) -> str:
        """TensorFlow's form, with the devices, once they are known."""
        devices = self.known_devices()
        if devices is None:
            return repr(self)
        from dtensor.dialect.mesh_string import write_mesh

        return f"Mesh.from_string({write_mesh(self, devices)})"

    def known_devices(self) -> MeshDevices | None:
        """The devices by name, of a mesh that is in use; looking does not start a runtime."""
        source = naming()
        if self.written is not None or source is None:
            return self.written
        return source.devices(self, bind=False)

    def __reduce__(self) -> tuple[Any, ...]:
        fields = (self.axes, self.device_ids, self.name, self.type_asked, self.written)
        return Mesh.of, fields

    @classmethod
    def parse(cls, text: str, name: str = "") -> Mesh:
        """The mesh whose written form is `text`: `#dtensor.mesh<["x"=2, "y"=4]>`.

        Raises:
            MeshError: the text is not of that form.

        Example:
            >>> dtensor.Mesh.parse('#dtensor.mesh<["x"=2, "y"=4]>')
            Mesh(x=2, y=4)
        """
        match = re.fullmatch(
            r"\s*(?:#dtensor\.)?mesh<\s*\[(.*?)\]\s*(?:,\s*device_ids\s*=\s*\[([\d,\s]*)\]\s*)?>\s*",
            text,
            re.DOTALL,
        )
        if match is None:
            raise MeshError(f'malformed mesh {text!r}; the form is #dtensor.mesh<["x"=2, "y"=4]>')
        body, ids = match.group(1), match.group(2)
        axes = []
        for part in body.split(",") if body.strip() else []:
            axis = _AXIS_TEXT.fullmatch(part)
            if axis is None:
                raise MeshError(f'malformed mesh axis {part.strip()!r}; the form is "x"=2')
            axes.append((axis.group(1), int(axis.group(2))))
        device_ids = None if ids is None else [_id_in(i) for i in ids.split(",") if i.strip()]
        return cls.of(axes, device_ids, "" if name == "mesh" else name)


def _id_in(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise MeshError(f"malformed device id {text.strip()!r}; commas separate them") from None
