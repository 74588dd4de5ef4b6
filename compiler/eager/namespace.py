"""jax.numpy's functions, for DTensors: what `dtensor.numpy` and its submodules hold.

A name is looked up in jax.numpy when it is first used, so that whatever jax.numpy has is here:
functions become Functions, and element types and constants stay what they are.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp

from dtensor.compiler.calls import is_dtensor
from dtensor.compiler.eager import creation
from dtensor.compiler.eager.array_api import NamespaceInfo
from dtensor.compiler.eager.by_values import looking_at_values
from dtensor.compiler.eager.calls import call
from dtensor.dialect.diagnostics import did_you_mean
from dtensor.dialect.layout import Layout
from dtensor.dialect.mesh import Mesh
from dtensor.runtime.array import DTensor

# What they say of plain values needs no mesh.
_FACTS = frozenset(
    """
    broadcast_shapes can_cast einsum_path get_printoptions iscomplexobj isdtype isrealobj isscalar
    issubdtype iterable ndim promote_types result_type shape size
    """.split()
)

# They would make arrays that lie on no mesh; and what to use instead.
_ABSENT = {
    "c_": "concatenate or stack",
    "frombuffer": "array(numpy.frombuffer(...), layout=...)",
    "fromfile": "array(numpy.fromfile(...), layout=...)",
    "fromiter": "array(list(...), layout=...)",
    "frompyfunc": "dtensor.jit",
    "fromstring": "array(numpy.fromstring(...), layout=...)",
    "load": "array(numpy.load(...), layout=...)",
    "mgrid": "meshgrid",
    "ogrid": "meshgrid",
    "r_": "concatenate or stack",
    "save": "numpy.save(file, x) with a replicated x",
    "savez": "numpy.savez(file, x) with a replicated x",
    "vectorize": "dtensor.jit(jax.vmap(function))",
}

_OWN: dict[str, Any] = {
    "__array_api_version__": jnp.__array_api_version__,
    "__array_namespace_info__": NamespaceInfo,
    "array": creation.array,
    "asarray": creation.asarray,
    "from_dlpack": creation.from_dlpack,
    "ndarray": DTensor,
}


class Function:
    """A function of jax.numpy, for DTensors.

    It takes what jax.numpy's takes, and `layout=`: a layout for its result, or a tree of them. In a
    function that jax traces it is jax.numpy's own, and `layout` a constraint.
    """

    def __init__(self, fn: Callable[..., Any], name: str) -> None:
        functools.update_wrapper(self, fn)
        self._fn = looking_at_values(fn)
        self._name = name
        self._is_fact = name in _FACTS

    def __call__(
        self, *args: Any, layout: Any = None, device: Mesh | Layout | None = None, **kwargs: Any
    ) -> Any:
        """Run the function.

        Args:
            args: arguments of jax.numpy's function.
            layout: layouts of the results; None leaves the choice to the compiler.
            device: where the result lies, in the array API's words: a mesh, or a layout.
            kwargs: arguments of jax.numpy's function by name.
        """
        mesh = None
        if device is not None:
            layout, mesh = creation.placement(self._name, layout, device)
        if "out" in kwargs and kwargs.pop("out") is not None:
            raise TypeError(
                f"{self._name} cannot write into out=: no DTensor changes; use what it returns"
            )
        if self._is_fact and not _has_dtensor(args, kwargs):
            return self._fn(*args, **kwargs)
        if layout is None and mesh is None:
            layout = creation.layout_of_model(self._name, args, kwargs)
        return call(self._fn, args, kwargs, self._name, layout, mesh)

    def __getattr__(self, name: str) -> Any:
        # The methods of a ufunc: add.reduce, add.at and so on.
        fn = self.__dict__.get("_fn")
        if name.startswith("_") or not isinstance(fn, jnp.ufunc):
            raise AttributeError(f"function {self.__dict__.get('_name')} has no attribute '{name}'")
        value = getattr(fn, name)
        return Function(value, f"{self._name}.{name}") if callable(value) else value

    def __repr__(self) -> str:
        return f"<function {self._name} for DTensors>"


class Namespace(ModuleType):
    """A module of jax's, with Functions for its functions.

    Args:
        name: name of this module.
        source: jax's module.
        own: what stands in place of what `source` has.
    """

    def __init__(self, name: str, source: ModuleType, own: dict[str, Any] | None = None) -> None:
        super().__init__(name, source.__doc__)
        self._source = source
        self.__dict__.update(own or {})

    def __getattr__(self, name: str) -> Any:
        full = f"{self.__name__}.{name}"
        if name in _ABSENT and hasattr(self._source, name):
            raise AttributeError(
                f"{full} would make arrays that lie on no mesh; use {_ABSENT[name]}"
            )
        if name.startswith("_") or not hasattr(self._source, name):
            hint = "" if name.startswith("_") else did_you_mean(name, dir(self), listed=False)
            hint = "; random numbers are in dtensor.random" if name == "random" else hint
            raise AttributeError(f"module '{self.__name__}' has no attribute '{name}'{hint}")
        value = _wrapped(getattr(self._source, name), name, full)
        setattr(self, name, value)
        return value

    def __dir__(self) -> list[str]:
        names = {name for name in dir(self._source) if not name.startswith("_")}
        own = {name for name in self.__dict__ if not name.startswith("_")}
        return sorted((names | own) - set(_ABSENT))


def _wrapped(value: Any, name: str, full: str) -> Any:
    if isinstance(value, ModuleType):
        return Namespace(full, value)
    is_numpys = str(getattr(value, "__module__", "")).split(".")[0] == "numpy"
    if isinstance(value, type) or is_numpys or not callable(value) or hasattr(value, "dtype"):
        return value
    return Function(value, name)


def _has_dtensor(args: Any, kwargs: Any) -> bool:
    leaves = jax.tree_util.tree_leaves((args, kwargs), is_leaf=is_dtensor)
    return any(map(is_dtensor, leaves))


NUMPY = Namespace("dtensor.numpy", jnp, _OWN)
"""What `dtensor.numpy` holds."""
