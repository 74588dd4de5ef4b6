"""TensorFlow DTensor's written form of a layout: `sharding_specs:x,unsharded, mesh:<mesh>`.

`maximal:true, mesh:<device>` is the layout of a single device, `empty_layout` has none. What
TensorFlow cannot say is written as `Layout.sharding_specs` tells, and ` partial:sum(w),` before the
mesh names partial axes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from dtensor.dialect.axes import AxisRef
from dtensor.dialect.dim import Dim
from dtensor.dialect.errors import LayoutError
from dtensor.dialect.layout import MATCH, OPEN, REDUCTIONS, UNSHARDED, Layout
from dtensor.dialect.layout_members import PARTED
from dtensor.dialect.mesh import Mesh

EMPTY = "empty_layout"
_ANY = "any"
_MAXIMAL = "maximal:true"
_SPECS = "sharding_specs:"
_FORM = f"{_SPECS}x,unsharded, mesh:<mesh>"
_PART = re.compile(r"(.+):\((\d{1,18})\)(\d{1,18})")
_PARTIAL = re.compile(r"(\w+)\((.*)\)")


def spec_string(dim: Dim, mesh: Mesh) -> str:
    """How one dimension is written."""
    if dim.is_match:
        return MATCH
    digits = [str(d) if isinstance(d, int) else _axis_string(d, mesh) for d in dim.digits]
    kept_out = [f"!{_axis_string(axis, mesh)}" for axis in dim.barred]
    word = "+".join([*digits, *([_ANY] if dim.is_open else [])]) or UNSHARDED
    word += "".join(kept_out)
    return f"{word}@{dim.priority}" if dim.priority else word


def write_layout(layout: Layout, mesh: str) -> str:
    """The written form of `layout`, whose mesh is written `mesh`."""
    if layout.is_single_device():
        return f"{_MAXIMAL}, mesh:{mesh}"
    if not layout.mesh.size:
        return EMPTY
    specs = "".join(f"{spec}," for spec in layout.sharding_specs)
    partial = "".join(f" partial:{text}," for text in _partial_strings(layout))
    return f"{_SPECS}{specs}{partial} mesh:{mesh}"


def read_layout(text: str) -> Layout:
    """The layout that `text` writes.

    Raises:
        LayoutError: the text is malformed, or does not fit its mesh.
        MeshError: the mesh in it is malformed.
    """
    if not isinstance(text, str):
        raise LayoutError(f"a layout is read from text, such as {_FORM}, not from {text!r}")
    text = text.strip()
    if text == EMPTY:
        return Layout.of((), Mesh.from_string("empty_mesh"))
    head, found, tail = text.partition("mesh:")
    if not found:
        raise LayoutError(f"malformed layout {text!r}: it names no mesh; the form is {_FORM}")
    mesh = Mesh.from_string(tail)
    head = head.strip()
    if head.removesuffix(",") == _MAXIMAL:
        return Layout.from_single_device_mesh(mesh)
    if head.startswith("parted:"):
        raise LayoutError(f"{text!r}: {PARTED}")
    if not head.startswith(_SPECS):
        raise LayoutError(f"malformed layout {text!r}; the form is {_FORM}")
    specs, _, partial = head.removeprefix(_SPECS).partition(" partial:")
    words = [word.strip() for word in specs.strip().removesuffix(",").split(",")]
    if words in (["scalar"], [""]):
        words = []
    if "" in words:
        raise LayoutError(f"malformed layout {text!r}: dimension {words.index('')} says nothing")
    return Layout(words, mesh, _partial(partial.removesuffix(","), text))


def read_spec(word: str) -> tuple[str | int | AxisRef, ...]:
    """What stands along one dimension that is written `2+x+y:(1)2`: blocks, axes, parts of axes."""
    return tuple(_digit(digit) for digit in word.split("+"))


def _digit(text: str) -> str | int | AxisRef:
    if text == _ANY:
        return OPEN
    if text.isascii() and text.isdigit():
        return int(text)
    match = _PART.fullmatch(text)
    return text if match is None else AxisRef(match[1], int(match[2]), int(match[3]))


def _axis_string(axis: AxisRef, mesh: Mesh) -> str:
    whole = axis.pre == 1 and axis.size == mesh.axis_size(axis.name)
    return axis.name if whole else f"{axis.name}:({axis.pre}){axis.size}"


def _partial_strings(layout: Layout) -> Iterator[str]:
    for kind in REDUCTIONS:
        axes = [_axis_string(axis, layout.mesh) for axis, k in layout.partial if k == kind]
        if axes:
            yield f"{kind}({';'.join(axes)})"


def _partial(text: str, whole: str) -> dict[str, list[object]]:
    partial: dict[str, list[object]] = {}
    for entry in text.replace("partial:", "").split(",") if text.strip() else []:
        match = _PARTIAL.fullmatch(entry.strip())
        if match is None:
            raise LayoutError(f"malformed layout {whole!r}: {entry.strip()!r} is not like sum(x;y)")
        partial[match[1]] = [_digit(axis.strip()) for axis in match[2].split(";")]
    return partial
