"""Layouts that do not divide, over two clients of two devices, and a checkpoint: FOLDER."""

import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

import dtensor
from dtensor import Layout

dtensor.initialize_accelerator_system("CPU")
me = dtensor.client_id()
mesh = dtensor.create_distributed_mesh([("x", 2), ("y", 2)])
line = dtensor.create_distributed_mesh([("w", 4)])
whole = Layout.replicated(mesh, 2)
values = np.arange(35, dtype=np.float32).reshape(5, 7) - 3

LAYOUTS = {
    "rows": Layout(["x", None], mesh),
    "columns": Layout([None, "y"], mesh),
    "both": Layout(["y", "x"], mesh),
    "every": Layout([("x", "y"), None], mesh),
    "whole": whole,
}

arrays = {name: dtensor.copy_to_mesh(values, layout) for name, layout in LAYOUTS.items()}
for name, array in arrays.items():
    assert (array.shape, array.layout) == (values.shape, LAYOUTS[name])
    np.testing.assert_array_equal(dtensor.relayout(array, whole).numpy(), values)
    for layout in LAYOUTS.values():
        moved = dtensor.relayout(array, layout)
        assert moved.layout == layout
        np.testing.assert_array_equal(dtensor.relayout(moved, whole).numpy(), values)

# Of five rows over four devices the third device has one, the fourth none; both are of client 1.
shards = arrays["every"].unpack()
assert [shard.shape for shard in shards] == ([(1, 7), (0, 7)] if me else [(2, 7), (2, 7)])
rows = slice(4, 5) if me else slice(0, 4)
np.testing.assert_array_equal(np.concatenate(shards), values[rows])
packed = dtensor.pack(shards, LAYOUTS["every"])
assert (packed.shape, packed.layout) == (values.shape, LAYOUTS["every"])
np.testing.assert_array_equal(dtensor.relayout(packed, whole).numpy(), values)


@dtensor.jit
def step(x, w):  # type: ignore[no-untyped-def]
    """Products, sums, differences and the largest along dimensions that do not divide."""
    return x @ w.T, x.sum(0), jnp.diff(x, axis=0), jnp.cumsum(x, 0), jnp.argmax(x, 0)


found = step(packed, arrays["columns"])
expected = (
    values @ values.T,
    values.sum(0),
    np.diff(values, axis=0),
    values.cumsum(0),
    values.argmax(0),
)
for have, want in zip(found, expected, strict=True):
    assert have.shape == want.shape
    np.testing.assert_allclose(
        dtensor.relayout(have, Layout.replicated(mesh, want.ndim)).numpy(), want, rtol=1e-6
    )

folder = Path(sys.argv[1]) / "c"
dtensor.name_based_save(mesh, folder, arrays)
turned = dict(zip(LAYOUTS, reversed(LAYOUTS.values()), strict=True))
for wanted in (LAYOUTS, turned):
    for name, array in dtensor.name_based_restore(mesh, folder, wanted).items():
        assert (array.shape, array.layout) == (values.shape, wanted[name])
        np.testing.assert_array_equal(dtensor.relayout(array, whole).numpy(), values)
other = dict.fromkeys(LAYOUTS, Layout([None, "w"], line))
for array in dtensor.name_based_restore(line, folder, other).values():
    again = dtensor.relayout(array, Layout.replicated(line, 2))
    np.testing.assert_array_equal(again.numpy(), values)

# Arrays that each client has for itself come back there, and jax may still move what it might.
own = [jnp.arange(3), jax.random.key(1), jax.device_put(7.0, jax.local_devices()[1])]
state = list(own)
checkpoint = dtensor.DTensorCheckpoint(mesh, state)
path = checkpoint.save(folder.parent / "own")
state[:] = jnp.zeros(3, int), jax.random.key(2), 0 * own[2]
checkpoint.restore(path).assert_consumed()
for here, there in zip(own, state, strict=True):
    assert jnp.array_equal(here, there)
    assert (here.committed, here.sharding) == (there.committed, there.sharding)
dtensor.barrier(mesh)
print("right")
