"""Trains from the last checkpoint in FOLDER on, which is all it knows: no launcher, no variable."""

import os
import sys
from pathlib import Path

import jax
import numpy as np

import dtensor

STEPS = 6

folder = Path(sys.argv[1])
dtensor.initialize_accelerator_system("CPU")
mesh = dtensor.create_distributed_mesh([("data", dtensor.num_global_devices("CPU"))])
layout = dtensor.Layout(["data"], mesh)
start = np.arange(24, dtype=np.float32)  # 24 elements: whole shards on 2, 3 and 4 devices
weights = dtensor.DVariable(start, layout=layout)
at = {"step": 0}
checkpoint = dtensor.DTensorCheckpoint(mesh, weights=weights, at=at)
latest = dtensor.latest_checkpoint(folder)
if latest is not None:
    checkpoint.restore(latest)


@dtensor.jit
def step(rate: jax.Array) -> None:
    weights.assign(weights.value() * rate + 1)


print(f"pid {os.getpid()} of {dtensor.client_id()} goes on from {at['step']}", flush=True)
while at["step"] < STEPS:
    step(np.float32(0.5))
    at["step"] += 1
    checkpoint.save(folder / "c", max_to_keep=2)
    print(f"step {at['step']}", flush=True)
total = dtensor.relayout(weights.read_value(), dtensor.Layout.replicated(mesh, 1)).numpy()
print("weights", *total)
