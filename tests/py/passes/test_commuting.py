"""Of which bodies of reductions it is seen that they commute."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dtensor.passes.functions import main_function
from dtensor.passes.ops.combiners import commutes
from tests.py.passes.run_passes import parsed
from tests.py.passes.test_totals import affine, circle, complex_product, quaternions, welford

Body = Callable[[Any, Any], Any]


def proven(body: Body, *inits: Any) -> bool:
    """Whether the body of a reduce from such values is seen to commute."""
    starts = [np.float32(n) if isinstance(n, float) else np.asarray(n) for n in inits]
    values = [np.zeros(8, start.dtype) for start in starts]

    def reduced(*values: Any) -> Any:
        if len(values) == 1:
            return jax.lax.reduce(values[0], starts[0], body, (0,))
        return jax.lax.reduce(values, tuple(starts), body, (0,))

    with parsed(jax.jit(reduced).lower(*values).as_text()) as module:
        block = main_function(module).regions[0].blocks[0]
        (op,) = [v.operation for v in block.operations if v.operation.name == "stablehlo.reduce"]
        return commutes(op.regions[0], len(inits))


@pytest.mark.parametrize(
    ("body", "inits", "expected"),
    [
        (complex_product, (1.0, 0.0), True),
        (affine, (1.0, 0.0), False),
        (quaternions, (1.0, 0.0, 0.0, 0.0), False),
        (circle, (0.0,), True),
        (circle, (0,), True),
        (circle, (np.complex64(0),), True),
        (welford, (0.0, 0.0, 0.0), True),
        (jnp.logaddexp, (-np.inf,), True),
        (lambda a, b: a - b, (0.0,), False),
        (lambda a, b: a / 3 + b / 3, (0.0,), True),
        (lambda a, b: (a + b) // 2, (0,), True),
        (lambda a, b: jnp.where(a >= b, a, b), (0.0,), False),
        (lambda a, b: jnp.where(a + b > 1, a * b, a + b), (0.0,), True),
        (lambda a, b: jnp.sin(a) + b, (0.0,), False),
        # Large constants are not read.
        (
            lambda a, b: a + b * np.uint32(2**31 + 1) - b * np.uint32(2**31),
            (np.uint32(0),),
            False,
        ),
    ],
)
def test_bodies(body: Body, inits: tuple[Any, ...], expected: bool) -> None:
    assert proven(body, *inits) == expected
