"""One of two clients: ADDRESS CLIENT FOLDER. They save together and restore in other layouts."""

import os
import sys
import tempfile
import warnings
from pathlib import Path

warnings.simplefilter("ignore")

import jax  # noqa: E402
import numpy as np  # noqa: E402

address, client, folder = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])
jax.config.update("jax_cpu_collectives_implementation", "gloo")
jax.distributed.initialize(address, num_processes=2, process_id=client)

from dtensor.dialect.errors import CheckpointError  # noqa: E402
from dtensor.dialect.layout import Layout  # noqa: E402
from dtensor.runtime.array import DTensor  # noqa: E402
from dtensor.runtime.checkpoint.checkpoint import DTensorCheckpoint  # noqa: E402
from dtensor.runtime.checkpoint.named import name_based_restore, name_based_save  # noqa: E402
from dtensor.runtime.client import create_mesh  # noqa: E402
from tests.py.runtime.checkpoint.arrays import put, ramp  # noqa: E402

mesh = create_mesh([("x", 2), ("y", 2)])
values = ramp(8, 12)


def check(tensor: DTensor, expected: np.ndarray) -> None:
    shards = tensor.to_jax().addressable_shards
    assert len(shards) == 2
    for shard in shards:
        np.testing.assert_array_equal(np.asarray(shard.data), expected[shard.index])


def bytes_read() -> int:
    counters = Path("/proc/self/io")
    return int(counters.read_text().split()[1]) if counters.exists() else 0


def error(call) -> str:  # type: ignore[no-untyped-def]
    try:
        call()
    except CheckpointError as caught:
        return str(caught)
    raise AssertionError("no error")


arrays = {
    "both": put(values, ["x", "y"], mesh),
    "columns": put(values + 1, [None, "y"], mesh),
    "whole": put(values + 2, [None, None], mesh),
}
name_based_save(mesh, folder / "c", arrays)
name_based_save(mesh, folder / "c", arrays)  # and once more, onto the first
targets = {
    "both": Layout(["y", "x"], mesh),
    "columns": Layout([("x", "y"), None], mesh),
    "whole": Layout([None, "x"], mesh),
}
restored = name_based_restore(mesh, folder / "c", targets)
for number, (name, tensor) in enumerate(restored.items()):
    assert tensor.layout == targets[name]
    check(tensor, values + number)

checkpoint = DTensorCheckpoint(mesh, w=arrays["both"], step=3)
for number in (1, 2, 3):
    assert checkpoint.save(folder / "many", max_to_keep=2) == f"{folder}/many-{number}"
checkpoint.restore(folder / "many-3")

# Each client reads only what its devices hold, in another layout than it was written.
big = ramp(1024, 2048)
name_based_save(mesh, folder / "c8", {"big": put(big, [("x", "y"), None], mesh)})
before = bytes_read()
check(name_based_restore(mesh, folder / "c8", {"big": Layout(["x", None], mesh)})["big"], big)
assert bytes_read() - before < 0.6 * big.nbytes, (bytes_read() - before, big.nbytes)

# An error on one client is an error on both.
name = "both" if client == 0 else "other"
both = error(lambda: name_based_save(mesh, folder / "d", {name: arrays["both"]}))
assert "clients save different things: client 1 has other [8, 12] float32" in both, both
apart = error(lambda: name_based_save(mesh, folder / f"of-{client}", {"a": arrays["both"]}))
assert f"client 1 has the path {folder}/of-1 where client 0 has the path" in apart, apart
lacks = error(lambda: name_based_restore(mesh, folder / "c", {"wholly": targets["whole"]}))
assert "has no array 'wholly'; did you mean 'whole'?" in lacks, lacks
wrong = folder / ("c" if client == 0 else "none")
other = error(lambda: name_based_restore(mesh, wrong, targets))
start = "client 1: there is no" if client == 0 else "there is no"
assert other.startswith(start), other

# One path, and two folders: each client has its own working directory.
with tempfile.TemporaryDirectory() as home:
    os.chdir(home)
    split = error(lambda: name_based_save(mesh, "/proc/self/cwd/d", arrays))
    os.chdir(folder)
    assert split.startswith("client 1: " if client == 0 else "/proc/self/cwd/d is not"), split
    assert "save to a file system that all see" in split, split
    assert not [*Path(home).rglob("*.*")], "client 0 leaves its mark"

# What only client 1 cannot read; then a mesh of one client.
if client == 1:
    import orbax.checkpoint as ocp

    real = ocp.PyTreeCheckpointHandler.restore
    ocp.PyTreeCheckpointHandler.restore = None
damaged = error(lambda: name_based_restore(mesh, folder / "c", targets))
assert "/c is damaged (" in damaged, damaged
assert damaged.startswith("client 1: ") == (client == 0), damaged
if client == 1:
    ocp.PyTreeCheckpointHandler.restore = real

one = create_mesh([("z", 2)], devices=list(jax.local_devices()))
alone = error(lambda: name_based_save(one, folder / "e", {"a": put(values, ["z", None], one)}))
assert f"is on client {client} alone, and in a run of 2 clients orbax saves only" in alone, alone
check(name_based_restore(one, folder / "c", {"both": Layout([None, "z"], one)})["both"], values)
elsewhere = create_mesh([("z", 2)], devices=[d for d in jax.devices() if d.process_index != client])
away = error(lambda: name_based_restore(elsewhere, folder / "c", {"a": Layout(["z"], elsewhere)}))
assert "which drives no device of mesh(z=2" in away, away
print("right")
checkpoint.save(folder / "last", wait=False)  # which the end of the program waits for
