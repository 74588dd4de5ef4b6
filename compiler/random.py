"""Random numbers that depend on the seed and the shape alone: not on the layout, nor on the mesh.

Each device computes the numbers of its own shard, by jax's counter-based generator (threefry).
"""

from __future__ import annotations

import numbers
import operator
from collections.abc import Callable, Sequence
from typing import Any, overload

import jax
import jax.numpy as jnp
import numpy as np

from dtensor.compiler.default_mesh import get_default_mesh
from dtensor.compiler.eager.calls import call
from dtensor.dialect.layout import Layout
from dtensor.dialect.mesh import Mesh
from dtensor.runtime.array import DTensor
from dtensor.runtime.keys import KeyKind, is_key, key_kind
from dtensor.runtime.shardings import as_mesh

_GENERATOR = "threefry2x32"


def stateless_random_normal(
    shape: Sequence[int],
    seed: Any,
    mean: Any = 0.0,
    stddev: Any = 1.0,
    dtype: Any = jnp.float32,
    name: str | None = None,
    layout: Layout | None = None,
) -> DTensor:
    """Normally distributed numbers.

    Args:
        shape: global shape in elements.
        seed: two integers of 32 bits, or a random key of jax's; equal seeds give equal numbers.
        mean: the mean: a number, or an array that broadcasts to `shape`.
        stddev: the standard deviation, likewise.
        dtype: a floating-point type.
        name: not used: operations here have no names.
        layout: how the result is laid out; None replicates it on the default mesh. In a traced
            function it is a constraint, and None leaves the choice to the compiler.

    Raises:
        LayoutError: the layout does not fit the shape, or no mesh is known.
        TypeError: the seed or the shape is something else.
        ValueError: the element type is not floating-point, or a size is negative.

    Example:
        >>> rows = dtensor.Layout.batch_sharded(mesh, "x", rank=2)
        >>> dtensor.random.stateless_random_normal((4, 8), seed=(0, 1), layout=rows).layout
        Layout(['x', UNSHARDED], Mesh(x=2, y=4))
    """
    wanted = _float_type(dtype)
    args = (_seed(seed), mean, stddev, _shape(shape), wanted)
    return _drawn(_normal, args, "stateless_normal", layout)


def stateless_truncated_normal(
    shape: Sequence[int],
    seed: Any,
    mean: Any = 0.0,
    stddev: Any = 1.0,
    dtype: Any = jnp.float32,
    name: str | None = None,
    layout: Layout | None = None,
) -> DTensor:
    """Normally distributed numbers, none further than two standard deviations from the mean.

    Arguments and errors are those of stateless_random_normal.

    Example:
        >>> rows = dtensor.Layout.batch_sharded(mesh, "x", rank=2)
        >>> x = dtensor.random.stateless_truncated_normal((4, 8), seed=(0, 1), layout=rows)
        >>> x.local_shape
        (2, 8)
    """
    wanted = _float_type(dtype)
    args = (_seed(seed), mean, stddev, _shape(shape), wanted)
    return _drawn(_truncated_normal, args, "stateless_truncated_normal", layout)


def stateless_random_uniform(
    shape: Sequence[int],
    seed: Any,
    minval: Any = 0,
    maxval: Any = None,
    dtype: Any = jnp.float32,
    name: str | None = None,
    layout: Layout | None = None,
) -> DTensor:
    """Uniformly distributed numbers, at least `minval` and less than `maxval`.

    Args:
        shape: global shape in elements.
        seed: as in stateless_random_normal.
        minval: the smallest number; None, for an integer type, takes its whole range.
        maxval: the first number that does not come; None is 1, for a floating-point type.
        dtype: a floating-point or an integer type.
        name: not used: operations here have no names.
        layout: as in stateless_random_normal.

    Raises:
        LayoutError: the layout does not fit the shape, or no mesh is known.
        TypeError: the seed or the shape is something else.
        ValueError: one bound of an integer type is missing, or they hold no number; the type is
            neither; a size is negative.

    Example:
        >>> rows = dtensor.Layout.batch_sharded(mesh, "x", rank=2)
        >>> x = dtensor.random.stateless_random_uniform((4, 8), seed=(0, 1), layout=rows)
        >>> x.local_shape
        (2, 8)
    """
    wanted = np.dtype(dtype)
    where = (_seed(seed), _shape(shape), wanted)
    title = "stateless_uniform"
    if jnp.issubdtype(wanted, jnp.floating):
        bounds = (0.0 if minval is None else minval, 1.0 if maxval is None else maxval)
        return _drawn(_uniform, (*where, *bounds), title, layout)
    if not jnp.issubdtype(wanted, jnp.integer):
        raise ValueError(f"{title} got dtype {wanted}; it must be a floating-point or integer type")
    if minval is None and maxval is None:
        return _drawn(_bits, where, title, layout)
    if minval is None or maxval is None:
        raise ValueError(
            f"For integer `dtype` argument {wanted}, argument `minval` and `maxval` must be both "
            f"None or not None. Got `minval`={minval} and `maxval`={maxval}."
        )
    if isinstance(minval, int) and isinstance(maxval, int) and minval >= maxval:
        raise ValueError(f"{title} needs minval < maxval, got {minval} and {maxval}")
    return _drawn(_integers, (*where, minval, maxval), title, layout)


def _drawn(fn: Callable[..., Any], args: tuple[Any, ...], name: str, layout: Any) -> DTensor:
    drawn: DTensor = call(fn, args, {}, name, layout)
    return drawn


def stateless_split(seed: Any, num: int = 2, mesh: Mesh | None = None) -> Any:
    """New seeds from one, which give numbers that are independent of one another.

    Args:
        seed: as in stateless_random_normal.
        num: how many.
        mesh: where the seeds lie, replicated; None is the mesh of `seed`, or the default mesh.

    Returns:
        uint32[num, 2]: a DTensor, or a NumPy array where there is no mesh; each row is a seed.

    Example:
        >>> dtensor.random.stateless_split((0, 1), num=3, mesh=mesh).shape
        (3, 2)
    """
    data = _seed(seed)
    count = operator.index(num)
    mesh = get_default_mesh() if mesh is None else as_mesh(mesh)
    if mesh is None and isinstance(data, np.ndarray):
        return np.asarray(_split(data, count))
    layout = None if mesh is None else Layout.replicated(mesh, 2)
    return _drawn(_split, (data, count), "stateless_split", layout)


@overload
def dropout(
    x: DTensor,
    rate: float,
    noise_shape: Sequence[int | None] | None = None,
    seed: Any = None,
    name: str | None = None,
) -> DTensor: ...


@overload
def dropout(
    x: jax.Array,
    rate: float,
    noise_shape: Sequence[int | None] | None = None,
    seed: Any = None,
    name: str | None = None,
) -> jax.Array: ...


def dropout(
    x: Any,
    rate: float,
    noise_shape: Sequence[int | None] | None = None,
    seed: Any = None,
    name: str | None = None,
) -> Any:
    """`x` with a random part of its elements zero, and the others divided by what part is left.

    Args:
        x: a DTensor of a floating-point type, or a traced array; the result has its layout.
        rate: which part becomes zero, from 0 to less than 1.
        noise_shape: the shape in which elements are chosen; it broadcasts to that of `x`, and None
            in it is the size of `x`.
        seed: an integer, or as in stateless_random_normal.
        name: not used: operations here have no names.

    Raises:
        TypeError: `x` is no array of a floating-point type.
        ValueError: the seed is missing, the rate is not a number from 0 to less than 1, or the
            noise shape does not broadcast.

    Example:
        >>> rows = dtensor.Layout.batch_sharded(mesh, "x", rank=2)
        >>> x = dtensor.copy_to_mesh(np.ones((4, 8)), rows)
        >>> dtensor.random.dropout(x, rate=0.5, seed=0).layout
        Layout(['x', UNSHARDED], Mesh(x=2, y=4))
    """
    if isinstance(rate, bool) or not isinstance(rate, numbers.Real):
        raise ValueError(f"rate should be a number for dropout, got {type(rate).__name__}")
    if not 0 <= rate < 1:
        raise ValueError(f"rate must be at least 0 and less than 1 for dropout, got {rate}")
    if seed is None:
        raise ValueError("seed must be specified for DTensor dropout. Got: None")
    if not isinstance(x, DTensor | jax.Array):
        raise TypeError(f"dropout needs a DTensor, got {type(x).__name__}")
    if not jnp.issubdtype(x.dtype, jnp.floating):
        raise TypeError(f"dropout needs an array of a floating-point type, got {x.dtype}")
    pair = (seed, 0) if isinstance(seed, int) else seed
    shape = _noise_shape(x.shape, noise_shape)
    layout = x.layout if isinstance(x, DTensor) else None
    return _drawn(_dropout, (x, _seed(pair), float(rate), shape), "dropout", layout)


def _normal(seed: Any, mean: Any, stddev: Any, shape: Any, dtype: Any) -> Any:
    drawn = jax.random.normal(_key(seed), shape, dtype)
    return drawn * _as(stddev, dtype) + _as(mean, dtype)


def _truncated_normal(seed: Any, mean: Any, stddev: Any, shape: Any, dtype: Any) -> Any:
    drawn = jax.random.truncated_normal(_key(seed), -2.0, 2.0, shape, dtype)
    return drawn * _as(stddev, dtype) + _as(mean, dtype)


def _uniform(seed: Any, shape: Any, dtype: Any, minval: Any, maxval: Any) -> Any:
    drawn = jax.random.uniform(_key(seed), shape, dtype)
    low = _as(minval, dtype)
    return drawn * (_as(maxval, dtype) - low) + low


def _integers(seed: Any, shape: Any, dtype: Any, minval: Any, maxval: Any) -> Any:
    return jax.random.randint(_key(seed), shape, minval, maxval, dtype)


def _bits(seed: Any, shape: Any, dtype: Any) -> Any:
    unsigned = np.dtype(f"uint{8 * dtype.itemsize}")
    bits = jax.random.bits(_key(seed), shape, unsigned)
    return jax.lax.bitcast_convert_type(bits, dtype)


def _split(seed: Any, num: int) -> Any:
    return jax.random.key_data(jax.random.split(_key(seed), num))


def _dropout(x: Any, seed: Any, rate: float, shape: Any) -> Any:
    kept = jax.random.uniform(_key(seed), shape, jnp.float32) >= rate
    return jnp.where(kept, x / jnp.asarray(1 - rate, x.dtype), jnp.zeros((), x.dtype))


def _as(value: Any, dtype: Any) -> Any:
    return jnp.asarray(value, dtype)


def _key(seed: Any) -> Any:
    if is_key(seed.dtype):
        return seed
    return jax.random.wrap_key_data(seed.astype(jnp.uint32), impl=_GENERATOR)


def _seed(seed: Any) -> Any:
    """A seed as an array: uint32[2], or the array of integers or the key that was given.

    Raises:
        TypeError: neither two integers nor a key of this generator.
    """
    if isinstance(seed, DTensor | jax.Array) and (kind := key_kind(seed.dtype)) is not None:
        _check_key(kind, seed.shape)
        return seed
    if isinstance(seed, DTensor | jax.Array):
        _check_pair(seed.shape, seed.dtype)
        return seed
    pair = np.asarray(seed)
    _check_pair(pair.shape, pair.dtype)
    words = [int(word) for word in pair]
    if not all(-(2**31) <= word < 2**32 for word in words):
        raise TypeError(f"seed {words} has an integer of more than 32 bits")
    return np.array([word % 2**32 for word in words], np.uint32)


def _check_key(kind: KeyKind, shape: tuple[int, ...]) -> None:
    if str(kind.impl) != _GENERATOR:
        raise TypeError(
            f"seed is a key of {kind.impl}, whose numbers may depend on the layout; make it with "
            f"jax.random.key(seed, impl='{_GENERATOR}')"
        )
    if shape:
        raise TypeError(f"seed is an array of keys, of shape {list(shape)}; give one key of it")


def _check_pair(shape: Any, dtype: Any) -> None:
    if tuple(shape) != (2,) or dtype.kind not in "iu":
        raise TypeError(
            f"seed must be two integers or a random key, got {dtype}{list(shape)}; write (seed, 0)"
        )


def _shape(shape: Any) -> tuple[int, ...]:
    try:
        sizes = tuple(operator.index(size) for size in shape)
    except TypeError:
        raise TypeError(f"shape must be a sequence of integers, got {shape!r}") from None
    if any(size < 0 for size in sizes):
        raise ValueError(f"shape {list(sizes)} has a negative size")
    return sizes


def _float_type(dtype: Any) -> np.dtype[Any]:
    wanted: np.dtype[Any] = np.dtype(dtype)
    if not jnp.issubdtype(wanted, jnp.floating):
        raise ValueError(f"normal numbers need a floating-point dtype, got {wanted}")
    return wanted


def _noise_shape(shape: tuple[int, ...], given: Any) -> tuple[int, ...]:
    if given is None:
        return shape
    sizes = tuple(given)
    if len(sizes) == len(shape):
        sizes = tuple(n if size is None else size for n, size in zip(shape, sizes, strict=True))
    wanted = _shape(sizes)
    try:
        fits = np.broadcast_shapes(wanted, shape) == shape
    except ValueError:
        fits = False
    if not fits:
        raise ValueError(f"noise_shape {list(wanted)} does not broadcast to {list(shape)}")
    return wanted
