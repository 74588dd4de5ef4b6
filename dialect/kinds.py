"""Kinds of attributes: each reads one or raises LayoutError or MeshError with the sentence."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

from dtensor.dialect.attributes import layout_of, layouts_of_array, mesh_and_axes, mesh_of
from dtensor.dialect.layout import REDUCTIONS, Layout
from dtensor.dialect.mesh import Mesh
from dtensor.dialect.mlir import ir

Meshes = dict[str, Mesh]

FORWARD: Final = "forward"
BACKWARD: Final = "backward"
DIRECTIONS: Final = ("none", FORWARD, BACKWARD)
_FFT_TYPES: Final = ("FFT", "IFFT", "RFFT", "IRFFT")


@dataclass(frozen=True)
class Kind:
    """A kind of attribute: its form, for messages, and how to read it."""

    form: str
    read: Callable[[ir.Attribute, Meshes], Any]
    is_optional: bool = False


def _text(attribute: ir.Attribute, _: Meshes) -> str:
    if not isinstance(attribute, ir.StringAttr):
        raise ValueError(f"found {attribute}")
    return str(attribute.value)


def _integer(attribute: ir.Attribute, _: Meshes) -> int:
    if not isinstance(attribute, ir.IntegerAttr) or str(attribute.type) != "i64":
        raise ValueError(f"found {attribute}")
    return int(attribute.value)


def _reduction(attribute: ir.Attribute, meshes: Meshes) -> str:
    text = _text(attribute, meshes)
    if text not in REDUCTIONS:
        raise ValueError(f'found "{text}"')
    return text


def _direction(attribute: ir.Attribute, meshes: Meshes) -> str:
    text = _text(attribute, meshes)
    if text not in DIRECTIONS:
        raise ValueError(f'found "{text}"')
    return text


def _mesh(attribute: ir.Attribute, _: Meshes) -> Mesh:
    return mesh_of(attribute, "mesh")


def _integers(attribute: ir.Attribute, _: Meshes) -> list[int]:
    if not isinstance(attribute, ir.DenseI64ArrayAttr):
        raise ValueError(f"found {attribute}")
    return list(attribute)


def _call(attribute: ir.Attribute, _: Meshes) -> ir.DictAttr:
    if not isinstance(attribute, ir.DictAttr) or "call_target_name" not in attribute:
        raise ValueError(f"found {attribute}")
    return attribute


def _fft_type(attribute: ir.Attribute, _: Meshes) -> str:
    found = str(attribute).removeprefix("#stablehlo<fft_type ").removesuffix(">")
    if found not in _FFT_TYPES:
        raise ValueError(f"found {attribute}")
    return found


def _numbers_of(what: str) -> Callable[[ir.Attribute, Meshes], ir.Attribute]:
    def read(attribute: ir.Attribute, _: Meshes) -> ir.Attribute:
        if not str(attribute).startswith(f"#stablehlo.{what}<"):
            raise ValueError(f"found {attribute}")
        return attribute

    return read


def _anything(attribute: ir.Attribute, _: Meshes) -> ir.Attribute:
    return attribute


def _layouts(attribute: ir.Attribute, meshes: Meshes) -> list[Layout | None]:
    return list(layouts_of_array(attribute, meshes))


def _names(attribute: ir.Attribute, _: Meshes) -> list[str]:
    if not isinstance(attribute, ir.ArrayAttr) or not all(
        isinstance(item, ir.StringAttr) for item in attribute
    ):
        raise ValueError(f"found {attribute}")
    return [ir.StringAttr(item).value for item in attribute]


SYMBOL: Final = Kind('a name such as "mesh"', _text)
VISIBILITY: Final = Kind('"private" or "public"', _text, is_optional=True)
MESH: Final = Kind('a mesh such as #dtensor.mesh<["x"=2]>', _mesh)
LAYOUT: Final = Kind('a layout such as #dtensor.layout<@mesh, [{"x"}]>', layout_of)
LAYOUTS: Final = Kind('layouts such as [#dtensor.layout<@mesh, [{"x"}]>]', _layouts)
AXES: Final = Kind('axes such as #dtensor.axes<@mesh, ["x"]>', mesh_and_axes)
NAMES: Final = Kind('names such as ["x", "y"]', _names)
CALL: Final = Kind("the attributes of a call, with a call_target_name", _call)
FFT_TYPE: Final = Kind("a type such as #stablehlo<fft_type FFT>", _fft_type)
GATHER_NUMBERS: Final = Kind("numbers such as #stablehlo.gather<...>", _numbers_of("gather"))
DOT_NUMBERS: Final = Kind("numbers such as #stablehlo.dot<...>", _numbers_of("dot"))
PRECISION: Final = Kind("as that of stablehlo.dot_general", _anything, is_optional=True)
INDEX: Final = Kind("an integer such as 0 : i64", _integer)
INDICES: Final = Kind("integers such as array<i64: 0, 1>", _integers)
SOME_INDICES: Final = replace(INDICES, is_optional=True)
REDUCTION: Final = Kind(f"one of {', '.join(REDUCTIONS)}", _reduction)
DIRECTION: Final = Kind(f"one of {', '.join(DIRECTIONS)}", _direction)
