"""GSPMD's annotations (`mhlo.sharding`, custom calls of `@Sharding`) as layouts of a mesh.

They name no mesh, but list for each tile of an array the devices that hold it, which jax and others
count along the mesh. The written forms are those of XLA's `HloSharding::ToString`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np

from dtensor.dialect.axes import AxisRef
from dtensor.dialect.callbacks import target_of
from dtensor.dialect.dim import Dim, canonical_digits
from dtensor.dialect.errors import LayoutError
from dtensor.dialect.layout import Layout
from dtensor.dialect.mesh import Mesh
from dtensor.dialect.mlir import ir
from dtensor.passes.program import CUSTOM_CALL

GSPMD_ATTR: Final = "mhlo.sharding"
_OPEN = re.compile(r"unspecified_dims=\[([\d,]+)\]")
_WHOLE = re.compile(r"\{(?:replicated|maximal device=\d+)\}\Z")
_METADATA = re.compile(r" metadata=\{(?:[^{}]|\{[^{}]*\})*\}")
_TILED = re.compile(
    r"\{devices=\[(N)\](?:<=\[(N)\](?:T\((N)\))?|(N))".replace("N", r"\d+(?:,\d+)*")
    + r"( last_tile_dim_replicate| last_tile_dims=\{replicated\})?\}\Z"
)


def sharding_text(attribute: ir.Attribute) -> str:
    """What an `mhlo.sharding` says.

    Raises:
        LayoutError: it is no text.
    """
    if not isinstance(attribute, ir.StringAttr):
        raise LayoutError(f"GSPMD's sharding {attribute} is no text; give it as a string")
    return str(attribute.value)


def gspmd_layout(text: str, mesh: Mesh, rank: int, config: str = "") -> Layout:
    """The layout that GSPMD writes for one array.

    Args:
        text: such as `{devices=[2,1,4]<=[4,2]T(1,0) last_tile_dim_replicate}`: the array of
            devices, whose first dimensions are those of the array.
        mesh: the mesh whose devices are counted.
        rank: number of dimensions of the array.
        config: the call's `backend_config`, which may leave dimensions open.

    Raises:
        LayoutError: no layout of the mesh says that.
    """
    text = _METADATA.sub("", text)
    if _WHOLE.match(text):
        return Layout.replicated(mesh, rank)
    if text == "{unknown}":
        return Layout.of([Dim((), is_open=True)] * rank, mesh)
    found = _TILED.match(text)
    if found is None:
        raise LayoutError(
            f"GSPMD's sharding {text} is none of {{replicated}}, {{maximal device=0}} and "
            "{devices=[...]<=[...]}; lower with Shardy, or give layouts"
        )
    tiles, sizes, order, listed, last_is_replicated = found.groups()
    shape = _numbers(tiles)
    cut = len(shape) - bool(last_is_replicated)
    tiled = math.prod(shape)
    counted = len(_numbers(listed)) if listed else math.prod(_numbers(sizes))
    if {tiled, counted} != {mesh.size} or cut != rank:
        wrong_size = counted if tiled == mesh.size else tiled
        raise LayoutError(
            f"GSPMD's sharding {text} is for {wrong_size} devices and rank {cut}, where the "
            f"mesh has {mesh.size} and the array rank {rank}; give the mesh it was made for"
        )
    try:
        devices = np.array(_numbers(listed)) if listed else np.arange(math.prod(_numbers(sizes)))
        if order:
            devices = devices.reshape(_numbers(sizes)).transpose(_numbers(order)).reshape(-1)
    except ValueError as wrong:
        raise LayoutError(f"GSPMD's sharding {text} is malformed: {wrong}") from None
    if sorted(devices) != list(range(mesh.size)):
        raise LayoutError(
            f"GSPMD's sharding {text} does not name each of the {mesh.size} devices once, which "
            "are counted from 0 along the mesh"
        )
    tile_of = np.empty((mesh.size, len(shape)), np.int64)
    tile_of[devices] = np.indices(shape).reshape(len(shape), -1).T
    left_open = _OPEN.search(config)
    opened = _numbers(left_open[1]) if left_open else []
    dims = []
    for dim in range(rank):
        digits = _digits_of(tile_of[:, dim], mesh)
        if digits is None:
            raise LayoutError(
                f"GSPMD's sharding {text} counts devices in an order that no layout of "
                f"{mesh.short()} has; give the mesh it was made for"
            )
        dims.append(Dim(canonical_digits(digits), is_open=dim in opened))
    return Layout.of(dims, mesh)


def shardings_of(text: str, count: int) -> list[str]:
    """The shardings of `count` results: of a tuple `{{...}, {...}}` each its own, else all one.

    Raises:
        LayoutError: a tuple of another length.
    """
    if not text.startswith("{{"):
        return [text] * count
    found, depth, start = [], 0, 0
    for at, character in enumerate(text):
        depth += (character == "{") - (character == "}")
        if character == "{" and depth == 2:
            start = at
        elif character == "}" and depth == 1:
            found.append(text[start : at + 1])
    if len(found) != count:
        raise LayoutError(f"GSPMD's sharding {text} is of {len(found)} results, not of {count}")
    return found


def is_gspmd_constraint(op: ir.Operation) -> bool:
    """Whether an operation is the custom call whose result is its operand in another layout."""
    return op.name == CUSTOM_CALL and target_of(op) == "Sharding"


def _numbers(text: str) -> list[int]:
    return [int(number) for number in text.split(",")]


def _digits_of(tiles: Any, mesh: Mesh) -> Sequence[AxisRef] | None:
    """The parts of mesh axes, major first, that count the tiles; None if none do.

    `tiles` says which tile of a dimension each device holds, by its position in the mesh.
    """
    parts = [part for name in mesh.axis_names for part in _parts(tiles, mesh, name)]
    digits = [digit for step, digit in sorted(parts, key=lambda part: -part[0]) if step]
    told = np.zeros_like(tiles)
    for digit in digits:
        coordinate = np.arange(mesh.size) // mesh.position_stride(digit) % digit.size
        told = told * digit.size + coordinate
    return digits if np.array_equal(told, tiles) else None


def _parts(tiles: Any, mesh: Mesh, name: str) -> Iterator[tuple[int, AxisRef]]:
    """An axis in parts, minor first, and by how many tiles each counts per device."""
    size = mesh.axis_size(name)
    along = tiles[np.arange(size) * mesh.axis_stride(name)]
    below = 1
    while below < size:
        step = int(along[below])
        count = 2
        while below * count < size and along[below * count] == step * count:
            count += 1
        yield step, AxisRef(name, max(size // (below * count), 1), count)
        below *= count
