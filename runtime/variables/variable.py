"""Variables: arrays that keep their place on the mesh and change their values."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Iterable
from typing import Any

import jax
import numpy as np

from dtensor.dialect.errors import CompileError, LayoutError
from dtensor.runtime.array import (
    TRACED,
    ArrayType,
    DTensor,
    array_type,
    dtensor_of,
    true_array,
)
from dtensor.runtime.array_tree import Kind, tensor_of
from dtensor.runtime.donation import note_alias
from dtensor.runtime.eager import Slot
from dtensor.runtime.shardings import AnyLayout
from dtensor.runtime.tracing import becomes_program, current_scope, is_eager
from dtensor.runtime.variables.facts import VariableFacts, value_of, variable_type
from dtensor.runtime.variables.values import (
    assigned_array,
    assigned_symbol,
    check_sum,
    checked_delta,
    initial_tensor,
)

_unnamed = itertools.count()


class DVariable(VariableFacts):
    """An array whose values change, and whose layout, shape and element type do not.

    It can stand wherever a DTensor can: operators, methods and functions of arrays read its value.
    Functions compiled by `dtensor.jit` may take variables as arguments or close over them, and may
    assign to them: the program then writes the new value over the old one, in the same buffers, and
    the variable holds it after the call. Where somebody still holds the old value, such as the
    result of an earlier `v.value()`, the old value is copied first.

    To jax, a variable is a node of a pytree with its value as the only leaf, as a DTensor is:
    `jax.grad(f)(v)` and `jax.jit(f)(v)` give `f` a variable that can be read but not assigned, and
    return DTensors. `jax.tree.map(f, tree)` gives `f` the arrays; pass `is_leaf=dtensor.is_dtensor`
    for the variables themselves. Variables are compared element by element, so they are no keys of
    dicts. They may be used in several threads, but updated in one.

    Args:
        initial_value: a DTensor; or with `layout` any array, or a function without arguments, which
            then creates its array directly in shards.
        dtype: element type; None takes that of the initial value.
        layout: layout, or a NamedSharding, or a PartitionSpec over the mesh of the DTensor or of
            `jax.set_mesh`; None takes that of the initial value.
        shape: shape that the initial value must have; None takes any.
        name: name for messages and checkpoints; None makes one up.
        trainable: kept as an attribute for training loops.

    Raises:
        LayoutError: there is no layout, or it is not that of the DTensor, or does not fit.
        TypeError: the initial value is of another element type than `dtype`, or not numeric.
        CompileError: called while jax traces a function.

    Example:
        >>> v = dtensor.DVariable(np.zeros(4), layout=dtensor.Layout(["y"], mesh))
        >>> v.assign_add(1.0).sum().item()
        4.0
    """

    __slots__ = ()
    _exist = False  # until there has been a variable in this process, no trace looks for any

    def __init__(
        self,
        initial_value: Any,
        *,
        dtype: Any = None,
        layout: AnyLayout | None = None,
        shape: Any = None,
        name: str | None = None,
        trainable: bool = True,
    ) -> None:
        if name is not None and not isinstance(name, str):
            raise TypeError(f"a variable's name is a text, not of type {type(name).__name__}")
        who = "a variable" if name is None else f"variable {name!r}"
        if not is_eager():
            raise CompileError(
                f"{who} is created while jax traces a function, which would create one for each "
                "trace and none for each call; create it outside of the function"
            )
        if layout is not None and not isinstance(layout, AnyLayout):
            raise LayoutError(f"{who}: layout= is of type {type(layout).__name__}, not a Layout")
        tensor = initial_tensor(value_of(initial_value), dtype, layout, who)
        if shape is not None and tuple(shape) != tensor.shape:
            raise LayoutError(
                f"{who}: the initial value has the shape {list(tensor.shape)}, but shape= says "
                f"{list(shape)}; leave out shape=, or give another value"
            )
        number = next(_unnamed) if name is None else 0
        name = name or ("Variable" if number == 0 else f"Variable_{number}")
        own = array_type(tensor.shape, tensor.dtype, tensor.layout)
        _set_up(self, own, name, _noted(tensor._array, initial_value))
        self.trainable = trainable
        DVariable._exist = True

    # Reading.

    def value(self) -> DTensor:
        """The value at this moment: a DTensor, which later assignments do not change.

        In a function that `dtensor.jit` or jax traces it is a jax.Array: the traced value, or under
        grad or vmap of something else a constant.

        Raises:
            CompileError: jax itself traces the function, and would keep this value in the program.
            RuntimeError: the value is lost.

        Example:
            >>> v = dtensor.DVariable(1.0, layout=dtensor.Layout.replicated(mesh, rank=0))
            >>> old = v.value()
            >>> print(v.assign_add(2.0).value(), old)
            3.0 1.0
        """
        array = self._array
        traced: Any = None if is_eager() else true_array(array, self._own)
        value: DTensor = dtensor_of(array, self._own) if traced is None else traced
        return value

    def read_value(self) -> DTensor:
        """The same as `value()`.

        Example:
            >>> v = dtensor.DVariable(np.zeros(4), layout=dtensor.Layout(["y"], mesh))
            >>> v.read_value().layout
            Layout(['y'], Mesh(x=2, y=4))
        """
        return self.value()

    def __jax_array__(self) -> Any:
        return true_array(self._array, self._own)

    # Writing.

    def assign(self, value: Any, *, read_value: bool = True) -> DVariable | None:
        """Give the variable another value.

        Args:
            value: a DTensor of the same mesh, shape and element type; one in another layout is
                brought into the variable's. Or a number, or random keys or an integer array of
                fewer than 20 elements.
            read_value: False returns None.

        Returns:
            The variable.

        Raises:
            LayoutError: the value has another shape, or lies on another mesh or on none.
            TypeError: the value is of another element type, or not numeric.
            CompileError: jax traces the function that assigns, other than by `dtensor.jit`.

        Example:
            >>> v = dtensor.DVariable(np.zeros(4), layout=dtensor.Layout(["y"], mesh))
            >>> x = dtensor.copy_to_mesh(np.ones(4), dtensor.Layout.replicated(mesh, rank=1))
            >>> v.assign(x).layout
            Layout(['y'], Mesh(x=2, y=4))
        """
        value = value_of(value)
        who = f"variable {self.name!r}"
        if self._is_assigned_traced():
            current_scope().assign(self, assigned_symbol(value, self._own, who))
        else:
            self._value = _noted(assigned_array(value, self._own, who), value)
        return self if read_value else None

    def assign_add(self, delta: Any, *, read_value: bool = True) -> DVariable | None:
        """Add `delta` to the value, in the variable's own buffers.

        Args:
            delta: what `assign` takes, or what broadcasts to the variable's shape.
            read_value: False returns None.

        Returns:
            The variable.

        Raises:
            LayoutError: the sum has another shape, or `delta` lies on another mesh or on none.
            TypeError: the sum is of another element type.
            CompileError: jax traces the function that assigns, other than by `dtensor.jit`.

        Example:
            >>> v = dtensor.DVariable(1.0, layout=dtensor.Layout.replicated(mesh, rank=0))
            >>> print(v.assign_add(2.0).value())
            3.0
        """
        return self._update(operator.add, Slot.engine.add, delta, read_value)

    def assign_sub(self, delta: Any, *, read_value: bool = True) -> DVariable | None:
        """Subtract `delta` from the value, in the variable's own buffers; see `assign_add`.

        Example:
            >>> v = dtensor.DVariable(1.0, layout=dtensor.Layout.replicated(mesh, rank=0))
            >>> print(v.assign_sub(2.0).value())
            -1.0
        """
        return self._update(operator.sub, Slot.engine.subtract, delta, read_value)

    def _update(self, traced: Any, work: Any, delta: Any, read_value: bool) -> DVariable | None:
        delta, who = value_of(delta), f"variable {self.name!r}"
        if self._is_assigned_traced():
            return self.assign(traced(self.value(), delta), read_value=read_value)
        delta = checked_delta(delta, self._own, who)
        refused = None
        try:
            work(self, delta)
        except (LayoutError, TypeError, ValueError) as error:
            refused = error  # of a program that knows no names
        if refused is not None:
            check_sum(delta, self._own, who)
            raise refused
        return self if read_value else None

    def _is_assigned_traced(self) -> bool:
        """Whether an assignment, made now, belongs to a program."""
        if isinstance(self._held, jax.core.Tracer):
            raise CompileError(
                "a variable that jax traces as an argument (of grad, vmap, jit, scan, ...) can be "
                "read but not assigned; return the new value, or use dtensor.jit and assign "
                "outside of the transformed function"
            )
        if current_scope() is not None:
            return True
        if not is_eager():
            raise CompileError(
                f"variable {self.name!r} is assigned while jax traces a function (jit, grad, vmap, "
                "...), which would not happen at each call; return the new value and assign it "
                "outside, or compile the function with dtensor.jit"
            )
        return False

    # How dtensor.jit uses it.

    @property
    def _array(self) -> Any:  # type: ignore[override]
        held = self._held
        if isinstance(held, jax.core.Tracer):
            return held
        scope = current_scope()
        if scope is not None:
            return scope.read(self)
        self.check_usable()
        if becomes_program():
            raise CompileError(
                f"variable {self.name!r} is read while jax traces a function that does not take it "
                "as an argument; the program would keep this value for good: pass the variable or "
                "v.value() as an argument, or compile the function with dtensor.jit"
            )
        return held

    @property
    def _type(self) -> ArrayType:  # type: ignore[override]
        if isinstance(self._held, jax.core.Tracer) or current_scope() is not None:
            return TRACED
        return self._kind

    def check_usable(self) -> None:
        """Raise RuntimeError unless the variable holds a value."""
        if self._held is None:
            raise RuntimeError(
                f"this is no variable, but stood for argument {self.name} while dtensor.jit traced "
                "a function, which has ended; keep the variable that was passed"
            )
        if self._held.is_deleted():
            raise RuntimeError(
                f"the value of variable {self.name!r} is lost: a program took its buffers, either "
                "one that updates it and failed, or one to which an array with the same buffers "
                "was donated; assign a new value"
            )

    def stand_in(self, name: str) -> DVariable:
        """What a traced function gets in place of this variable, so that it serves others too."""
        return _set_up(DVariable.__new__(DVariable), self._own, name, None)

    # As text, and to Python.

    def __repr__(self) -> str:
        return f"DVariable(name={self.name!r}, {self._text(repr).removeprefix('DTensor(')}"

    def __str__(self) -> str:
        return f"<DVariable {self.name!r}: {self._text(str)}>"

    def _text(self, write: Callable[[Any], str]) -> str:
        if self._held is None or isinstance(self._held, jax.core.Tracer):
            return "DTensor(traced)"
        return write(dtensor_of(self._held, self._own))

    def __deepcopy__(self, memo: dict[int, Any]) -> DVariable:
        copied = DVariable(self.value(), name=self.name, trainable=self.trainable)
        copied._save_as_bf16 = self._save_as_bf16
        memo[id(self)] = copied
        return copied

    def __copy__(self) -> DVariable:
        return self.__deepcopy__({})

    def __reduce__(self) -> Any:
        raise TypeError(
            f"variable {self.name!r} cannot be pickled; save its value with name_based_save"
        )


class ClosedOver(DVariable):
    """A DTensor or a jax.Array that a function closes over, as a variable that nobody assigns.

    Attributes:
        key: what tells it apart: the id of the array beneath, and the type of a DTensor.
        constants: the jax.Array, which keeps its id meanwhile.
    """

    key: tuple[int, ArrayType | None]
    constants: tuple[jax.Array, ...]
    __slots__ = ("constants", "key")

    @classmethod
    def of(cls, tensor: DTensor) -> ClosedOver:
        """The variable of a DTensor, without a name."""
        closed = cls.__new__(cls)
        _set_up(closed, tensor._type, "", tensor._array)
        closed.trainable = False
        closed.key, closed.constants = (id(tensor._array), tensor._type), ()
        return closed

    @classmethod
    def constant(cls, array: jax.Array, tensor: DTensor) -> ClosedOver:
        """The variable of a jax.Array, which as a DTensor is `tensor`."""
        closed = cls.of(tensor)
        closed.key, closed.constants = (id(array), None), (array,)
        return closed

    def check_usable(self) -> None:
        """Raise RuntimeError if the array has been deleted."""
        if self._held.is_deleted():
            raise RuntimeError(
                f"array {self.name!r}, which the compiled function closes over, has been deleted "
                "or donated; the program keeps the array that it found when it was compiled: pass "
                "it as an argument"
            )


def _noted(array: jax.Array, source: Any) -> jax.Array:
    if isinstance(source, jax.Array) and array is not source:
        note_alias(array)  # of one jax.Array jax may make others with the same buffers
    return array


def _set_up(variable: DVariable, type_: ArrayType, name: str, held: Any) -> DVariable:
    variable.name, variable._own, variable._value = name, type_, held
    variable._kind = variable_type(type_)
    variable._save_as_bf16 = False
    variable.trainable = True
    return variable


def enable_save_as_bf16(variables: Iterable[DVariable]) -> None:
    """Let checkpoints hold the float32 variables among `variables` as bfloat16.

    Their files are half as large; what is restored is float32 again, of 8 significant bits.

    Raises:
        TypeError: something else than a variable.

    Example:
        >>> v = dtensor.DVariable(np.zeros(4), layout=dtensor.Layout(["y"], mesh))
        >>> dtensor.enable_save_as_bf16([v])
        >>> v.save_as_bf16
        True
    """
    for variable in variables:
        if not isinstance(variable, DVariable):
            raise TypeError(f"expected DVariables, got {type(variable).__name__}")
        if variable.dtype == np.float32:
            variable.save_as_bf16 = True


# To jax, a variable is its value.


def _flatten(variable: DVariable) -> tuple[tuple[Any], Kind]:
    return (true_array(variable._array, variable._own),), Kind(variable._own)


def _unflatten(of: Kind, children: tuple[Any]) -> Any:
    (child,) = children
    if is_eager():
        return tensor_of(of, children)
    scope = current_scope()
    if not isinstance(child, jax.core.Tracer) or (scope is not None and scope.is_outside()):
        return child  # such as gradients: arrays like any other, to be combined with others
    layout = of.type.layout if child.shape == of.type.shape else None
    type_ = array_type(child.shape, child.dtype, layout)
    return _set_up(DVariable.__new__(DVariable), type_, "traced", child)


jax.tree_util.register_pytree_node(DVariable, _flatten, _unflatten)
