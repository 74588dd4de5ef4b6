"""A client that is lost in the middle: MODE CLIENT; the others would wait for it for ever."""

import ctypes
import os
import signal
import sys
import time
from contextlib import suppress

import jax
import jax.numpy as jnp
import numpy as np

import dtensor
from dtensor import Layout
from dtensor.runtime.clients import config, environment
from dtensor.runtime.clients.agreement import barrier
from dtensor.runtime.clients.distributed_mesh import create_distributed_mesh

mode, lost = sys.argv[1], int(sys.argv[2])
dtensor.initialize_accelerator_system("CPU")
mesh = create_distributed_mesh([("x", config.num_global_devices("CPU"))])
total = dtensor.jit(jnp.sum, out_layouts=Layout.replicated(mesh, 0))
x = dtensor.copy_to_mesh(np.ones(mesh.size, np.float32), Layout(["x"], mesh))
jax.block_until_ready(total(x))
barrier(mesh)
if environment.client_id() == lost:
    print(time.monotonic(), flush=True)
    if mode == "killed" and lost and os.fork() == 0:  # as a data loader does; it lives on
        os.closerange(0, 3)
        time.sleep(8)
        os._exit(0)
    if mode == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if mode == "stopped":
        os.kill(os.getpid(), signal.SIGSTOP)
    if mode == "holding":
        ctypes.PyDLL(None).sleep(15)  # longer than the heartbeats may be silent; PyDLL holds it
        total(x)
        barrier(mesh)
        print("all came back")
        sys.exit(0)
    if mode == "forking":
        for ends in ("by itself", "with an exception"):
            child = os.fork()
            if child == 0:
                assert ends == "by itself", ends
                sys.exit(3)
            os.waitpid(child, 0)
        total(x)
        barrier(mesh)
        print("all came back")
        sys.exit(0)
    if mode == "exiting":
        with suppress(SystemExit):
            sys.exit(2)  # nobody hears of what is caught
        sys.exit("no data")
    if mode == "failing":
        raise ValueError("the batch is empty")
    sys.exit(0)  # leaving
if mode in ("holding", "forking"):
    jax.block_until_ready(total(x))
    barrier(mesh)
    print("all came back")
    sys.exit(0)
if environment.client_id() % 2:
    barrier(mesh)  # waits in Python for what the lost client never says
jax.block_until_ready(total(x))  # waits inside a collective
print("not reached")
