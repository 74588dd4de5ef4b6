"""Operations on arrays over two clients of two devices, and what each of them sees."""

from contextlib import nullcontext

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dtensor
import dtensor.numpy as dnp
from dtensor import UNSHARDED, Layout

dtensor.initialize_accelerator_system("CPU")
me = dtensor.client_id()
task = f"/job:worker/replica:0/task:{me}/device:CPU:"
mesh = dtensor.create_distributed_mesh([("x", 2), ("y", 2)])
assert mesh == dtensor.create_mesh([("x", 2), ("y", 2)])
assert mesh == dtensor.Mesh([("x", 2), ("y", 2)])  # which an AbstractMesh of jax's stands for
assert str(mesh) == (f"Mesh.from_string(|x=2,y=2|0,1,2,3|{2 * me},{2 * me + 1}|{task}0,{task}1)")
with pytest.raises(dtensor.MeshError, match="only 2 of its device names, those of one client; ma"):
    dtensor.copy_to_mesh(1.0, Layout([], dtensor.Mesh.from_string(mesh.to_string())))
assert dtensor.device_name() == f"/job:worker/replica:0/task:{me}/device:CUSTOM:0"

values = np.arange(32, dtype=np.float32).reshape(8, 4)
a = dtensor.copy_to_mesh(values, Layout(["x", "y"], mesh))
whole = Layout.replicated(mesh, 2)
product = a @ a.T
assert product.layout == Layout(["x", UNSHARDED], mesh)
np.testing.assert_array_equal(dtensor.relayout(product, whole).numpy(), values @ values.T)
np.testing.assert_array_equal(dtensor.relayout(2 * a[:, ::2], whole), 2 * values[:, ::2])
assert float(dnp.sum(a)) == float(np.sum(a)) == values.sum()
assert (a > 3).sum().item() == 28
np.testing.assert_array_equal(a[3, 1].numpy(), 13)
for read in (a.numpy, a.__array__):
    with pytest.raises(dtensor.LayoutError, match="no device holds all of it; gather it"):
        read()
rows, columns = slice(4 * me, 4 * me + 4), (slice(0, 2), slice(2, 4))
for number, shard in enumerate(a.unpack()):
    np.testing.assert_array_equal(shard, values[rows, columns[number]])
texts = repr(a).splitlines()[1:]
assert [text.split("] ")[0] for text in texts] == [
    f"[{4 * me}:{4 * me + 4}, {start}:{start + 2}" for start in (0, 2)
]
assert str(a).startswith(f'DTensor({{"CPU:0": [[{16 * me} {16 * me + 1}]')
packed = dtensor.pack([np.full(3, 2 * me + i) for i in range(2)], Layout([("x", "y")], mesh))
assert packed.shape == (12,)
assert int(packed.sum()) == 3 * (0 + 1 + 2 + 3)
with pytest.raises(dtensor.LayoutError, match="got 4 shards for the 2 local devices of mesh"):
    dtensor.pack([np.zeros(3)] * 4, Layout([("x", "y")], mesh))

holes = np.where(values % 3 == 0, np.nan, values)  # of which jax says that no client has the same
doubled = dtensor.jit(lambda a: 2 * a, mesh=mesh, in_layouts=[Layout(["x", "y"], mesh)])
for own in (np.asarray, jnp.asarray, lambda a: jax.device_put(a, jax.local_devices()[1])):
    np.testing.assert_array_equal(dtensor.relayout(doubled(own(holes)), whole), 2 * holes)
    with pytest.raises(dtensor.ClientError, match=r"differ in argument a: checksum .{8} on client"):
        doubled(own(holes + me))
for shape in [(4, 2), (2, 4)]:
    doubled(np.zeros(shape))
with pytest.raises(dtensor.ClientError, match="differ in argument a: checksum"):
    doubled(np.zeros((4, 2) if me else (2, 4)))
with jax.disable_jit():
    np.testing.assert_array_equal(dtensor.relayout(doubled(values), whole), 2 * values)
with jax.debug_nans(True):  # one client finds a NaN, and the other goes on without it
    logarithm = dtensor.jit(lambda a: jnp.log(a) @ a.T, mesh=mesh, in_layouts=[a.layout])
    with pytest.raises(FloatingPointError, match="nan") if me else nullcontext():
        logarithm(np.where(values > 30, -1, values + 1))
    dtensor.copy_to_mesh(holes[:5], a.layout).to_jax()
ref = jax.new_ref(jnp.ones(values.shape))  # each client has one of its own
dtensor.jit(lambda a, ref: ref.__setitem__(..., a + ref[...]))(a, ref)
np.testing.assert_array_equal(ref[...], values + 1)
filled = jax.tree.map(lambda x: jnp.full(x.shape, np.nan), a)
assert filled.layout == a.layout
assert np.isnan(dtensor.relayout(filled, whole)).all()

first = dtensor.create_mesh([("w", 2)])  # all of client 0
assert first.num_local_devices() == (0 if me else 2)
on_first = Layout(["w"], first)
b = dtensor.copy_to_mesh(np.arange(4.0), on_first) + 1
times = dtensor.jit(lambda a, n: a * n, in_layouts=[on_first, None])
assert times(np.zeros(0), 2).shape == (0,)
dataset = dtensor.DTensorDataset(
    np.arange(8.0), mesh=first, layouts=on_first, global_batch_size=4, batch_dim="w"
)
for batch in (times(np.arange(4.0), 1), next(iter(dataset))):
    assert [shard.tolist() for shard in batch.unpack()] == [[], [[0, 1], [2, 3]]][1 - me]
total = b.sum()
elsewhere = [(a, Layout(["w", UNSHARDED], first))]
if me == 1:  # which has no part of these
    elsewhere += [(total, Layout.replicated(mesh, 0)), (b, Layout.replicated(mesh, 1))]
for array, to in elsewhere:
    with pytest.raises(dtensor.MeshError, match="that other clients have a part of to mesh"):
        dtensor.relayout(array, to)
moved = dtensor.relayout(dtensor.relayout(a, whole), Layout(["w", UNSHARDED], first))
assert moved.layout == Layout(["w", UNSHARDED], first)
if me == 0:
    np.testing.assert_array_equal(moved.unpack()[1], values[4:])
if me == 0:
    assert float(total) == 10
    assert repr(b).endswith("[0:2] [1. 2.]\n[2:4] [3. 4.]")
else:
    here = r"this is client 1, which has no device in mesh\(w=2\); its clients are 0"
    with pytest.raises(dtensor.MeshError, match=f"cannot read an array here: {here}"):
        float(total)
    with pytest.raises(dtensor.LayoutError, match="this client has no device in mesh"):
        dtensor.pack([], Layout(["w"], first))
    assert repr(total).endswith("which has no device in mesh(w=2); its clients are 0")
    assert str(b).startswith('DTensor({}, layout="sharding_specs:w, mesh:|w=2|0,1||"')
    assert b.unpack() == []
    with pytest.raises(dtensor.MeshError, match=r"client 1 .* has no device in mesh"):
        dtensor.barrier(first)
dtensor.barrier(mesh)
print("right")
