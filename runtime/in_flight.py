"""How many steps CPU devices may have begun: before jax 0.12 they wait for one another for ever.

Each step with collectives takes a thread per device until all of them are there; with more than
about eight unfinished ones no thread is left for the last devices, and XLA ends the process.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Sequence

import jax

from dtensor.dialect.mesh import Mesh
from dtensor.runtime.donation import Run
from dtensor.runtime.placement import platform_of

_MOST = 8
_begun = itertools.count(1)  # of all programs and by all Python's threads: they share XLA's


def throttled(mesh: Mesh, run: Run) -> Run:
    """What runs a program with collectives on the mesh, and waits now and then for its results."""
    if jax.__version_info__ >= (0, 12) or mesh.size == 1 or platform_of(mesh) != "cpu":
        return run

    def run_or_wait(*arrays: jax.Array) -> Sequence[jax.Array]:
        results = run(*arrays)
        is_traced = bool(results) and isinstance(results[-1], jax.core.Tracer)  # nothing runs
        if results and not is_traced:
            # Of several threads, others go on while one waits.
            each = max(1, _MOST // threading.active_count())
            if not next(_begun) % each:
                results[-1].block_until_ready()
        return results

    return run_or_wait
