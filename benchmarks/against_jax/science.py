"""Programs of simulations and of signal processing."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import PartitionSpec as P

from benchmarks.against_jax.workload import Workload, array

LAPLACE = np.array([[0, 1, 0], [1, -4, 1], [0, 1, 0]], np.float32)
TILES = P("rows", "columns")
PLANE = {"rows": 4, "columns": 2}


def wave_of_windows(u: jax.Array, before: jax.Array) -> tuple[jax.Array, jax.Array]:
    """Eight steps of the wave equation, its Laplacian a convolution."""
    kernel = jnp.asarray(LAPLACE)[None, None]

    def step(_: int, state: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        u, before = state
        bent = jax.lax.conv(u[None, None], kernel, (1, 1), "SAME")[0, 0]
        return 2 * u - before + 0.1 * bent, u

    return jax.lax.fori_loop(0, 8, step, (u, before))


def wave_of_rolls(u: jax.Array, before: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The same on a torus, its Laplacian shifted copies."""

    def step(_: int, state: tuple[jax.Array, jax.Array]) -> tuple[jax.Array, jax.Array]:
        u, before = state
        around = [jnp.roll(u, shift, axis) for shift in (1, -1) for axis in (0, 1)]
        return 2 * u - before + 0.1 * (sum(around) - 4 * u), u

    return jax.lax.fori_loop(0, 8, step, (u, before))


def forces(places: jax.Array, masses: jax.Array) -> jax.Array:
    """Gravity of all pairs of bodies, softened; [bodies, 3]."""
    apart = places[None, :, :] - places[:, None, :]
    pull = masses[None, :] / (jnp.sum(apart**2, -1) + 0.01) ** 1.5
    return jnp.einsum("ij,ijk->ik", pull, apart)


def running_sum(x: jax.Array) -> jax.Array:
    return jnp.cumsum(x, axis=0)


def advantages(rewards: jax.Array, values: jax.Array) -> jax.Array:
    """Generalised advantage estimates of [time, agents]; `values` has the same shape."""
    ahead = jnp.concatenate([values[1:], jnp.zeros_like(values[:1])])

    def step(later: jax.Array, now: jax.Array) -> tuple[jax.Array, jax.Array]:
        later = now + 0.99 * 0.95 * later
        return later, later

    errors = rewards + 0.99 * ahead - values
    return jax.lax.scan(step, jnp.zeros_like(rewards[0]), errors, reverse=True)[1]


WORKLOADS = {
    "stencil": Workload(
        "wave equation on tiles, 8 steps, a convolution",
        PLANE,
        wave_of_windows,
        (array(256, 128), array(256, 128)),
        (TILES, TILES),
        (TILES, TILES),
    ),
    "stencil_of_rolls": Workload(
        "wave equation on tiles, 8 steps, `jnp.roll`",
        PLANE,
        wave_of_rolls,
        (array(256, 128), array(256, 128)),
        (TILES, TILES),
        (TILES, TILES),
    ),
    "all_pairs_forces": Workload(
        "forces between all pairs of 1024 bodies",
        {"bodies": 8},
        forces,
        (array(1024, 3), array(1024)),
        (P("bodies"), P("bodies")),
        P("bodies"),
    ),
    "running_sum": Workload(
        "sums from the start, along the split dimension",
        {"time": 8},
        running_sum,
        (array(4096, 32),),
        (P("time"),),
        P("time"),
    ),
    "advantages": Workload(
        "advantages of an episode, `lax.scan` backwards along split time",
        {"time": 8},
        advantages,
        (array(4096, 32), array(4096, 32)),
        (P("time"), P("time")),
        P("time"),
    ),
}
