"""An operation on an array that was deleted says which operand of which operation it is."""

import operator
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import dtensor.numpy as dnp
from dtensor import Layout, call_with_layout, copy_to_mesh, create_mesh

MESH = create_mesh([("x", 2)])
ROWS = Layout(["x", None], MESH)


def ones() -> Any:
    return copy_to_mesh(np.ones((4, 4), np.float32), ROWS)


OTHER = ones()
# What an operation is given is deleted; `OTHER` is not.
OPERATIONS: list[tuple[str, Callable[[Any], Any]]] = [
    ("x of x @ y", lambda x: x @ OTHER),
    ("y of x - y", lambda x: OTHER - x),
    ("y of x - y", lambda x: 1 - x),
    ("x of x < y", lambda x: x < 1),
    ("x of divmod(x, y)", lambda x: divmod(x, 2)),
    ("x of -x", operator.neg),
    ("x of abs(x)", abs),
    ("x of x.T", lambda x: x.T),
    ("x of x.sum", lambda x: x.sum(0)),
    ("x of x[index]", lambda x: x[0]),
    ("x of x.at[index].set", lambda x: x.at[0].set(1.0)),
    ("1 of add", lambda x: dnp.add(OTHER, x)),
    ("'min' of clip", lambda x: dnp.clip(OTHER, min=x)),
    ("0[1] of stack", lambda x: dnp.stack([OTHER, x])),
    ("0 of numpy.sum", np.sum),
    ("1 of add", lambda x: call_with_layout(jnp.add, ROWS, OTHER, x)),
]


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize(("name", "operation"), OPERATIONS, ids=[name for name, _ in OPERATIONS])
def test_the_operand_is_named(name: str, operation: Callable[[Any], Any], known: bool) -> None:
    if known:
        operation(ones())
    x = ones()
    x.delete()
    with pytest.raises(RuntimeError) as error:
        operation(x)
    assert str(error.value).startswith(f"argument {name} is deleted: its buffers were donated ")


@pytest.mark.parametrize(
    "read", [lambda x: x.numpy(), lambda x: x.unpack()], ids=["numpy", "unpack"]
)
def test_what_is_read_is_no_argument(read: Callable[[Any], Any]) -> None:
    x = ones()
    x.delete()
    with pytest.raises(RuntimeError, match=r"^the array is deleted: .*; read what that program"):
        read(x)
