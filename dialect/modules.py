"""The one owner of modules: a module lives for as long as anybody holds anything of its context.

MLIR's Python handles are pointers into C++. One of an operation, a value, a block or an attribute
map keeps the context alive, but not the module: `parse(text).body.operations[0].attributes` reads
freed memory, and takes the process with it, sooner or later. So modules are not owned by the names
that they are bound to, but here; and since every handle holds its context, the count of references
to a context says whether a handle is left.

What else would leave a handle without what it points to, and where it is kept from happening:

- A C++ pass may erase operations. `passes/pipeline.py` alone runs them, and drops all that a
  `PassState` holds before each; passes are frozen dataclasses and hold nothing.
- An operation that is in no module goes when its handle does, and writes into the values that it
  used, which may have gone before. All operations are made with `ip=`, in their place.

tests/py/test_repository.py holds the source to both, and to reading modules here and nowhere else.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from threading import Lock

from dtensor.dialect.mlir import bytecode_of, ir, stablehlo

_lock = Lock()
_contexts: list[ir.Context] = []
_modules: list[list[ir.Module]] = []  # of each context


def read_module(source: str | bytes, context: ir.Context | None = None) -> ir.Module:
    """Read a module, MLIR text or bytecode, and own it.

    A portable artifact, as `jax.export`, PyTorch/XLA and IREE write it, becomes StableHLO.

    Args:
        source: the text or bytecode.
        context: where it is read into; None is the current context.

    Raises:
        MLIRError: MLIR cannot read it.
        ValueError: truncated bytecode, or an artifact of a version that jaxlib does not know.
    """
    release_modules()
    module = ir.Module.parse(source, context)
    if _is_portable(module):
        module = stablehlo.deserialize_portable_artifact(module.context, bytecode_of(module))
    with _lock:
        for known, modules in zip(_contexts, _modules, strict=True):
            if known is module.context:
                modules.append(module)
                break
        else:
            _contexts.append(module.context)
            _modules.append([module])
    return module


def _is_portable(module: ir.Module) -> bool:
    """Whether it is in VHLO, StableHLO's form for files, which keeps for years.

    What is no StableHLO is in it as it is, such as the meshes of Shardy that jax writes first.
    """
    return any(op.operation.name.startswith("vhlo.") for op in module.body.operations)


def release_modules() -> None:
    """Let go of the modules that nobody can reach any more; the next reading does so too."""
    with _lock:
        for i in reversed(range(len(_contexts))):
            if _is_unheld(i):
                del _contexts[i], _modules[i]


def _is_unheld(index: int) -> bool:
    """Whether a context is held by its modules alone, and those by nobody."""
    modules = _modules[index]
    if _references(_contexts, index) != _OWN + len(modules):
        return False
    return all(_references(modules, i) == _OWN for i in range(len(modules)))


def _references(items: Sequence[object], index: int) -> int:
    return sys.getrefcount(items[index])


_OWN = _references([object()], 0)  # the list's own, and what counting adds
