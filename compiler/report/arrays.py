"""The arguments and results of a program, as pictures."""

from __future__ import annotations

from collections.abc import Sequence

from dtensor.compiler.program import ArrayInfo
from dtensor.compiler.report.facts import Facts
from dtensor.compiler.report.markup import Html, join, tag
from dtensor.dialect.mesh import Mesh
from dtensor.dialect.pictures.layouts import layout_picture, mesh_picture
from dtensor.dialect.pictures.svg import svg
from dtensor.passes.reports.grouping import common, grouped, without_numbers

_CELLS = 8  # along a dimension, so that pictures fit beside each other
_OPEN = 12  # figures that are shown without being asked for
_DRAWN = 100  # of more, the layout is written only: a page of thousands is slow to draw

Versions = tuple[ArrayInfo | None, ...]
"""An argument or a result, as each program has it."""


def arrays_section(programs: Sequence[Facts]) -> Html:
    """The mesh, arguments, results; of two programs, both pictures where they differ."""
    parts = [_mesh(mesh) for mesh in dict.fromkeys(facts.mesh for facts in programs)]
    for title, sides in (
        ("Arguments", [facts.args for facts in programs]),
        ("Results", [facts.results for facts in programs]),
    ):
        if not any(sides):
            continue
        figures = [
            _figure(group, drawn=i < _DRAWN) for i, group in enumerate(_alike(_paired(sides)))
        ]
        head = tag("summary", f"{title}: {len(sides[0])}")
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


def _paired(sides: Sequence[Sequence[ArrayInfo]]) -> list[Versions]:
    """The arrays of one name together, one of each program; None where a program lacks it."""
    if len(sides) == 1:
        return [(info,) for info in sides[0]]
    first, second = ({(info.name or i): info for i, info in enumerate(side)} for side in sides)
    return [(first.get(name), second.get(name)) for name in {**first, **second}]


def _alike(arrays: Sequence[Versions]) -> list[list[Versions]]:
    """Arrays of equal layers together: they differ in numbers of their names only."""

    def key(versions: Versions) -> object:
        return tuple(
            info and (without_numbers(info.name), info.shape, info.dtype, info.layout)
            for info in versions
        )

    return grouped(arrays, key)


def _figure(group: Sequence[Versions], drawn: bool) -> Html:
    """One picture, or two where the programs differ, and what it is of."""
    first = next(info for info in group[0] if info is not None)
    names = [next(info.name for info in versions if info is not None) for versions in group]
    shape = "x".join(map(str, first.shape)) or "scalar"
    many = f"{len(group)}x " if len(group) > 1 else ""
    name = tag("b", tag("code", common(names) or "result"))
    parts = [tag("figcaption", many, name, f" {first.dtype} {shape}")]
    versions = group[0]
    if len({info and (info.shape, info.dtype, info.layout) for info in versions}) == 1:
        return tag("figure", *parts, _picture(first, common(names), drawn))
    for info, title in zip(versions, ("in the first:", "in the second:"), strict=True):
        what = tag("p", "not there") if info is None else _picture(info, common(names), drawn)
        parts += [tag("p", title), what]
    return tag("figure", *parts)


def _picture(info: ArrayInfo, name: str, drawn: bool) -> Html:
    layout = tag("div", tag("code", info.layout.short()))
    if not drawn:
        return layout
    title = f"{name}: {info.layout.short()}"
    return join([layout, Html(svg(layout_picture(info.layout, info.shape, most=_CELLS), title))])
