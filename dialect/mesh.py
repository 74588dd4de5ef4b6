"""The mesh: devices arranged along named axes."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from dtensor.dialect.axes import AXIS_NAME, AxisRef
from dtensor.dialect.errors import MeshError

_AXIS_TEXT = re.compile(r'\s*"([^"]*)"\s*=\s*(-?\d+)\s*')


@dataclass(frozen=True)
class Mesh:
    """Devices arranged along named axes, the first axis major.

    Args:
        axes: `(name, size)` pairs, or a mapping, major axis first; sizes in devices.
        device_ids: id of the device at each mesh position, row-major; None means 0, 1, 2, ...
        name: symbol of the mesh in MLIR, without the `@`.

    Raises:
        MeshError: a name is malformed or repeated, a size is below 1, or the ids do not fit.
    """

    axes: tuple[tuple[str, int], ...]
    device_ids: tuple[int, ...] | None = None
    name: str = "mesh"
    _sizes: dict[str, int] = field(init=False, repr=False, compare=False)
    _hash: int = field(init=False, repr=False, compare=False)

    def __init__(
        self,
        axes: Mapping[str, int] | Iterable[tuple[str, int]],
        device_ids: Sequence[int] | None = None,
        name: str = "mesh",
    ) -> None:
        pairs = tuple(axes.items()) if isinstance(axes, Mapping) else tuple(axes)
        checked = tuple(_checked_axis(pair) for pair in pairs)
        names = [axis for axis, _ in checked]
        repeated = sorted({axis for axis in names if names.count(axis) > 1})
        if repeated:
            raise MeshError(f"mesh axis '{repeated[0]}' is given twice; axis names must differ")
        size = math.prod(n for _, n in checked)
        ids = None if device_ids is None else tuple(int(i) for i in device_ids)
        if ids is not None and len(ids) != size:
            raise MeshError(
                f"mesh of {size} devices was given {len(ids)} device ids; give one each"
            )
        if ids is not None and len(set(ids)) != len(ids):
            raise MeshError(f"mesh names a device twice: {list(ids)}")
        if not AXIS_NAME.match(name):
            raise MeshError(f"mesh name '{name}' is not an identifier")
        if ids == tuple(range(size)):
            ids = None
        object.__setattr__(self, "axes", checked)
        object.__setattr__(self, "device_ids", ids)
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "_sizes", dict(checked))
        object.__setattr__(self, "_hash", hash((checked, ids, name)))

    def __hash__(self) -> int:
        return self._hash

    @property
    def axis_names(self) -> tuple[str, ...]:
        """Names of the axes, major first."""
        return tuple(name for name, _ in self.axes)

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the axes in devices, major first."""
        return tuple(size for _, size in self.axes)

    @property
    def size(self) -> int:
        """Number of devices."""
        return math.prod(self.shape)

    def axis_size(self, name: str) -> int:
        """Number of devices along the axis `name`.

        Raises:
            MeshError: the mesh has no such axis.
        """
        try:
            return self._sizes[name]
        except KeyError:
            have = ", ".join(f"'{axis}'" for axis in self.axis_names)
            raise MeshError(f"mesh @{self.name} has no axis '{name}'; it has {have}") from None

    def __contains__(self, name: object) -> bool:
        return name in self._sizes

    def axis(self, name: str) -> AxisRef:
        """Reference to the whole axis `name`."""
        return AxisRef(name, 1, self.axis_size(name))

    def axis_stride(self, name: str) -> int:
        """How far apart, in mesh positions, neighbours along the axis `name` are."""
        self.axis_size(name)
        index = self.axis_names.index(name)
        return math.prod(self.shape[index + 1 :])

    def coordinate(self, position: int, axis: AxisRef) -> int:
        """Coordinate, on an axis or a part of one, of the device at a row-major mesh position."""
        whole = position // self.axis_stride(axis.name) % self.axis_size(axis.name)
        return whole // (self.axis_size(axis.name) // (axis.pre * axis.size)) % axis.size

    def position_stride(self, axis: AxisRef) -> int:
        """How far apart, in mesh positions, neighbours along `axis` are."""
        minor = self.axis_size(axis.name) // (axis.pre * axis.size)
        return self.axis_stride(axis.name) * minor

    def groups(self, axes: Sequence[AxisRef]) -> tuple[tuple[int, ...], ...]:
        """Mesh positions that differ only on `axes`, one tuple per group, the first axis major."""
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
        """Device id at each mesh position."""
        return tuple(range(self.size)) if self.device_ids is None else self.device_ids

    def __str__(self) -> str:
        axes = ", ".join(f'"{name}"={size}' for name, size in self.axes)
        ids = "" if self.device_ids is None else f", device_ids=[{', '.join(map(str, self.ids()))}]"
        return f"#dtensor.mesh<[{axes}]{ids}>"

    def __repr__(self) -> str:
        axes = ", ".join(f"{name}={size}" for name, size in self.axes)
        ids = "" if self.device_ids is None else f", device_ids={list(self.ids())}"
        name = "" if self.name == "mesh" else f", name='{self.name}'"
        return f"Mesh({axes}{ids}{name})"

    @classmethod
    def parse(cls, text: str, name: str = "mesh") -> Mesh:
        """The mesh whose written form is `text`: `#dtensor.mesh<["x"=2, "y"=4]>`.

        Raises:
            MeshError: the text is not of that form.
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
        device_ids = None if ids is None else [int(i) for i in ids.split(",") if i.strip()]
        return cls(axes, device_ids, name)


def _checked_axis(pair: object) -> tuple[str, int]:
    if not (isinstance(pair, Sequence) and not isinstance(pair, str) and len(pair) == 2):
        raise MeshError(f"mesh axis {pair!r} is not a (name, size) pair")
    name, size = pair
    if not isinstance(name, str) or not AXIS_NAME.match(name):
        raise MeshError(f"mesh axis name {name!r} is not an identifier")
    if name == "unsharded":
        raise MeshError("mesh axis name 'unsharded' is reserved; choose another")
    if isinstance(size, bool) or not isinstance(size, int) or size < 1:
        raise MeshError(f"mesh axis '{name}' has size {size!r}; it must be a positive integer")
    return name, size
