"""A matmul over 8 devices, from a JAX function and from StableHLO text.

    python examples/matmul.py

The columns of `a` and the rows of `b` are split over the mesh axis `y`, so each device adds up a
part of each dot product; the all_reduce that completes them is the compiler's, and it says why.
`matmul.mlir`, beside this file, is the same program as text, with the layouts written in it.
"""

from pathlib import Path

import numpy as np

import dtensor
from dtensor import UNSHARDED, Layout


def matmul(a, b):  # type: ignore[no-untyped-def] # any arrays
    """The product of two matrices."""
    return a @ b


def report(title: str, compiled: dtensor.Compiled, result: dtensor.DTensor) -> None:
    """Print what a compiled program is, and how far its result lies from numpy's."""
    whole = dtensor.relayout(result, Layout.replicated(result.mesh, result.ndim))
    error = np.abs(whole.numpy() - A @ B).max()
    print(f"{title}: {result.shape}, {result.local_shape} on each of {result.mesh.size} devices")
    print(f"largest difference from numpy: {error:.1e}")
    print(compiled.explain())


A, B = np.random.default_rng(0).normal(size=(2, 16, 16)).astype(np.float32)

if __name__ == "__main__":
    dtensor.initialize_accelerator_system("CPU", num_logical_cpu_devices=8)
    mesh = dtensor.create_mesh([("x", 2), ("y", 4)])
    a = dtensor.copy_to_mesh(A, Layout(["x", "y"], mesh))
    b = dtensor.copy_to_mesh(B, Layout(["y", UNSHARDED], mesh))
    compiled = dtensor.jit(matmul).lower(a, b).compile()
    report("matmul", compiled, compiled(a, b))

    compiled = dtensor.compile_mlir(Path(__file__).with_suffix(".mlir"))
    (product,) = compiled(A, B)  # host arrays: each device gets its shard
    report("\nmatmul.mlir", compiled, product)
