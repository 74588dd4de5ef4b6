"""Bringing the arguments of a call to where the program takes them."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import numpy as np
from jax.sharding import NamedSharding, Sharding

from dtensor.compiler.program import ArrayInfo
from dtensor.compiler.relayout import Move, relayout
from dtensor.dialect.errors import LayoutError, StrictError
from dtensor.dialect.layout import Layout
from dtensor.passes.ledger import Ledger
from dtensor.runtime.array import ArrayType, DTensor, array_type, same_everywhere, with_layout
from dtensor.runtime.donation import refuse_deleted
from dtensor.runtime.keys import KeyKind, data_of
from dtensor.runtime.padding import padded
from dtensor.runtime.placement import layout_of, named_sharding
from dtensor.runtime.transfer import outside, place

Converter = Callable[[Any], Any]


def array_of(leaf: Any) -> Any:
    """The array beneath a DTensor; anything else as it is."""
    return leaf._array if isinstance(leaf, DTensor) else leaf


def converter(
    info: ArrayInfo, type_: ArrayType, ledger: Ledger, strict: bool, is_kept: bool = False
) -> Converter | None:
    """How to bring an argument to where the program takes it; None if it is there.

    Args:
        info: what the program takes.
        type_: what it is called with.
        ledger: gets a record of an array that must be moved.
        strict: whether that is an error.
        is_kept: whether the program leaves it to its caller, so that jax may bring it there in the
            call of the program, which is sooner done.

    Raises:
        LayoutError: its devices hold parts of a sum.
        TypeError: the shape or the element type differs.
        StrictError: the array must be moved, under `strict`.
    """
    wanted = info.type
    if type_.shape != wanted.shape or type_.dtype != wanted.dtype:
        raise TypeError(
            f"argument {info.name}: compiled for {wanted.dtype}{list(wanted.shape)}, "
            f"called with {type_.dtype}{list(type_.shape)}"
        )
    if info.key is not None:
        data = _data_type(info.key, type_)
        bring = converter(dataclasses.replace(info, key=None), data, ledger, strict, is_kept)
        return None if bring is None and type_.layout else partial(_bring_data, bring)
    layout = type_.layout
    if layout == info.layout:
        return None
    if layout is None:
        _refuse_parts(info.name, type_.sharding)
        layout = layout_of(type_.sharding, len(info.shape), info.layout.mesh)
        sharding = named_sharding(info.layout)
        if not type_.weak_type and not wanted.is_padded and type_.sharding == sharding:
            return None
        if not wanted.is_padded and _is_there(type_, sharding):  # written another way
            return partial(_of_type, info.name, type_, None)
        # On the host, from where it has to go anyway; or in place, but not padded.
        if type_.sharding is None and is_kept and sharding.is_fully_addressable:
            padding = info.layout if wanted.is_padded else None
            return partial(_of_type, info.name, type_, padding)
        if type_.sharding is None or layout == info.layout:
            return partial(_put, info.name, type_.dtype, info.layout)
    _record_move(info, layout, str(type_.sharding), ledger, strict)
    if layout is not None and layout.mesh == info.layout.mesh:
        return lambda leaf: array_of(relayout(_dtensor_of(leaf, layout), info.layout))
    return partial(_placed, info.name, info.layout)


def move_of(info: ArrayInfo, type_: ArrayType) -> Move | None:
    """What moves over the mesh of a program before it runs: an argument that lies otherwise there.

    Returns:
        The type that it has and the layout that it gets; None of one that is copied to the mesh, or
        is where the program takes it.
    """
    if info.key is not None:
        type_ = _data_type(info.key, type_)
    wanted, layout = info.layout, type_.layout
    if layout is None and type_.sharding is not None:
        layout = layout_of(type_.sharding, len(info.shape), wanted.mesh)
    if layout is None or layout == wanted or layout.mesh != wanted.mesh:
        return None
    return array_type(type_.shape, type_.dtype, layout), wanted


def _refuse_parts(name: str, sharding: Sharding | None) -> None:
    """Refuse an array whose devices hold parts of a sum: jax moves it nowhere."""
    axes = sharding.spec.unreduced if isinstance(sharding, NamedSharding) else ()
    if axes:
        raise LayoutError(
            f"argument {name} holds parts of a sum over {', '.join(sorted(axes))}, its sharding "
            "says (unreduced); add them up first, with jax.sharding.reshard(x, PartitionSpec(...))"
        )


def _is_there(type_: ArrayType, sharding: Sharding) -> bool:
    given = type_.sharding
    return given is not None and given.is_equivalent_to(sharding, len(type_.shape))


def _data_type(key: KeyKind, type_: ArrayType) -> ArrayType:
    """The type of the data of random keys."""
    layout = type_.layout and key.data_layout(type_.layout)
    # jax's sharding of the keys is one of the data too: what it does not name is whole.
    shape, dtype = (*type_.shape, *key.shape), np.dtype(key.data_dtype)
    return array_type(shape, dtype, layout, type_.sharding)


def _bring_data(bring: Converter | None, leaf: Any) -> Any:
    data = data_of(array_of(leaf))
    return data if bring is None else bring(data)


def _record_move(
    info: ArrayInfo, layout: Layout | None, sharding: str, ledger: Ledger, strict: bool
) -> None:
    before = sharding if layout is None else layout.short()
    if layout is not None and layout.mesh != info.layout.mesh:
        before += f" of {layout.mesh.short()}"
    text = f"argument {info.name} comes as {before}, the program takes {info.layout.short()}"
    if strict:
        raise StrictError(
            f"{text}; call it with dtensor.relayout(x, layout), or compile for that layout"
        )
    ledger.add(
        "moved argument",
        text,
        before="" if layout is None else layout.asm(),
        after=info.layout.asm(),
        bytes=float(math.prod(info.local_shape) * np.dtype(info.dtype).itemsize),
        asked_for=False,
    )


def is_brought(converter: Converter | None) -> bool:
    """Whether jax brings the argument in the call of the program, if it is not there already.

    It lies nowhere yet, or there by a sharding that is written another way.
    """
    if not isinstance(converter, partial):
        return False
    if converter.func is _bring_data:
        return is_brought(converter.args[0])
    return converter.func is _of_type


def _of_type(name: str, type_: ArrayType, padding: Layout | None, leaf: Any) -> Any:
    """An argument that `is_brought`, of the element type and the shape that a program takes.

    What was compiled also takes types that give way to others, which `_put` does not leave so.
    """
    if not isinstance(leaf, jax.Array):
        leaf = _copied(name, type_.dtype, leaf)
    return leaf if padding is None else padded(leaf, padding)


def _put(name: str, dtype: np.dtype[Any], layout: Layout, leaf: Any) -> Any:
    # Written exactly as the program was compiled for: jax would compile it again for a sharding
    # that is written another way, or for a type that gives way to others.
    sharding = named_sharding(layout)
    is_own = not isinstance(leaf, jax.Array) or leaf.is_fully_addressable
    if is_own and not sharding.is_fully_addressable:
        return same_everywhere(f"argument {name}", _copied(name, dtype, leaf), layout)
    if not isinstance(leaf, jax.Array):
        return jax.device_put(padded(_copied(name, dtype, leaf), layout), sharding)
    if leaf.weak_type:
        leaf = leaf.astype(dtype)
    leaf = padded(leaf, layout)
    return leaf if leaf.sharding == sharding else jax.device_put(leaf, sharding)


def _placed(name: str, layout: Layout, leaf: Any) -> Any:
    """An array that lies elsewhere: on devices of this client, or of all of them."""
    is_own = leaf.is_fully_addressable and not named_sharding(layout).is_fully_addressable
    if not is_own:
        return array_of(place(leaf, layout))
    refuse_deleted((array_of(leaf),), (name,))
    source = leaf.to_jax() if isinstance(leaf, DTensor) else leaf
    return same_everywhere(f"argument {name}", source, layout)


def _copied(name: str, dtype: np.dtype[Any], leaf: Any) -> np.ndarray[Any, Any]:
    """A host array or number as an array of its own.

    jax may read the caller's memory while the program runs, and takes it for the buffer itself on
    CPU, whatever `may_alias` says; the caller may write to it by then.

    Raises:
        OverflowError: an integer that the element type does not have.
    """
    # Of a number of Python's NumPy says so itself; of an array's elements it drops the high bits.
    is_narrowed = isinstance(leaf, np.ndarray | np.generic) and leaf.dtype != dtype
    beyond = outside(np.asarray(leaf), dtype) if is_narrowed else None
    try:
        if beyond is None:
            return np.array(leaf, dtype)
    except OverflowError:
        beyond = leaf
    is_number = not np.ndim(leaf)
    raise OverflowError(
        f"argument {name} {'is' if is_number else 'has'} {beyond}, which {dtype} does not have; "
        "pass an array of another element type, such as np.float32, or enable jax_enable_x64"
    )


def _dtensor_of(leaf: Any, layout: Layout) -> DTensor:
    return leaf if isinstance(leaf, DTensor) else with_layout(leaf, layout)
