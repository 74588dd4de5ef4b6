"""Loads a module on first use, in one thread at a time."""

from __future__ import annotations

import importlib
from threading import RLock
from types import ModuleType

_lock = RLock()


def load(name: str) -> ModuleType:
    """The module of this name, imported if it is not yet.

    Python locks each module by itself. Of modules that import each other, as jax's do, two threads
    that begin at different ones would each find one that is not ready; so one waits here.
    """
    with _lock:
        return importlib.import_module(name)
