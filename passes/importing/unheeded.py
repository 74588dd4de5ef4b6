"""What annotations ask for and no layout says: a memory, or a single device. It is warned of."""

from __future__ import annotations

import re
from typing import Final

from dtensor.dialect.layout import Layout
from dtensor.dialect.mesh import Mesh
from dtensor.dialect.mlir import ir, ops_of
from dtensor.passes.ledger import Ledger

MEMORY_KIND: Final = "mhlo.memory_kind"
_DEVICE = "device"  # the memory that devices compute in
_LONE_MESH = re.compile(r"mesh<\[\], device_ids=\[(\d+)\]>")
_NAME = re.compile(r"#sdy\.sharding<@([\w.\-]+|\"[^\"]*\"),")
_MAXIMAL = re.compile(r"\{maximal device=(\d+)")


class Unheeded:
    """Warns of one module's annotations.

    Args:
        module: the module.
        mesh: its mesh; of one device, each value is on that alone.
        ledger: where the warnings go.
    """

    def __init__(self, module: ir.Module, mesh: Mesh, ledger: Ledger) -> None:
        self._mesh = mesh
        self._ledger = ledger
        self._lone: dict[str, str] = {}  # meshes of one device, and that device
        for op in ops_of(module.body):
            found = _LONE_MESH.search(str(op.attributes["mesh"])) if op.name == "sdy.mesh" else None
            if found:
                self._lone[ir.StringAttr(op.attributes["sym_name"]).value] = found[1]

    def memory(self, at: ir.Operation, entry: dict[str, ir.Attribute], what: str) -> None:
        """Take the memory out of what is annotated on an argument or a result, `what`."""
        kind = entry.pop(MEMORY_KIND, None)
        if kind is not None and (text := str(kind).strip('"')) != _DEVICE:
            self._ledger.warn(
                at,
                f"{what} is asked for in {text} memory, but arguments and results lie in the "
                "memory that devices compute in; move it before or after the call",
            )

    def lone_device(self, at: ir.Operation, sharding: str, what: str) -> None:
        """Warn if a sharding of Shardy's, or of GSPMD's, puts a value on one device."""
        name = _NAME.match(sharding)
        found = _MAXIMAL.match(sharding) or _LONE_MESH.search(sharding)
        device = found[1] if found else self._lone.get(name[1].strip('"')) if name else None
        if device is not None and self._mesh.size > 1:
            self._ledger.warn(
                at, f"{what} is asked for on device {device} alone; it is whole on every device"
            )


def contradict(one: Layout, other: Layout) -> bool:
    """Whether two layouts of one value, with what they leave open, have nothing in common."""
    for first, second in zip(one.dims, other.dims, strict=True):
        common = min(len(first.digits), len(second.digits))
        short, long = sorted((first, second), key=lambda dim: len(dim.digits))
        is_alike = first.digits[:common] == second.digits[:common]
        if not is_alike or (len(long.digits) > common and not short.is_open):
            return True
    return False
