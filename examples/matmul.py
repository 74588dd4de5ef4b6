"""A matmul over 8 devices, from a JAX function and from StableHLO text.

    python examples/matmul.py

The columns of `a` and the rows of `b` are split over the mesh axis `y`, so each device adds up a
part of each dot product; the all_reduce that completes them is the compiler's, and it says why.
`matmul.mlir`, beside this file, is the same program as text, with the layouts written in it.
"""

from pathlib import Path

import jax
import numpy as np

import dtensor
from dtensor import UNSHARDED, Layout


def matmul(a: jax.Array, b: jax.Array) -> jax.Array:
    """The product of two matrices."""
    return a @ b


def report(title: str, compiled: dtensor.Compiled, result: dtensor.DTensor, right: object) -> None:
    """Print what a compiled program is, and how far its result lies from the right one."""
    whole = dtensor.relayout(result, Layout.replicated(result.mesh, result.ndim))
    error = np.abs(whole.numpy() - right).max()
    print(f"{title}: {result.shape}, {result.local_shape} on each of {result.mesh.size} devices")
    print(f"largest difference from numpy: {error:.1e}")
    print(compiled.explain())


def main() -> None:
    """Multiply on a 2x4 mesh, both ways."""
    dtensor.initialize_accelerator_system("CPU", num_logical_cpu_devices=8)
    mesh = dtensor.create_mesh([("x", 2), ("y", 4)])
    random = np.random.default_rng(0)
    host_a = random.normal(size=(16, 8)).astype(np.float32)
    host_b = random.normal(size=(8, 12)).astype(np.float32)

    a = dtensor.copy_to_mesh(host_a, Layout(["x", "y"], mesh))
    b = dtensor.copy_to_mesh(host_b, Layout(["y", UNSHARDED], mesh))
    compiled = dtensor.jit(matmul).lower(a, b).compile()
    report("matmul", compiled, compiled(a, b), host_a @ host_b)

    compiled = dtensor.compile_mlir(Path(__file__).with_suffix(".mlir"))
    (product,) = compiled(host_a, host_b)  # of a host array, each device gets its shard
    report("\nmatmul.mlir", compiled, product, host_a @ host_b)


if __name__ == "__main__":
    main()
