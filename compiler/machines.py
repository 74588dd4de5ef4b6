"""The machine that a program is planned for, where its options name none."""

from __future__ import annotations

from dtensor.compiler.targets.target import Target
from dtensor.dialect.mesh import Mesh
from dtensor.passes.cost.machine import Machine
from dtensor.passes.cost.machines import machine_of_kind
from dtensor.runtime.client import bound_kind


def machine_of(mesh: Mesh | None, target: Target | None) -> Machine | None:
    """The machine of the target, or of the mesh's devices; None where it is not known which.

    Looking starts no runtime. Devices of the CPU are no machine: they stand in for others.
    """
    if target is not None:
        return machine_of_kind(target.kind)
    kind = "" if mesh is None else bound_kind(mesh)
    return machine_of_kind(kind) if kind else None
