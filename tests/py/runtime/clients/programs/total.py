"""Adds up numbers that lie over the devices of all clients; it knows no launcher, no variable."""

import jax.numpy as jnp
import numpy as np

import dtensor

dtensor.initialize_accelerator_system("CPU")
devices = dtensor.num_global_devices("CPU")
mesh = dtensor.create_distributed_mesh([("data", devices)])
numbers = dtensor.copy_to_mesh(np.arange(24, dtype=np.float32), dtensor.Layout(["data"], mesh))
print(f"total {float(dtensor.jit(jnp.sum)(numbers))} on {devices} devices", flush=True)
