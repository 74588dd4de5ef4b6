"""How many steps CPU devices may have begun: before jax 0.12 they wait for one another for ever.

Each step with collectives takes a thread per device until all of them are there; with more than
about eight unfinished ones no thread is left for the last devices, and XLA ends the process.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence

import jax

from dtensor.dialect.mesh import Mesh
from dtensor.runtime.donation import Run
from dtensor.runtime.placement import platform_of

_MOST = 8  # of all programs and by all Python's threads: they share XLA's
_slots = threading.BoundedSemaphore(_MOST)


class _Own(threading.local):
    begun = 0  # by this thread


_own = _Own()


def throttled(mesh: Mesh, run: Run) -> Run:
    """What runs a program with collectives on the mesh, and waits now and then for its results."""
    if jax.__version_info__ >= (0, 12) or mesh.size == 1 or platform_of(mesh) != "cpu":
        return run

    def run_or_wait(*arrays: jax.Array) -> Sequence[jax.Array]:
        each = _MOST // threading.active_count()  # of several threads, others go on while one waits
        if each < 2:
            with _slots:
                results = run(*arrays)
                _wait(results)
            return results
        results = run(*arrays)
        _own.begun += 1
        if not _own.begun % each:
            _wait(results)
        return results

    return run_or_wait


def _wait(results: Sequence[jax.Array]) -> None:
    if results and not isinstance(results[-1], jax.core.Tracer):  # of which nothing runs
        results[-1].block_until_ready()
