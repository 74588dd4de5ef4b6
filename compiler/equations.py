"""What the equations of a traced function say: the user's lines, and meshes of jax.

Those must lie over the devices of the program.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import jax

from dtensor.dialect.diagnostics import Place
from dtensor.dialect.errors import LayoutError
from dtensor.dialect.mesh import Mesh
from dtensor.runtime.placement import jax_mesh

# The line, as `file:line: ` or nothing, and the ids of the devices that a sharding there names.
Placement = tuple[str, tuple[int, ...]]


def line_of(equation: Any) -> str:
    """The line that an equation of a jaxpr comes from: `file:line: `, "" where jax keeps none."""
    traceback = equation.source_info.traceback
    for frame in () if traceback is None else traceback.frames:
        if not Place(frame.file_name, frame.line_num, 0).is_library:
            return f"{frame.file_name}:{frame.line_num}: "
    return ""


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
