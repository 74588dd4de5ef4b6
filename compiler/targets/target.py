"""The machine a program is compiled for ahead of time: `tpu:v5e:2x4`, `gpu:h100:2x8`."""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dtensor.compiler.targets.kinds import GPU_KINDS, TPU_KINDS, GpuKind, TpuKind
from dtensor.dialect.errors import CompileError
from dtensor.dialect.mesh import Mesh
from dtensor.passes.cost.machine import Machine
from dtensor.passes.cost.machines import machine_of_kind
from dtensor.runtime.client import bound_kind

_KINDS: Mapping[str, Mapping[str, TpuKind | GpuKind]] = {"tpu": TPU_KINDS, "gpu": GPU_KINDS}
_FORM = 'a target is "tpu:v5e:2x4" (chips per dimension) or "gpu:h100:2x8" (hosts x devices)'


@dataclass(frozen=True)
class Target:
    """A machine that need not be here.

    Attributes:
        platform: "tpu" or "gpu".
        kind: a name in the table of the platform's kinds: "v5e", "h100".
        shape: of a TPU slice its chips per dimension; of GPUs the hosts and the devices of each.

    Raises:
        CompileError: there is no such machine.
    """

    platform: str
    kind: str
    shape: tuple[int, ...]

    def __post_init__(self) -> None:
        problem = self._problem()
        if problem is not None:
            raise CompileError(f"target '{self}': {problem}")

    @classmethod
    def of(cls, target: str | Target | None) -> Target | None:
        """The target that an argument `target=` names.

        Raises:
            CompileError: the text is malformed, or there is no such machine.
        """
        return target if target is None or isinstance(target, Target) else cls.parse(target)

    @classmethod
    def parse(cls, text: str) -> Target:
        """The target whose written form is `text`; of GPUs, one number is one host's devices.

        Raises:
            CompileError: the text is malformed, or there is no such machine.
        """
        if not isinstance(text, str):
            raise CompileError(f"target is of type {type(text).__name__}; {_FORM}")
        parts = text.strip().lower().split(":")
        if len(parts) != 3:
            raise CompileError(f"target {text!r} is not three words with : between; {_FORM}")
        platform, kind, sizes = parts
        if re.fullmatch(r"\d{1,99}(x\d{1,99})*", sizes, re.ASCII) is None:
            raise CompileError(
                f"target {text!r}: {sizes!r} is not a size; write numbers with x between, as in 2x4"
            )
        shape = tuple(int(size) for size in sizes.split("x"))
        if platform == "gpu" and len(shape) == 1:
            shape = (1, *shape)
        return cls(platform, kind, shape)

    def __str__(self) -> str:
        shape = self.shape
        if self.platform == "gpu" and len(shape) == 2 and shape[0] == 1:
            shape = shape[1:]
        return f"{self.platform}:{self.kind}:{_text(shape)}"

    @property
    def device_count(self) -> int:
        """Number of devices, as jax counts them."""
        info = self.info
        per_chip = info.devices_per_chip if isinstance(info, TpuKind) else 1
        return math.prod(self.shape) * per_chip

    @property
    def info(self) -> TpuKind | GpuKind:
        """What is known of one device."""
        return _KINDS[self.platform][self.kind]

    @property
    def lowering_platform(self) -> str:
        """What jax calls the platform when it chooses how to lower an operation."""
        return "cuda" if self.platform == "gpu" else self.platform

    def _problem(self) -> str | None:
        if self.platform not in _KINDS:
            return f"there is no platform {self.platform!r}; {_FORM}"
        kinds = _KINDS[self.platform]
        if self.kind not in kinds:
            return (
                f"there is no {self.platform.upper()} {self.kind!r}; there are {', '.join(kinds)}"
            )
        largest = self.info.largest
        if len(self.shape) != len(largest):
            return f"{_text(self.shape)} is no size; {_shape_form(self.info)}"
        if min(self.shape) < 1:
            return f"{_text(self.shape)} has the size {min(self.shape)}; each must be 1 or more"
        # A slice may lie either way round; hosts and devices may not be swapped.
        turn = sorted if self.platform == "tpu" else list
        if any(size > most for size, most in zip(turn(self.shape), turn(largest), strict=True)):
            return f"the largest {self.kind} is {_text(largest)}"
        return None


def take_target(
    kwargs: dict[str, Any], static_names: Sequence[str], fn: Callable[..., Any]
) -> Target | None:
    """Take the target out of the keyword arguments of a function that is lowered.

    A value that names no machine, such as an array, is the function's own argument `target`, if it
    has one.

    Args:
        kwargs: the keyword arguments.
        static_names: names of the function's static arguments.
        fn: the function.

    Raises:
        CompileError: the text is malformed, there is no such machine, or the function has a static
            argument of this name, which could be meant.
    """
    found = kwargs.get("target")
    if not isinstance(found, str | Target):
        if "target" in kwargs and not _takes_target(fn):
            return Target.of(kwargs.pop("target"))
        return None
    if "target" in static_names:
        raise CompileError(
            f"target={str(found)!r} may be the static argument of that name or the machine to "
            "compile for; rename the argument, or bind it with functools.partial"
        )
    return Target.of(kwargs.pop("target"))


def _takes_target(fn: Callable[..., Any]) -> bool:
    try:
        parameters = inspect.signature(fn).parameters
    except (TypeError, ValueError):  # it does not tell
        return True
    kinds = {parameter.kind for parameter in parameters.values()}
    return "target" in parameters or inspect.Parameter.VAR_KEYWORD in kinds


def _text(shape: Sequence[int]) -> str:
    return "x".join(map(str, shape))


def _shape_form(info: TpuKind | GpuKind) -> str:
    if isinstance(info, GpuKind):
        return "give the number of devices, or hosts x devices, as in 8 or 2x8"
    dims = len(info.largest)
    return f"a slice of {info.name} has {dims} dimensions, as in {'2x4' if dims == 2 else '2x2x4'}"


def machine_of(mesh: Mesh | None, target: Target | None) -> Machine | None:
    """The machine of the target, or of the mesh's devices; None where it is not known which.

    Looking starts no runtime. Devices of the CPU are no machine: they stand in for others.
    """
    kind = _kind(mesh, target)
    return machine_of_kind(kind) if kind else None


def unknown_machine(mesh: Mesh | None, target: Target | None) -> str:
    """What to say of accelerators that plans cannot be made for by name; "" of others."""
    kind = _kind(mesh, target)
    if kind in ("", "cpu") or machine_of_kind(kind) is not None:
        return ""
    return (
        f"the speed of {kind} is not known: planned by bytes, as for CPU devices; "
        "CompileOptions(machine=...) names a machine, or a file that describes one"
    )


def _kind(mesh: Mesh | None, target: Target | None) -> str:
    """What jax calls the devices, or the target; "" where that is not known."""
    if target is not None:
        return target.kind
    return "" if mesh is None else bound_kind(mesh)


def not_callable(name: str, target: Target) -> CompileError:
    """The answer to a call of a program that was compiled for another machine."""
    return CompileError(
        f"{name} was compiled ahead of time for {target}, which is not this machine, and cannot "
        "be called; on a machine with these devices, compile it without target= and call that"
    )


def check_mesh(mesh: Mesh, target: Target) -> None:
    """Raise CompileError unless a mesh can lie over the devices of a target."""
    have = target.device_count
    if mesh.size > have or have % mesh.size:
        axes = " x ".join(f"{name}={size}" for name, size in mesh.axes)
        raise CompileError(
            f"mesh {axes} of {mesh.size} devices does not fit {target}, which has {have}; make a "
            f"mesh of {have}, or of a number that divides it"
        )
