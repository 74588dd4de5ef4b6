"""The methods of jax.Array, for DTensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from dtensor.runtime.eager import Slot

if TYPE_CHECKING:
    import jax
    import numpy as np

    from dtensor.dialect.layout import Layout
    from dtensor.dialect.mesh import Mesh
    from dtensor.runtime.array import DTensor


def _method(name: str, what: str) -> Callable[..., DTensor]:
    def method(self: Methods, *args: Any, **kwargs: Any) -> DTensor:
        return self._call(name, args, kwargs)

    method.__name__, method.__doc__ = name, what
    return method


class Methods:
    """Methods that return DTensors; each takes what the method of jax.Array of its name takes."""

    __slots__ = ()

    if TYPE_CHECKING:  # of DTensor, and of what stands for one
        _array: jax.Array

        @property
        def dtype(self) -> np.dtype[Any]:
            """Element type."""

        @property
        def layout(self) -> Layout:
            """How the array is laid out over its mesh."""

        @property
        def mesh(self) -> Mesh:
            """The mesh the array lies on."""

    # Reductions.

    all = _method("all", "Whether all elements along `axis` are true.")
    any = _method("any", "Whether some element along `axis` is true.")
    argmax = _method("argmax", "The index of the first largest element along `axis`.")
    argmin = _method("argmin", "The index of the first smallest element along `axis`.")
    max = _method("max", "The largest element along `axis`.")
    mean = _method("mean", "The mean along `axis`.")
    min = _method("min", "The smallest element along `axis`.")
    prod = _method("prod", "The product along `axis`.")
    ptp = _method("ptp", "The largest less the smallest element along `axis`.")
    std = _method("std", "The standard deviation along `axis`.")
    sum = _method("sum", "The sum along `axis`.")
    trace = _method("trace", "The sum along a diagonal.")
    var = _method("var", "The variance along `axis`.")

    # Element by element, or along an axis.

    astype = _method("astype", "The elements as another element type.")
    clip = _method("clip", "The elements, none below `min` or above `max`.")
    conj = _method("conj", "The complex conjugate.")
    conjugate = _method("conj", "The complex conjugate.")
    copy = _method("copy", "The same elements in buffers of their own.")
    cumprod = _method("cumprod", "The products of the first elements along `axis`.")
    cumsum = _method("cumsum", "The sums of the first elements along `axis`.")
    round = _method("round", "The elements rounded to a number of decimals.")

    @property
    def real(self) -> DTensor:
        """The real part."""
        return Slot.engine.unary("real", self)

    @property
    def imag(self) -> DTensor:
        """The imaginary part."""
        return Slot.engine.unary("imag", self)

    # Order and choice.

    argsort = _method("argsort", "The indices that sort the array along `axis`.")
    diagonal = _method("diagonal", "A diagonal of two dimensions.")
    dot = _method("dot", "The dot product with another array.")
    repeat = _method("repeat", "Each element several times along `axis`.")
    searchsorted = _method("searchsorted", "Where values would stand in this sorted array.")
    sort = _method("sort", "The elements in order along `axis`; a new array, unlike NumPy's.")
    take = _method("take", "The elements at some indices along `axis`.")

    # Shape.

    flatten = _method("flatten", "The elements in one dimension.")
    ravel = _method("ravel", "The elements in one dimension.")
    reshape = _method("reshape", "The elements in another shape.")
    squeeze = _method("squeeze", "The array without dimensions of one element.")
    swapaxes = _method("swapaxes", "The array with two dimensions exchanged.")
    transpose = _method("transpose", "The array with its dimensions in another order.")

    @property
    def T(self) -> DTensor:
        """The array with its dimensions in reverse order."""
        return Slot.engine.unary("T", self)

    @property
    def mT(self) -> DTensor:
        """The array with its last two dimensions exchanged."""
        return Slot.engine.unary("mT", self)

    # The array API.

    @property
    def device(self) -> Mesh:
        """Where the array lies, in the array API's words: its mesh."""
        return self.mesh

    def to_device(self, device: Any, /, *, stream: None = None) -> DTensor:
        """The array on another mesh, or in another layout.

        Args:
            device: a Mesh, on which the array keeps its sharding specs; or a Layout.
            stream: nothing that a mesh has; None only.

        Raises:
            LayoutError: the array cannot lie on that mesh as it does on its own.
        """
        if stream is not None:
            raise TypeError(f"to_device got stream={stream!r}; a mesh has no streams: give None")
        return Slot.engine.to_device(self, device)

    def __array_namespace__(self, *, api_version: str | None = None) -> Any:
        return Slot.engine.namespace(api_version)

    def __dlpack__(self, **options: Any) -> Any:
        return self._exported().__dlpack__(**options)

    def __dlpack_device__(self) -> Any:
        return self._exported().__dlpack_device__()

    def _exported(self) -> Any:
        """The replica of one device, for other libraries.

        Raises:
            BufferError: no device holds all of the array.
        """
        if not self.layout.is_fully_replicated():
            raise BufferError(
                f"an array of layout {self.layout.short()} cannot be exported: no device holds all "
                "of it; gather it first, with dtensor.relayout, or export its shards, x.unpack()"
            )
        return self._array.addressable_data(0)

    # NumPy's dispatch.

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        return Slot.engine.numpy_ufunc(ufunc, method, inputs, kwargs)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return Slot.engine.numpy_function(function, types, args, kwargs)

    def _call(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> DTensor:
        return Slot.engine.method(name, self, args, kwargs)
