"""Lock files: 20 extra collectives that the check finds, and 20 changes that move nothing."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import dtensor
from dtensor import relayout
from dtensor.compiler.budget import KINDS
from dtensor.passes.reports.cost import _WIRE, Collective
from dtensor.passes.reports.lock import check_lock, lock_text

MESH = dtensor.Mesh.abstract([("data", 2), ("model", 4)])


def _layout(*spec: Any) -> dtensor.Layout:
    return dtensor.Layout(list(spec), MESH)


WHOLE = _layout(None, None)
LAYOUTS = (
    {"up": _layout(None, "model"), "down": _layout("model", None), "bias": _layout(None)},
    _layout("data", None),
)


def _forward(params: Any, x: Any) -> Any:
    h = jnp.tanh(x @ params["up"])
    return x + h @ params["down"] + params["bias"]


def _loss(params: Any, x: Any) -> Any:
    return (_forward(params, x) ** 2).mean()


def step(params: Any, x: Any) -> Any:
    grads = jax.grad(_loss)(params, x)
    return jax.tree.map(lambda p, g: p - 0.1 * g, params, grads)


def _lower(fn: Callable[..., Any]) -> dtensor.Lowered:
    f32 = jnp.float32
    params = {
        "up": jax.ShapeDtypeStruct((512, 2048), f32),
        "down": jax.ShapeDtypeStruct((2048, 512), f32),
        "bias": jax.ShapeDtypeStruct((512,), f32),
    }
    options = dtensor.CompileOptions()
    jitted = dtensor.jit(fn, in_layouts=LAYOUTS, out_layouts=LAYOUTS[0], mesh=MESH, options=options)
    return jitted.lower(params, jax.ShapeDtypeStruct((1024, 512), f32))


@cache
def _locked() -> str:
    """What was locked under jax 0.10.2 and is checked under every other that is supported."""
    return Path(__file__).with_name("step.lock").read_text(encoding="utf-8")


def _check(fn: Callable[..., Any]) -> None:
    check_lock(_locked(), _lower(fn).collectives, MESH, "comm.lock")


def _with(change: Callable[[Any], Any], name: str) -> Callable[..., Any]:
    """The step, with one of its new weights changed at the end."""

    def changed(params: Any, x: Any) -> Any:
        new = step(params, x)
        return {**new, name: change(new[name])}

    return changed


def _before(change: Callable[[Any], Any]) -> Callable[..., Any]:
    """The step on a changed batch."""
    return lambda params, x: step(params, change(x))


def _weight(change: Callable[[Any], Any], name: str) -> Callable[..., Any]:
    """The step with one weight changed first."""
    return lambda params, x: step({**params, name: change(params[name])}, x)


def _loop(count: int) -> Callable[[Any], Any]:
    def body(_: int, x: Any) -> Any:
        return x - relayout(x * 2, WHOLE).sum(0)

    return lambda x: jax.lax.fori_loop(0, count, body, x)


EXTRA: dict[str, Callable[..., Any]] = {
    "a batch gathered": _before(lambda x: relayout(x, WHOLE) * 2),
    "a batch moved to columns": _before(
        lambda x: relayout(relayout(x, _layout(None, "data")) * 2, _layout(None, "data"))
    ),
    "a batch over both axes, and back": _before(
        lambda x: relayout(relayout(x, _layout("data", "model")) * 2, _layout("data", None))
    ),
    "a mean of the batch": _before(lambda x: x - x.mean(0)),
    "a maximum of the batch": _before(lambda x: x - x.max(0)),
    "a minimum": _before(lambda x: x - x.min()),
    "a product": _before(lambda x: x * x.prod(0)),
    "a sort of the batch": _before(lambda x: jnp.sort(x, axis=0)),
    "a running sum": _before(lambda x: jnp.cumsum(x, axis=0)),
    "rows in another order": _before(lambda x: jnp.roll(x, 1, axis=0)),
    "a loop of 3": _before(_loop(3)),
    "a weight sorted": _weight(lambda w: jnp.sort(w, axis=1), "up"),
    "the other weight sorted": _weight(lambda w: jnp.sort(w, axis=0), "down"),
    "a weight moved": _weight(
        lambda w: jnp.cumsum(relayout(w, _layout("model", None)), axis=1), "up"
    ),
    "a norm of a weight": _weight(lambda w: w / jnp.linalg.norm(w), "up"),
    "a norm of each row": _weight(lambda w: w / (1 + jnp.square(w).sum(1, keepdims=True)), "up"),
    "a running sum of a new weight": _with(lambda w: jnp.cumsum(w, axis=1), "up"),
    "a new weight's norm": _with(lambda w: w / jnp.linalg.norm(w), "down"),
    "gradients of two batches": lambda params, x: step(step(params, x), x),
    "a maximum of a new weight": _with(lambda w: w - w.max(), "down"),
}


def _renamed(weights: Any, batch: Any) -> Any:
    gradients = jax.grad(_loss)(weights, batch)
    return jax.tree.map(lambda value, slope: value - 0.1 * slope, weights, gradients)


def _moved_lines(params: Any, x: Any) -> Any:

    grads = jax.grad(_loss)(params, x)

    return jax.tree.map(lambda p, g: p - 0.1 * g, params, grads)


def _helper(x: Any, w: Any) -> Any:
    return x @ w


def _through_helpers(params: Any, x: Any) -> Any:
    def loss(params: Any) -> Any:
        h = jnp.tanh(_helper(x, params["up"]))
        return ((x + _helper(h, params["down"]) + params["bias"]) ** 2).mean()

    grads = jax.grad(loss)(params)
    return jax.tree.map(lambda p, g: p - 0.1 * g, params, grads)


def _other_order(params: Any, x: Any) -> Any:
    grads = jax.grad(_loss)(params, x)
    names = ("up", "bias", "down")
    return {name: params[name] - 0.1 * grads[name] for name in names}


def _reversed_order(params: Any, x: Any) -> Any:
    def loss(params: Any) -> Any:
        h = jnp.tanh(x @ params["up"])
        return ((params["bias"] + (h @ params["down"]) + x) ** 2).mean()

    grads = jax.grad(loss)(params)
    return jax.tree.map(lambda p, g: p - 0.1 * g, params, grads)


class _Model:
    def __init__(self, params: Any) -> None:
        self.params = params

    def loss(self, x: Any) -> Any:
        return _loss(self.params, x)


def _in_a_class(params: Any, x: Any) -> Any:
    grads = jax.grad(lambda params: _Model(params).loss(x))(params)
    return jax.tree.map(lambda p, g: p - 0.1 * g, params, grads)


def _value_and_grad(params: Any, x: Any) -> Any:
    _, grads = jax.value_and_grad(_loss)(params, x)
    return jax.tree.map(lambda p, g: p - 0.1 * g, params, grads)


def _inner_jit(params: Any, x: Any) -> Any:
    grads = jax.jit(jax.grad(_loss))(params, x)
    return jax.tree.map(lambda p, g: p - 0.1 * g, params, grads)


def _vjp(params: Any, x: Any) -> Any:
    _, back = jax.vjp(lambda params: _loss(params, x), params)
    (grads,) = back(jnp.ones(()))
    return jax.tree.map(lambda p, g: p - 0.1 * g, params, grads)


def _dead_code(params: Any, x: Any) -> Any:
    jnp.linalg.norm(params["up"] @ params["down"])
    return step(params, x)


SAME: dict[str, Callable[..., Any]] = {
    "renamed variables": _renamed,
    "moved lines": _moved_lines,
    "helpers": _through_helpers,
    "another order of updates": _other_order,
    "another order of terms": _reversed_order,
    "a class": _in_a_class,
    "value_and_grad": _value_and_grad,
    "an inner jit": _inner_jit,
    "a vjp": _vjp,
    "dead code": _dead_code,
    "a lambda": lambda params, x: step(params, x),
    "a batch scaled": _before(lambda x: x * 0.5),
    "a batch clipped": _before(lambda x: jnp.clip(x, -1, 1)),
    "a batch negated twice": _before(lambda x: -jnp.negative(x)),
    "an elementwise chain": _before(lambda x: jnp.exp(jnp.sin(x) + 1) - 1),
    "a batch squared": _before(lambda x: x * x),
    "a choice": _before(lambda x: jnp.where(x > 0, x, -x)),
    "a weight scaled": _weight(lambda w: w * 2, "up"),
    "a decayed weight": _with(lambda w: w * 0.99, "down"),
    "a constraint that holds": _before(lambda x: relayout(x, _layout("data", None))),
}


def test_there_are_forty_cases() -> None:
    assert (len(EXTRA), len(SAME)) == (20, 20)


def test_every_jax_writes_the_same_lock() -> None:
    assert lock_text(_lower(step).collectives, MESH) == _locked(), "step.lock is to be this text"


@pytest.mark.sweep
@pytest.mark.parametrize("case", EXTRA)
def test_an_extra_collective_is_found(case: str) -> None:
    with pytest.raises(dtensor.BudgetError, match=r"the plan has .* bytes") as caught:
        _check(EXTRA[case])
    assert "\n" not in str(caught.value)


@pytest.mark.sweep
@pytest.mark.parametrize("case", SAME)
def test_what_moves_nothing_is_not_found(case: str) -> None:
    _check(SAME[case])


def test_a_lock_file_is_read_at_a_glance() -> None:
    lines = _locked().splitlines()
    assert lines[2] == "mesh data=2 model=4"
    assert lines[3] == f"total {_lower(step).wire_bytes:.0f}"
    assert lines[4].split() == ["kind", "axes", "type", "shape", "bytes", "count", "turns", "in"]
    assert all("test_lock.py:" in line for line in lines[5:])
    assert not any(char.isdigit() for line in lines[5:] for char in line.split("test_lock.py")[1])


def test_a_program_writes_and_checks_its_file(tmp_path: Path) -> None:
    file = tmp_path / "comm.lock"
    plan = _lower(step)
    plan.lock(file)
    assert file.read_text() == _locked()
    plan.check_lock(file)
    other = _lower(EXTRA["a mean of the batch"])
    with pytest.raises(dtensor.BudgetError, match=r"lock has not") as caught:
        other.check_lock(file)
    assert "test_lock.py:" in str(caught.value)
    other.lock(file)
    with pytest.raises(dtensor.BudgetError, match="which the plan has not; lock the plan again"):
        plan.check_lock(file)
    file.write_bytes(b"\x9f\x00\xff")
    with pytest.raises(dtensor.BudgetError, match="is no lock file; make one"):
        plan.check_lock(file)


def test_a_lock_file_is_of_one_mesh() -> None:
    with pytest.raises(dtensor.BudgetError, match="is of a plan for the mesh data=2 model=4"):
        check_lock(_locked(), (), dtensor.Mesh.abstract([("data", 8)]), "comm.lock")
    with pytest.raises(dtensor.BudgetError, match=r"comm\.lock is no lock file; make one"):
        check_lock("nothing", (), MESH, "comm.lock")
    with pytest.raises(dtensor.BudgetError, match="which is of no collective"):
        check_lock(_locked() + "all_reduce\n", (), MESH, "comm.lock")


def test_what_is_combined_counts_as_its_parts() -> None:
    def one(*parts: tuple[tuple[int, ...], float]) -> Collective:
        size = sum(size for _, size in parts)
        return Collective(
            "all_reduce", ("x",), "f32", parts[0][0], size, None, "", "", (), "", parts
        )

    both = (((2, 3), 24.0), ((5,), 20.0))
    apart = [one(part) for part in reversed(both)]
    assert lock_text([one(*both)], MESH) == lock_text(apart, MESH)
    check_lock(lock_text(apart, MESH), [one(*both)], MESH, "comm.lock")


# Budgets.


def _program() -> tuple[Any, tuple[Any, ...]]:
    mesh = dtensor.create_mesh([("data", 2), ("model", 4)])
    given = dtensor.Layout(["data", "model"], mesh), dtensor.Layout(["model", None], mesh)
    fn = dtensor.jit(lambda a, b: jnp.tanh(a @ b), in_layouts=given)
    return fn, (np.ones((8, 16), np.float32), np.ones((16, 24), np.float32))


def test_a_budget_around_a_call_holds_what_was_compiled_before() -> None:
    fn, args = _program()
    fn(*args)
    compiled = fn.lower(*args).compile()
    (sent,) = compiled.collectives
    for call in (fn, compiled):
        with dtensor.budget(max_bytes=sent.bytes, only={sent.kind: "model"}):
            call(*args)
        with dtensor.budget(only={sent.kind: None}):
            call(*args)
        with pytest.raises(dtensor.BudgetError, match=f"its budget is .* part is {sent.kind}"):
            with dtensor.budget(max_bytes=sent.bytes - 1):
                call(*args)
        for only in ({sent.kind: "data"}, {"all_to_all": "model"}, {}):
            with dtensor.budget(1e9), dtensor.budget(only=only):
                with pytest.raises(dtensor.BudgetError, match="its budget allows"):
                    call(*args)
        call(*args)
    assert len(fn._programs) == 1


def test_a_budget_counts_arguments_that_are_moved_over_the_mesh() -> None:
    mesh = dtensor.create_mesh([("x", 4), ("y", 2)])
    rows, tiles = dtensor.Layout(["x", None], mesh), dtensor.Layout(["x", "y"], mesh)
    fn = dtensor.jit(lambda a: (a * 2).sum(1), in_layouts=rows)
    ones = np.ones((8, 12), np.float32)
    there, elsewhere = dtensor.copy_to_mesh(ones, rows), dtensor.copy_to_mesh(ones, tiles)
    compiled = fn.lower(there).compile()
    assert not compiled.collectives
    for call in (fn, compiled):
        for _ in range(2):
            with dtensor.budget(max_bytes=0):
                for given in (there, ones):
                    call(given)
                for array in (elsewhere, elsewhere.to_jax()):
                    with pytest.raises(dtensor.BudgetError, match=r"all_gather over y .* 48 bytes"):
                        call(array)
            with dtensor.budget(48, only={"all_gather": "y"}):
                call(elsewhere)


def test_a_budget_counts_moved_arguments_beside_variables_and_keys() -> None:
    mesh = dtensor.create_mesh([("x", 4), ("y", 2)])
    rows, tiles = dtensor.Layout(["x", None], mesh), dtensor.Layout(["x", "y"], mesh)
    v = dtensor.DVariable(dtensor.copy_to_mesh(np.ones((8, 12), np.float32), rows))
    fn = dtensor.jit(lambda keys, a: v.assign_add(a), in_layouts=(None, rows))
    keys = dtensor.copy_to_mesh(jax.random.split(jax.random.key(0), 8), dtensor.Layout(["x"], mesh))
    with dtensor.budget(max_bytes=0):
        fn(keys, dtensor.copy_to_mesh(np.ones((8, 12), np.float32), rows))
        with pytest.raises(dtensor.BudgetError, match="all_gather over y"):
            fn(keys, dtensor.copy_to_mesh(np.ones((8, 12), np.float32), tiles))
    taken = dtensor.jit(jax.random.key_data, in_layouts=dtensor.Layout([None], mesh))
    with dtensor.budget(max_bytes=0), pytest.raises(dtensor.BudgetError, match="all_gather over x"):
        taken(keys)


def test_a_budget_of_a_compilation() -> None:
    fn, args = _program()
    options = dtensor.CompileOptions(budget=dtensor.budget(max_bytes=10))
    given = fn._in_layouts
    with pytest.raises(
        dtensor.BudgetError, match=r"test_lock.py:\d+:\d+: .* its budget is 10 bytes"
    ):
        dtensor.jit(lambda a, b: a @ b, in_layouts=given, options=options).lower(*args).compile()


def test_budgets_that_say_nothing_sensible() -> None:
    with pytest.raises(dtensor.CompileError, match="did you mean 'all_reduce'"):
        dtensor.budget(only={"allreduce": "x"})
    with pytest.raises(dtensor.CompileError, match="must be a number of bytes"):
        dtensor.budget(max_bytes="1 MB")  # type: ignore[arg-type]
    with pytest.raises(dtensor.CompileError, match=r"make it with dtensor\.budget"):
        dtensor.CompileOptions(budget=1000)  # type: ignore[arg-type]
    assert isinstance(dtensor.budget(), dtensor.Budget)
    assert set(KINDS) == set(_WIRE)
    assert dtensor.budget(only="all_reduce") == dtensor.budget(only=["all_reduce"])


def _fully_sharded(strict: Any) -> dtensor.Lowered:
    """Weights split over `data` as the batch is: they are gathered where they are used."""
    options = dtensor.CompileOptions(strict=strict)
    given = _layout("data", None), _layout("data", None)
    f32 = jnp.float32
    step = dtensor.jit(lambda x, w: jnp.tanh(x @ w), in_layouts=given, options=options)
    return step.lower(jax.ShapeDtypeStruct((1024, 64), f32), jax.ShapeDtypeStruct((64, 32), f32))


def test_strict_allows_what_keeps_to_a_budget() -> None:
    (gather,) = _fully_sharded(False).collectives
    assert (gather.kind, gather.mesh_axes) == ("all_gather", ("data",))
    for strict in (
        dtensor.budget(only={"all_gather": "data"}),
        dtensor.budget(only={"all_gather": "data"}, max_bytes=gather.bytes),
    ):
        assert _fully_sharded(strict).wire_bytes == gather.bytes
    for refused, message in (
        (True, "strict: "),
        (dtensor.budget(only={"all_gather": "model"}), "its budget allows all_gather over model"),
        (dtensor.budget(max_bytes=gather.bytes - 1), "its budget is 4095 bytes"),
    ):
        with pytest.raises(dtensor.StrictError, match="ask for it with") as caught:
            assert _fully_sharded(refused).collectives
        assert message in str(caught.value)
        assert str(caught.value).startswith("test_lock.py:")
    with pytest.raises(dtensor.CompileError, match="strict is 'yes'; it must be True, False"):
        dtensor.CompileOptions(strict="yes")  # type: ignore[arg-type]
