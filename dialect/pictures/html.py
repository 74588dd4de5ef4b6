"""What notebooks show of meshes, layouts and arrays: small, and without a file of its own."""

from __future__ import annotations

from html import escape

from dtensor.dialect.layout import Layout
from dtensor.dialect.mesh import Mesh
from dtensor.dialect.pictures.layouts import layout_picture, mesh_picture
from dtensor.dialect.pictures.picture import Picture
from dtensor.dialect.pictures.svg import svg


def mesh_html(mesh: Mesh) -> str:
    """The axes of a mesh, and its devices."""
    return figure(repr(mesh), mesh_picture(mesh) if mesh.size else None)


def layout_html(layout: Layout) -> str:
    """A layout, of an array whose shape is not known."""
    return figure(repr(layout), layout_picture(layout) if layout.mesh.size else None)


def array_html(shape: tuple[int, ...], dtype: str, layout: Layout, values: str) -> str:
    """An array: its type, its layout, and its values, which a click unfolds."""
    title = f"{dtype} {'x'.join(map(str, shape)) or 'scalar'}, {layout.short()}"
    return figure(
        f"{title} on {layout.mesh!r}", layout_picture(layout, shape), folded("values", values)
    )


def figure(title: str, picture: Picture | None, more: str = "") -> str:
    """A title above a picture, and `more`, which is HTML already, below it."""
    drawing = "" if picture is None else svg(picture, title)
    drawing = f'<div style="overflow-x:auto">{drawing}</div>'
    return f'<div><p style="margin:0 0 6px"><code>{escape(title)}</code></p>{drawing}{more}</div>'


def folded(summary: str, text: str) -> str:
    """Text that a click unfolds."""
    return (
        f'<details><summary>{escape(summary)}</summary><pre style="overflow-x:auto">'
        f"{escape(text)}</pre></details>"
    )
