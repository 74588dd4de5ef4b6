"""Clients that disagree: FOLDER. Each prints the errors it gets, a letter before each."""

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

import dtensor
from dtensor import Layout
from dtensor.dialect.errors import ClientError
from dtensor.runtime.clients import environment
from dtensor.runtime.clients.agreement import barrier
from dtensor.runtime.clients.distributed_mesh import create_distributed_mesh

dtensor.initialize_accelerator_system("CPU")
me = environment.client_id()
mesh = create_distributed_mesh([("x", 8)])


def expect(letter: str, action: Callable[..., object], *arguments: Any, **keywords: Any) -> None:
    try:
        action(*arguments, **keywords)
    except ClientError as error:
        print(f"{letter}: {error}")
    else:
        print(f"{letter}: no error")


expect("a", create_distributed_mesh, [("x", 4 if me == 2 else 8)])
expect("b", create_distributed_mesh, [("x", 8)], "odd" if me == 0 else "even")
few = ["CPU:1"] if me == 1 else None
expect("c", create_distributed_mesh, [("x", 8)], local_devices=few)
expect("d", create_distributed_mesh, [("x", 8)], "left" if me < 2 else "right")
expect("e", barrier, mesh, "before" if me == 3 else "after")
x = dtensor.copy_to_mesh(np.arange(8, dtype=np.float32), Layout(["x"], mesh))
expect("f", dtensor.jit(jnp.sin if me == 3 else jnp.cos), x)
rows = np.arange(24 if me == 1 else 16)
data = dtensor.DTensorDataset(
    rows, mesh=mesh, layouts=Layout(["x"], mesh), global_batch_size=8, batch_dim="x"
)
expect("g", next, iter(data))
barrier(mesh)
folder = Path(sys.argv[1])
if me == 0:
    while len(list(folder.iterdir())) < 3:  # at least until the others no longer wait for it
        time.sleep(0.05)
expect("h", barrier, mesh, "late", timeout_in_ms=300)
(folder / str(me)).touch()
own = np.float32(me == 2)
expect("i", dtensor.DVariable, own, layout=Layout([], mesh), name="w")
v = dtensor.DVariable(np.float32(1), layout=Layout([], mesh), name="v")
expect("j", v.assign, own)
expect("k", v.assign_add, float(own))
v.assign_add(2.0)
assert v.numpy() == 3
barrier(mesh, "the end")
