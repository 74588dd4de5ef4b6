"""Adds up numbers over all clients, and tries to save them to a FOLDER that not all see."""

import sys

import jax.numpy as jnp
import numpy as np

import dtensor

dtensor.initialize_accelerator_system("CPU")
devices = dtensor.num_global_devices("CPU")
mesh = dtensor.create_distributed_mesh([("data", devices)])
numbers = dtensor.copy_to_mesh(np.arange(24, dtype=np.float32), dtensor.Layout(["data"], mesh))
total = float(dtensor.jit(jnp.sum)(numbers))
try:
    dtensor.DTensorCheckpoint(mesh, numbers=numbers).save(f"{sys.argv[1]}/c")
except dtensor.CheckpointError as error:
    print(f"total {total} on {devices} devices, {str(error).rpartition('; ')[2]}", flush=True)
dtensor.barrier(mesh)
