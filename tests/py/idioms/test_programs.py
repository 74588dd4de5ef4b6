"""Training steps as libraries document them, with `dtensor.jit` for `jax.jit` and layouts beside.

Each program is written once and run by both; after two steps all of the state is the same.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import equinox as eqx
import flax.linen as nn
import flax.serialization
import grain
import haiku as hk
import jax
import jax.numpy as jnp
import numpy as np
import optax
import orbax.checkpoint as ocp
import pytest
from flax import nnx
from flax.training import train_state
from jax.sharding import PartitionSpec as P

import dtensor

MESH = dtensor.create_mesh([("data", 2), ("model", 4)])
DATA = P("data")
X = np.linspace(-1, 1, 8 * 12, dtype=np.float32).reshape(8, 12)
Y = (np.arange(8) % 3).astype(np.int32)

Jit = Callable[..., Callable[[Callable[..., Any]], Any]]


def with_jax(**layouts: Any) -> Any:
    return jax.jit


def with_dtensor(**layouts: Any) -> Any:
    return lambda fn: dtensor.jit(fn, in_layouts=layouts, mesh=MESH)


def check(program: Callable[[Jit], Any]) -> Any:
    """Run a program by jax.jit and by dtensor.jit; compare all arrays it returns."""
    found, expected = program(with_dtensor), program(with_jax)
    leaves = jax.tree.leaves(found), jax.tree.leaves(expected)
    for one, other in zip(*leaves, strict=True):
        if jnp.issubdtype(other.dtype, jax.dtypes.prng_key):
            one, other = jax.random.key_data(one), jax.random.key_data(other)
        # Sums over devices are made in another order.
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)
    return found


def cross_entropy(logits: Any, labels: Any) -> Any:
    return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()


def test_nnx_with_dropout() -> None:
    class Model(nnx.Module):
        def __init__(self, rngs: nnx.Rngs) -> None:
            self.linear = nnx.Linear(12, 16, rngs=rngs)
            self.dropout = nnx.Dropout(0.3, rngs=rngs)
            self.out = nnx.Linear(16, 3, rngs=rngs)

        def __call__(self, x: Any) -> Any:
            return self.out(self.dropout(nnx.relu(self.linear(x))))

    def program(jit: Jit) -> Any:
        model = Model(nnx.Rngs(0))
        optimizer = nnx.Optimizer(model, optax.adamw(1e-2), wrt=nnx.Param)
        graphdef, state = nnx.split((model, optimizer))

        @jit(x=DATA, y=DATA)
        def train_step(state: Any, x: Any, y: Any) -> Any:
            model, optimizer = nnx.merge(graphdef, state)
            loss, grads = nnx.value_and_grad(lambda m: cross_entropy(m(x), y))(model)
            optimizer.update(model, grads)
            return nnx.state((model, optimizer)), loss

        for _ in range(2):
            state, loss = train_step(state, X, Y)
        return state, loss

    check(program)


def test_nnx_modules_are_arguments_and_nnx_jit_stands_inside() -> None:
    model = nnx.Linear(12, 3, rngs=nnx.Rngs(0))

    @nnx.jit
    def forward(model: Any, x: Any) -> Any:
        return model(x)

    check(lambda jit: jit(x=DATA)(lambda m, x: forward(m, x) + m(x))(model, X))


def test_linen_with_a_train_state() -> None:
    class Model(nn.Module):
        @nn.compact
        def __call__(self, x: Any, training: bool) -> Any:
            x = nn.relu(nn.Dense(16)(x))
            return nn.Dense(3)(nn.Dropout(0.2, deterministic=not training)(x))

    def program(jit: Jit) -> Any:
        model = Model()
        params = model.init(jax.random.key(0), X, training=False)["params"]
        state = train_state.TrainState.create(
            apply_fn=model.apply, params=params, tx=optax.sgd(0.1, momentum=0.9)
        )

        @jit(x=DATA, y=DATA)
        def train_step(state: Any, x: Any, y: Any, key: Any) -> Any:
            dropout = jax.random.fold_in(key, state.step)

            def loss_fn(params: Any) -> Any:
                variables, rngs = {"params": params}, {"dropout": dropout}
                return cross_entropy(state.apply_fn(variables, x, training=True, rngs=rngs), y)

            loss, grads = jax.value_and_grad(loss_fn)(state.params)
            return state.apply_gradients(grads=grads), loss

        for _ in range(2):
            state, loss = train_step(state, X, Y, jax.random.key(1))
        return state, loss

    check(program)


def test_equinox_with_batch_norm() -> None:
    class Model(eqx.Module):
        linear: eqx.nn.Linear
        norm: eqx.nn.BatchNorm
        out: eqx.nn.Linear

        def __init__(self, key: Any) -> None:
            first, second = jax.random.split(key)
            self.linear = eqx.nn.Linear(12, 16, use_bias=False, key=first)
            self.norm = eqx.nn.BatchNorm(16, axis_name="batch", mode="batch")
            self.out = eqx.nn.Linear(16, 3, key=second)

        def __call__(self, x: Any, state: Any) -> Any:
            x, state = self.norm(self.linear(x), state)
            return self.out(jax.nn.relu(x)), state

    def program(jit: Jit) -> Any:
        model, state = eqx.nn.make_with_state(Model)(jax.random.key(0))
        params, static = eqx.partition(model, eqx.is_inexact_array)
        optim = optax.sgd(0.1, momentum=0.9)
        opt_state = optim.init(params)

        @jit(x=DATA, y=DATA)
        def make_step(params: Any, state: Any, opt_state: Any, x: Any, y: Any) -> Any:
            def loss_fn(params: Any, state: Any) -> Any:
                batched = jax.vmap(
                    eqx.combine(params, static),
                    axis_name="batch",
                    in_axes=(0, None),
                    out_axes=(0, None),
                )
                logits, state = batched(x, state)
                return cross_entropy(logits, y), state

            (loss, state), grads = jax.value_and_grad(loss_fn, has_aux=True)(params, state)
            updates, opt_state = optim.update(grads, opt_state, params)
            return optax.apply_updates(params, updates), state, opt_state, loss

        for _ in range(2):
            params, state, opt_state, loss = make_step(params, state, opt_state, X, Y)
        return params, state, opt_state, loss

    check(program)


def test_equinox_filter_jit_stands_inside() -> None:
    model = eqx.nn.MLP(12, 3, 16, 1, key=jax.random.key(0))
    forward = eqx.filter_jit(lambda model, x: jax.vmap(model)(x))
    check(lambda jit: jit(x=DATA)(lambda x: forward(model, x))(X))


def test_a_model_of_equinox_with_dtensors_is_put_together() -> None:
    model = eqx.nn.MLP(12, 3, 16, 1, key=jax.random.key(0))
    params, static = eqx.partition(model, eqx.is_array)
    updated = dtensor.jit(lambda p: jax.tree.map(lambda w: w + 1, p), mesh=MESH)(params)
    both = eqx.combine(updated, static, is_leaf=dtensor.is_dtensor)
    assert dtensor.is_dtensor(both.layers[0].weight)
    forward = dtensor.jit(lambda model, x: jax.vmap(eqx.combine(model, static))(x), mesh=MESH)
    want = jax.vmap(jax.tree.map(lambda w: w + 1 if eqx.is_array(w) else w, model))(X)
    np.testing.assert_allclose(forward(updated, X).to_jax(), want, rtol=1e-5)


def test_flax_writes_what_device_get_gives() -> None:
    layout = dtensor.Layout(["data", "model"], MESH)
    params = {"w": dtensor.copy_to_mesh(X, layout)}
    written = flax.serialization.to_bytes(jax.device_get(params))
    read = flax.serialization.msgpack_restore(written)
    found = dtensor.jit(lambda p: p, in_layouts=layout)(read)
    assert found["w"].layout == layout
    np.testing.assert_array_equal(found["w"].to_jax(), X)


def test_haiku_with_state_and_rng() -> None:
    def forward(x: Any, is_training: bool) -> Any:
        x = hk.BatchNorm(True, True, 0.9)(hk.Linear(16)(x), is_training=is_training)
        if is_training:
            x = hk.dropout(hk.next_rng_key(), 0.2, jax.nn.relu(x))
        return hk.Linear(3)(x)

    def program(jit: Jit) -> Any:
        network = hk.transform_with_state(forward)
        rng = hk.PRNGSequence(42)
        params, state = network.init(next(rng), X, is_training=True)
        optimizer = optax.sgd(0.1)
        opt_state = optimizer.init(params)

        @jit(x=DATA, y=DATA)
        def update(params: Any, state: Any, opt_state: Any, rng: Any, x: Any, y: Any) -> Any:
            def loss_fn(params: Any) -> Any:
                logits, new_state = network.apply(params, state, rng, x, is_training=True)
                return cross_entropy(logits, y), new_state

            grads, state = jax.grad(loss_fn, has_aux=True)(params)
            updates, opt_state = optimizer.update(grads, opt_state)
            return optax.apply_updates(params, updates), state, opt_state

        for _ in range(2):
            params, state, opt_state = update(params, state, opt_state, next(rng), X, Y)
        return params, state, opt_state

    check(program)


PARAMS = {"w": np.linspace(-1, 1, 36, dtype=np.float32).reshape(12, 3), "b": np.zeros(3)}
PARAMS = jax.tree.map(np.float32, PARAMS)
SPLIT = {"w": P("model"), "b": P()}


def loss_of(params: Any, x: Any, y: Any) -> Any:
    return cross_entropy(x @ params["w"] + params["b"], y)


@pytest.mark.parametrize("name", ["chain", "multi_steps"])
def test_optax_chains(name: str) -> None:
    schedule = optax.warmup_cosine_decay_schedule(0.0, 1.0, 2, 10)
    chains: dict[str, Any] = {
        "chain": optax.chain(
            optax.clip_by_global_norm(1.0),
            optax.scale_by_adam(),
            optax.add_decayed_weights(1e-3),
            optax.add_noise(0.01, 0.5, jax.random.key(0)),
            optax.scale_by_schedule(schedule),
            optax.scale(-1.0),
        ),
        "multi_steps": optax.MultiSteps(optax.apply_if_finite(optax.sgd(0.1), 3), 2),
    }
    solver = chains[name]

    def program(jit: Jit) -> Any:
        params, opt_state = PARAMS, solver.init(PARAMS)

        @jit(params=SPLIT, x=DATA, y=DATA)
        def step(params: Any, opt_state: Any, x: Any, y: Any) -> Any:
            loss, grads = jax.value_and_grad(loss_of)(params, x, y)
            updates, opt_state = solver.update(grads, opt_state, params)
            return optax.apply_updates(params, updates), opt_state, loss

        for _ in range(2):
            params, opt_state, loss = step(params, opt_state, X, Y)
        return params, opt_state, loss

    check(program)


def test_orbax_restores_what_training_goes_on_with(tmp_path: Path) -> None:
    def train_step(params: Any, x: Any, y: Any) -> Any:
        grads = jax.grad(loss_of)(params, x, y)
        return jax.tree.map(lambda p, g: p - 0.1 * g, params, grads)

    step = dtensor.jit(train_step, in_layouts=(SPLIT, DATA, DATA), mesh=MESH, returns="jax")
    params = step(PARAMS, X, Y)
    with ocp.CheckpointManager(tmp_path, options=ocp.CheckpointManagerOptions()) as manager:
        manager.save(1, args=ocp.args.StandardSave(params))
        manager.wait_until_finished()
        abstract = jax.tree.map(ocp.utils.to_shape_dtype_struct, params)
        restored = manager.restore(1, args=ocp.args.StandardRestore(abstract))
    assert restored["w"].sharding == params["w"].sharding
    expected = jax.jit(train_step)(jax.jit(train_step)(PARAMS, X, Y), X, Y)
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5), step(restored, X, Y), expected
    )


def test_grain_feeds_a_step() -> None:
    def program(jit: Jit) -> Any:
        dataset = grain.MapDataset.source(range(24)).shuffle(seed=3)
        batches = dataset.map(lambda i: {"x": X[i % 8] + i, "y": Y[i % 8]}).batch(8)

        @jit(params=SPLIT, batch=DATA)
        def step(params: Any, batch: Any) -> Any:
            grads = jax.grad(loss_of)(params, batch["x"], batch["y"])
            return jax.tree.map(lambda p, g: p - 0.01 * g, params, grads)

        params = PARAMS
        for batch in batches:
            params = step(params, batch)
        return params

    check(program)


def layers(weights: list[tuple[Any, Any]], x: Any) -> Any:
    for up, down in weights:
        x = x + jax.nn.gelu(x @ up) @ down
    return x


@pytest.mark.parametrize("policy", ["dots_saveable", "everything_saveable", "nothing_saveable"])
def test_layers_keep_what_a_policy_of_checkpoint_names(policy: str) -> None:
    numbers = np.random.default_rng(0)
    shapes = [*[(8, 16), (16, 8)] * 3, (24, 8)]
    *parts, x = [numbers.normal(size=shape).astype(np.float32) * 0.5 for shape in shapes]
    weights = list(zip(parts[::2], parts[1::2], strict=True))
    kept = jax.checkpoint(layers, policy=getattr(jax.checkpoint_policies, policy))
    gradient = jax.grad(lambda weights, x: (kept(weights, x) ** 2).mean())
    layouts = [(P(None, "model"), P("model"))] * 3, DATA
    found = dtensor.jit(gradient, in_layouts=layouts, mesh=MESH, returns="jax")(weights, x)
    with jax.enable_x64(True):
        true = gradient(*jax.tree.map(np.float64, (weights, x)))
    for array, expected in zip(*map(jax.tree.leaves, (found, true)), strict=True):
        # One device's float32 is up to 3e-6 away too, each release of jax elsewhere.
        np.testing.assert_allclose(array, expected, rtol=1e-4, atol=5e-6)
