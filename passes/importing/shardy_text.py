"""What Shardy's attributes write: meshes, shardings, and which meshes a program names."""

from __future__ import annotations

import re
from collections.abc import Iterator

from dtensor.dialect.errors import LayoutError
from dtensor.dialect.layout import Layout
from dtensor.dialect.mesh import Mesh
from dtensor.dialect.mlir import ir, ops_of

_MESH = re.compile(r"#sdy\.mesh<\[(.*?)\](?:, device_ids=\[([\d, ]*)\])?>", re.DOTALL)
_SHARDING = re.compile(
    r"#sdy\.sharding<(?:@([\w.\-]+|\"[^\"]*\")|(mesh<.*?>)), (\[.*?\])(.*)>\Z", re.DOTALL
)
_INLINE = re.compile(r"sharding<(mesh<\[[^\]]*\](?:, device_ids=\[[^\]]*\])?>)")


def read_shardy_meshes(module: ir.Module) -> dict[str, Mesh]:
    """The module's `sdy.mesh` operations, by symbol."""
    found: dict[str, Mesh] = {}
    for op in ops_of(module.body):
        if op.name == "sdy.mesh":
            name = ir.StringAttr(op.attributes["sym_name"]).value
            found[name] = _mesh(str(op.attributes["mesh"]), "" if name == "mesh" else name)
    return found


def named_meshes(function: ir.Operation) -> set[str]:
    """The symbols of the meshes that a function's layouts and shardings name."""
    found = re.findall(r'<@(?:([\w.\-]+)|"([^"]*)")', _text(function))
    return {plain or quoted for plain, quoted in found}


def inline_meshes(function: ir.Operation) -> list[Mesh]:
    """The meshes that a function's shardings hold themselves, and name by no symbol."""
    return [_mesh(f"#sdy.{text}", "") for text in _INLINE.findall(_text(function))]


def _text(function: ir.Operation) -> str:
    return str(function.get_asm(large_elements_limit=4, skip_regions=False))


def _mesh(text: str, name: str) -> Mesh:
    match = _MESH.match(text)
    assert match is not None, text
    axes = [(axis, int(size)) for axis, size in re.findall(r'"([^"]+)"=(\d+)', match.group(1))]
    ids = [int(i) for i in match.group(2).split(",")] if axes and match.group(2) else None
    return Mesh(axes, ids, name=name)


def sharding_layout(text: str, meshes: dict[str, Mesh], target: Mesh, rank: int) -> Layout:
    """The layout that an `#sdy.sharding<...>` writes.

    Args:
        text: the attribute's written form.
        meshes: Shardy's meshes by symbol.
        target: the mesh of the module, with the same axes as the mesh of the sharding, unless that
            has none, as jax writes where it says of random keys that a key is whole.
        rank: number of dimensions of the value.

    Raises:
        LayoutError: another mesh.
    """
    match = _SHARDING.match(text)
    assert match is not None, text
    name, inline, dims, rest = match.groups()
    mesh = meshes[name.strip('"')] if inline is None else _mesh(f"#sdy.{inline}", "")
    if not mesh.axes and dims == "[]":  # of one device: what it says of a value is that it is whole
        return Layout.replicated(target, rank)
    if mesh.axes and mesh.axes != target.axes:
        raise LayoutError(
            f"sharding is on {mesh!r}, the module is compiled for {target!r}; use one mesh"
        )
    replicated = re.search(r"replicated=\{([^}]*)\}", rest)
    if replicated and replicated.group(1).strip():
        kept_out = "".join(f"!{axis.strip()}" for axis in replicated.group(1).split(","))
        dims = dims.replace("?", f"?{kept_out}")
    partial = ""
    unreduced = re.search(r"unreduced=\{([^}]*)\}", rest)
    if unreduced and unreduced.group(1).strip():
        partial = f", partial = {{sum: ({unreduced.group(1)})}}"
    return Layout.parse(f"#dtensor.layout<@{target.symbol}, {dims}{partial}>", target)


def per_value(text: str) -> Iterator[str]:
    """The shardings of an operation's results: of `#sdy.sharding_per_value<[<...>, <...>]>`."""
    inner = text[text.index("[") + 1 : text.rindex("]")]
    depth = start = 0
    for at, character in enumerate(inner):
        if character == "<":
            start = at if depth == 0 else start
            depth += 1
        elif character == ">":
            depth -= 1
            if depth == 0:
                yield f"#sdy.sharding{inner[start : at + 1]}"
