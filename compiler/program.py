"""The compiled program, all that the runtime needs to load and call it; and tables of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

import numpy as np

from dtensor.runtime.array import ArrayType, array_type
from dtensor.runtime.keys import KeyKind
from dtensor.runtime.splicing import ArraySpec, Program

MOST_PROGRAMS = 1024
"""How many a table keeps; each takes about 1.5 MB of host memory, most of it what jax keeps."""

Run = Callable[..., Any]
"""Takes jax.Arrays that lie as the program takes them, and returns what the operation returns."""


@dataclass(frozen=True)
class ArrayInfo(ArraySpec):
    """An argument or a result of a compiled program.

    Attributes:
        shape: global shape in elements.
        dtype: name of the element type as numpy writes it: `float32`, `bfloat16`.
        layout: how the array is laid out over the mesh; complete and contiguous.
        name: where the array stands in the arguments or results: `params['w']`, `result[0]`.
        weak_type: whether its element type gives way to others, as a Python number's does.
        key: the kind of the random keys whose data it is; None for any other array.

    Example:
        >>> rows = dtensor.Layout.batch_sharded(mesh, "x", rank=2)
        >>> step = dtensor.jit(lambda x: x.sum(axis=0), in_layouts=rows)
        >>> step.lower(np.ones((4, 8))).compile().program.args[0].local_shape
        (2, 8)
    """

    key: KeyKind | None = None

    @property
    def type(self) -> ArrayType:
        """What a caller gives or gets: of random keys, the keys and not their data."""
        if self.key is None:
            dtype = np.dtype(self.dtype)
            return array_type(self.shape, dtype, self.layout, None, self.weak_type)
        shape = self.shape[: len(self.shape) - len(self.key.shape)]
        return array_type(shape, self.key.dtype, self.key.layout(self.layout))


@dataclass(frozen=True, eq=False)
class CompiledProgram(Program):
    """A program for one device of the mesh, with explicit collectives, ready to be loaded.

    Compared by identity: two programs of equal bytecode may hold different Python callbacks.

    Attributes:
        bytecode: StableHLO module as MLIR bytecode; `@main` has local shapes.
        mesh: the mesh whose devices run the program; a device's partition id is its position.
        args: what each argument of `@main` is.
        results: what each result of `@main` is.
        donated: indices of the arguments whose buffers the program may reuse.
        host_callbacks: Python functions that the program calls, by callback index.
        keepalives: objects that must live as long as the program does.
        ledger: the compiler's records of what it decided and why.
        compiler_options: options of XLA, sorted by name.

    Example:
        >>> rows = dtensor.Layout.batch_sharded(mesh, "x", rank=2)
        >>> step = dtensor.jit(lambda x: x.sum(axis=0), in_layouts=rows)
        >>> step.lower(np.ones((4, 8))).compile().program.results[0].layout
        Layout([UNSHARDED], Mesh(x=2, y=4))
    """

    args: tuple[ArrayInfo, ...]
    results: tuple[ArrayInfo, ...]
    ledger: Any = field(default=None, repr=False)


class Programs(dict[Any, Run]):
    """Programs by what they are for; the oldest leave when there are more than MOST_PROGRAMS.

    Where all is asked of `recent`, these are the ones that were not used for longest.
    """

    def __init__(self) -> None:
        super().__init__()
        self._lock = Lock()

    def __setitem__(self, key: Any, run: Run) -> None:
        with self._lock:  # the oldest is looked for, and other threads add programs too
            self.pop(key, None)
            while len(self) >= MOST_PROGRAMS:
                del self[next(iter(self))]
            super().__setitem__(key, run)

    def recent(self, key: Any) -> Run | None:
        """The program for a key, which from now on is the newest; None if there is none."""
        if 2 * len(self) < MOST_PROGRAMS:  # long before any leaves, it costs nothing
            return self.get(key)
        with self._lock:
            run = self.pop(key, None)
            if run is not None:
                super().__setitem__(key, run)
            return run
