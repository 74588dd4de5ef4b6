"""The devices of a mesh, by name: which there are, and which of them this client drives.

A `Mesh` knows shapes and device ids. Names belong to whoever runs programs, who says them through
the `Naming` it installs; a mesh that was written down with names of its own keeps those instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from dtensor.dialect.mesh import Mesh


@dataclass(frozen=True)
class MeshDevices:
    """The devices of a mesh by name.

    Attributes:
        names: name of the device at each position, row-major; empty where only the local ones are
            known.
        local_positions: positions of the devices that this client drives.
        local_names: their names.
        first_id: the global id of position 0; ids go up by one from there.
        with_global: whether the written form lists the names of all devices too.
    """

    names: tuple[str, ...]
    local_positions: tuple[int, ...]
    local_names: tuple[str, ...]
    first_id: int = 0
    with_global: bool = False

    def all_names(self, size: int) -> tuple[str, ...]:
        """Name of the device at each of `size` positions; empty where only some are known."""
        if self.names or sorted(self.local_positions) != list(range(size)):
            return self.names
        at = dict(zip(self.local_positions, self.local_names, strict=True))
        return tuple(at[position] for position in range(size))


class Naming(Protocol):
    """Names of devices, from whoever drives them."""

    def devices(self, mesh: Mesh, bind: bool) -> MeshDevices | None:
        """The devices of `mesh`; None if it is not in use yet and `bind` is false."""

    def ids(self, names: Sequence[str]) -> tuple[int, ...] | None:
        """The ids of the devices called `names`; None if one of them does not exist here."""


_naming: list[Naming] = []


def install_naming(naming: Naming) -> None:
    """Let `naming` say what the devices of meshes are called."""
    _naming[:] = [naming]


def naming() -> Naming | None:
    """Who names devices; None where no runtime is loaded."""
    return _naming[0] if _naming else None
