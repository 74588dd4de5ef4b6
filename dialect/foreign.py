"""Attributes of dialects that no one here knows: MLIR keeps them as text, and jax reads none."""

from __future__ import annotations

from collections.abc import Iterator

from dtensor.dialect.diagnostics import error
from dtensor.dialect.mlir import every, ir

_OURS = "dtensor"  # which is gone before jax reads the program


def refuse_foreign_attributes(module: ir.Module) -> None:
    """Check that jax can read every attribute of a module.

    Raises:
        LocatedError: one is of a dialect that it does not know, such as `#tf_type.shape<1>`.
    """
    known: set[ir.Attribute] = set()
    for op in every(module.operation):
        attributes = op.attributes
        for name in attributes:
            try:
                value = attributes[name]
            except TypeError:  # dense elements for which jaxlib has no class
                continue
            if value in known:
                continue
            known.add(value)
            for foreign in _foreign(value):
                error(
                    op,
                    f"attribute {name} has {foreign}, of a dialect that jax does not know; "
                    "remove it",
                )


def _foreign(value: ir.Attribute) -> Iterator[str]:
    if isinstance(value, ir.ArrayAttr):
        for each in value:
            yield from _foreign(each)
    elif isinstance(value, ir.DictAttr):
        for i in range(len(value)):
            yield from _foreign(value[i].attr)
    elif isinstance(value, ir.OpaqueAttr) and value.dialect_namespace != _OURS:
        yield str(value)
    elif isinstance(value, ir.TypeAttr) and isinstance(value.value, ir.OpaqueType):
        yield str(value)
