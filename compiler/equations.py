"""What the equations of a traced function say: the user's lines, and meshes of jax.

Those must lie over the devices of the program.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import jax

from dtensor.dialect.diagnostics import Place
from dtensor.dialect.errors import LayoutError
from dtensor.dialect.mesh import Mesh
from dtensor.runtime.placement import jax_mesh

# The line, as `file:line: ` or nothing, and the ids of the devices that a sharding there names.
Placement = tuple[str, tuple[int, ...]]

_OF_DTENSORS = "dtensor.runtime.array.DTensor"  # in what jax says of an operand that it cannot take


def line_of(equation: Any) -> str:
    """The line that an equation of a jaxpr comes from: `file:line: `, "" where jax keeps none."""
    stack = equation.source_info.traceback
    for frame in () if stack is None else stack.frames:
        if not Place(frame.file_name, frame.line_num, 0).is_library:
            return f"{frame.file_name}:{frame.line_num}: "
    return ""


def refuse_outside(error: TypeError) -> None:
    """Say what to do about a DTensor that jax found among its operands, in the user's function.

    Raises:
        TypeError: the error is about a DTensor; the message has the user's line.
    """
    if _OF_DTENSORS not in str(error):
        return
    frames = reversed(list(traceback.walk_tb(error.__traceback__)))
    places = (Place(frame.f_code.co_filename, line, 0) for frame, line in frames)
    at = next((f"{p.file}:{p.line}: " for p in places if not p.is_library), "")
    raise TypeError(
        f"{at}{str(error).rstrip('.')}; a DTensor from outside is used in a function that jax is "
        "tracing: pass it as an argument of that function"
    ) from None


def placements(equations: Iterable[Any]) -> tuple[Placement, ...]:
    """The devices that constraints and inner jit's name, row-major; each list of them once."""
    found: dict[tuple[int, ...], str] = {}
    for equation in equations:
        for sharding in _shardings(equation.params):
            mesh = getattr(sharding, "mesh", None)
            if isinstance(mesh, jax.sharding.Mesh) and not mesh.empty:
                found.setdefault(tuple(d.id for d in mesh.devices.flat), line_of(equation))
    return tuple((line, devices) for devices, line in found.items())


def _shardings(params: dict[str, Any]) -> Iterator[Any]:
    yield params.get("sharding")
    for name in ("in_shardings", "out_shardings"):
        yield from params.get(name) or ()


def check_placements(found: Sequence[Placement], mesh: Mesh) -> None:
    """Refuse shardings over other devices, which jax lowers by the names of their axes alone.

    Raises:
        LayoutError: some sharding names other devices than those of `mesh`, or in another order.
    """
    if not found:
        return
    own = tuple(d.id for d in jax_mesh(mesh).devices.flat)
    for line, devices in found:
        if devices != own:
            raise LayoutError(
                f"{line}a sharding names devices {list(devices)}, but the program runs on "
                f"{list(own)} of {mesh.short()}; use a mesh of the same devices in the same order, "
                "or a PartitionSpec without a mesh"
            )
