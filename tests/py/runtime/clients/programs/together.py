"""What clients do together: meshes, the guide's matmul, a training step, barriers, a restart."""

import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import dtensor
from dtensor import UNSHARDED, Layout
from dtensor.runtime.clients import config, environment
from dtensor.runtime.clients.accelerators import shutdown_accelerator_system
from dtensor.runtime.clients.agreement import barrier
from dtensor.runtime.clients.distributed_mesh import create_distributed_mesh


def whole(tensor: dtensor.DTensor) -> np.ndarray[Any, Any]:
    replicated = Layout.replicated(tensor.mesh, tensor.ndim)
    return np.asarray(dtensor.relayout(tensor, replicated).unpack()[0])


def check_names(mesh: dtensor.Mesh) -> None:
    me, clients = environment.client_id(), environment.num_clients()
    local = config.num_local_devices("CPU")
    assert environment.full_job_name() == f"worker/replica:0/task:{me}"
    assert config.num_global_devices("CPU") == clients * local == mesh.size
    last = config.local_devices("CPU", clients - 1)[-1]
    assert str(last) == f"/job:worker/replica:0/task:{clients - 1}/device:CPU:{local - 1}"
    assert mesh.global_devices()[-1] == str(last)
    assert mesh.local_device_ids() == list(range(me * local, (me + 1) * local))
    assert mesh.local_devices() == [str(device) for device in config.local_devices("CPU")]


def check_matmul(mesh: dtensor.Mesh) -> None:
    rows, inner = mesh.axis_size("y"), mesh.axis_size("x")
    a = np.arange(1, rows * inner + 1, dtype=np.float32).reshape(rows, inner)
    b = np.arange(inner * 2, 0, -1, dtype=np.float32).reshape(inner, 2)
    left = dtensor.copy_to_mesh(a, Layout(["y", "x"], mesh))
    right = dtensor.copy_to_mesh(b, Layout(["x", UNSHARDED], mesh))
    product = dtensor.jit(jnp.matmul)(left, right)
    assert product.layout.sharding_specs[0] == "y"
    np.testing.assert_array_equal(whole(product), a @ b)  # small integers: exact in float32


def update(params: dict[str, jax.Array], x: jax.Array, y: jax.Array) -> dict[str, jax.Array]:
    def loss(params: dict[str, jax.Array]) -> jax.Array:
        hidden = jnp.tanh(x @ params["in"])
        return jnp.mean((hidden @ params["out"] - y) ** 2)

    grads = jax.grad(loss)(params)
    return {name: params[name] - 0.1 * grads[name] for name in params}


def check_training(mesh: dtensor.Mesh) -> None:
    random = np.random.default_rng(0)
    params = {
        "in": random.normal(size=(5, 12)).astype(np.float32),
        "out": random.normal(size=(12, 3)).astype(np.float32),
    }
    x = random.normal(size=(8, 5)).astype(np.float32)
    y = random.normal(size=(8, 3)).astype(np.float32)
    layouts = {"in": Layout([UNSHARDED, "x"], mesh), "out": Layout(["x", UNSHARDED], mesh)}
    batch = Layout(["y", UNSHARDED], mesh)
    step = dtensor.jit(update, in_layouts=(layouts, batch, batch), out_layouts=layouts)
    alone: Any = params
    together: Any = params
    with jax.default_device(jax.local_devices()[0]):
        for _ in range(2):
            alone = jax.jit(update)(alone, x, y)
    for _ in range(2):
        together = step(together, x, y)
    for name in params:
        # Sums in another order, twice: a few units in the last place.
        np.testing.assert_allclose(whole(together[name]), alone[name], rtol=1e-5, atol=1e-6)


def check_barrier(mesh: dtensor.Mesh) -> None:
    barrier(mesh)
    if environment.client_id() == 1:
        time.sleep(0.3)
    print("came", time.monotonic())
    barrier(mesh, "after a nap", timeout_in_ms=100_000)
    print("went", time.monotonic())


def check_some(mesh: dtensor.Mesh) -> None:
    """Programs on the first and the last client; the others come when these are done."""
    ends = dtensor.create_mesh([("end", 2)], devices=[jax.devices()[0], jax.devices()[-1]])
    is_there = ends.num_local_devices() > 0
    if not is_there:
        barrier(mesh)
    array = dtensor.copy_to_mesh(np.arange(2.0, dtype=np.float32), Layout(["end"], ends))
    for number in range(4):
        for shard in dtensor.jit(lambda a, n=number: a + n)(array).unpack():
            assert float(shard[0]) == number + (environment.client_id() > 0)
    if is_there:
        barrier(mesh)


kind = dtensor.initialize_accelerator_system("CPU")
assert kind == "CPU"
devices = config.num_global_devices("CPU")
mesh = create_distributed_mesh([("x", devices // 2), ("y", 2)])
check_names(mesh)
check_matmul(mesh)
check_training(mesh)
check_barrier(mesh)
check_some(mesh)
# The other way round, each client gives its devices in the opposite order.
names = [f"CPU:{i}" for i in reversed(range(config.num_local_devices("CPU")))]
turned = create_distributed_mesh({"y": 2, "x": devices // 2}, "turned", local_devices=names)
assert turned.local_devices() == [str(d) for d in reversed(config.local_devices("CPU"))]
check_matmul(turned)
shutdown_accelerator_system()
dtensor.initialize_accelerator_system("CPU", num_logical_cpu_devices=1)
again = create_distributed_mesh([("x", 1), ("y", environment.num_clients())])
check_matmul(again)
print("right", kind, again.size)
