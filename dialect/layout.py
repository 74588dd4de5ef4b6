"""The layout: how one array is laid out over a mesh."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from numbers import Integral
from typing import Any, Self

from dtensor.dialect.axes import AxisRef
from dtensor.dialect.dim import WHOLE, Dim, digit_size
from dtensor.dialect.errors import LayoutError
from dtensor.dialect.layout_entries import (
    MATCH,
    OPEN,
    REDUCTIONS,
    UNSHARDED,
    check_axes_used_once,
    check_names_used_once,
    dims_of,
    joined_parts,
    no_mesh,
    partial_of,
)
from dtensor.dialect.layout_members import LayoutMembers
from dtensor.dialect.layout_parts import dim_text, partial_repr, partial_texts, spec_text
from dtensor.dialect.mesh import Mesh

__all__ = ["MATCH", "OPEN", "REDUCTIONS", "UNSHARDED", "Layout"]


@dataclass(frozen=True)
class Layout(LayoutMembers):
    """How an array is laid out over a mesh.

    Args:
        sharding_specs: per dimension `UNSHARDED`, an axis name, or a tuple of digits, major first:
            axis names, `AxisRef`s and integer block counts; `OPEN` (`"?"`), alone or last in a
            tuple, lets propagation add axes; `"x@1"` has the priority 1; `MATCH`, alone, leaves
            the dimension as a relayout finds it. A `Dim` is taken as it is.
        mesh: the mesh whose axes the layout names.
        partial: reduction (`"sum"`, `"max"`, `"min"`, `"prod"`, `"and"`, `"or"`) to the axes over
            which the devices hold parts that still have to be combined.

    Raises:
        LayoutError: an axis is unknown, used twice, or a digit is malformed.

    Example:
        >>> rows = dtensor.Layout(["x", dtensor.UNSHARDED], mesh)
        >>> rows.local_shape((6, 8))
        (3, 8)
    """

    dims: tuple[Dim, ...]
    partial: tuple[tuple[AxisRef, str], ...]
    mesh: Mesh
    _hash: int = field(init=False, repr=False, compare=False)

    def __init__(
        self,
        sharding_specs: Sequence[Any],
        mesh: Mesh,
        partial: Mapping[str, Any] | Iterable[tuple[AxisRef, str]] = (),
    ) -> None:
        if not isinstance(mesh, Mesh):
            raise LayoutError(no_mesh(mesh))
        if isinstance(sharding_specs, str):
            raise LayoutError(
                f"layout {sharding_specs!r} is one string; give one entry per dimension"
            )
        if not isinstance(sharding_specs, Iterable) or isinstance(sharding_specs, Mapping | Set):
            raise LayoutError(
                f"a layout needs a list with one entry per dimension, got {sharding_specs!r}"
            )
        sharding_specs = list(sharding_specs)
        dims = dims_of(sharding_specs, mesh)
        check_names_used_once(sharding_specs, mesh)
        parts = partial_of(partial, mesh)
        check_axes_used_once(dims, parts)
        self._set(dims, parts, mesh)

    def _set(
        self, dims: tuple[Dim, ...], partial: tuple[tuple[AxisRef, str], ...], mesh: Mesh
    ) -> None:
        object.__setattr__(self, "dims", dims)
        object.__setattr__(self, "partial", partial)
        object.__setattr__(self, "mesh", mesh)
        object.__setattr__(self, "_hash", hash((dims, partial, mesh)))

    @classmethod
    def of(
        cls,
        dims: Sequence[Dim],
        mesh: Mesh,
        partial: Iterable[tuple[AxisRef, str]] = (),
    ) -> Self:
        """A layout from parts known to be right: inside the compiler, where speed counts."""
        layout = object.__new__(cls)
        layout._set(tuple(dims), joined_parts(partial), mesh)
        return layout

    def __hash__(self) -> int:
        return self._hash

    @classmethod
    def replicated(cls, mesh: Mesh, rank: int) -> Self:
        """Every device holds the whole array of `rank` dimensions.

        Raises:
            LayoutError: the rank is negative, or `mesh` is none.

        Example:
            >>> dtensor.Layout.replicated(mesh, rank=2)
            Layout([UNSHARDED, UNSHARDED], Mesh(x=2, y=4))
        """
        if not isinstance(mesh, Mesh):
            raise LayoutError(no_mesh(mesh))
        if not isinstance(rank, Integral) or rank < 0:
            raise LayoutError(f"an array cannot have rank {rank!r}; give its number of dimensions")
        return cls.of((WHOLE,) * rank, mesh)

    @classmethod
    def batch_sharded(cls, mesh: Mesh, batch_dim: str, rank: int, axis: int = 0) -> Layout:
        """Dimension `axis` is split over the mesh axis `batch_dim`, the others are whole.

        Raises:
            LayoutError: `axis` is not a dimension, or the mesh has no such axis.

        Example:
            >>> dtensor.Layout.batch_sharded(mesh, "x", rank=3)
            Layout(['x', UNSHARDED, UNSHARDED], Mesh(x=2, y=4))
        """
        if not rank:
            raise LayoutError("an array of rank 0 has no dimension to split; lay it out replicated")
        if not -rank <= axis < rank:
            raise LayoutError(
                f"dimension {axis} does not exist in an array of rank {rank}; the last is "
                f"{rank - 1}"
            )
        specs: list[Any] = [UNSHARDED] * rank
        specs[axis] = batch_dim
        return cls(specs, mesh)

    @classmethod
    def inner_sharded(cls, mesh: Mesh, inner_dim: str, rank: int) -> Layout:
        """The last dimension is split over the mesh axis `inner_dim`.

        Example:
            >>> dtensor.Layout.inner_sharded(mesh, "y", rank=3)
            Layout([UNSHARDED, UNSHARDED, 'y'], Mesh(x=2, y=4))
        """
        return cls.batch_sharded(mesh, inner_dim, rank, axis=-1)

    # What it says.

    @property
    def rank(self) -> int:
        """Number of tensor dimensions."""
        return len(self.dims)

    @property
    def is_partial(self) -> bool:
        """Whether devices hold parts that still have to be combined."""
        return bool(self.partial)

    @property
    def is_contiguous(self) -> bool:
        """Whether every shard is one contiguous block."""
        return all(dim.is_contiguous for dim in self.dims)

    def is_fully_replicated(self) -> bool:
        """Whether every device holds the whole, complete array.

        Example:
            >>> dtensor.Layout.replicated(mesh, rank=2).is_fully_replicated()
            True
        """
        return not self.partial and all(not dim.digits for dim in self.dims)

    @property
    def has_open(self) -> bool:
        """Whether propagation may add axes to some dimension."""
        return any(dim.is_open for dim in self.dims)

    @property
    def axes(self) -> tuple[AxisRef, ...]:
        """Every axis the dimensions are split over, in order of dimensions."""
        return tuple(axis for dim in self.dims for axis in dim.axes)

    @property
    def partial_axes(self) -> tuple[AxisRef, ...]:
        """Every axis over which the value is partial."""
        return tuple(axis for axis, _ in self.partial)

    @property
    def shard_count(self) -> int:
        """Into how many different shards the array is cut."""
        return math.prod(dim.split for dim in self.dims)

    def matching(self, other: Layout) -> Layout:
        """This layout, with the dimensions marked `MATCH` as `other` has them.

        Raises:
            LayoutError: `other` has another rank or lies on another mesh, or the result uses an
                axis twice.

        Example:
            >>> rows = dtensor.Layout.batch_sharded(mesh, "x", rank=2)
            >>> dtensor.Layout([dtensor.MATCH, "y"], mesh).matching(rows)
            Layout(['x', 'y'], Mesh(x=2, y=4))
        """
        if not any(dim.is_match for dim in self.dims):
            return self
        if other.rank != self.rank or other.mesh != self.mesh:
            raise LayoutError(
                f"layout {self.short()} on {self.mesh.short()} cannot match {other.short()} on "
                f"{other.mesh.short()}"
            )
        pairs = zip(self.dims, other.dims, strict=True)
        return Layout([theirs if dim.is_match else dim for dim, theirs in pairs], self.mesh)

    def closed(self) -> Layout:
        """The same layout, fixed: without open dimensions, and so without priorities.

        Example:
            >>> dtensor.Layout(["x", dtensor.OPEN], mesh).closed()
            Layout(['x', UNSHARDED], Mesh(x=2, y=4))
        """
        if not any(dim.is_open or dim.priority for dim in self.dims):
            return self
        return Layout.of([Dim(dim.digits) for dim in self.dims], self.mesh, self.partial)

    def complete(self) -> Layout:
        """The same layout after its partial axes were reduced.

        Example:
            >>> dtensor.Layout(["x"], mesh, partial={"sum": "y"}).complete()
            Layout(['x'], Mesh(x=2, y=4))
        """
        return self if not self.partial else Layout.of(self.dims, self.mesh)

    # Fitting a tensor.

    def problem(self, shape: Sequence[int], uneven: bool = False) -> str | None:
        """What keeps this layout from fitting a tensor; None if it fits.

        Args:
            shape: global shape in elements.
            uneven: whether the last shards of a dimension may have fewer elements than the others,
                or none.

        Example:
            >>> dtensor.Layout(["y"], mesh).problem((6,))
            "dimension 0 has 6 elements, not divisible by the 4 devices of axes ['y']; ...
        """
        if len(self.dims) != len(shape):
            return (
                f"layout has {len(self.dims)} dimensions but the tensor has rank {len(shape)}; "
                "give one entry per dimension"
            )
        for index, (dim, size) in enumerate(zip(self.dims, shape, strict=True)):
            parts = math.prod(digit_size(d) for d in dim.digits)
            if size % parts == 0 or (uneven and dim.is_contiguous):
                continue
            names = [a.name for a in dim.axes]
            what = f"the {dim.split} devices of axes {names}"
            if not dim.is_contiguous:
                what = f"the {parts} blocks of {dim_text(dim, self.mesh)}"
            up = -(-size // parts) * parts
            return (
                f"dimension {index} has {size} elements, not divisible by {what}; "
                f"pad it to {up}, or leave it whole"
            )
        return None

    def verify(self, shape: Sequence[int], what: str = "a tensor", uneven: bool = False) -> None:
        """Check that this layout fits a tensor.

        Args:
            shape: global shape in elements.
            what: what the message calls the tensor.
            uneven: as `problem` has it.

        Raises:
            LayoutError: the rank differs or a dimension does not divide.

        Example:
            >>> dtensor.Layout(["y"], mesh).verify((6,), uneven=True)  # it fits
        """
        try:
            problem = self.problem(shape, uneven)
        except TypeError:
            raise LayoutError(f"{shape!r} is no shape; give a tuple of sizes in elements") from None
        if problem is not None:
            raise LayoutError(
                f"{what} of shape {list(shape)} cannot have the layout {self.short()}: {problem}"
            )

    def border_problem(self) -> str | None:
        """Why an argument or a result cannot have this layout; None if it can.

        Example:
            >>> dtensor.Layout([(3, "x")], mesh).border_problem()
            'dimension 0 is cut into blocks, {3, "x"}; ...
        """
        if self.partial:
            axes = [axis.name for axis in self.partial_axes]
            return f"partial over axes {axes}; arguments and results must be complete: reduce first"
        if not self.mesh.size:
            return "an empty layout has no devices"
        for index, dim in enumerate(self.dims):
            if dim.is_match:
                return f"dimension {index} is MATCH, which has a meaning in relayout only"
            if not dim.is_contiguous:
                return (
                    f"dimension {index} is cut into blocks, {dim_text(dim, self.mesh)}; arguments "
                    "and results must have contiguous shards: drop the block count"
                )
        return None

    def local_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        """Shape of the shard one device holds; equal on every device.

        Of a dimension that the devices do not divide the last shards are padded.

        Args:
            shape: global shape in elements.

        Raises:
            LayoutError: this layout does not fit `shape`.

        Example:
            >>> dtensor.Layout(["x", "y"], mesh).local_shape((6, 7))
            (3, 2)
        """
        self.verify(shape, uneven=True)
        return tuple(-(-n // dim.split) for n, dim in zip(shape, self.dims, strict=True))

    def padded_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        """Shape that all shards make up together: `shape`, if this layout divides it.

        Args:
            shape: global shape in elements.

        Raises:
            LayoutError: this layout does not fit `shape`.

        Example:
            >>> dtensor.Layout(["x", "y"], mesh).padded_shape((6, 7))
            (6, 8)
        """
        return self.global_shape(self.local_shape(shape))

    def global_shape(self, local_shape: Sequence[int]) -> tuple[int, ...]:
        """Global shape in elements of an array whose shards have `local_shape`.

        Raises:
            LayoutError: another number of dimensions.

        Example:
            >>> dtensor.Layout(["x", "y"], mesh).global_shape((3, 2))
            (6, 8)
        """
        if len(local_shape) != self.rank:
            raise LayoutError(
                f"layout has {self.rank} dimensions but the shards have rank {len(local_shape)}"
            )
        return tuple(n * dim.split for n, dim in zip(local_shape, self.dims, strict=True))

    # Written forms.

    def to_string(self) -> str:
        """TensorFlow's form: `sharding_specs:x,unsharded, mesh:<mesh>`.

        Example:
            >>> dtensor.Layout(["x", dtensor.UNSHARDED], mesh).to_string()[:37]
            'sharding_specs:x,unsharded, mesh:|x=2'
        """
        from dtensor.dialect.layout_string import write_layout

        return write_layout(self, self.mesh.to_string())

    @classmethod
    def from_string(cls, text: str) -> Layout:
        """The layout that `text` writes in TensorFlow's form; see docs/layouts.md.

        Raises:
            LayoutError: the text is not of that form.
            MeshError: the mesh in it is not.

        Example:
            >>> rows = dtensor.Layout(["x", dtensor.UNSHARDED], mesh)
            >>> dtensor.Layout.from_string(rows.to_string()) == rows
            True
        """
        from dtensor.dialect.layout_string import read_layout

        return read_layout(text)

    @classmethod
    def from_device(cls, device: str) -> Layout:
        """The layout of arrays, of any rank, on one device by itself.

        Raises:
            MeshError: `device` is not the name of a device.

        Example:
            >>> dtensor.Layout.from_device("CPU:3").is_single_device()
            True
        """
        return cls.of((), Mesh.from_device(device))

    @classmethod
    def from_single_device_mesh(cls, mesh: Mesh) -> Layout:
        """The layout of arrays, of any rank, on the one device of `mesh`.

        Raises:
            LayoutError: the mesh is not of a single device.

        Example:
            >>> one = dtensor.Mesh.from_device("CPU:3")
            >>> dtensor.Layout.from_single_device_mesh(one).type
            <LayoutType.SINGLE_DEVICE: 'single_device'>
        """
        if not mesh.is_single_device():
            raise LayoutError(f"{mesh.short()} is not a mesh of a single device")
        return cls.of((), mesh)

    def asm(self) -> str:
        """The form in MLIR: `#dtensor.layout<@mesh, [{"x"}, {}]>`; `parse` reads it.

        Example:
            >>> dtensor.Layout(["x", dtensor.UNSHARDED], mesh).asm()
            '#dtensor.layout<@mesh, [{"x"}, {}]>'
        """
        dims = ", ".join(dim_text(dim, self.mesh) for dim in self.dims)
        text = f"#dtensor.layout<@{self.mesh.symbol}, [{dims}]"
        if self.partial:
            text += f", partial = {{{', '.join(partial_texts(self.partial, self.mesh))}}}"
        return text + ">"

    def short(self) -> str:
        """The dimensions and partial axes alone, for tables and messages: `[{"x"}, {}]`.

        Example:
            >>> dtensor.Layout(["x", dtensor.OPEN], mesh).short()
            '[{"x"}, {?}]'
        """
        text = "[" + ", ".join(dim_text(dim, self.mesh) for dim in self.dims) + "]"
        if self.partial:
            text += f" partial {{{', '.join(partial_texts(self.partial, self.mesh))}}}"
        return text

    def __repr__(self) -> str:
        specs = ", ".join(spec_text(dim, self.mesh) for dim in self.dims)
        partial = f", partial={partial_repr(self.partial, self.mesh)}" if self.partial else ""
        return f"Layout([{specs}], {self.mesh!r}{partial})"

    def _repr_html_(self) -> str:
        """Which devices hold which part, as a picture, in notebooks."""
        from dtensor.dialect.pictures.html import layout_html

        return layout_html(self)

    def __str__(self) -> str:
        """TensorFlow's form, with the mesh's devices, once they are known."""
        if self.mesh.known_devices() is None:
            return repr(self)
        return f"Layout.from_string({self.to_string()})"

    def __format__(self, spec: str) -> str:
        """The readable line: it stands in other libraries' messages."""
        return format(repr(self), spec)

    def __reduce__(self) -> tuple[Any, ...]:
        return Layout.of, (self.dims, self.mesh, self.partial)

    @classmethod
    def parse(cls, text: str, mesh: Mesh) -> Layout:
        """The layout whose written form is `text`, on `mesh`.

        Raises:
            LayoutError: the text is malformed, or names another mesh or an unknown axis.

        Example:
            >>> dtensor.Layout.parse('#dtensor.layout<@mesh, [{"x"}, {}]>', mesh)
            Layout(['x', UNSHARDED], Mesh(x=2, y=4))
        """
        from dtensor.dialect.layout_text import parse_layout

        return parse_layout(text, mesh)
