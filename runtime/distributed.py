"""Several processes that run one program: they must all have the same one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import jax

from dtensor.dialect.mesh import Mesh
from dtensor.runtime.placement import jax_mesh

_TIMEOUT_MILLISECONDS = 300_000  # a process may still be compiling what came before
_loaded: Counter[tuple[int, ...]] = Counter()


def agree_on_program(fingerprint: str, mesh: Mesh) -> None:
    """Check that all processes with devices in `mesh` are loading the same program.

    XLA does not: processes that run different modules exchange bytes and get wrong numbers.

    Args:
        fingerprint: digest of the program.
        mesh: where it runs. Programs must be loaded in the same order everywhere.

    Raises:
        RuntimeError: another process loads another program, or none within five minutes.
    """
    if jax.process_count() == 1:
        return
    processes = tuple(sorted({d.process_index for d in jax_mesh(mesh).devices.flat}))
    if len(processes) == 1:
        return
    client = _coordination_client()
    number = _loaded[processes]
    _loaded[processes] += 1
    group = "-".join(map(str, processes))
    prefix = f"dtensor/program/{group}/{number}"
    client.key_value_set(f"{prefix}/{jax.process_index()}", fingerprint)
    found = {process: _value(client, f"{prefix}/{process}", process) for process in processes}
    compare(found, jax.process_index(), number)


def compare(fingerprints: dict[int, str], own: int, number: int) -> None:
    """Raise RuntimeError unless all processes have the fingerprint of the process `own`."""
    odd = [process for process, value in fingerprints.items() if value != fingerprints[own]]
    if odd:
        raise RuntimeError(
            f"program {number} differs between processes: process {own} has "
            f"{fingerprints[own][:12]}, but {_list(odd, fingerprints)}; all processes must call "
            "the same functions with the same shapes and layouts, in the same order"
        )


def _list(processes: Sequence[int], fingerprints: dict[int, str]) -> str:
    return ", ".join(f"process {p} has {fingerprints[p][:12]}" for p in processes)


def _value(client: Any, key: str, process: int) -> str:
    try:
        return str(client.blocking_key_value_get(key, _TIMEOUT_MILLISECONDS))
    except jax.errors.JaxRuntimeError as error:
        raise RuntimeError(
            f"process {process} did not load this program within "
            f"{_TIMEOUT_MILLISECONDS // 1000} s: it has ended, or it runs another part of the "
            f"program ({error})"
        ) from None


def _coordination_client() -> Any:
    # jax has no public way to its key-value store.
    from jax._src.distributed import global_state

    return global_state.client
