"""Pictures as SVG: readable on light and dark pages, without a file or a font of its own."""

from __future__ import annotations

import colorsys
import textwrap
from collections.abc import Iterator, Sequence
from html import escape

from dtensor.dialect.pictures.picture import Cell, Picture

_CHARACTER = 7.3  # pixels that a character of the font takes at most
_LINE = 16
_PADDING = 12  # of a cell, both sides together
_WRAPPED = 16  # characters of a line in a cell
_NARROWEST, _GAP = 44, 22
INK = "#16191d"  # on the colours of cells, which are light on every page
_GOLDEN = 0.381966  # turns of the hue from one shard to the next: neighbours differ most


def color(shard: int) -> str:
    """The colour of a shard, light enough for dark text: `#a8c5e8`."""
    hue = (0.58 + shard * _GOLDEN) % 1.0
    red, green, blue = colorsys.hls_to_rgb(hue, 0.8, 0.55)
    return f"#{round(red * 255):02x}{round(green * 255):02x}{round(blue * 255):02x}"


def svg(picture: Picture, title: str) -> str:
    """The picture as an `<svg>` element; all of its text is escaped.

    Args:
        picture: what to draw.
        title: what it is a picture of, for those who cannot see it.
    """
    widths = _column_widths(picture)
    ticks = () if picture.rows is None else picture.rows.ticks
    left = max((len(tick) * _CHARACTER + 8 for tick in ticks), default=0.0)
    heights = [_row_height(row) for row in picture.cells]
    above, below = _side_texts(picture)
    top = _LINE * (len(above) + (picture.columns is not None)) + 4.0
    parts = [
        *(_text(0, _LINE * (i + 1) - 4, line, "start") for i, line in enumerate(above)),
        *_column_ticks(picture, widths, left, top),
    ]
    y = top
    for i, (row, height) in enumerate(zip(picture.cells, heights, strict=True)):
        if ticks:
            parts.append(_text(left - 6, y + height / 2 + 4, ticks[i], "end"))
        x = left
        for cell, width in zip(row, widths, strict=True):
            if cell is None:
                parts.append(_text(x + width / 2, y + height / 2 + 4, "...", "middle"))
            else:
                parts.append(_cell(x, y, width, height, color(cell.shard), _lines(cell)))
            x += width
        y += height
    parts += [_text(0, y + _LINE * (i + 1), line, "start") for i, line in enumerate(below)]
    longest = max((len(line) for line in (*above, *below)), default=0) * _CHARACTER
    width = round(max(left + sum(widths), longest) + 2)
    height_ = round(y + _LINE * len(below) + 6)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" width="{width}" height="{height_}" '
        f'viewBox="0 0 {width} {height_}" '
        'style="font:12px ui-monospace,Menlo,Consolas,monospace" '
        f'fill="currentColor"><title>{escape(title)}</title>{"".join(parts)}</svg>'
    )


def _row_height(row: Sequence[Cell | None]) -> float:
    lines = [len(_lines(cell)) for cell in row if cell is not None]
    return _LINE * max(lines) + _PADDING if lines else _GAP


def _lines(cell: Cell) -> list[str]:
    return textwrap.wrap(cell.text, _WRAPPED)


def _column_widths(picture: Picture) -> list[float]:
    """The same for all columns, but for what stands for those left out."""
    ticks = () if picture.columns is None else picture.columns.ticks
    cells = [cell for row in picture.cells for cell in row if cell is not None]
    texts = [line for cell in cells for line in _lines(cell)]
    longest = max((len(text) for text in (*texts, *ticks)), default=0)
    width = max(_NARROWEST, longest * _CHARACTER + _PADDING)
    count = len(picture.cells[0]) if picture.cells else 0
    gaps = [i < len(ticks) and ticks[i] == "..." for i in range(count)]
    return [_GAP if gap else width for gap in gaps]


def _side_texts(picture: Picture) -> tuple[list[str], list[str]]:
    """The lines above the picture, and those below."""
    above = []
    if picture.rows is not None:
        above.append(f"\N{DOWNWARDS ARROW} {picture.rows.text}")
    if picture.columns is not None:
        above.append(f"\N{RIGHTWARDS ARROW} {picture.columns.text}")
    return above, list(picture.notes)


def _column_ticks(picture: Picture, widths: list[float], left: float, top: float) -> Iterator[str]:
    x = left
    for tick, width in zip(picture.columns.ticks if picture.columns else (), widths, strict=False):
        if tick != "...":
            yield _text(x + width / 2, top - 4, tick, "middle")
        x += width


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}">{escape(text)}</text>'


def _cell(x: float, y: float, width: float, height: float, fill: str, lines: list[str]) -> str:
    first = y + height / 2 + 4 - _LINE * (len(lines) - 1) / 2
    spans = "".join(
        f'<tspan x="{x + width / 2:g}" y="{first + _LINE * i:g}">{escape(line)}</tspan>'
        for i, line in enumerate(lines)
    )
    return (
        f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" fill="{fill}" '
        f'stroke="{INK}" stroke-opacity="0.55"/>'
        f'<text text-anchor="middle" fill="{INK}">{spans}</text>'
    )
