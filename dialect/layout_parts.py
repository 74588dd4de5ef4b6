"""How the parts of a layout are written: in MLIR, `{"x"}`, and in Python, `'x'`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from dtensor.dialect.axes import AxisRef
from dtensor.dialect.dim import Dim
from dtensor.dialect.layout_entries import REDUCTIONS
from dtensor.dialect.mesh import Mesh


def dim_text(dim: Dim, mesh: Mesh) -> str:
    """How one dimension is cut, in MLIR."""
    if dim.is_match:
        return "{match}"
    parts = [str(d) if isinstance(d, int) else _axis_text(d, mesh) for d in dim.digits]
    kept_out = [f"!{_axis_text(axis, mesh)}" for axis in dim.barred]
    parts += ["?" + "".join(kept_out)] if dim.is_open else []
    word = "{" + ", ".join(parts) + "}"
    return f"{word}p{dim.priority}" if dim.priority else word


def partial_texts(partial: Iterable[tuple[AxisRef, str]], mesh: Mesh) -> Iterator[str]:
    """Each reduction and its axes, in MLIR: `sum: "x"`."""
    pairs = list(partial)
    for kind in REDUCTIONS:
        axes = [_axis_text(axis, mesh) for axis, k in pairs if k == kind]
        if len(axes) == 1:
            yield f"{kind}: {axes[0]}"
        elif axes:
            yield f"{kind}: ({', '.join(axes)})"


def _axis_text(axis: AxisRef, mesh: Mesh) -> str:
    return axis.text(mesh.axis_size(axis.name))


def partial_repr(partial: Iterable[tuple[AxisRef, str]], mesh: Mesh) -> str:
    """The reductions and their axes, in Python: `{'sum': 'x'}`."""
    axes: dict[str, list[str]] = {}
    for axis, kind in partial:
        axes.setdefault(kind, []).append(_digit_repr(axis, mesh))
    words = [f"{kind!r}: {_entry_repr(names)}" for kind, names in axes.items()]
    return "{" + ", ".join(words) + "}"


def spec_text(dim: Dim, mesh: Mesh) -> str:
    """How one dimension is cut, in Python: the entry that `Layout` takes."""
    if dim.is_match:
        return "MATCH"
    if dim.priority or dim.barred:
        from dtensor.dialect.layout_string import spec_string

        return repr(spec_string(dim, mesh))
    parts = [_digit_repr(digit, mesh) for digit in dim.digits]
    parts += ["OPEN"] if dim.is_open else []
    if not parts:
        return "UNSHARDED"
    return _entry_repr(parts)


def _entry_repr(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"({', '.join(parts)})"


def _digit_repr(digit: AxisRef | int, mesh: Mesh) -> str:
    if isinstance(digit, int):
        return str(digit)
    whole = digit == mesh.axis(digit.name)
    return repr(digit.name) if whole else _axis_text(digit, mesh)
