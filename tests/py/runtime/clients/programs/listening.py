"""Adds up numbers over all clients, with gloo at ADDRESS; says whether something listens there."""

import socket
import struct
import sys
from pathlib import Path

import jax.numpy as jnp
import numpy as np

import dtensor
from dtensor.runtime.clients import reaching

LISTENS = "0A"  # a state of Linux's sockets, as /proc has it

address = sys.argv[1]
reaching.address_for_others = lambda hosts, name: address
dtensor.initialize_accelerator_system("CPU")
mesh = dtensor.create_distributed_mesh([("data", dtensor.num_global_devices("CPU"))])
numbers = dtensor.copy_to_mesh(np.arange(24, dtype=np.float32), dtensor.Layout(["data"], mesh))
print(f"total {float(dtensor.jit(jnp.sum)(numbers))}")
(number,) = struct.unpack("=I", socket.inet_aton(address))
rows = [line.split() for line in Path("/proc/self/net/tcp").read_text().splitlines()[1:]]
if any(row[1].startswith(f"{number:08X}:") and row[3] == LISTENS for row in rows):
    print(f"listens at {address}", flush=True)
dtensor.barrier(mesh)
