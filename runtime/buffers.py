"""What a jax.Array tells of its buffers and where they lie, for DTensors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jax

from dtensor.runtime.donation import note_alias

if TYPE_CHECKING:
    import numpy as np

    from dtensor.runtime.array import ArrayType


_WHOLE = "dtensor.relayout(x, Layout.replicated(x.mesh, x.ndim))"
_OF_TORCH = {
    "cpu": f"x.numpy(), of a sharded one {_WHOLE}.numpy()",
    "device_mesh": "x.mesh",
    "dim": "x.ndim",
    "full_tensor": _WHOLE,
    "placements": "x.layout",
    "redistribute": "dtensor.relayout(x, layout)",
    "to_local": "x.unpack()",
}
"""What PyTorch's DTensor has, and what to write here."""


@dataclass(frozen=True, eq=False)
class Shard:
    """The part of an array that one device holds; jax's `Shard`, of true elements only.

    Attributes:
        device: jax's device.
        index: where the part stands in the array, a slice for each dimension.
        replica_id: 0 on the first device that holds this part, and so on.
        data: the part, on its device.
    """

    device: jax.Device
    index: tuple[slice, ...]
    replica_id: int
    data: jax.Array


class Buffers:
    """Properties and methods of jax.Array by their names; a class that has them is a DTensor."""

    __slots__ = ()

    if TYPE_CHECKING:
        _array: jax.Array
        _type: ArrayType

        @property
        def dtype(self) -> np.dtype[Any]:
            """Element type."""

        def _ranges(self, index: Sequence[slice]) -> Any: ...
        def _shards(self) -> Any: ...
        def numpy(self) -> Any: ...

    def devices(self) -> set[jax.Device]:
        """The devices of jax that hold a part of the array."""
        return self._array.devices()

    @property
    def addressable_shards(self) -> list[Any]:
        """The parts that this process holds: `device`, `index`, `replica_id` and `data` of each."""
        note_alias(self._array)
        if not self._type.is_padded:
            return list(self._array.addressable_shards)
        return [
            Shard(
                shard.device,
                tuple([slice(*ends) for ends in self._ranges(shard.index)]),
                shard.replica_id,
                data,
            )
            for shard, data in self._shards()
        ]

    def addressable_data(self, index: int) -> jax.Array:
        """The part of one device, by its number among those of this process."""
        data: jax.Array = self.addressable_shards[index].data
        return data

    @property
    def is_fully_addressable(self) -> bool:
        """Whether this process holds all of the array's parts."""
        return self._array.is_fully_addressable

    @property
    def is_fully_replicated(self) -> bool:
        """Whether each device holds all of the array."""
        return self._array.is_fully_replicated

    @property
    def committed(self) -> bool:
        """True: jax moves no DTensor by itself."""
        return True

    @property
    def weak_type(self) -> bool:
        """Whether the element type gives way to others, as a Python number's does."""
        return self._type.weak_type

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return self.dtype.itemsize

    def is_deleted(self) -> bool:
        """Whether the buffers are gone: donated to a program, or deleted."""
        return self._array.is_deleted()

    def delete(self) -> None:
        """Free the buffers now; the array cannot be used any more."""
        self._array.delete()

    def is_ready(self) -> bool:
        """Whether the array is computed."""
        array: Any = self._array
        return bool(array.is_ready())

    def copy_to_host_async(self) -> None:
        """Begin to copy this process's parts to the host, where reading them finds them."""
        self._array.copy_to_host_async()

    def tolist(self) -> Any:
        """The elements as nested lists of Python numbers, of an array that is whole everywhere.

        Raises:
            LayoutError: the array is sharded.
        """
        return self.numpy().tolist()

    def __getattr__(self, name: str) -> Any:
        # Only names that a DTensor lacks come here.
        hint = ""
        if name in _OF_TORCH:
            hint = f"; write {_OF_TORCH[name]}"
        elif not name.startswith("_") and hasattr(type(self._array), name):
            hint = f", but a jax.Array has: write x.to_jax().{name}"
        raise AttributeError(
            f"'{type(self).__name__}' object has no attribute '{name}'{hint}", name=name, obj=self
        )
