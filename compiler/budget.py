"""Budgets: what a program may send, as an error and not as a number to look at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

from dtensor.dialect.diagnostics import did_you_mean
from dtensor.dialect.errors import BudgetError, CompileError

if TYPE_CHECKING:
    from dtensor.passes.reports.cost import Collective

KINDS = (
    "all_gather",
    "all_reduce",
    "all_to_all",
    "collective_broadcast",
    "collective_permute",
    "halo_exchange",
    "reduce_scatter",
    "shard_permute",
)


@dataclass(frozen=True)
class Budget:
    """What one program may send per device and call.

    A context manager: every function of `dtensor.jit` and every Compiled that is called in the
    `with` block keeps to it, or raises before it runs. `CompileOptions(budget=...)` holds a single
    function to it when it is compiled.

    Attributes:
        max_bytes: wire bytes per device and call; None is no limit.
        only: the kinds of collectives, and the mesh axes of each; None allows all of them.

    Raises:
        CompileError: an entry is of another form.

    Example:
        >>> rows = dtensor.Layout.batch_sharded(mesh, "x", rank=2)
        >>> step = dtensor.jit(lambda x: x.sum(axis=0), in_layouts=rows)
        >>> with dtensor.budget(max_bytes=100, only={"all_reduce": "x"}):
        ...     y = step(np.ones((4, 8)))  # sends 32 bytes per device
        >>> y.shape
        (8,)
    """

    max_bytes: float | None = None
    only: tuple[tuple[str, tuple[str, ...] | None], ...] | None = None

    def __enter__(self) -> Budget:
        """From now on, calls in this context keep to it."""
        _active.set((*_active.get(), self))
        return self

    def __exit__(self, *_: object) -> None:
        """As before the block."""
        _active.set(_active.get()[:-1])

    def check(self, name: str, collectives: Sequence[Collective]) -> None:
        """Raise if a program sends more, or otherwise.

        Args:
            name: what messages call the program.
            collectives: its planned collectives.

        Raises:
            BudgetError: it does; the message names the collective.

        Example:
            >>> rows = dtensor.Layout.batch_sharded(mesh, "x", rank=2)
            >>> step = dtensor.jit(lambda x: x.sum(axis=0), in_layouts=rows)
            >>> lowered = step.lower(np.ones((4, 8)))
            >>> dtensor.budget(max_bytes=100).check("step", lowered.collectives)  # it is kept
        """
        if self.only is not None:
            allowed = dict(self.only)
            for c in collectives:
                axes = allowed.get(c.kind, ())
                if axes is None or (c.kind in allowed and set(c.mesh_axes) <= set(axes)):
                    continue
                raise BudgetError(
                    f"{_at(c)}{name} is to send {c.text()}; its budget allows {self._words()}"
                )
        total = sum(map(_bytes, collectives))
        if self.max_bytes is not None and total > self.max_bytes:
            largest = max(collectives, key=_bytes)
            raise BudgetError(
                f"{_at(largest)}{name} is to send {total:.0f} bytes per device and call, and its "
                f"budget is {self.max_bytes:.0f} bytes; the largest part is "
                f"{largest.text()}"
            )

    def _words(self) -> str:
        parts = [
            kind if axes is None else f"{kind} over {', '.join(axes)}"
            for kind, axes in self.only or ()
        ]
        return " and ".join(parts) or "no collective"


def budget(
    max_bytes: float | None = None,
    only: Mapping[str, str | Sequence[str] | None] | Sequence[str] | str | None = None,
) -> Budget:
    """What programs may send, for a `with` block or for `CompileOptions(budget=...)`.

    Args:
        max_bytes: wire bytes per device and call, by the plan; a loop of unknown length counts as
            one turn.
        only: a kind of collectives, several, or kinds with the mesh axes of each:
            `{"all_reduce": "model"}`, also `("data", "model")`, or None for any axis. Other kinds
            are refused; an empty one refuses all.

    Raises:
        CompileError: there is no such kind, or `max_bytes` is no number.

    Example:
        >>> rows = dtensor.Layout.batch_sharded(mesh, "x", rank=2)
        >>> step = dtensor.jit(lambda x: x.sum(axis=0), in_layouts=rows)
        >>> with dtensor.budget(max_bytes=10):
        ...     step(np.ones((4, 8)))
        Traceback (most recent call last):
            ...
        dtensor.dialect.errors.BudgetError: ... <lambda> is to send 32 bytes ...
    """
    if max_bytes is not None:
        number = number_of(max_bytes)
        if number is None or not number >= 0:
            raise CompileError(f"max_bytes is {max_bytes!r}; it must be a number of bytes, or None")
        max_bytes = number
    if only is None:
        return Budget(max_bytes)
    kinds = [only] if isinstance(only, str) else only
    named: Mapping[str, Any] = kinds if isinstance(kinds, Mapping) else dict.fromkeys(kinds)
    for kind in named:
        if kind not in KINDS:
            hint = did_you_mean(kind, KINDS)
            raise CompileError(f"only names '{kind}', which is no collective{hint}")
    pairs = [(kind, _axes(axes)) for kind, axes in sorted(named.items())]
    return Budget(max_bytes, tuple(pairs))


def number_of(value: object) -> float | None:
    """A real number, of NumPy too, as Python has it; None for anything else, truth values too."""
    if isinstance(value, bool):
        return None
    if isinstance(value, Integral):
        return int(value)
    return float(value) if isinstance(value, Real) else None


def active_budgets() -> tuple[Budget, ...]:
    """Those of the `with` blocks around this call, the outermost first."""
    return _active.get()


def check_active(name: str, collectives: Sequence[Collective]) -> None:
    """Check a program that is about to run against each of them; see `Budget.check`."""
    for budget in active_budgets():
        budget.check(name, collectives)


_active: ContextVar[tuple[Budget, ...]] = ContextVar("budgets", default=())


def _axes(axes: str | Sequence[str] | None) -> tuple[str, ...] | None:
    if axes is None:
        return None
    return (axes,) if isinstance(axes, str) else tuple(axes)


def _bytes(collective: Collective) -> float:
    return collective.bytes * (collective.trip_count or 1)


def _at(collective: Collective) -> str:
    return f"{collective.location}: " if collective.location else ""
