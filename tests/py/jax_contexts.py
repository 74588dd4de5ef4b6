"""Contexts of MLIR into which jax lowers programs of the tests: two, used in turn, for a while.

jax makes one for each program, which takes 8 ms, more than it takes to lower a small program into
it; a test lowers three: its function, what that is compiled to, and the function for one device.
Since two take turns, what is kept of one lowering does not fit into the next, as if it were new.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

from jax._src.interpreters import mlir as jax_mlir
from jaxlib.mlir import ir

_USES = 40  # of both together: constants of programs stay in a context as long as it is there


def share_contexts() -> None:
    """Have jax lower into contexts that it lowered into before."""
    jax_mlir.make_ir_context = _in_turn(jax_mlir.make_ir_context)


def _in_turn(make: Callable[[], ir.Context]) -> Callable[[], ir.Context]:
    made: list[ir.Context] = []
    numbers = count()

    def next_context() -> ir.Context:
        number = next(numbers) % _USES
        if number < 2:
            made[number : number + 1] = [make()]
        return made[number % 2]

    return next_context
