"""A training step of a two-layer network, data parallel over 8 devices.

    python examples/mlp.py

The function knows one device. The batch is split over the mesh axis `data` and the parameters are
whole on every device: two layouts, from which the sums of the gradients over the devices follow.
"""

import jax
import jax.numpy as jnp
import numpy as np

import dtensor
from dtensor import UNSHARDED, Layout

Params = dict[str, jax.Array]


def loss_of(params: Params, x: jax.Array, y: jax.Array) -> jax.Array:
    """Mean squared error over the batch."""
    hidden = jnp.tanh(x @ params["w1"] + params["b1"])
    return jnp.mean((hidden @ params["w2"] - y) ** 2)


def train_step(params: Params, x: jax.Array, y: jax.Array) -> tuple[Params, jax.Array]:
    """One step of gradient descent."""
    loss, gradients = jax.value_and_grad(loss_of)(params, x, y)
    return jax.tree.map(lambda p, g: p - 0.1 * g, params, gradients), loss


def main() -> None:
    """Train 100 steps, on the mesh and on one device."""
    dtensor.initialize_accelerator_system("CPU", num_logical_cpu_devices=8)
    mesh = dtensor.create_mesh([("data", 8)])
    random = np.random.default_rng(0)
    x = random.normal(size=(64, 16)).astype(np.float32)
    y = np.sin(x.sum(axis=1, keepdims=True))
    one = {
        "w1": random.normal(size=(16, 32), scale=0.25).astype(np.float32),
        "b1": np.zeros(32, np.float32),
        "w2": random.normal(size=(32, 1), scale=0.2).astype(np.float32),
    }
    params = dtensor.layouts_by_name(one, [], mesh)  # no rule: whole on every device
    params = jax.tree.map(dtensor.copy_to_mesh, one, params)
    batch = Layout(["data", UNSHARDED], mesh)
    step = dtensor.jit(train_step, in_layouts=(None, batch, batch), donate_argnums=0)
    compiled = step.lower(params, x, y).compile()

    one_step = jax.jit(train_step)
    for number in range(100):
        params, loss = compiled(params, x, y)
        one, one_loss = one_step(one, x, y)
        if number in (0, 99):
            print(f"step {number + 1:3}: loss {loss:.6f}, on one device {one_loss:.6f}")
    print(compiled.explain())


if __name__ == "__main__":
    main()
