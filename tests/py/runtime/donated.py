"""Calls with arrays whose buffers are gone; test_donation.py runs it in its own process.

Each is an error that names the argument, and the process goes on.
"""

import operator
import os

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"
os.environ["JAX_PLATFORMS"] = "cpu"

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

import dtensor

MESH = dtensor.create_mesh([("x", 2), ("y", 4)])
ROWS = dtensor.Layout(["x", dtensor.UNSHARDED], MESH)
COLUMNS = dtensor.Layout([dtensor.UNSHARDED, "y"], MESH)
DELETED = (
    "is deleted: its buffers were donated to a program, or freed by delete() or a restart of jax; "
    "pass what that program returned"
)


def fresh() -> dtensor.DTensor:
    """An array of its own."""
    return dtensor.copy_to_mesh(np.ones((8, 16), np.float32), ROWS)


def refused(call: Callable[..., Any], *args: Any, **kwargs: Any) -> str:
    """The message of the error that a call must end with."""
    try:
        jax.block_until_ready(call(*args, **kwargs))
    except (RuntimeError, ValueError) as error:
        return str(error)
    raise AssertionError("the call went through")


def main() -> None:
    """Every way to call a program with an array that is gone, or that goes twice."""
    add = dtensor.jit(lambda a, b: a["w"] + b, donate_argnums=0)
    keep = dtensor.jit(lambda a, b: a - b)
    moving = dtensor.jit(lambda a, b: a * b, in_layouts=COLUMNS)
    kept, gone = fresh(), fresh()
    compiled = add.lower({"w": kept}, kept).compile()
    for function in (keep, moving):
        function(kept, kept)  # from here on the fast way of jax's
    dtensor.relayout(kept, COLUMNS)
    kept + kept
    add({"w": gone}, kept)
    array = gone.to_jax()
    assert array.is_deleted()

    calls: list[Callable[..., Any]] = [add, compiled, keep, moving]
    for call in calls[:2]:
        assert refused(call, {"w": gone}, kept).startswith(f"argument a['w'] {DELETED}")
        assert refused(call, {"w": array}, kept).startswith(f"argument a['w'] {DELETED}")
        assert refused(call, {"w": fresh()}, gone).startswith(f"argument b {DELETED}")
    for call in calls[2:]:
        assert refused(call, gone, kept).startswith(f"argument a {DELETED}")
        assert refused(call, kept, gone).startswith(f"argument b {DELETED}")
        assert refused(call, np.ones((8, 16), np.float32), gone).startswith(f"argument b {DELETED}")
    assert DELETED in refused(dtensor.relayout, gone, COLUMNS)
    assert DELETED in refused(lambda: gone + kept)

    same = "argument a['w'] is donated, and argument b is the same array; pass a copy"
    assert refused(add, {"w": kept}, kept) == same
    assert refused(dtensor.jit(lambda a, b: (a + b, b), donate_argnums=(0, 1)), kept, kept) == (
        "argument a is donated, and argument b is the same array; pass a copy"
    )

    whole = dtensor.jit(lambda a, b: a + b, mesh=MESH, donate_argnums=0)
    elsewhere = jax.numpy.ones(8)
    assert refused(whole, elsewhere, elsewhere) == (
        "argument a is donated, and argument b is the same array; pass a copy"
    )

    packed = dtensor.pack(kept.unpack(), ROWS)
    both = dtensor.jit(lambda a, b: (a * 2, a - b), donate_argnums=1)
    alike = "argument b is donated, and argument a has the same buffers; pass a copy"
    assert refused(both, kept, packed) == refused(both, packed, kept) == alike
    assert refused(both.lower(kept, kept).compile(), packed, kept) == alike
    both(packed, fresh())

    whole_on_each = dtensor.Layout.replicated(MESH, 2)
    for looked_at in (dtensor.copy_to_mesh(np.ones((8, 16), np.float32), whole_on_each), fresh()):
        view = np.asarray(looked_at.unpack()[0])  # XLA leaves this one buffer, and takes the others
        dtensor.jit(lambda a: a * 2, donate_argnums=0)(looked_at)
        assert DELETED in refused(keep, looked_at, looked_at)
        assert DELETED in refused(operator.add, looked_at, 1)
        np.testing.assert_array_equal(view, np.ones_like(view))

    weights = dtensor.DVariable(fresh())
    update = dtensor.jit(lambda v, b: v.assign_add(b), donate_argnums=1)
    update(weights, gone_too := fresh())
    assert refused(update, weights, gone_too).startswith(f"argument b {DELETED}")
    np.testing.assert_array_equal(np.asarray(weights.value().to_jax()), np.full((8, 16), 2))

    results = keep(kept, kept)
    np.testing.assert_array_equal(np.asarray(results.to_jax()), np.zeros((8, 16)))


if __name__ == "__main__":
    main()
