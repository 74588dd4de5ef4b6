"""`dtensor.define_op`: what custom calls, FFI calls, kernels and composites do, in a line."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from threading import Lock
from types import TracebackType
from typing import Any, Self

import jax
import numpy as np
from jax.custom_batching import custom_vmap

from dtensor.compiler.jax_frontend import drop_dead_code
from dtensor.dialect.context import make_context
from dtensor.dialect.errors import CompileError
from dtensor.dialect.mlir import bytecode_of, ir
from dtensor.dialect.modules import read_module
from dtensor.passes.base import PassState
from dtensor.passes.functions import main_function
from dtensor.passes.ops.bodies import BodyMaker
from dtensor.passes.ops.definition import Definition
from dtensor.passes.pipeline import Pipeline
from dtensor.runtime.array import DTensor
from dtensor.runtime.tracing import is_eager

_DTYPES = {
    "i1": "bool",
    "f16": "float16",
    "bf16": "bfloat16",
    "f32": "float32",
    "f64": "float64",
    "complex<f32>": "complex64",
    "complex<f64>": "complex128",
    **{f"i{bits}": f"int{bits}" for bits in (4, 8, 16, 32, 64)},
    **{f"ui{bits}": f"uint{bits}" for bits in (4, 8, 16, 32, 64)},
    "f8E4M3FN": "float8_e4m3fn",
    "f8E5M2": "float8_e5m2",
}


@dataclass(frozen=True)
class DefinedOp(Definition):
    """An operation that `define_op` made; with a function, it is called in the function's place.

    Attributes:
        fn: the function of arrays that it stands for; None for one that a custom call names.

    Example:
        >>> with dtensor.define_op("my_solver", "b i j, b j -> b i", whole=("i", "j")) as op:
        ...     op.factors
        ('b', 'i', 'j')
    """

    fn: Callable[..., Any] | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.fn is not None and "." not in self.name:
            raise self._wrong("the name has no dot", "one with fn= is called `my_package.my_op`")
        if self.fn is not None and not callable(self.fn):
            raise self._wrong(f"fn is {self.fn!r}", "it must be a function of arrays")

    def __call__(self, *arrays: Any) -> Any:
        """What `fn` makes of the arrays, as one operation of the program that is being traced.

        Raises:
            LocatedError: the signature does not fit the arrays or the results.
            TypeError: it stands for no function.
        """
        if self.fn is None:
            raise TypeError(
                f"'{self.name}' is defined without fn=, for custom calls of that name; it cannot "
                "be called"
            )
        if is_eager() and any(isinstance(array, DTensor) for array in arrays):
            from dtensor.compiler.eager.calls import call as run_on_mesh

            return run_on_mesh(self, arrays, {}, self.name)
        call = custom_vmap(jax.lax.composite(self.fn, name=self.name, version=self.version))
        call.def_vmap(self._vmapped)
        return call(*arrays)

    def _vmapped(self, size: int, is_batched: Sequence[bool], *arrays: Any) -> tuple[Any, Any]:
        """`jax.vmap` of it is an operation too, with one factor more."""
        variants = _variants.setdefault(self.version, {})
        key = tuple(is_batched)
        if key not in variants:
            variants[key] = self._with_batch(key)
        found = variants[key](*arrays)
        return found, jax.tree.map(lambda _: True, found)

    def _with_batch(self, is_batched: tuple[bool, ...]) -> DefinedOp:
        assert self.fn is not None
        named = {*self.factors, *(factor for tensor in self.results for factor in tensor)}
        batch = next(name for n in count() if (name := f"batch{n}") not in named)
        operands = [
            " ".join((batch, *tensor) if more else tensor)
            for tensor, more in zip(self.operands, is_batched, strict=True)
        ]
        results = [" ".join((batch, *tensor)) for tensor in self.results]
        return replace(
            self,
            name=f"{self.name}.vmap_{''.join('01'[more] for more in is_batched)}_{self.version}",
            signature=f"{', '.join(operands)} -> {', '.join(results)}",
            flops=" + ".join(f"{term.strip()} {batch}" for term in self.flops.split("+") if term),
            fn=jax.vmap(self.fn, in_axes=tuple([0 if more else None for more in is_batched])),
        )

    @property
    def version(self) -> int:
        """A number above 0 that tells definitions of one name apart in one process."""
        with _lock:
            try:
                number, _ = _versions.setdefault(self, (len(_versions) + 1, self))
            except TypeError:  # a function that has no hash
                number, _ = _versions.setdefault(id(self), (len(_versions) + 1, self))
        return number

    def register(self) -> None:
        """Let all compilations of the process know it, until `unregister`.

        Raises:
            CompileError: another definition of the name is registered.

        Example:
            >>> op = dtensor.define_op("my_scale", "a b -> a b", register=False)
            >>> op.register()
            >>> op.unregister()
        """
        with _lock:
            known = _registered.get(self.name)
            if known is not None and known != self:
                raise self._wrong(
                    f"it is defined as '{known.signature}' already",
                    "unregister() that one, or give this one in CompileOptions(ops=...)",
                )
            _registered[self.name] = self
            _number_registered()

    def unregister(self) -> None:
        """Undo `register`; functions compiled meanwhile stay as they are.

        Example:
            >>> op = dtensor.define_op("my_scale", "a b -> a b")
            >>> op.unregister()
        """
        with _lock:
            if _registered.get(self.name) == self:
                del _registered[self.name]
                _number_registered()

    def __enter__(self) -> Self:
        """It is known inside the `with` block; `define_op` has registered it before."""
        self.register()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """No compilation after the block knows it."""
        self.unregister()


def define_op(
    name: str,
    signature: str,
    *,
    whole: Sequence[str] = (),
    reduce: Mapping[str, str] | None = None,
    linear: Sequence[int | Sequence[int]] = (),
    flops: str = "",
    fn: Callable[..., Any] | None = None,
    register: bool = True,
) -> DefinedOp:
    """Say how an operation that dtensor does not know may be split, without editing the package.

    Args:
        name: target of a custom call or FFI call; with `fn`, a name with a dot.
        signature: factors of each operand and result: `b h q d, b h k d, b h k d -> b h q d`.
            Dimensions of one name are split together. `...` is any number of dimensions, `_` one
            that must be whole; scalars are written as nothing. A factor that is not in every result
            is whole, unless `reduce` names it.
        whole: factors that must be whole, because elements along them depend on each other.
        reduce: how the shards' results combine where such a factor is split: `{"k": "sum"}`;
            also "max", "min", "prod", "and", "or".
        linear: operands in which it is linear: a part of a sum there gives a part of the results.
            A group, such as `(0, 1)`, must be parts together. What else it is multiplied with
            must be finite.
        flops: floating-point operations, products of numbers and factors: `4 b h q k d + b h q k`.
        fn: the function that the operation stands for: positional arrays in, an array or a tuple of
            arrays out. It is traced anew for the shapes of a shard, so that Pallas kernels get
            their grids. The definition is then called in its place.
        register: whether all compilations of this process know it until `unregister()`. A context
            manager undoes it too; `CompileOptions(ops=[...])` needs none.

    Raises:
        CompileError: the definition contradicts itself, or another one of the name is registered.

    Example:
        >>> op = dtensor.define_op("my.product", "b i j, b j k -> b i k", fn=jnp.matmul)
        >>> batch = dtensor.Layout.batch_sharded(mesh, "y", rank=3)
        >>> x = dtensor.copy_to_mesh(np.ones((8, 3, 3)), batch)
        >>> op(x, x).layout
        Layout(['y', UNSHARDED, UNSHARDED], Mesh(x=2, y=4))
        >>> op.unregister()
    """
    if not (reduce is None or isinstance(reduce, Mapping)):
        raise CompileError(f"operation '{name}': reduce is {reduce!r}; write {{'k': 'sum'}}")
    if isinstance(linear, int):
        raise CompileError(f"operation '{name}': linear is {linear!r}; write ({linear!r},)")
    made = DefinedOp(
        name,
        signature,
        (whole,) if isinstance(whole, str) else tuple(whole),
        tuple(sorted((reduce or {}).items())),
        tuple([(group,) if isinstance(group, int) else tuple(group) for group in linear]),
        flops,
        fn=fn,
    )
    if register:
        made.register()
    return made


_lock = Lock()
_registered: dict[str, DefinedOp] = {}
_numbers: dict[tuple[DefinedOp, ...], int] = {(): 0}
_variants: dict[int, dict[tuple[bool, ...], DefinedOp]] = {}  # by version, and what is batched
_versions: dict[DefinedOp | int, tuple[int, DefinedOp]] = {}  # all that were called
_number = 0


def _number_registered() -> None:
    global _number
    _number = _numbers.setdefault(tuple(_registered.values()), len(_numbers))


def registered_number() -> int:
    """A number for what is registered now; programs are kept by it."""
    return _number


def known_ops(own: Sequence[DefinedOp], module: bytes | str) -> tuple[DefinedOp, ...]:
    """Definitions of a compilation, and what `jax.vmap` made of them.

    Args:
        own: those of its options, which go before registered ones of their names.
        module: the program, whose text or bytecode has every name that it uses.
    """
    named = {op.name for op in own}
    bases = [*own, *[op for op in _registered.values() if op.name not in named]]
    known: list[DefinedOp] = []
    for op in bases:  # grows
        bases += [v for v in _variants.get(op.version, {}).values() if v.name not in named]
        name = op.name if isinstance(module, str) else op.name.encode()
        if op in own or name in module:  # type: ignore[operator]
            known.append(op)
    return tuple(known)


def forget_registered() -> None:
    """Unregister every definition."""
    for op in list(_registered.values()):
        op.unregister()


def bodies_of(ops: Sequence[DefinedOp], platform: str | None) -> dict[str, BodyMaker]:
    """What makes the bodies of those that have a function, for a platform of jax."""
    return {op.name: functools.partial(_body, op, platform) for op in ops if op.fn is not None}


def _body(
    op: DefinedOp, platform: str | None, types: Sequence[tuple[tuple[int, ...], str]]
) -> bytes:
    assert op.fn is not None
    for _, element in types:
        if element not in _DTYPES:
            raise CompileError(f"'{op.name}' has an operand of {element}, which jax has no type of")
    structs = [jax.ShapeDtypeStruct(shape, np.dtype(_DTYPES[e])) for shape, e in types]
    try:
        traced = jax.jit(op.fn, keep_unused=True).trace(*structs)
        drop_dead_code(traced)
        lowered = traced.lower(lowering_platforms=None if platform is None else (platform,))
    except Exception as wrong:
        shapes = ", ".join(
            str(struct.str_short())
            if hasattr(struct, "str_short")
            else f"{struct.dtype}{list(struct.shape)}"
            for struct in structs
        )
        raise CompileError(
            f"'{op.name}': its function cannot be traced for one shard, {shapes}: "
            f"{str(wrong).splitlines()[0] if str(wrong) else type(wrong).__name__}"
        ) from wrong
    with make_context(), ir.Location.unknown():
        module = read_module(bytecode_of(lowered.compiler_ir("stablehlo")))
        Pipeline.parse("inline, dtensor-inline, symbol-dce").run(module, PassState())
        if len(list(module.body.operations)) != 1:
            raise CompileError(
                f"'{op.name}': its function holds calls that cannot be inlined; "
                "leave Python callbacks and custom calls with comparators out of it"
            )
        main_function(module)
        return bytecode_of(module)
