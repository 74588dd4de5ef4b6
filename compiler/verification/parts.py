"""Which devices hold a value together: all of them, or inside of shard_map those with one shard."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from dtensor.compiler.verification.blocks import Value
from dtensor.compiler.verification.shards import Array, Shards, cut, join, shard_indices
from dtensor.dialect.layout import Layout
from dtensor.dialect.manual import inner_layout, manual_part
from dtensor.dialect.mesh import Mesh

Parted = Sequence[Array]
"""A value of each part of the mesh."""


@dataclass(frozen=True)
class Parts:
    """The mesh in parts, whose devices hold a value together.

    Attributes:
        mesh: the mesh.
        free: the axes along each part; None for all, outside of shard_map.
    """

    mesh: Mesh
    free: tuple[str, ...] | None = None

    @cached_property
    def devices(self) -> tuple[tuple[int, ...], ...]:
        """Positions in the mesh of the devices of each part."""
        names = self.mesh.axis_names if self.free is None else self.free
        return self.mesh.groups([self.mesh.axis(n) for n in self.mesh.axis_names if n in names])

    @cached_property
    def one(self) -> Mesh:
        """A mesh of the devices of one part."""
        free = self.mesh.axis_names if self.free is None else self.free
        return Mesh([(name, size if name in free else 1) for name, size in self.mesh.axes])

    def name(self, part: int) -> tuple[str, ...]:
        """What tells a part from others; nothing where there is one."""
        if self.free is None:
            return ()
        device = self.devices[part][0]
        places = [
            f"{name}={self.mesh.coordinate(device, self.mesh.axis(name))}"
            for name in self.mesh.axis_names
            if name not in self.free
        ]
        return (f"shard {', '.join(places)} of shard_map",)

    def value(self, value: Value) -> Value:
        """A value as the devices of one part see it."""
        layout = Layout.of(value.layout.dims, self.one, value.layout.partial)
        return replace(value, layout=layout)

    def cut(self, value: Value, of_parts: Parted) -> Shards:
        """The shards of all devices."""
        layout = self.value(value).layout
        shards = [cut(whole, layout) for whole in of_parts]
        found = np.empty((self.mesh.size, *shards[0].shape[1:]), shards[0].dtype)
        for devices, shard in zip(self.devices, shards, strict=True):
            found[list(devices)] = shard
        return found

    def join(self, value: Value, shards: Shards) -> Parted:
        """The whole value of each part."""
        layout = self.value(value).layout
        return [join(shards[list(devices)], layout, value.shape) for devices in self.devices]

    def inside(self, inner: Parts, layout: Layout, of_parts: Parted) -> Parted:
        """What comes into a region: the shard of each of its parts.

        Args:
            inner: the region's parts.
            layout: how the region asks for the value.
            of_parts: the value.
        """
        assert inner.free is not None
        cuts = manual_part(layout, inner.free)
        return [
            whole[np.ix_(*shard_indices(cuts, whole.shape, devices[0]))]
            for whole, devices in zip(self.same(inner, of_parts), inner.devices, strict=True)
        ]

    def same(self, inner: Parts, of_parts: Parted) -> Parted:
        """A value, by the parts of a region inside."""
        at = {device: k for k, devices in enumerate(self.devices) for device in devices}
        return [of_parts[at[devices[0]]] for devices in inner.devices]


def inner_value(value: Value, shape: tuple[int, ...], free: tuple[str, ...]) -> Value:
    """A result of a region as the shards of which it is made."""
    return replace(value, shape=shape, layout=inner_layout(value.layout, free))
