"""Plans in jax's persistent compilation cache, where other processes find them.

jax keeps there what XLA compiled. Beside it stands what the passes made of a program, by a digest
of all that they were given, of dtensor's own sources and of the releases of jax and jaxlib. As of
jax's files: who can write to the folder decides what runs.
"""

from __future__ import annotations

import os
import pickle
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from functools import cache, lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar

import jax
import numpy as np
from jax._src.lru_cache import LRUCache

import dtensor
from dtensor.dialect.layout import Layout
from dtensor.dialect.mesh import Mesh
from dtensor.dialect.mlir import JAXLIB_VERSION
from dtensor.runtime.clients.coordination import jax_process

T = TypeVar("T")

_DIGEST = sha256().digest_size


def kept_plan(given: Mapping[str, Any], make: Callable[[], T]) -> T:
    """What `make` returns, from the cache where it is there.

    It is put there if it took as long to make as jax asks of what it keeps
    (`jax_persistent_cache_min_compile_time_secs`).

    Args:
        given: all that the result depends on, by name: numbers, texts, collections, dataclasses.
        make: makes the result, which can be pickled.
    """
    how: Any = jax.config
    folder = how.jax_compilation_cache_dir
    if not folder or not how.jax_enable_compilation_cache:
        return make()
    try:
        kept = _cache(folder, how.jax_compilation_cache_max_size)
        key = f"dtensor-plan-{sha256(_sources() + _written(given).encode()).hexdigest()}"
        found = kept.get(key)
    except (OSError, RuntimeError) as error:  # jax says the same of what XLA compiled
        _warn(folder, f"cannot be read: {error}")
        return make()
    if found is not None and sha256(found[_DIGEST:]).digest() == found[:_DIGEST]:
        result: T = pickle.loads(found[_DIGEST:])
        return result
    if found is not None:
        _warn(folder, f"has a damaged plan, {key}-cache; delete that file")
    start = time.monotonic()
    result = make()
    is_long = time.monotonic() - start >= how.jax_persistent_cache_min_compile_time_secs
    number, _ = jax_process() or (0, 1)  # all clients make the same; the first writes it
    if found is None and is_long and number == 0:
        whole = pickle.dumps(result)
        try:
            kept.put(key, sha256(whole).digest() + whole)
        except OSError as error:
            _warn(folder, f"cannot be written: {error}")
    return result


@cache
def _cache(folder: str, most: int) -> LRUCache:
    return LRUCache(folder, max_size=most)


@cache
def _sources() -> bytes:
    """A digest of what makes plans: another rule may make another plan."""
    digest = sha256(f"{jax.__version__} {JAXLIB_VERSION}".encode())
    for folder, folders, names in os.walk(Path(dtensor.__file__).parent, followlinks=True):
        folders[:] = sorted(name for name in folders if name != "__pycache__")
        for name in sorted(names):
            content = (Path(folder) / name).read_bytes()
            digest.update(f"{name} {len(content)} ".encode() + content)
    return digest.digest()


def _written(value: Any) -> str:
    """A value as text, the same in every process: what objects remember is left out."""
    if isinstance(value, Layout | Mesh):
        return _digest_of(value)
    if is_dataclass(value):
        return type(value).__name__ + _fields(value)
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{key}: {_written(each)}' for key, each in value.items())}}}"
    if isinstance(value, list | tuple):
        return f"({', '.join(map(_written, value))})"
    if isinstance(value, bytes | str | int | float | np.generic | None):
        return repr(value)
    raise TypeError(f"a plan depends on {value!r}, of which no text is known")


@lru_cache(maxsize=4096)  # many layouts are of one mesh, which may have many devices
def _digest_of(value: Layout | Mesh) -> str:
    return sha256(_fields(value).encode()).hexdigest()


def _fields(value: Any) -> str:
    # What equality leaves out follows from the rest, or is of this process, as hashes are.
    return _written({f.name: getattr(value, f.name) for f in fields(value) if f.compare})


def _warn(folder: str, what: str) -> None:
    warnings.warn(f"dtensor: jax_compilation_cache_dir {folder} {what}", stacklevel=2)
