"""Variables in `dtensor.jit`: a program takes their values, and gives those it assigns back.

The values come first among the arguments of the program and last among its results. Variables that
the function is called with are told apart by position, so that one program serves all of their
type; variables that it closes over are found by tracing, and are part of the program.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dtensor.compiler.border import data_layouts_of_types
from dtensor.compiler.jax_frontend import TracedArray
from dtensor.dialect.errors import LayoutError
from dtensor.dialect.layout import Layout
from dtensor.dialect.mesh import Mesh
from dtensor.runtime.array import ArrayType
from dtensor.runtime.variables.variable import ClosedOver, DVariable

if TYPE_CHECKING:
    from dtensor.compiler.source import Source

Pattern = tuple[int, ...]


is_variable: Callable[[Any], bool] = DVariable.__instancecheck__
"""Whether a value is a variable; as `is_leaf`, it makes leaves of them."""


@dataclass(frozen=True, eq=False)
class Use:
    """The variables of a program.

    One variable may be passed in several places, or passed and closed over too: the program then
    takes it once. Members are the places, in order: leaves of the arguments that are variables, and
    then the variables that the function closes over.

    Attributes:
        leaves: indices of the leaves of the arguments that are variables.
        captured: the variables that the function closes over.
        pattern: for each member, the first member that is the same variable.
        names: the name of each variable the program takes.
        types: its type.
        updated: indices of those that the program assigns.
    """

    leaves: tuple[int, ...]
    captured: tuple[DVariable, ...]
    pattern: Pattern
    names: tuple[str, ...]
    types: tuple[ArrayType, ...]
    updated: tuple[int, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether the program has no variables."""
        return not self.pattern

    @property
    def firsts(self) -> tuple[int, ...]:
        """The member that stands for each variable the program takes."""
        return firsts_of(self.pattern)

    @property
    def places(self) -> dict[int, int]:
        """The argument of the program that each array of jax's is, by id, that it closes over."""
        own = len(self.leaves)
        return {
            variable.key[0]: self.firsts.index(self.pattern[own + k])
            for k, variable in enumerate(self.captured)
            if isinstance(variable, ClosedOver) and variable.key[1] is None
        }

    def members(self, leaves: Sequence[Any]) -> list[DVariable]:
        """The members of a call with these leaves."""
        return [*[leaves[i] for i in self.leaves], *self.captured]

    def arguments(self, leaves: Sequence[Any]) -> list[Any]:
        """What the program takes in a call with these leaves."""
        members = self.members(leaves)
        plain = [leaves[i] for i in self.plain_leaves(len(leaves))]
        return [*[members[i].value() for i in self.firsts], *plain]

    def plain_leaves(self, count: int) -> list[int]:
        """Indices of those of `count` leaves that are no variables."""
        return [i for i in range(count) if i not in self.leaves]

    def argument_of_leaf(self, count: int) -> list[int]:
        """The argument of the program that each of `count` leaves becomes."""
        arguments = [0] * count
        firsts = self.firsts
        for member, leaf in enumerate(self.leaves):
            arguments[leaf] = firsts.index(self.pattern[member])
        for position, leaf in enumerate(self.plain_leaves(count), len(firsts)):
            arguments[leaf] = position
        return arguments

    def bind(self, source: Source) -> Source:
        """The program with its variables: layouts, results and donated buffers are completed.

        Args:
            source: the program, as if each leaf of the call were an argument, and with the results
                that the call returns.

        Raises:
            LayoutError: `in_layouts` has another layout for a variable than the variable.
        """
        if self.is_empty:
            return source
        layouts = source.in_layouts
        plain = self.plain_leaves(len(layouts))
        arguments = self.argument_of_leaf(len(layouts))
        assert source.mesh is not None  # that of the variables
        own = self._layouts(source.mesh)
        for leaf in self.leaves:
            if layouts[leaf] not in (None, own[arguments[leaf]]):
                raise LayoutError(
                    f"variable {self.names[arguments[leaf]]} has the layout "
                    f"{own[arguments[leaf]].short()}, and "  # type: ignore[union-attr]
                    f"in_layouts says {layouts[leaf].short()}; a variable keeps its layout: leave "  # type: ignore[union-attr]
                    "its entry out (None)"
                )
        donated = [arguments[leaf] for leaf in source.donated if leaf in plain]
        return dataclasses.replace(
            source,
            in_layouts=(*own, *[layouts[leaf] for leaf in plain]),
            out_layouts=(*source.out_layouts, *[own[i] for i in self.updated]),
            results=(*source.results, *[self._result(i) for i in self.updated]),
            donated=(*self.updated, *donated),
            variables=self,
        )

    def _layouts(self, mesh: Mesh) -> tuple[Layout | None, ...]:
        return data_layouts_of_types([t.layout for t in self.types], self.types, mesh)

    def _result(self, index: int) -> TracedArray:
        return TracedArray.of(self.types[index], f"new {self.names[index]}")


NO_VARIABLES = Use((), (), (), (), ())


def pattern_of(members: Sequence[DVariable]) -> Pattern:
    """For each member, the first that is the same variable."""
    seen: dict[int, int] = {}
    return tuple([seen.setdefault(id(member), i) for i, member in enumerate(members)])


def firsts_of(pattern: Pattern) -> tuple[int, ...]:
    """The first member that each variable is."""
    return tuple(dict.fromkeys(pattern))
