"""What TensorFlow DTensor's layouts can be asked, under its names."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Self

from dtensor.dialect.axes import AxisRef
from dtensor.dialect.dim import Dim
from dtensor.dialect.errors import LayoutError
from dtensor.dialect.mesh import Mesh

PARTED = (
    "parted layouts make operations act on each shard by itself, so that results depend on the "
    "layout; use jax.shard_map for that"
)


class LayoutType(enum.Enum):
    """The kinds of layout that TensorFlow DTensor tells apart."""

    EMPTY = "empty"
    STATIC = "static"
    SINGLE_DEVICE = "single_device"
    PARTED = "parted"  # see Layout.to_parted


class LayoutMembers:
    """The part of `Layout` that only translates: to TensorFlow's names, words and strings."""

    if TYPE_CHECKING:
        dims: tuple[Dim, ...]
        partial: tuple[tuple[AxisRef, str], ...]
        mesh: Mesh

        @property
        def rank(self) -> int: ...

        @classmethod
        def of(cls, dims: Sequence[Dim], mesh: Mesh, partial: Any = ()) -> Self: ...

        @classmethod
        def replicated(cls, mesh: Mesh, rank: int) -> Self: ...

        def local_shape(self, shape: Sequence[int]) -> tuple[int, ...]: ...

        def global_shape(self, local_shape: Sequence[int]) -> tuple[int, ...]: ...

    if not TYPE_CHECKING:  # which then find misspelt names

        def __getattr__(self, name: str) -> Any:
            # Only names that a layout lacks come here; jax asks its own shardings for some.
            hint = ""
            if name in ("_is_concrete", "_internal_device_list", "spec", "memory_kind"):
                hint = "; jax has shardings of its own: dtensor.named_sharding(layout) makes one"
            raise AttributeError(
                f"'Layout' object has no attribute '{name}'{hint}", name=name, obj=self
            )

    def is_batch_parallel(self) -> bool:
        """Whether the first dimension is split, and no other.

        Example:
            >>> dtensor.Layout.batch_sharded(mesh, "x", rank=2).is_batch_parallel()
            True
        """
        first, rest = self.dims[:1], self.dims[1:]
        return not self.partial and any(d.digits for d in first) and not any(d.digits for d in rest)

    def is_single_device(self) -> bool:
        """Whether the mesh is one device by itself, without axes.

        Example:
            >>> dtensor.Layout.from_device("CPU:3").is_single_device()
            True
        """
        return self.mesh.is_single_device()

    @property
    def type(self) -> LayoutType:
        """Which kind of layout this is."""
        if self.is_single_device():
            return LayoutType.SINGLE_DEVICE
        return LayoutType.STATIC if self.mesh.size else LayoutType.EMPTY

    @property
    def shape(self) -> list[int]:
        """Sizes of the mesh's axes in devices (of the mesh, as in TensorFlow, not of an array)."""
        return self.mesh.shape()

    def num_shards(self, axis: int) -> int:
        """Into how many shards dimension `axis` is cut.

        Raises:
            LayoutError: there is no such dimension.

        Example:
            >>> dtensor.Layout(["x", "y"], mesh).num_shards(1)
            4
        """
        return self.dims[self._dimension(axis)].split

    @property
    def sharding_specs(self) -> list[str]:
        """Per dimension an axis name or `UNSHARDED`, as TensorFlow DTensor writes it.

        What TensorFlow cannot say: `x+y` is a dimension split over two axes, `x:(1)2` a part of an
        axis, `3+x` three blocks each split over x, and `any` or `x+any` an open dimension.
        """
        from dtensor.dialect.layout_string import spec_string

        return [spec_string(dim, self.mesh) for dim in self.dims]

    def delete(self, dims: Iterable[int]) -> Self:
        """The layout without the dimensions `dims`.

        Raises:
            LayoutError: there is no such dimension.

        Example:
            >>> dtensor.Layout(["x", "y"], mesh).delete([0])
            Layout(['y'], Mesh(x=2, y=4))
        """
        gone = {self._dimension(dim) for dim in dims}
        kept = [dim for i, dim in enumerate(self.dims) if i not in gone]
        return self.of(kept, self.mesh, self.partial)

    def to_parted(self) -> Self:
        """Not possible: raises LayoutError.

        In TensorFlow an operation on a parted layout sees each shard as an array of its own, so
        that its result depends on the layout.
        """
        raise LayoutError(PARTED)

    def _dimension(self, axis: int) -> int:
        if not -len(self.dims) <= axis < len(self.dims):
            raise LayoutError(f"dimension {axis} does not exist in a layout of rank {self.rank}")
        return axis % len(self.dims)

    def offset_to_shard(self) -> list[tuple[int, ...]]:
        """Which shard, counted per dimension, the device at each mesh position holds.

        Example:
            >>> dtensor.Layout([("y", "x")], mesh).offset_to_shard()
            [(0,), (2,), (4,), (6,), (1,), (3,), (5,), (7,)]
        """
        return [
            tuple(self._shard_of(dim, position) for dim in self.dims)
            for position in range(self.mesh.size)
        ]

    def _shard_of(self, dim: Dim, position: int) -> int:
        shard = 0
        for axis in dim.axes:
            shard = shard * axis.size + self.mesh.coordinate(position, axis)
        return shard

    def offset_tuple_to_global_index(self, offset_tuple: Sequence[int]) -> int:
        """Row-major number of the shard that `offset_tuple` counts per dimension.

        Raises:
            LayoutError: another number of dimensions, or there is no such shard.

        Example:
            >>> dtensor.Layout(["x", "y"], mesh).offset_tuple_to_global_index((1, 2))
            6
        """
        counts = [dim.split for dim in self.dims]
        if len(offset_tuple) != self.rank or not all(
            0 <= offset < count for offset, count in zip(offset_tuple, counts, strict=True)
        ):
            raise LayoutError(f"there is no shard {tuple(offset_tuple)}; there are {counts}")
        number = 0
        for offset, count in zip(offset_tuple, counts, strict=True):
            number = number * count + offset
        return number

    def for_rank(self, rank: int) -> Self:
        """This layout; of a single device, which places arrays of any rank, the one of `rank`.

        Example:
            >>> dtensor.Layout.from_device("CPU:3").for_rank(2).rank
            2
        """
        if self.rank == rank or not self.is_single_device():
            return self
        return self.replicated(self.mesh, rank)

    def local_shape_from_global_shape(self, global_shape: Sequence[int]) -> tuple[int, ...]:
        """`local_shape`, by TensorFlow's name.

        Example:
            >>> dtensor.Layout(["x"], mesh).local_shape_from_global_shape((6,))
            (3,)
        """
        return self.local_shape(global_shape)

    def global_shape_from_local_shape(self, local_shape: Sequence[int]) -> tuple[int, ...]:
        """`global_shape`, by TensorFlow's name.

        Example:
            >>> dtensor.Layout(["x"], mesh).global_shape_from_local_shape((3,))
            (6,)
        """
        return self.global_shape(local_shape)
