"""Passes that are tables of rewrites, of which each can be left out by its name."""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from types import ModuleType
from typing import ClassVar, Literal

from dtensor.dialect.diagnostics import did_you_mean
from dtensor.dialect.mlir import ir
from dtensor.passes.base import Pass, PassOptionError, PassState
from dtensor.passes.rewriting.rewriting import Rewriting


@dataclass(frozen=True)
class Rewrite:
    """One rewrite: a function of a file, which is read once the program has what it rewrites.

    Attributes:
        file: the module in the pass's own package; the name by which the rewrite is left out.
        function: what it defines: `f(function: Rewriting)`, or with `each`
            `f(op: ir.Operation, function: Rewriting)`.
        names: operations without any of which there is nothing to rewrite.
        each: whether the function is given each operation of these names, from the first or from
            the last on, and not the whole program.
        is_repeated: whether it runs again until it changes nothing.
    """

    file: str
    function: str
    names: frozenset[str]
    each: Literal["first", "last", ""] = ""
    is_repeated: bool = False

    def run(self, package: str, function: Rewriting) -> None:
        """Rewrite what is found in the function."""
        rewrite = getattr(import_module(f"{package}.{self.file}"), self.function)
        if not self.each:
            rewrite(function)
            return
        for op in function.each(*self.names, is_reverse=self.each == "last"):
            rewrite(op, function)


@dataclass(frozen=True)
class RewritesPass(Pass):
    """A pass that runs a table of rewrites, in its order, over `@main`."""

    TABLE: ClassVar[Sequence[Rewrite]]

    without: str = ""  # rewrites to leave out, by name, with commas between: what each is worth

    @classmethod
    def rewrites(cls) -> dict[str, ModuleType]:
        """The file of each rewrite by its name, in the order in which they run first."""
        package = cls.__module__.rpartition(".")[0]
        return {each.file: import_module(f"{package}.{each.file}") for each in cls.TABLE}

    def __post_init__(self) -> None:
        known = list(dict.fromkeys(each.file for each in self.TABLE))
        for name in self._left_out():
            if name not in known:
                hint = did_you_mean(name, known)
                raise PassOptionError(f"pass '{self.name}' has no rewrite '{name}'{hint}")

    def _left_out(self) -> list[str]:
        return [name for name in map(str.strip, self.without.split(",")) if name]

    def rewrite(self, main: ir.Operation, state: PassState) -> None:
        """Run the table over a function, in place."""
        package, left_out = type(self).__module__.rpartition(".")[0], self._left_out()
        for each in self.TABLE:
            if each.file in left_out:
                continue
            while rewritten(main, state, each.names, partial(each.run, package)):
                state.ledger.rewrites.append(each.file)
                if not each.is_repeated:
                    break


def rewritten(
    main: ir.Operation,
    state: PassState,
    names: Set[str],
    rewrite: Callable[[Rewriting], None],
) -> bool:
    """Rewrite a function in place, if it has operations of these names; whether it changed."""
    ops = state.operations(main)
    if ops.names.isdisjoint(names):
        return False
    function = Rewriting(main, ops, state.shards_of(main), state.ledger.add_op)
    rewrite(function)
    function.clean(everywhere=function.has_changed)
    if function.has_changed:
        state.forget_ir()
    return function.has_changed
