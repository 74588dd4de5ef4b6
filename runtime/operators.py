"""Python's operators and the methods of jax.Array, for DTensors and for what stands for one."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from types import FunctionType
from typing import TYPE_CHECKING, Any

from jax._src.array import ArrayImpl

from dtensor.dialect.diagnostics import did_you_mean
from dtensor.runtime.eager import Slot

if TYPE_CHECKING:
    from dtensor.runtime.array import DTensor

    class ArrayProperty:
        """What `property` is to type checkers, of an array that an array has."""

        def __get__(self, x: Any, owner: Any = None, /) -> DTensor: ...

# Each name has its line, so that type checkers see what there is; a call costs microseconds, so
# nothing stands between an operator and the engine. `x += y` is `x = x + y`.

_OF_JAX = {
    method.__code__
    for name, method in vars(ArrayImpl).items()
    if name.startswith("__") and name.endswith("__") and isinstance(method, FunctionType)
}


def asked_by_operator() -> bool:
    """Whether an operator of a jax.Array asks its other operand for `__jax_array__`.

    Where there is none, Python asks the other operand's own operator next.
    """
    return sys._getframe(2).f_code in _OF_JAX


def _binary(name: str) -> Callable[[Any, Any], DTensor]:
    return lambda self, other: Slot.engine.binary(name, self, other)


def _unary(name: str) -> Callable[[Any], DTensor]:
    return lambda self: Slot.engine.unary(name, self)


def _property(name: str, what: str) -> ArrayProperty:
    return property(_unary(name), doc=what)  # type: ignore[return-value]


def named(method: Callable[..., Any], name: str, what: str) -> Callable[..., Any]:
    """A method with a name and a docstring."""
    method.__name__ = method.__qualname__ = name  # the second in Python's own errors
    method.__doc__ = what
    return method


def _method(name: str, what: str) -> Callable[..., DTensor]:
    return named(lambda self, *args, **kwargs: self._call(name, args, kwargs), name, what)


def _update(name: str, what: str) -> Callable[..., DTensor]:
    def update(at: Any, value: Any, **how: Any) -> DTensor:
        return Slot.engine.update(at._x, at._index, name, value, how)

    return named(update, name, what)


def _refuse_item(self: Any, index: Any, value: Any = None) -> None:
    raise TypeError("a DTensor cannot be changed in place; use x = x.at[index].set(value)")


class Methods:
    """Methods that return DTensors; each takes what the method of jax.Array of its name takes."""

    __slots__ = ()

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
    real = _property("real", "The real part.")
    imag = _property("imag", "The imaginary part.")

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
    T = _property("T", "The array with its dimensions in reverse order.")
    mT = _property("mT", "The array with its last two dimensions exchanged.")

    # The array API.

    def to_device(self, device: Any, /, *, stream: None = None) -> DTensor:
        """The array on another mesh, or in another layout.

        Args:
            device: a Mesh, on which the array keeps its sharding specs; or a Layout.
            stream: nothing that a mesh has; None only.

        Raises:
            LayoutError: the array cannot lie on that mesh as it does on its own.

        Example:
            >>> rows = dtensor.Layout.batch_sharded(mesh, "x", rank=2)
            >>> x = dtensor.copy_to_mesh(np.ones((4, 8)), rows)
            >>> x.to_device(dtensor.Layout.replicated(mesh, rank=2)).local_shape
            (4, 8)
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

    def _exported(self: Any) -> Any:
        """The replica of one device, for other libraries.

        Raises:
            BufferError: no device holds all of the array.
        """
        if not self.layout.is_fully_replicated():
            raise BufferError(
                f"an array of layout {self.layout.short()} cannot be exported: no device holds all "
                "of it; gather it first, with dtensor.relayout, or export its shards, x.unpack()"
            )
        return self.addressable_data(0)

    # NumPy's dispatch.

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        return Slot.engine.numpy_ufunc(ufunc, method, inputs, kwargs)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return Slot.engine.numpy_function(function, types, args, kwargs)

    def _call(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> DTensor:
        return Slot.engine.method(name, self, args, kwargs)


class Operators(Methods):
    """The operators of an array; a class that has them has `_array` and `_type`, as DTensor has."""

    __slots__ = ()

    # Element by element: == too, so that arrays are not hashable.

    __hash__ = None  # type: ignore[assignment]

    __eq__ = _binary("eq")  # type: ignore[assignment]
    __ne__ = _binary("ne")  # type: ignore[assignment]
    __lt__ = _binary("lt")
    __le__ = _binary("le")
    __gt__ = _binary("gt")
    __ge__ = _binary("ge")
    __neg__ = _unary("neg")
    __pos__ = _unary("pos")
    __abs__ = _unary("abs")
    __invert__ = _unary("invert")
    __add__, __radd__ = _binary("add"), _binary("radd")
    __sub__, __rsub__ = _binary("sub"), _binary("rsub")
    __mul__, __rmul__ = _binary("mul"), _binary("rmul")
    __matmul__, __rmatmul__ = _binary("matmul"), _binary("rmatmul")
    __truediv__, __rtruediv__ = _binary("truediv"), _binary("rtruediv")
    __floordiv__, __rfloordiv__ = _binary("floordiv"), _binary("rfloordiv")
    __mod__, __rmod__ = _binary("mod"), _binary("rmod")
    __rpow__ = _binary("rpow")
    __and__, __rand__ = _binary("and"), _binary("rand")
    __or__, __ror__ = _binary("or"), _binary("ror")
    __xor__, __rxor__ = _binary("xor"), _binary("rxor")
    __lshift__, __rlshift__ = _binary("lshift"), _binary("rlshift")
    __rshift__, __rrshift__ = _binary("rshift"), _binary("rrshift")

    def __pow__(self, other: Any, modulus: None = None) -> DTensor:
        if modulus is not None:
            raise TypeError("pow() of a DTensor takes no third argument; write x ** y % z")
        return Slot.engine.binary("pow", self, other)

    def __divmod__(self, other: Any) -> tuple[DTensor, DTensor]:
        return Slot.engine.divmod(self, other)

    def __rdivmod__(self, other: Any) -> tuple[DTensor, DTensor]:
        return Slot.engine.divmod(other, self)

    def __round__(self, ndigits: int | None = None) -> DTensor:
        rounded = self.round(ndigits or 0)
        return rounded.astype(int) if ndigits is None else rounded

    def __index__(self: Any) -> int:
        if self.shape or self.dtype.kind not in "iu":
            raise TypeError(f"only integer scalars can be an index, not {self._type}")
        return int(self._array.addressable_data(0))

    # Elements.

    def __getitem__(self, index: Any) -> DTensor:
        return Slot.engine.get(self, index)

    __setitem__ = __delitem__ = _refuse_item

    @property
    def at(self) -> At:
        """Updates of a part: `x.at[index].set(value)` is a new array."""
        return At(self)

    def __iter__(self: Any) -> Iterator[DTensor]:
        if not self.shape:
            raise TypeError("iteration over an array without dimensions")
        return (self[i] for i in range(self.shape[0]))

    def __contains__(self, value: Any) -> bool:
        return bool((self == value).any())


class At:
    """`x.at`, to be indexed."""

    __slots__ = ("_x",)

    def __init__(self, x: Operators) -> None:
        self._x = x

    def __getitem__(self, index: Any) -> Part:
        return Part(self._x, index)

    __setitem__ = __delitem__ = _refuse_item

    def __repr__(self) -> str:
        return f"at({self._x!r})"


class Part:
    """`x.at[index]`: a part of an array that a method gives new values to.

    Methods take `mode` and the other keywords of jax's. Without a `mode`, a number or a host array
    that is out of bounds is an error.
    """

    __slots__ = ("_index", "_x")

    def __init__(self, x: Operators, index: Any) -> None:
        self._x = x
        self._index = index

    def __repr__(self) -> str:
        return f"at({self._x!r})[{self._index!r}]"

    if not TYPE_CHECKING:  # which then find misspelt names

        def __getattr__(self, name: str) -> Any:
            methods = [word for word in vars(Part) if not word.startswith("_")]
            raise AttributeError(
                f"x.at[index] has no method '{name}'{did_you_mean(name, methods)}",
                name=name,
                obj=self,
            )

    def get(self, **how: Any) -> DTensor:
        """The elements there, as `x[index]`; `fill_value` for those out of bounds, by `mode`."""
        return Slot.engine.get(self._x, self._index, how)

    set = _update("set", "The array with `value` there.")
    add = _update("add", "The array with `value` added there.")
    subtract = _update("subtract", "The array with `value` subtracted there.")
    multiply = mul = _update("multiply", "The array multiplied by `value` there.")
    divide = _update("divide", "The array divided by `value` there.")
    power = _update("power", "The array raised to `value` there.")
    min = _update("min", "The array, no greater than `value` there.")
    max = _update("max", "The array, no less than `value` there.")
    apply = _update("apply", "The array with `value`, a function, of what is there.")
