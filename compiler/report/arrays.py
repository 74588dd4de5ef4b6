"""The arguments and results of a program, as pictures."""

from __future__ import annotations

from collections.abc import Sequence

from dtensor.compiler.report.facts import Array, Facts
from dtensor.compiler.report.markup import Html, join, tag
from dtensor.dialect.mesh import Mesh
from dtensor.dialect.pictures.layouts import layout_picture, mesh_picture
from dtensor.dialect.pictures.svg import svg

_CELLS = 8  # along a dimension, so that pictures fit beside each other
_OPEN = 12  # pictures that are shown without being asked for


def arrays_section(programs: Sequence[Facts]) -> Html:
    """The mesh, arguments, results; of two programs, both pictures where they differ."""
    parts = [_mesh(mesh) for mesh in dict.fromkeys(facts.mesh for facts in programs)]
    for title, sides in (
        ("Arguments", [facts.args for facts in programs]),
        ("Results", [facts.results for facts in programs]),
    ):
        if not any(sides):
            continue
        figures = _figures(sides)
        count = sum(array.count for array in sides[0])
        head = tag("summary", f"{title}: {count}")
        parts.append(
            tag(
                "details",
                head,
                tag("div", *figures, class_="arrays"),
                open=len(figures) <= _OPEN,
            )
        )
    return join(parts)


def _mesh(mesh: Mesh) -> Html:
    drawing = Html(svg(mesh_picture(mesh), repr(mesh)))
    return tag(
        "details",
        tag("summary", f"Mesh of {mesh.size} devices: {mesh.short()}"),
        tag("div", tag("figure", drawing), class_="arrays"),
    )


def _figures(sides: Sequence[Sequence[Array]]) -> list[Html]:
    figures = []
    others = {_key(array): array for array in sides[1]} if len(sides) > 1 else {}
    for array in sides[0]:
        beside = others.pop(_key(array), None)
        pictures = [_picture(array)]
        if beside is not None and beside.info.layout != array.info.layout:
            pictures += [tag("p", "in the second:"), _picture(beside)]
        figures.append(tag("figure", _caption(array), *pictures))
    for array in others.values():
        figures.append(
            tag("figure", _caption(array), tag("p", "in the second alone:"), _picture(array))
        )
    return figures


def _key(array: Array) -> tuple[object, ...]:
    return array.name, array.info.shape, array.info.dtype


def _caption(array: Array) -> Html:
    info = array.info
    shape = "x".join(map(str, info.shape)) or "scalar"
    many = f"{array.count}x " if array.count > 1 else ""
    return tag("figcaption", many, tag("b", tag("code", array.name)), f" {info.dtype} {shape}")


def _picture(array: Array) -> Html:
    info = array.info
    title = f"{array.name}: {info.layout.short()}"
    drawing = Html(svg(layout_picture(info.layout, info.shape, most=_CELLS), title))
    return join([tag("div", tag("code", info.layout.short())), drawing])
