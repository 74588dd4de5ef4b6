"""200 different programs compiled in one process, with garbage collected in between.

test_many_programs.py runs it in a process of its own, in which freed memory is overwritten.
"""

import gc
import os

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=2"
os.environ["JAX_PLATFORMS"] = "cpu"

import jax
import jax.numpy as jnp
import numpy as np

import dtensor

PROGRAMS = 200
RUN_EACH = 40  # running one takes ten times as long as all before it


def text(rows: int, columns: int) -> str:
    """A module of its own shapes, with a function that is called."""
    tensor = f"tensor<{rows}x{columns}xf32>"
    return f"""
    func.func private @twice_{rows}(%a: {tensor}) -> {tensor} {{
      %b = stablehlo.add %a, %a : {tensor}
      return %b : {tensor}
    }}
    func.func @main(%a: {tensor}) -> {tensor} {{
      %b = call @twice_{rows}(%a) : ({tensor}) -> {tensor}
      %c = stablehlo.sine %b : {tensor}
      return %c : {tensor}
    }}"""


def main() -> None:
    """Compile them all, keep every third, and run some."""
    mesh = dtensor.create_mesh([("x", 2)])
    layout = dtensor.Layout(["x", dtensor.UNSHARDED], mesh)
    kept = []
    gc.freeze()  # what is imported need not be walked each time
    for i in range(PROGRAMS):
        shape = (2 * (i + 1), 3 + i % 5)
        if i % 2:
            lowered = dtensor.lower_mlir(text(*shape), in_layouts=layout)
        else:
            x = jax.ShapeDtypeStruct(shape, np.float32)
            lowered = dtensor.jit(lambda x: jnp.sin(x + x), in_layouts=layout).lower(x)
        gc.collect()
        assert "sine" in lowered.as_text()
        if i % RUN_EACH in (0, 1):
            host = np.linspace(0, 1, shape[0] * shape[1], dtype=np.float32).reshape(shape)
            (result,) = jax.tree.leaves(lowered.compile()(host))  # the jax.Array beneath
            np.testing.assert_allclose(np.asarray(result), np.sin(2 * host), rtol=1e-6)
        if i % 3 == 0:
            kept.append(lowered)


if __name__ == "__main__":
    main()
