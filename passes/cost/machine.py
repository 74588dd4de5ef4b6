"""Machines: what their devices compute, hold and send, and the cost model of a mesh on one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dtensor.dialect.diagnostics import did_you_mean
from dtensor.dialect.errors import CompileError
from dtensor.dialect.mesh import Mesh
from dtensor.passes.cost.model import DTYPES, CostModel, Link, is_positive

_LEVEL_KEYS = {"name": str, "devices": int, "alpha": float, "bytes_per_second": float}
_KEYS: dict[str, type] = {
    "name": str,
    "levels": list,
    "matmul_flops": dict,
    "vector_flops": float,
    "memory_bytes_per_second": float,
    "memory_bytes": int,
    "platform": str,
}
_PLATFORMS = ("gpu", "tpu", "cpu")


@dataclass(frozen=True)
class Level:
    """One level of a machine's network: NVLink inside a host, InfiniBand between hosts.

    Attributes:
        name: what it is called.
        devices: up to how many neighbouring devices it joins; None is any number.
        link: seconds that one collective takes however little it moves, and the bytes per second
            that one device sends along one mesh axis, and at the same time receives.

    Example:
        >>> level = dtensor.Machine.named("h100").levels[0]
        >>> (level.name, level.devices)
        ('NVLink', 8)
    """

    name: str
    devices: int | None
    link: Link


@dataclass(frozen=True)
class Machine:
    """A machine to plan for; see docs/machines.md.

    Attributes:
        name: its name, for messages.
        levels: its network, the innermost level first; the last one joins any number of devices.
        matmul_flops: element type to flops per second of matrix products of one device.
        vector_flops: flops per second of everything else, in float32.
        memory_bytes_per_second: what one device reads and writes.
        memory_bytes: what one device holds.
        platform: what its devices are: "gpu", "tpu" or "cpu".

    Raises:
        CompileError: a number is not positive, or there is no network.

    Example:
        >>> dtensor.Machine.named("h100").memory_bytes
        80000000000
    """

    name: str
    levels: tuple[Level, ...]
    matmul_flops: Mapping[str, float] | tuple[tuple[str, float], ...]
    vector_flops: float
    memory_bytes_per_second: float
    memory_bytes: int
    platform: str = "gpu"

    def __post_init__(self) -> None:
        flops = self.matmul_flops
        pairs = flops.items() if isinstance(flops, Mapping) else flops
        object.__setattr__(self, "matmul_flops", tuple(pairs))
        object.__setattr__(self, "levels", tuple(self.levels))
        self._check_levels()
        self._check_numbers()
        if self.platform not in _PLATFORMS:
            raise CompileError(
                f"machine '{self.name}': platform is {self.platform!r}; it must be one of "
                f"{', '.join(_PLATFORMS)}"
            )
        if not self.matmul_flops:
            raise CompileError(f"machine '{self.name}' has no matmul_flops; give one element type")

    def _check_levels(self) -> None:
        for level in self.levels:
            if not (isinstance(level, Level) and isinstance(level.link, Link)):
                raise CompileError(
                    f"machine '{self.name}': levels has {level!r}; make each with "
                    "dtensor.Level(name, devices, dtensor.Link(alpha, bytes_per_second))"
                )
        sizes = [level.devices for level in self.levels]
        inner = [size for size in sizes if size is not None]
        if inner != sorted(set(inner)):
            raise CompileError(
                f"machine '{self.name}': its levels join {', '.join(map(str, inner))} devices; "
                "give the innermost level first, and each more devices than the one before"
            )
        if not sizes or sizes[-1] is not None or None in sizes[:-1]:
            raise CompileError(
                f"machine '{self.name}': the last level of the network joins any number of "
                "devices, and only the last: leave its `devices` out"
            )

    def _check_numbers(self) -> None:
        numbers = {
            "vector_flops": self.vector_flops,
            "memory_bytes_per_second": self.memory_bytes_per_second,
            "memory_bytes": self.memory_bytes,
            **{
                f"matmul_flops of {dtype}": flops
                for dtype, flops in dict(self.matmul_flops).items()
            },
            **{f"alpha of {x.name}": x.link.alpha for x in self.levels},
            **{f"bytes_per_second of {x.name}": x.link.bytes_per_second for x in self.levels},
            **{f"devices of {x.name}": x.devices for x in self.levels if x.devices is not None},
        }
        for what, number in numbers.items():
            if not is_positive(number):
                raise CompileError(
                    f"machine '{self.name}': {what} is {number!r}; it must be a positive number"
                )
        for dtype in dict(self.matmul_flops):
            if dtype not in DTYPES:
                known = ", ".join(DTYPES)
                raise CompileError(
                    f"machine '{self.name}': matmul_flops of '{dtype}'; known are {known}"
                )

    def matmul_peak(self, dtype: str) -> float:
        """Flops per second of matrix products of elements of type `dtype`, such as `bf16`.

        Of a type that the machine does not list, those of the next wider one it does, or of the
        slowest it has. `f32_highest` are products of f32 of the highest precision.

        Example:
            >>> dtensor.Machine.named("h100").matmul_peak("bf16")
            989400000000000.0
        """
        peaks = dict(self.matmul_flops)
        if dtype.startswith("f8"):
            dtype = "f8"
        elif dtype == "f32_highest" and dtype not in peaks:
            dtype = "f32"
        if dtype != "f32_highest":
            peaks.pop("f32_highest", None)
        wider = DTYPES[: DTYPES.index(dtype) + 1] if dtype in DTYPES else ()
        found = [peaks[name] for name in reversed(wider) if name in peaks]
        return found[0] if found else min((peaks or dict(self.matmul_flops)).values())

    def level(self, stride: int, size: int, devices: int) -> Level:
        """The level over which a mesh axis communicates.

        Devices are taken to come in blocks of one size, the largest that a level joins and that
        divides them: 96 chips are one slice of up to 256, and 24 GPUs three hosts of 8.

        Args:
            stride: devices between two neighbours on the axis: the product of the axes inside it.
            size: devices on the axis.
            devices: all devices of the mesh.

        Example:
            >>> dtensor.Machine.named("h100").level(stride=8, size=4, devices=32).name
            'InfiniBand'
        """
        for level in self.levels[:-1]:
            most = min(level.devices or devices, devices)
            block = next(n for n in range(most, 0, -1) if devices % n == 0)
            if block % (stride * size) == 0:
                return level
        return self.levels[-1]

    def cost_model(self, mesh: Mesh) -> CostModel:
        """What plans for `mesh` cost on this machine, its devices in the mesh's order.

        Example:
            >>> dtensor.Machine.named("h100").cost_model(mesh).axis_link("y")
            Link(alpha=1.2e-05, bytes_per_second=450000000000.0)
        """
        links, stride = [], 1
        for name, size in reversed(mesh.axes):
            links.append((name, self.level(stride, size, mesh.size).link))
            stride *= size
        return CostModel(
            link=self.levels[-1].link,
            axis_links=tuple(reversed(links)),
            peak_flops=self.matmul_peak("bf16"),
            hbm_bytes_per_second=self.memory_bytes_per_second,
            matmul_flops=tuple([(dtype, self.matmul_peak(dtype)) for dtype in DTYPES]),
            vector_flops=self.vector_flops,
            reads_shards=True,
        )

    @classmethod
    def named(cls, name: str) -> Machine:
        """The machine of that name in the table of docs/machines.md: "h100", "v5e".

        Raises:
            CompileError: there is none of that name.

        Example:
            >>> dtensor.Machine.named("v5e").platform
            'tpu'
        """
        from dtensor.passes.cost.machines import MACHINES

        known_as = name.lower()
        if known_as not in MACHINES:
            known = f"; known are {', '.join(MACHINES)}, or give a TOML file"
            raise CompileError(
                f"there is no machine '{name}'{did_you_mean(name, list(MACHINES)) or known}"
            )
        return MACHINES[known_as]

    @classmethod
    def from_toml(cls, path: str | Path) -> Machine:
        """The machine that a TOML file describes; docs/machines.md has its form.

        Raises:
            CompileError: the file cannot be read, lacks a key or has one of another type.
        """
        import tomllib  # few programs have such a file

        try:
            found = tomllib.loads(Path(path).read_text(encoding="utf-8"))
        except OSError as wrong:
            raise CompileError(
                f"machine file {path}: {wrong.strerror}; give the path of a file that is there"
            ) from None
        except ValueError as wrong:
            raise CompileError(f"machine file {path}: {wrong}") from None
        return cls._of_keys(found, f"machine file {path}")

    @classmethod
    def of(cls, machine: Machine | str | Path) -> Machine:
        """A machine, the one of that name, or the one in that TOML file.

        Raises:
            CompileError: as `named` and `from_toml` raise it, or it is none of these.

        Example:
            >>> dtensor.Machine.of("h100").name
            'h100'
        """
        if isinstance(machine, Machine):
            return machine
        if isinstance(machine, Path):
            return cls.from_toml(machine)
        if not isinstance(machine, str):
            raise CompileError(
                f"machine is {machine!r}; it must be a Machine, the name of one, or the path of a "
                "TOML file"
            )
        return cls.from_toml(machine) if machine.endswith(".toml") else cls.named(machine)

    @classmethod
    def _of_keys(cls, found: Mapping[str, Any], where: str) -> Machine:
        values = _checked(found, _KEYS, where, ("platform",))
        levels = []
        for number, entry in enumerate(values["levels"]):
            what = f"{where}, level {number}"
            if not isinstance(entry, dict):
                raise CompileError(f"{what} is {entry!r}; write it as a table, [[levels]]")
            keys = _checked(entry, _LEVEL_KEYS, what, ("devices",))
            link = Link(keys["alpha"], keys["bytes_per_second"])
            levels.append(Level(keys["name"], keys.get("devices"), link))
        flops = values["matmul_flops"]
        peaks = _checked(flops, dict.fromkeys(flops, float), f"{where}, matmul_flops", ())
        return cls(
            values["name"],
            tuple(levels),
            tuple(peaks.items()),
            values["vector_flops"],
            values["memory_bytes_per_second"],
            values["memory_bytes"],
            values.get("platform", cls.platform),
        )


def _checked(
    found: Mapping[str, Any], wanted: Mapping[str, type], where: str, optional: tuple[str, ...]
) -> dict[str, Any]:
    """The values of the keys wanted, of the types wanted; whole numbers may be written 1e9."""
    for key in found:
        if key not in wanted:
            hint = did_you_mean(key, list(wanted)) or f"; keys are {', '.join(wanted)}"
            raise CompileError(f"{where} has the unknown key '{key}'{hint}")
    values: dict[str, Any] = {}
    for key, kind in wanted.items():
        if key not in found:
            if key in optional:
                continue
            raise CompileError(f"{where} lacks the key '{key}', {_type_name(kind)}; add it")
        value = found[key]
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if kind in (int, float) and is_number and (kind is float or value == int(value)):
            value = kind(value)
        if not isinstance(value, kind) or isinstance(value, bool):
            raise CompileError(f"{where}: '{key}' is {value!r}; give {_type_name(kind)}")
        values[key] = value
    return values


def _type_name(kind: type) -> str:
    names = {str: "a text", int: "a whole number", float: "a number"}
    return names.get(kind, "a table" if kind is dict else "tables, [[levels]]")
